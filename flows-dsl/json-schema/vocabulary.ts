/** The keywords of JSON Schema 2020-12 that flows and collections support, with the shape of each value. */

import { unescaped } from '../json.ts'

/** The shape of a keyword's value. */
export type Shape =
  | 'schema'
  | 'schemas'
  | 'schemaMap'
  | 'patternMap'
  | 'count'
  | 'number'
  | 'positive'
  | 'boolean'
  | 'text'
  | 'texts'
  | 'textsMap'
  | 'types'
  | 'values'
  | 'pattern'
  | 'dialect'
  | 'reference'
  | 'any'

export const DIALECT = 'https://json-schema.org/draft/2020-12/schema'

export const TYPES = ['null', 'boolean', 'integer', 'number', 'string', 'array', 'object']

/** The shape of each supported keyword. */
export const KEYWORDS: Readonly<Record<string, Shape>> = {
  $schema: 'dialect',
  $defs: 'schemaMap',
  $ref: 'reference',
  $comment: 'text',
  title: 'text',
  description: 'text',
  default: 'any',
  examples: 'values',
  deprecated: 'boolean',
  readOnly: 'boolean',
  writeOnly: 'boolean',
  format: 'text',
  contentEncoding: 'text',
  contentMediaType: 'text',
  type: 'types',
  enum: 'values',
  const: 'any',
  minimum: 'number',
  maximum: 'number',
  exclusiveMinimum: 'number',
  exclusiveMaximum: 'number',
  multipleOf: 'positive',
  minLength: 'count',
  maxLength: 'count',
  pattern: 'pattern',
  items: 'schema',
  prefixItems: 'schemas',
  contains: 'schema',
  minContains: 'count',
  maxContains: 'count',
  minItems: 'count',
  maxItems: 'count',
  uniqueItems: 'boolean',
  properties: 'schemaMap',
  patternProperties: 'patternMap',
  additionalProperties: 'schema',
  propertyNames: 'schema',
  required: 'texts',
  minProperties: 'count',
  maxProperties: 'count',
  dependentRequired: 'textsMap',
  dependentSchemas: 'schemaMap',
  allOf: 'schemas',
  anyOf: 'schemas',
  oneOf: 'schemas',
  not: 'schema',
  if: 'schema',
  // biome-ignore lint/suspicious/noThenProperty: a word of JSON Schema
  then: 'schema',
  else: 'schema',
}

/** Keywords of JSON Schema that are not supported. */
export const LATER_KEYWORDS = [
  '$id',
  '$anchor',
  '$dynamicRef',
  '$dynamicAnchor',
  '$vocabulary',
  'contentSchema',
  'unevaluatedItems',
  'unevaluatedProperties',
]

/** A `$ref` may only refer to a name under `$defs` of the root. */
const REFERENCE = /^#\/\$defs\/([^/]+)$/

/** The name that a `$ref` leads to, without the escapes of a JSON pointer in a fragment. */
export function referenceName(reference: string): string | undefined {
  const [, step] = REFERENCE.exec(reference) ?? []
  return step === undefined ? undefined : unescaped(step)
}
