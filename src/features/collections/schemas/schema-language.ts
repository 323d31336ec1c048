/** The schema language of collections: a closed part of JSON Schema 2020-12, checked, then prepared for evaluation. */

import Format from 'typebox/format'
import { unescaped } from '../../../../flows-dsl/json.ts'
import { patternError } from '../../../../flows-dsl/json-schema/pattern.ts'
import { DIALECT, KEYWORDS, type Shape, TYPES } from '../../../../flows-dsl/json-schema/vocabulary.ts'
import { exceedsDepth, isObject, shortPointer } from '../../../core/json.ts'
import { LIMITS } from '../../../core/limits.ts'
import { type InputError, Problem } from '../../../core/problem.ts'
import { bodyProblem } from '../../operation-helpers.ts'

/** A schema that was checked. */
export type Schema = boolean | SchemaObject
export type SchemaObject = Readonly<Record<string, unknown>>

/** The formats of the library that are cheap to test; `regex` would compile texts of documents. */
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

/** The shapes of values that contain schemas: one, several in an array, several by name or by pattern. */
type Below = 'schema' | 'schemas' | 'schemaMap' | 'patternMap'

interface Test {
  readonly wants: string
  readonly fits: (value: unknown) => boolean
}

const text: Test = { wants: 'a text', fits: (value) => typeof value === 'string' }

/** Tests of the values of keywords without subschemas. */
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

/** Keywords with narrower values than in flows. */
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

const UNSUPPORTED = ['contentEncoding', 'contentMediaType']
const ANNOTATIONS = ['title', 'description', 'default', 'examples', 'deprecated', 'readOnly', 'writeOnly']

/** The shape of a keyword; keywords without one are rejected, since an ignored keyword would look enforced. */
const shapeOf = (name: string): Shape | undefined =>
  Object.hasOwn(KEYWORDS, name) && !UNSUPPORTED.includes(name) ? KEYWORDS[name] : undefined

/** The shape of a keyword that constrains documents; references are resolved separately. */
const assertionShapeOf = (name: string): Shape | undefined =>
  name.startsWith('$') || ANNOTATIONS.includes(name) ? undefined : shapeOf(name)

interface Walk {
  readonly errors: InputError[]
  nodes: number
}

/**
 * @param schema any JSON value
 * @returns the same value, checked
 * @throws Problem `schema_invalid` with the errors, each with its pointer
 */
export function checkSchema(schema: unknown): SchemaObject {
  const walk: Walk = { errors: [], nodes: 0 }
  if (!isObject(schema)) reportError(walk, '', 'must be an object')
  else if (exceedsDepth(schema, LIMITS.schemaDepthMax))
    reportError(walk, '', `is nested deeper than ${LIMITS.schemaDepthMax}`)
  else checkWhole(walk, schema)
  if (walk.errors.length === 0) return schema as SchemaObject
  const detail = walk.errors.map((error) => `${error.pointer} ${error.detail}`).join('; ')
  throw new Problem('schema_invalid', { detail, errors: walk.errors })
}

function checkWhole(walk: Walk, schema: SchemaObject): void {
  const json = JSON.stringify(schema)
  const bytes = Buffer.byteLength(json)
  if (bytes > LIMITS.schemaBytesMax) {
    reportError(walk, '', `has ${bytes} bytes; at most ${LIMITS.schemaBytesMax} are kept`)
    return
  }
  if (UNKEEPABLE.test(json)) reportError(walk, '', 'holds a NUL character or half a surrogate pair')
  if (schema['type'] !== undefined && schema['type'] !== 'object')
    reportError(walk, '/type', 'must be "object"')
  for (const name of Object.keys(Object(schema['properties']))) {
    if (name === 'id' || /^[_$]/.test(name))
      reportError(walk, `/properties/${shortPointer(name)}`, 'is reserved: no document has it')
  }
  check(walk, schema, '')
  if (walk.nodes > LIMITS.schemaNodesMax)
    reportError(walk, '', `has more than ${LIMITS.schemaNodesMax} subschemas`)
}

/** Escapes that PostgreSQL rejects in JSON; after an odd number of backslashes they are plain text. */
const UNKEEPABLE = /(?<!\\)(?:\\\\)*\\u(?:0000|d[89a-f])/

/** Recursion is bounded: the depth was checked before. */
function check(walk: Walk, schema: unknown, pointer: string): void {
  walk.nodes += 1
  if (typeof schema === 'boolean') return
  if (!isObject(schema)) {
    reportError(walk, pointer, 'must be a schema: an object, true or false')
    return
  }
  for (const [name, value] of Object.entries(schema)) {
    const at = `${pointer}/${shortPointer(name)}`
    const shape = shapeOf(name)
    if (shape === undefined) reportError(walk, at, 'is not a keyword that is taken here')
    else if (name === '$defs' && pointer !== '') reportError(walk, at, 'stands at the top only')
    else checkKeyword(walk, NARROWER[name] ?? shape, value, at)
    if (name === 'pattern' && typeof value === 'string') reportError(walk, at, patternError(value))
  }
}

function checkKeyword(walk: Walk, wanted: Shape | Test, value: unknown, at: string): void {
  if (wanted === 'schema') check(walk, value, at)
  else if (wanted === 'schemas' || wanted === 'schemaMap' || wanted === 'patternMap')
    checkParts(walk, wanted, value, at)
  else {
    const { wants, fits } = typeof wanted === 'string' ? TESTS[wanted] : wanted
    if (!fits(value)) reportError(walk, at, `must be ${wants}`)
  }
}

