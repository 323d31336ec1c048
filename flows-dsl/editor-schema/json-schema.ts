/** Knows the schemas that a definition may hold, as a schema: the words that the compiler knows, and no others. */

import { KEYWORDS, type Shape, TYPES } from '../schema/vocabulary.ts'
import { either, list, mapping, named, ref, type Schema } from './words.ts'

const SCHEMA = ref('jsonSchema')
const TEXT: Schema = { type: 'string' }
const TEXTS = list('Texts.', TEXT)

/** What the compiler asks of each, but for what patterns say and where references lead. */
const SHAPES: Readonly<Record<Shape, Schema>> = {
  any: {},
  schema: SCHEMA,
  schemas: list('Schemas.', SCHEMA, { minItems: 1 }),
  schemaMap: named('Schemas by names.', SCHEMA),
  patternMap: named('Schemas by patterns.', SCHEMA),
  count: { type: 'integer', minimum: 0 },
  number: { type: 'number' },
  positive: { type: 'number', exclusiveMinimum: 0 },
  boolean: { type: 'boolean' },
  text: TEXT,
  texts: TEXTS,
  textsMap: named('Texts by names.', TEXTS),
  types: either(
    'A type, or several.',
    { enum: [...TYPES] },
    list('Types.', { enum: [...TYPES] }, { minItems: 1 }),
  ),
  values: { type: 'array' },
  pattern: TEXT,
  dialect: { type: 'string', pattern: '^https://json-schema\\.org/draft/2020-12/schema#?$' },
  reference: { type: 'string', pattern: '^#/\\$defs/[^/]+$' },
}

export function jsonSchema(): Schema {
  const properties = Object.fromEntries(Object.entries(KEYWORDS).map(([key, shape]) => [key, SHAPES[shape]]))
  properties['enum'] = { ...SHAPES.values, minItems: 1 }
  const description = 'A JSON Schema (2020-12).'
  return either(description, mapping(description, properties), { type: 'boolean' })
}
