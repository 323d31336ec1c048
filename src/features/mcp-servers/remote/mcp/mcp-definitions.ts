/** The tools of an MCP server as definitions of a source: checked, bounded, and with digests of what the server sent. */

import { canonical, exceedsDepth, isObject } from '../../../../core/json.ts'
import { CORE_LIMITS } from '../../../../core/limits.ts'
import { claimedAnnotations, STRICTEST } from '../../../../core/tool-annotations.ts'
import { MCP_LIMITS } from '../../limits.ts'
import { digest, type JsonSchema, toolName } from '../../tool-name.ts'
import { type Definition, type PinnedDefinitions, pinned, type Skipped } from '../definitions.ts'
import { headersOf } from './param-headers.ts'
import { usableSchema } from './usable-schema.ts'

/** Members of a tool whose change is noticed, by the name of the member of the definition (specification, "Tool"). */
const MEMBERS = {
  title: 'title',
  description: 'description',
  input_schema: 'inputSchema',
  output_schema: 'outputSchema',
  annotations: 'annotations',
  icons: 'icons',
} as const

/** Hexadecimal digits of the digest of one member, which tells what has changed. The hash tells that something has. */
const DIGITS = 16

/** The name of a source, and what its server has listed. */
export interface McpSourceTools {
  readonly source: string
  readonly listed: readonly unknown[]
}

/**
 * The definitions of the tools that a server lists, in its order. Schemas take CPU time that grows with them, so this belongs
 * in a worker thread.
 * @returns besides, as skipped, what is no tool here: invalid or repeated names, schemas that are too large or not those of an
 *   object; a fault if the definitions are too large together
 */
export function readMcpTools({
  source,
  listed,
}: McpSourceTools): { readonly pinned: PinnedDefinitions } | { readonly fault: string } {
  const names = listed.map((tool) => (isObject(tool) ? tool['name'] : undefined))
  const results = listed.map((tool, index) => {
    const name = names[index]
    const part =
      typeof name === 'string' ? name.replaceAll(/[^\x20-\x7e]/g, '?').slice(0, 128) : `tools[${index}]`
    const reason = faultOf(tool) ?? (names.indexOf(name) < index ? 'its name is used twice' : undefined)
    return reason === undefined ? toDefinition(source, tool as Listed) : { part, reason }
  })
  const definitions = results.flatMap((one) => ('reason' in one ? [] : [one]))
  const skipped: Skipped[] = results.flatMap((one) => ('reason' in one ? [one] : []))
  try {
    return { pinned: pinned(definitions, skipped) }
  } catch (error) {
    if (!(error instanceof RangeError)) throw error
    return { fault: error.message }
  }
}

/** A tool that {@link faultOf} has checked. */
interface Listed {
  readonly name: string
  readonly title?: unknown
  readonly description?: unknown
  readonly inputSchema: JsonSchema
  readonly outputSchema?: unknown
  readonly annotations?: unknown
}

/** Names that the protocol allows from 2025-11-25 on, and `/` as in earlier versions. */
const NAME = /^[A-Za-z0-9_./-]{1,128}$/

/** Why a tool is left out. */
function faultOf(tool: unknown): string | undefined {
  if (!isObject(tool) || typeof tool['name'] !== 'string') return 'it is no tool with a name'
  if (!NAME.test(tool['name'])) return 'its name has characters other than letters, digits, _, -, . and /'
  if (exceedsDepth(tool, MCP_LIMITS.argumentsDepthMax))
    return `it is nested deeper than ${MCP_LIMITS.argumentsDepthMax}`
  const json = JSON.stringify(tool)
  if (json.length > MCP_LIMITS.upstream.toolBytesMax)
    return `it has more than ${MCP_LIMITS.upstream.toolBytesMax} characters`
  if (UNSTORABLE.test(json)) return 'it has a NUL character or half a surrogate pair'
  if (usableSchema(tool['inputSchema']) === undefined)
    return 'its inputSchema is not that of an object, or too large'
  return undefined
}

/** Escapes that PostgreSQL rejects in JSON; after an odd number of backslashes they are plain text. */
const UNSTORABLE = /(?<!\\)(?:\\\\)*\\u(?:0000|d[89a-f])/

function toDefinition(source: string, tool: Listed): Definition & { readonly hash: string } {
  const { name, inputSchema, outputSchema } = tool
  const annotations = isObject(tool.annotations) ? tool.annotations : {}
  const title = shortText(tool.title ?? annotations['title'], CORE_LIMITS.nameCharsMax)
  const output_schema = usableSchema(outputSchema)
  const members = membersOf(tool)
  const headers = headersOf(inputSchema)
  return {
    key: name,
    name: toolName(`${source}_${name.replaceAll('/', '_')}`),
    title: title ?? name,
    description: shortText(tool.description, MCP_LIMITS.descriptionCharsMax) ?? `Calls ${name} at ${source}.`,
    input_schema: usableSchema(inputSchema) ?? {},
    ...(output_schema && { output_schema }),
    // Nothing that its server says makes a tool look safer before an admin has decided so.
    annotations: STRICTEST,
    claimed_annotations: claimedAnnotations(annotations),
    call: {
      ...Object.fromEntries(members.map(([field, json]) => [field, digest(json).slice(0, DIGITS)])),
      ...(headers.length > 0 && { headers }),
    },
    // Not of this definition: a later release may make another one of the same tool.
    hash: digest(canonical([name, ...members])),
  }
}

/** A text that has more than blanks, cut to the length. */
function shortText(value: unknown, max: number): string | undefined {
  if (typeof value !== 'string' || value.trim() === '') return undefined
  // Without half a surrogate pair at the end.
  return value.length <= max ? value : `${value.slice(0, max - 1).replace(/[\ud800-\udbff]$/, '')}…`
}

/** The tool as its server sent it, so that no change is lost by what this platform leaves out. */
const membersOf = (tool: Listed): readonly (readonly [field: string, json: string])[] =>
  Object.entries(MEMBERS).flatMap(([field, member]) => {
    const value = (tool as unknown as JsonSchema)[member]
    return value === undefined ? [] : [[field, canonical(value)] as const]
  })
