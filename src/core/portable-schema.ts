/**
 * JSON Schema in the form that providers of models take. Some of them know neither lists of types nor schemas without a
 * keyword that constrains, and take no `patternProperties`.
 */

import { isObject } from './json.ts'

type Schema = Readonly<Record<string, unknown>>

/** Keywords whose values are schemas by name, lists of schemas, and schemas. */
const MAPS: ReadonlySet<string> = new Set([
  'properties',
  'patternProperties',
  '$defs',
  'definitions',
  'dependentSchemas',
])
const LISTS: ReadonlySet<string> = new Set(['allOf', 'anyOf', 'oneOf', 'prefixItems'])
const SCHEMAS: ReadonlySet<string> = new Set([
  ...['items', 'contains', 'propertyNames', 'if', 'then', 'else', 'contentSchema'],
  ...['additionalProperties', 'unevaluatedProperties', 'additionalItems', 'unevaluatedItems'],
])
/** Their value may be a boolean everywhere. */
const OPEN: ReadonlySet<string> = new Set([
  ...['additionalProperties', 'unevaluatedProperties', 'additionalItems', 'unevaluatedItems'],
])

/** Keywords that constrain values; other ones describe them. */
const CONSTRAINTS: ReadonlySet<string> = new Set([
  ...['type', 'enum', 'const', 'format', 'not', 'if', '$ref', '$dynamicRef', '$recursiveRef'],
  ...['multipleOf', 'maximum', 'exclusiveMaximum', 'minimum', 'exclusiveMinimum'],
  ...['maxLength', 'minLength', 'pattern', 'contentMediaType', 'contentEncoding', 'contentSchema'],
  ...['items', 'contains', 'maxItems', 'minItems', 'uniqueItems', 'maxContains', 'minContains'],
  ...['properties', 'patternProperties', 'propertyNames', 'maxProperties', 'minProperties'],
  ...['required', 'dependentRequired', 'dependentSchemas', 'dependencies'],
  ...LISTS,
  ...OPEN,
])

const ANY = ['string', 'number', 'boolean', 'object', 'array', 'null'].map((type) => ({ type }))

/** Patterns that every name matches. */
const EVERY_NAME: ReadonlySet<string> = new Set(['', '^', '.*', '^.*', '^.*$'])

const known = new WeakMap<object, Schema>()

/** @returns a schema that accepts the same values */
export function portableSchema(schema: Schema): Schema {
  const before = known.get(schema)
  if (before !== undefined) return before
  const written = write(schema) as Schema
  known.set(schema, written)
  return written
}

function write(schema: unknown): unknown {
  if (typeof schema === 'boolean') return schema ? { anyOf: ANY } : { not: {} }
  if (!isObject(schema)) return schema
  const node = Object.fromEntries(
    Object.entries(schema).map(([key, value]) => [key, writeKeyword(key, value)]),
  )
  return withoutTypeList(withConstraint(withoutEveryName(node)))
}

function writeKeyword(key: string, value: unknown): unknown {
  if (MAPS.has(key) && isObject(value))
    return Object.fromEntries(Object.entries(value).map(([name, schema]) => [name, write(schema)]))
  if (Array.isArray(value) && (LISTS.has(key) || key === 'items')) return value.map(write)
  if (OPEN.has(key) && (typeof value === 'boolean' || isOpen(value))) return value !== false
  return SCHEMAS.has(key) ? write(value) : value
}

/** True for a schema that accepts every value. */
const isOpen = (schema: unknown): boolean =>
  isObject(schema) && !Object.keys(schema).some((key) => CONSTRAINTS.has(key))

const isAny = (schema: unknown): boolean => isObject(schema) && schema['anyOf'] === ANY

/** An object whose values are all of one schema has it as `additionalProperties`. */
function withoutEveryName(node: Schema): Schema {
  const { patternProperties: patterns, ...others } = node
  if (!isObject(patterns) || 'properties' in node || 'additionalProperties' in node) return node
  const [[pattern, schema] = ['?'], ...more] = Object.entries(patterns)
  if (!EVERY_NAME.has(pattern) || more.length > 0) return node
  return { ...others, additionalProperties: isAny(schema) ? true : schema }
}

const withConstraint = (node: Schema): Schema => (isOpen(node) ? { ...node, anyOf: ANY } : node)

function withoutTypeList(node: Schema): Schema {
  const { type, ...others } = node
  if (!Array.isArray(type)) return node
  const anyOf = type.map((one) => ({ type: one }))
  if (!('anyOf' in others)) return { ...others, anyOf }
  const all = Array.isArray(others['allOf']) ? others['allOf'] : []
  return { ...others, allOf: [...all, { anyOf }] }
}