/** Checks the subschemas in a list or an object. */
function checkParts(walk: Walk, shape: Exclude<Below, 'schema'>, value: unknown, at: string): void {
  const isList = shape === 'schemas'
  if (isList ? !Array.isArray(value) || value.length === 0 : !isObject(value)) {
    reportError(walk, at, isList ? 'must be a list of schemas' : 'must be schemas by name')
    return
  }
  for (const [name, schema] of Object.entries(value as object)) {
    const pointer = `${at}/${shortPointer(name)}`
    if (shape === 'patternMap') reportError(walk, pointer, patternError(name))
    check(walk, schema, pointer)
  }
}

function reportError(walk: Walk, pointer: string, detail: string | undefined): void {
  if (detail === undefined || walk.errors.length >= LIMITS.faultsShownMax) return
  walk.errors.push({ in: 'body', name: 'schema', pointer: `/schema${pointer}`.slice(0, 300), detail })
}

interface Built {
  readonly schema: Schema
  /** The number of subschemas for one value, each counted for every reference to it, and of the items of their lists. */
  readonly size: number
}

export interface Prepared extends Built {
  /** It constrains single members only, so a change of some can be validated without the others. */
  readonly separable: boolean
}

/** Keywords that constrain single members: their presence, name or value. */
const MEMBER_KEYWORDS = [
  'type',
  'properties',
  'patternProperties',
  'additionalProperties',
  'propertyNames',
  'required',
]

/**
 * Replaces references by their targets. References form no cycle, so the result is a finite graph that shares repeated
 * targets. An evaluator needs no resolver and meets at most `size` subschemas for each value of a document.
 * @param root a schema that `checkSchema` accepted
 * @throws Problem `schema_invalid` if a reference has no target, is cyclic, or the schema expands to too much
 */
export function prepare(root: SchemaObject): Prepared {
  const builder = new Builder((root['$defs'] ?? {}) as SchemaObject)
  const built = builder.build(root as Schema)
  const separable = Object.keys(built.schema).every((name) => MEMBER_KEYWORDS.includes(name))
  if (built.size <= LIMITS.schemaExpandedMax) return { ...built, separable }
  throw invalid(`The references of the schema expand to more than ${LIMITS.schemaExpandedMax} subschemas.`)
}

class Builder {
  readonly #defs: SchemaObject
  readonly #done = new Map<string, Built>()
  readonly #open = new Set<string>()

  constructor(defs: SchemaObject) {
    this.#defs = defs
  }

  build(schema: Schema): Built {
    const made: Made = { keywords: [], size: 1 }
    if (typeof schema === 'boolean') return { ...made, schema }
    for (const [name, value] of Object.entries(schema)) this.#keyword(made, name, value)
    const reference = schema['$ref']
    if (typeof reference === 'string') this.#refer(made, reference)
    return { ...made, schema: Object.fromEntries(made.keywords) }
  }

  #keyword(made: Made, name: string, value: unknown): void {
    const shape = assertionShapeOf(name)
    if (shape !== undefined) made.keywords.push([name, this.#below(made, shape, value)])
  }

  #below(made: Made, shape: Shape, value: unknown): unknown {
    if (shape === 'schema') return this.#part(made, value)
    if (shape === 'schemas') return (value as unknown[]).map((item) => this.#part(made, item))
    if (shape === 'schemaMap' || shape === 'patternMap') {
      const parts = Object.entries(value as object).map(
        ([name, item]) => [name, this.#part(made, item)] as const,
      )
      return Object.fromEntries(parts)
    }
    made.size += listed(value)
    return value
  }

  #part(made: Made, schema: unknown): Schema {
    return add(made, this.build(schema as Schema))
  }

  /** `$ref` beside other keywords is one more condition (JSON Schema Core 2020-12 §8.2.3.1). */
  #refer(made: Made, reference: string): void {
    const target = add(made, this.#target(reference))
    const conditions = made.keywords.find(([name]) => name === 'allOf')
    if (conditions === undefined) made.keywords.push(['allOf', [target]])
    else conditions[1] = [...(conditions[1] as Schema[]), target]
  }

  #target(reference: string): Built {
    const name = unescaped(reference.slice('#/$defs/'.length))
    const known = this.#done.get(name)
    if (known !== undefined) return known
    if (!Object.hasOwn(this.#defs, name)) throw invalid(`${reference} leads nowhere.`)
    if (this.#open.has(name)) throw invalid(`${reference} leads in a circle, which is not taken.`)
    this.#open.add(name)
    const built = this.build(this.#defs[name] as Schema)
    this.#open.delete(name)
    this.#done.set(name, built)
    return built
  }
}

/** The number of items of `enum`, `required` and similar keywords: each is a comparison. */
function listed(value: unknown): number {
  if (Array.isArray(value)) return value.length
  return Object.values(Object(value)).reduce<number>(
    (sum, item) => sum + (Array.isArray(item) ? item.length : 0),
    0,
  )
}

interface Made {
  readonly keywords: [string, unknown][]
  size: number
}

function add(made: Made, part: Built): Schema {
  made.size += part.size
  return part.schema
}

const invalid = (detail: string) => bodyProblem('/schema', detail, detail, 'schema_invalid')
