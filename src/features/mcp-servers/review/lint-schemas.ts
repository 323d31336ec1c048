/** Rules on the schemas of a tool: keywords that some model providers reject or ignore. */

import { isObject, shortPointer } from '../../../core/json.ts'
import type { JsonSchema } from '../tool.ts'

interface SchemaRule {
  readonly rule: string
  readonly find: (schema: JsonSchema) => string | undefined
}

export const SCHEMA_RULES: readonly SchemaRule[] = [
  { rule: 'schema-without-type', find: findMissingType },
  { rule: 'schema-type-list', find: findTypeList },
  { rule: 'schema-reference', find: ({ $ref }) => ($ref === undefined ? undefined : 'uses $ref') },
  {
    rule: 'schema-pattern-properties',
    find: ({ patternProperties }) => (patternProperties === undefined ? undefined : 'uses patternProperties'),
  },
  { rule: 'schema-required', find: findUnknownRequired },
]

/** Each says which values are valid, so that `type` is not needed. */
const IN_PLACE_OF_TYPE = ['enum', 'const', '$ref', 'anyOf', 'oneOf', 'allOf', 'not', 'if', '$dynamicRef']

function findMissingType(schema: JsonSchema): string | undefined {
  const isTyped = schema['type'] !== undefined || IN_PLACE_OF_TYPE.some((keyword) => keyword in schema)
  return isTyped ? undefined : 'has no type'
}

function findTypeList({ type }: JsonSchema): string | undefined {
  return Array.isArray(type) ? `has several types: ${type.slice(0, 7).join(', ')}` : undefined
}

/** A schema without properties of its own may add requirements to another one, as in `anyOf`. */
function findUnknownRequired({ properties, required }: JsonSchema): string | undefined {
  if (!isObject(properties) || !Array.isArray(required)) return undefined
  const unknown = required.find((name) => !Object.hasOwn(properties, String(name)))
  return unknown === undefined ? undefined : `requires ${String(unknown).slice(0, 64)}, which is no property`
}

/** Keywords that hold a schema, a list of schemas, or schemas by name (JSON Schema 2020-12). */
const ONE = ['items', 'additionalProperties', 'contains', 'propertyNames', 'not', 'if', 'then', 'else']
const LIST = ['prefixItems', 'allOf', 'anyOf', 'oneOf']
const NAMED = ['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas']

/** A part of a tool, with its JSON pointer. */
type Located<T> = readonly [pointer: string, part: T]

/** All schemas within a schema, itself included. */
export function schemasIn(root: JsonSchema, pointer: string): Located<JsonSchema>[] {
  const found: Located<JsonSchema>[] = []
  const left: Located<unknown>[] = [[pointer, root]]
  for (let next = left.pop(); next !== undefined; next = left.pop()) {
    const [at, schema] = next
    if (!isObject(schema)) continue
    found.push([at, schema])
    for (const child of childrenOf(schema, at).reverse()) left.push(child)
  }
  return found
}

function childrenOf(schema: JsonSchema, at: string): Located<unknown>[] {
  const one = ONE.map((keyword): Located<unknown> => [`${at}/${keyword}`, schema[keyword]])
  const many = [...LIST, ...NAMED].flatMap((keyword) =>
    Object.entries(schema[keyword] ?? {}).map(
      ([name, child]): Located<unknown> => [`${at}/${keyword}/${shortPointer(name)}`, child],
    ),
  )
  return [...one, ...many]
}
