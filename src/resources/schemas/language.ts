/** What a collection's schema may say: a closed part of JSON Schema 2020-12, checked with every fault at once. */

import Format from 'typebox/format'
import { patternFault } from '../../../flows-dsl/schema/pattern.ts'
import { DIALECT, KEYWORDS, type Shape, TYPES } from '../../../flows-dsl/schema/vocabulary.ts'
import { cutToken, deeper, isObject } from '../../core/json.ts'
import { LIMITS } from '../../core/limits.ts'
import { type InputError, Problem } from '../../core/problem.ts'

/** A schema that was checked. */
export type Schema = boolean | SchemaObject
export type SchemaObject = Readonly<Record<string, unknown>>

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

const isNames = (value: unknown): value is readonly string[] =>
  Array.isArray(value) &&
  new Set(value).size === value.length &&
  value.every((name) => typeof name === 'string')
const oneOf = (list: readonly string[], value: unknown) => typeof value === 'string' && list.includes(value)

/** Keywords below which there are schemas: one, several in an array, several by name or by pattern. */
type Below = 'schema' | 'schemas' | 'schemaMap' | 'patternMap'

interface Test {
  readonly wants: string
  readonly fits: (value: unknown) => boolean
}

const text: Test = { wants: 'a text', fits: (value) => typeof value === 'string' }

/** What the value of a keyword without schemas must be. */
const TESTS: Readonly<Record<Exclude<Shape, Below>, Test>> = {
  any: { wants: 'any value', fits: () => true },
  boolean: { wants: 'true or false', fits: (value) => typeof value === 'boolean' },
  count: {
    wants: 'a whole number, 0 or more',
    fits: (value) => Number.isSafeInteger(value) && Number(value) >= 0,
  },
  number: { wants: 'a number', fits: (value) => typeof value === 'number' },
  positive: { wants: 'a number above 0', fits: (value) => typeof value === 'number' && value > 0 },
  text,
  pattern: text,
  texts: { wants: 'a list of different names', fits: isNames },
  textsMap: {
    wants: 'lists of names by name',
    fits: (value) => isObject(value) && Object.values(value).every(isNames),
  },
  types: {
    wants: `one or several of ${TYPES.join(', ')}`,
    fits: (value) =>
      oneOf(TYPES, value) || (isNames(value) && value.length > 0 && value.every((t) => oneOf(TYPES, t))),
  },
  values: { wants: 'a list', fits: Array.isArray },
  dialect: { wants: DIALECT, fits: (value) => value === DIALECT },
  reference: {
    wants: 'a reference of the form #/$defs/name',
    fits: (value) => typeof value === 'string' && /^#\/\$defs\/[^/%]+$/.test(value),
  },
}

/** Keywords that say less here than in flows. */
const NARROWER: Readonly<Record<string, Test>> = {
  enum: {
    wants: `a list of 1 to ${LIMITS.schemaEnumMax} values`,
    fits: (value) => Array.isArray(value) && value.length > 0 && value.length <= LIMITS.schemaEnumMax,
  },
  format: {
    wants: `one of ${FORMATS.join(', ')}`,
    fits: (value) => oneOf(FORMATS, value) && Format.Has(String(value)),
  },
}

const NOT_TAKEN = ['contentEncoding', 'contentMediaType']
const ANNOTATIONS = ['title', 'description', 'default', 'examples', 'deprecated', 'readOnly', 'writeOnly']

/** The shape of a keyword. One that has none is refused: what is ignored would look as if it held. */
const shapeOf = (name: string): Shape | undefined =>
  Object.hasOwn(KEYWORDS, name) && !NOT_TAKEN.includes(name) ? KEYWORDS[name] : undefined

/** The shape of a keyword that says something about documents; references are resolved apart. */
export const saidShapeOf = (name: string): Shape | undefined =>
  name.startsWith('$') || ANNOTATIONS.includes(name) ? undefined : shapeOf(name)

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
  else if (deeper(schema, LIMITS.schemaDepthMax))
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
    const shape = shapeOf(name)
    if (shape === undefined) fault(walk, at, 'is not a keyword that is taken here')
    else if (name === '$defs' && pointer !== '') fault(walk, at, 'stands at the top only')
    else checkKeyword(walk, NARROWER[name] ?? shape, value, at)
    if (name === 'pattern' && typeof value === 'string') fault(walk, at, patternFault(value))
  }
}

function checkKeyword(walk: Walk, wanted: Shape | Test, value: unknown, at: string): void {
  if (wanted === 'schema') check(walk, value, at)
  else if (wanted === 'schemas') checkList(walk, value, at)
  else if (wanted === 'schemaMap' || wanted === 'patternMap') checkNamed(walk, wanted, value, at)
  else {
    const { wants, fits } = typeof wanted === 'string' ? TESTS[wanted] : wanted
    if (!fits(value)) fault(walk, at, `must be ${wants}`)
  }
}

function checkList(walk: Walk, value: unknown, at: string): void {
  if (!Array.isArray(value) || value.length === 0) fault(walk, at, 'must be a list of schemas')
  else for (const [index, item] of value.entries()) check(walk, item, `${at}/${index}`)
}

function checkNamed(walk: Walk, shape: Below, value: unknown, at: string): void {
  if (!isObject(value)) fault(walk, at, 'must be schemas by name')
  for (const [name, schema] of Object.entries(isObject(value) ? value : {})) {
    const pointer = `${at}/${cutToken(name)}`
    if (shape === 'patternMap') fault(walk, pointer, patternFault(name))
    check(walk, schema, pointer)
  }
}

function fault(walk: Walk, pointer: string, detail: string | undefined): void {
  if (detail === undefined || walk.errors.length >= LIMITS.faultsShownMax) return
  walk.errors.push({ in: 'body', name: 'schema', pointer: `/schema${pointer}`.slice(0, 300), detail })
}
