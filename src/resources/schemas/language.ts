/** What a collection's schema may say: a closed part of JSON Schema 2020-12, checked with every fault at once. */

import Format from 'typebox/format'
import { patternFault } from '../../../flows-dsl/schema/pattern.ts'
import { isObject } from '../../core/json.ts'
import { LIMITS } from '../../core/limits.ts'
import { cutToken } from '../../core/pointer.ts'
import { type InputError, Problem } from '../../core/problem.ts'

/** A schema that was checked. */
export type Schema = boolean | SchemaObject
export type SchemaObject = Readonly<Record<string, unknown>>

const DIALECT = 'https://json-schema.org/draft/2020-12/schema'
const TYPES = ['null', 'boolean', 'integer', 'number', 'string', 'array', 'object']
/** Those of the library that are regular and cheap; `regex` would compile what a document holds. */
const FORMATS = [
  'date-time',
  'date',
  'time',
  'duration',
  'email',
  'hostname',
  'ipv4',
  'ipv6',
  'uri',
  'uri-reference',
  'uuid',
  'json-pointer',
]

const isCount = (value: unknown) => Number.isSafeInteger(value) && Number(value) >= 0
const isNames = (value: unknown) =>
  Array.isArray(value) &&
  new Set(value).size === value.length &&
  value.every((name) => typeof name === 'string')
const oneOf = (list: readonly string[], value: unknown) => typeof value === 'string' && list.includes(value)

/** What stands below a keyword: a schema, several in an array, several by name; else a test of its value. */
type Keyword =
  | 'schema'
  | 'schemas'
  | 'named'
  | 'patterns'
  | { readonly wants: string; readonly fits: (value: unknown) => boolean }

const count: Keyword = { wants: 'a whole number, 0 or more', fits: isCount }
const number: Keyword = { wants: 'a number', fits: (value) => typeof value === 'number' }
const flag: Keyword = { wants: 'true or false', fits: (value) => typeof value === 'boolean' }
const text: Keyword = { wants: 'a text', fits: (value) => typeof value === 'string' }
const anything: Keyword = { wants: 'any value', fits: () => true }

/** Keywords that are not here are refused: what is ignored would look as if it held. */
const KEYWORDS: Readonly<Record<string, Keyword>> = {
  $schema: { wants: DIALECT, fits: (value) => value === DIALECT },
  $comment: text,
  title: text,
  description: text,
  default: anything,
  examples: { wants: 'a list', fits: Array.isArray },
  deprecated: flag,
  readOnly: flag,
  writeOnly: flag,
  $defs: 'named',
  $ref: {
    wants: 'a reference of the form #/$defs/name',
    fits: (value) => typeof value === 'string' && /^#\/\$defs\/[^/%]+$/.test(value),
  },
  type: {
    wants: `one or several of ${TYPES.join(', ')}`,
    fits: (value) =>
      oneOf(TYPES, value) ||
      (isNames(value) && (value as []).length > 0 && (value as []).every((t) => oneOf(TYPES, t))),
  },
  enum: {
    wants: `a list of 1 to ${LIMITS.schemaEnumMax} values`,
    fits: (value) => Array.isArray(value) && value.length > 0 && value.length <= LIMITS.schemaEnumMax,
  },
  const: anything,
  minimum: number,
  maximum: number,
  exclusiveMinimum: number,
  exclusiveMaximum: number,
  multipleOf: { wants: 'a number above 0', fits: (value) => typeof value === 'number' && value > 0 },
  minLength: count,
  maxLength: count,
  pattern: text,
  format: {
    wants: `one of ${FORMATS.join(', ')}`,
    fits: (value) => oneOf(FORMATS, value) && Format.Has(String(value)),
  },
  items: 'schema',
  prefixItems: 'schemas',
  contains: 'schema',
  minContains: count,
  maxContains: count,
  minItems: count,
  maxItems: count,
  uniqueItems: flag,
  properties: 'named',
  patternProperties: 'patterns',
  additionalProperties: 'schema',
  propertyNames: 'schema',
  required: { wants: 'a list of different names', fits: isNames },
  minProperties: count,
  maxProperties: count,
  dependentRequired: {
    wants: 'lists of names by name',
    fits: (value) => isObject(value) && Object.values(value).every(isNames),
  },
  dependentSchemas: 'named',
  allOf: 'schemas',
  anyOf: 'schemas',
  oneOf: 'schemas',
  not: 'schema',
  if: 'schema',
  // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
  then: 'schema',
  else: 'schema',
}

const ANNOTATIONS = ['title', 'description', 'default', 'examples', 'deprecated', 'readOnly', 'writeOnly']

/** Keywords that say something about documents, with what stands below them; references are resolved apart. */
export const SAID: Readonly<Record<string, Keyword>> = Object.fromEntries(
  Object.entries(KEYWORDS).filter(([name]) => !name.startsWith('$') && !ANNOTATIONS.includes(name)),
)

