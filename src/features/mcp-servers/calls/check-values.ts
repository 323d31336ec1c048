/** Checks the arguments of a call and the result of a tool against its schemas, of which clients are shown a portable form. */

import Format from 'typebox/format'
import { didYouMean } from '../../../../flows-dsl/diagnostics/diagnostics.ts'
import type { SchemaError } from '../../../../flows-dsl/json-schema/validate.ts'
import { referenceName } from '../../../../flows-dsl/json-schema/vocabulary.ts'
import { isObject, unescapePointer } from '../../../core/json.ts'
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
  for (const step of pointer.split('/').slice(1)) value = Object(value)[unescapePointer(step)]
  const length =
    typeof value === 'string' ? [...value].length : Array.isArray(value) ? value.length : undefined
  return length === undefined ? '' : `, and has ${length}`
}

/** `/where/0/field` → `where[0].field` */
const nameOf = (pointer: string) =>
  pointer
    .split('/')
    .slice(1)
    .map(unescapePointer)
    .reduce((path, name) => (/^[0-9]+$/.test(name) ? `${path}[${name}]` : `${path}${path && '.'}${name}`), '')
    .slice(0, 200)

/**
 * Leaves null out of arguments: models that have to fill in every argument send it for those that they leave open.
 * @returns the arguments without each null of an optional member whose schema does not allow it
 */
export function withoutNulls(schema: JsonSchema, args: unknown): unknown {
  return hasNull(args) ? without(schema, schema, args) : args
}

const hasNull = (value: unknown): boolean =>
  value === null || (typeof value === 'object' && Object.values(value).some(hasNull))

function without(root: JsonSchema, reference: unknown, value: unknown): unknown {
  const schema = targetOf(root, reference)
  if (Array.isArray(value)) return value.map((one) => without(root, schema['items'], one))
  const { properties, required = [] } = schema
  if (!isObject(value) || !isObject(properties)) return value
  const isAbsent = ([name, member]: [string, unknown]) =>
    member === null &&
    Object.hasOwn(properties, name) &&
    !(required as string[]).includes(name) &&
    !allowsNull(root, properties[name])
  const kept = Object.entries(value).filter((one) => !isAbsent(one))
  return Object.fromEntries(
    kept.map(([name, member]) => [
      name,
      Object.hasOwn(properties, name) ? without(root, properties[name], member) : member,
    ]),
  )
}

const CHAIN_MAX = 20

/** The definition that a schema refers to; the schema itself without a reference. */
function targetOf(root: JsonSchema, reference: unknown): JsonSchema {
  let schema = reference
  for (let n = 0; n < CHAIN_MAX && isObject(schema) && typeof schema['$ref'] === 'string'; n += 1)
    schema = Object(root['$defs'])[referenceName(schema['$ref']) ?? '']
  return isObject(schema) ? schema : {}
}

function allowsNull(root: JsonSchema, schema: unknown): boolean {
  if (!isObject(schema)) return schema !== false
  return errorsWithin({ ...schema, $defs: root['$defs'] ?? {} }, null, checkBudget()).length === 0
}
