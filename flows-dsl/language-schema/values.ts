// biome-ignore-all lint/suspicious/noTemplateCurlyInString: descriptions show how expressions are written
/** Builds parts of the language schema, and defines the values that occur in many places, such as expressions. */

import { RESERVED, VARIABLE } from '../compile/compile-context.ts'
import { UNITS } from '../compile/duration.ts'
import type { Json, JsonObject } from '../json.ts'
import { KEYWORDS, type Shape, TYPES } from '../json-schema/vocabulary.ts'

export type Schema = JsonObject

type Properties = Readonly<Record<string, Schema>>

/** A mapping with these keys and no others. */
export function mapping(description: string, properties: Properties): Schema {
  return { description, type: 'object', properties: { ...properties }, additionalProperties: false }
}

/** A mapping with these keys and no others, of which some are required. */
export function mappingRequiring(
  description: string,
  required: readonly string[],
  properties: Properties,
): Schema {
  const { additionalProperties = false, ...rest } = mapping(description, properties)
  return { ...rest, ...(required.length > 0 && { required: [...required] }), additionalProperties }
}

/** A mapping with arbitrary keys. */
export function named(description: string, each: Schema, names: Schema = {}): Schema {
  return { description, type: 'object', propertyNames: names, additionalProperties: each }
}

/** A list of single-key mappings. */
export function namedList(description: string, each: Schema, names: Schema = {}): Schema {
  const item = {
    ...named('A mapping of one name to its definition.', each, names),
    minProperties: 1,
    maxProperties: 1,
  }
  return { description, type: 'array', items: item, minItems: 1 }
}

export function list(description: string, items: Schema, more: Schema = {}): Schema {
  return { description, type: 'array', items, ...more }
}

export function text(description: string, more: Schema = {}): Schema {
  return { description, type: 'string', ...more }
}

export function integer(description: string, more: Schema = {}): Schema {
  return { description, type: 'integer', ...more }
}

/** One of several words, by default the first. */
export function word(description: string, words: readonly string[]): Schema {
  return { description, enum: [...words], default: words[0] ?? '' }
}

export function flag(description: string, fallback: boolean): Schema {
  return { description, type: 'boolean', default: fallback }
}

/** The keys of one task type; the required ones identify it. */
export interface TaskKeys {
  readonly keys: Readonly<Record<string, Schema>>
  readonly required: readonly string[]
}

/** A reference to a name under `$defs`. */
export function ref(name: string, description?: string): Schema {
  return { ...(description !== undefined && { description }), $ref: `#/$defs/${name}` }
}

/** At least one of these schemas. */
export function either(description: string, ...schemas: readonly Schema[]): Schema {
  return { description, anyOf: [...schemas] }
}

/** `if`, `then` and `else`. Built from entries, because a literal with `then` looks like a thenable. */
export function when(condition: Json, consequence: Schema, otherwise?: Schema): Schema {
  const more: [string, Json][] = otherwise === undefined ? [] : [['else', otherwise]]
  return Object.fromEntries([['if', condition], ['then', consequence], ...more])
}

/** The key `then` as a constant, because a literal with `then` looks like a thenable. */
export const THEN = 'then'

/** A string that contains an expression. */
export const EXPRESSION: Schema = { type: 'string', pattern: '\\$\\{' }

/** The name of a variable, without `$`. */
export const variable = (description: string, fallback: string): Schema => ({
  ...text(description, { pattern: VARIABLE, default: fallback }),
  not: { enum: [...RESERVED] },
})

const countOf = (unit: string) => either(`Number of ${unit}.`, { type: 'integer', minimum: 0 }, EXPRESSION)

export const VALUES: Readonly<Record<string, Schema>> = {
  condition: either(
    'A jq expression, with or without ${ }. Its result counts as true unless it is false or null.',
    { type: 'boolean' },
    text('A jq expression.', { examples: ['.total > 100', '${ .status == "open" }'] }),
  ),
  filter: {
    description:
      'A jq expression, with or without ${ }, or any value that contains expressions as strings in ${ }.',
  },
  duration: either(
    'A span of time: {seconds: 2}, or an ISO 8601 duration of weeks, days and time, such as PT2S or P1DT12H.',
    mapping(
      'The sum of its parts.',
      Object.fromEntries(UNITS.map((unit) => [unit, integer(`Number of ${unit}.`, { minimum: 0 })])),
    ),
    text('An ISO 8601 duration without years and months.', {
      pattern: '^P(?=.)(?:\\d+W)?(?:\\d+D)?(?:T(?=.)(?:\\d+H)?(?:\\d+M)?(?:\\d+(?:\\.\\d{1,3})?S)?)?$',
      examples: ['PT30S', 'PT5M', 'P1DT12H'],
    }),
  ),
  timeout: either(
    'The maximum duration. Beyond it, an error of the type timeout is raised.',
    mappingRequiring('A timeout of a task.', ['after'], { after: ref('dynamicDuration') }),
    text('The name of a timeout under `use.timeouts`.'),
  ),
  dynamicDuration: either(
    'A duration, or an expression that yields one; the parts may be expressions, too.',
    ref('duration'),
    EXPRESSION,
    mapping('The sum of its parts.', Object.fromEntries(UNITS.map((unit) => [unit, countOf(unit)]))),
  ),
  directive: either(
    'The next step: the following task (`continue`), the end of this list (`exit`), the end of the flow (`end`), or a named task.',
    { enum: ['continue', 'exit', 'end'], default: 'continue' },
    text('The name of a task in the same list.'),
  ),
  schema: mappingRequiring(
    'A JSON Schema that data must match, or an error of the type validation is raised.',
    ['document'],
    {
      format: word('The format of the schema.', ['json', 'json:2020-12']),
      document: ref('jsonSchema', 'The schema itself.'),
    },
  ),
  input: mapping('Validation and transformation of the input.', {
    schema: ref('schema', 'The schema of the raw input, validated first.'),
    from: ref('filter', 'The expression of the input. `.` is the raw input.'),
  }),
  output: mapping('Transformation and validation of the output.', {
    as: ref('filter', 'The expression of the output. `.` is the raw output.'),
    schema: ref('schema', 'The schema of the output.'),
  }),
  export: mapping('The data that is kept in `$context`, which all later tasks see.', {
    as: ref('filter', 'The expression of the new `$context`. `.` is the output of the task.'),
    schema: ref('schema', 'The schema of the new `$context`.'),
  }),
  strings: list('Strings.', { type: 'string' }),
}

const SCHEMA = ref('jsonSchema')
const TEXT: Schema = { type: 'string' }
const TEXTS = list('Texts.', TEXT)

/** The schema of each shape. It does not check the syntax of patterns and the targets of references. */
const SHAPES: Readonly<Record<Shape, Schema>> = {
  any: {},
  schema: SCHEMA,
  schemas: list('Schemas.', SCHEMA, { minItems: 1 }),
  schemaMap: named('Schemas, by name.', SCHEMA),
  patternMap: named('Schemas, by pattern.', SCHEMA),
  count: { type: 'integer', minimum: 0 },
  number: { type: 'number' },
  positive: { type: 'number', exclusiveMinimum: 0 },
  boolean: { type: 'boolean' },
  text: TEXT,
  texts: TEXTS,
  textsMap: named('Texts, by name.', TEXTS),
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