interface Walk {
  readonly errors: InputError[]
  nodes: number
}

/**
 * @param schema any JSON value, as it came
 * @returns the same, known to be a schema for documents
 * @throws Problem `schema_invalid` with the faults, each with its pointer
 */
export function checkSchema(schema: unknown): SchemaObject {
  const walk: Walk = { errors: [], nodes: 0 }
  if (!isObject(schema)) fault(walk, '', 'must be an object')
  else if (depthOf(schema) > LIMITS.schemaDepthMax)
    fault(walk, '', `is nested deeper than ${LIMITS.schemaDepthMax}`)
  else checkWhole(walk, schema)
  if (walk.errors.length === 0) return schema as SchemaObject
  const detail = walk.errors.map((error) => `${error.pointer} ${error.detail}`).join('; ')
  throw new Problem('schema_invalid', { detail, errors: walk.errors })
}

function checkWhole(walk: Walk, schema: SchemaObject): void {
  const json = JSON.stringify(schema)
  const bytes = Buffer.byteLength(json)
  if (bytes > LIMITS.schemaBytesMax) {
    fault(walk, '', `has ${bytes} bytes; at most ${LIMITS.schemaBytesMax} are kept`)
    return
  }
  if (UNKEEPABLE.test(json)) fault(walk, '', 'holds a NUL character or half a surrogate pair')
  if (schema['type'] !== undefined && schema['type'] !== 'object') fault(walk, '/type', 'must be "object"')
  for (const name of Object.keys(Object(schema['properties']))) {
    if (name === 'id' || /^[_$]/.test(name))
      fault(walk, `/properties/${cutToken(name)}`, 'is reserved: no document has it')
  }
  check(walk, schema, '')
  if (walk.nodes > LIMITS.schemaNodesMax) fault(walk, '', `has more than ${LIMITS.schemaNodesMax} subschemas`)
}

/** What PostgreSQL keeps in no JSON; an even number of backslashes before it makes it something else. */
const UNKEEPABLE = /(?<!\\)(?:\\\\)*\\u(?:0000|d[89a-f])/

/** Recursion is bounded: the depth was checked before. */
function check(walk: Walk, schema: unknown, pointer: string): void {
  walk.nodes += 1
  if (typeof schema === 'boolean') return
  if (!isObject(schema)) {
    fault(walk, pointer, 'must be a schema: an object, true or false')
    return
  }
  for (const [name, value] of Object.entries(schema)) {
    const at = `${pointer}/${cutToken(name)}`
    const keyword = Object.hasOwn(KEYWORDS, name) ? KEYWORDS[name] : undefined
    if (keyword === undefined) fault(walk, at, 'is not a keyword that is taken here')
    else if (name === '$defs' && pointer !== '') fault(walk, at, 'stands at the top only')
    else checkKeyword(walk, keyword, value, at)
    if (name === 'pattern' && typeof value === 'string') fault(walk, at, patternFault(value))
  }
}

function checkKeyword(walk: Walk, keyword: Keyword, value: unknown, at: string): void {
  if (typeof keyword === 'object') {
    if (!keyword.fits(value)) fault(walk, at, `must be ${keyword.wants}`)
  } else if (keyword === 'schema') check(walk, value, at)
  else if (keyword === 'schemas') checkList(walk, value, at)
  else if (!isObject(value)) fault(walk, at, 'must be schemas by name')
  else for (const [name, item] of Object.entries(value)) checkNamed(walk, keyword, name, item, at)
}

function checkList(walk: Walk, value: unknown, at: string): void {
  if (!Array.isArray(value) || value.length === 0) fault(walk, at, 'must be a list of schemas')
  else for (const [index, item] of value.entries()) check(walk, item, `${at}/${index}`)
}

function checkNamed(walk: Walk, keyword: Keyword, name: string, schema: unknown, at: string): void {
  const pointer = `${at}/${cutToken(name)}`
  if (keyword === 'patterns') fault(walk, pointer, patternFault(name))
  check(walk, schema, pointer)
}

/** Stops as soon as it is too much, however deep the value is. */
function depthOf(value: unknown, depth = 0): number {
  if (typeof value !== 'object' || value === null || depth > LIMITS.schemaDepthMax) return depth
  return Object.values(value).reduce<number>(
    (deepest, item) => Math.max(deepest, depthOf(item, depth + 1)),
    depth,
  )
}

function fault(walk: Walk, pointer: string, detail: string | undefined): void {
  if (detail === undefined || walk.errors.length >= LIMITS.faultsShownMax) return
  walk.errors.push({ in: 'body', name: 'schema', pointer: `/schema${pointer}`.slice(0, 300), detail })
}
