/** Checks the arguments of a call and the result of a tool against its schemas, of which clients are shown a portable form. */

import Format from 'typebox/format'
import { didYouMean } from '../../../../flows-dsl/diagnostics/diagnostics.ts'
import { unescaped } from '../../../../flows-dsl/json.ts'
import type { SchemaError } from '../../../../flows-dsl/json-schema/validate.ts'
import { checkBudget, errorsWithin, TOO_COSTLY } from '../../schema-errors.ts'
import type { JsonSchema, Tool } from '../tool.ts'

const SHOWN_MAX = 5

/**
 * Schemas come from tenants, so they are interpreted.
 * @returns one line for each of the first errors, with the name of the argument and what it may be; undefined if there are none
 */
export function argumentErrors(tool: Pick<Tool, 'name' | 'input_schema'>, args: unknown): string | undefined {
  const errors = errorsWithin(tool.input_schema, args, checkBudget(), Format.Test)
  if (errors.length === 0) return undefined
  const lines = errors
    .slice(0, SHOWN_MAX)
    .map((error) => `- ${inWords(error, tool.input_schema)}${lengthIn(error, args)}`)
  const more = errors.length > SHOWN_MAX ? [`- and ${errors.length - SHOWN_MAX} more`] : []
  return [`The arguments of ${tool.name} are not valid:`, ...lines, ...more].join('\n')
}

/**
 * @returns the first error of a result as text; undefined if there is none, if the tool has no schema of results, or if the
 *   check takes too many steps
 */
export function resultError(tool: Tool, output: unknown): string | undefined {
  const [first] =
    tool.output_schema === undefined ? [] : errorsWithin(tool.output_schema, output, checkBudget())
  return first === undefined || first === TOO_COSTLY
    ? undefined
    : `${nameOf(first.pointer) || 'the result'} ${first.message}`
}

function inWords({ pointer, message, keyword, missing }: SchemaError, schema: JsonSchema): string {
  const name = nameOf(pointer)
  if (missing !== undefined) return `${name === '' ? missing : `${name}.${missing}`} is required`
  if (keyword !== 'additionalProperties') return `${name || 'the arguments'} ${message}`
  const known = pointer.lastIndexOf('/') === 0 ? Object.keys(Object(schema['properties'])) : []
  const all = known.length > 0 ? `The arguments are ${known.slice(0, 30).join(', ')}.` : ''
  return `${name} is unknown. ${didYouMean(name, known) ?? all}`.trimEnd()
}

/** The length of a value that is too long or too short: a client that counts otherwise reports another fault. */
function lengthIn({ pointer, keyword }: SchemaError, args: unknown): string {
  if (!/^(min|max)(Length|Items)$/.test(keyword)) return ''
  let value = args
  for (const step of pointer.split('/').slice(1)) value = Object(value)[unescaped(step)]
  const length =
    typeof value === 'string' ? [...value].length : Array.isArray(value) ? value.length : undefined
  return length === undefined ? '' : `, and has ${length}`
}

/** `/where/0/field` → `where[0].field` */
const nameOf = (pointer: string) =>
  pointer
    .split('/')
    .slice(1)
    .map(unescaped)
    .reduce((path, name) => (/^[0-9]+$/.test(name) ? `${path}[${name}]` : `${path}${path && '.'}${name}`), '')
    .slice(0, 200)
