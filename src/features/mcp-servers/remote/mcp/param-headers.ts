/**
 * Headers `Mcp-Param-*` of a call, which repeat arguments for proxies on the way. A tool names them by `x-mcp-header` in the
 * schemas of its arguments (MCP 2026-07-28, "Streamable HTTP", SEP-2243); its server refuses a call without them.
 */

import { isObject } from '../../../../core/json.ts'
import type { JsonSchema } from '../../tool-name.ts'

/** An argument, by its path through `properties`, and the header that repeats it. */
export interface ParamHeader {
  readonly path: readonly string[]
  readonly name: string
}

const DEPTH_MAX = 8
const HEADERS_MAX = 50
const PRIMITIVES = ['string', 'integer', 'boolean']

/** The headers that a schema of arguments declares; invalid declarations are left out. */
export function headersOf(schema: JsonSchema, path: readonly string[] = []): ParamHeader[] {
  const properties = isObject(schema['properties']) && path.length < DEPTH_MAX ? schema['properties'] : {}
  const found = Object.entries(properties).flatMap(([property, one]): ParamHeader[] => {
    if (!isObject(one)) return []
    const { type, 'x-mcp-header': name } = one
    const at = [...path, property]
    const isValid = typeof name === 'string' && /^[A-Za-z0-9_-]{1,64}$/.test(name)
    return isValid && PRIMITIVES.includes(String(type)) ? [{ path: at, name }] : headersOf(one, at)
  })
  return found.slice(0, HEADERS_MAX)
}

/** The headers of one call. Arguments that are absent or null have none. */
export function paramHeaders(
  headers: readonly ParamHeader[],
  args: Readonly<Record<string, unknown>>,
): Record<string, string> {
  return Object.fromEntries(
    headers.flatMap(({ path, name }) => {
      const value = path.reduce<unknown>((at, step) => (isObject(at) ? at[step] : undefined), args)
      const isPrimitive = ['string', 'number', 'boolean'].includes(typeof value)
      return isPrimitive ? [[`mcp-param-${name.toLowerCase()}`, encoded(String(value))]] : []
    }),
  )
}

/** Values that no header can hold, or that would lose blanks, are base64 of UTF-8 between `=?base64?` and `?=`. */
function encoded(value: string): string {
  const isPlain =
    /^[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?$/.test(value) && !/^=\?base64\?.*\?=$/.test(value)
  return isPlain ? value : `=?base64?${Buffer.from(value).toString('base64')}?=`
}
