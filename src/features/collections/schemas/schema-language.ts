/** The schema language of collections: a closed part of JSON Schema 2020-12, checked, then prepared for evaluation. */

import { patternError } from '../../../../flows-dsl/json-schema/pattern.ts'
import { DIALECT, KEYWORDS, type Shape, TYPES } from '../../../../flows-dsl/json-schema/vocabulary.ts'
import { exceedsDepth, isObject, shortPointer, unescapePointer } from '../../../core/json.ts'
import { CORE_LIMITS } from '../../../core/limits.ts'
import { type InputError, Problem } from '../../../core/problem.ts'
import { bodyProblem } from '../../operation-helpers.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { FORMATS } from './text-formats.ts'

/** A schema that was checked. */
export type Schema = boolean | SchemaObject
export type SchemaObject = Readonly<Record<string, unknown>>

const isNames = (value: unknown): value is readonly string[] =>
  Array.isArray(value) &&
  new Set(value).size === value.length &&
  value.every((name) => typeof name === 'string')
const oneOf = (list: readonly string[], value: unknown) => typeof value === 'string' && list.includes(value)

/** The shapes of values that contain schemas: one, several in an array, several by name or by pattern. */
type SubschemaShape = 'schema' | 'schemas' | 'schemaMap' | 'patternMap'

interface Test {
  readonly wants: string
  readonly fits: (value: unknown) => boolean
}

const text: Test = { wants: 'a text', fits: (value) => typeof value === 'string' }

/** Tests of the values of keywords without subschemas. */
const TESTS: Readonly<Record<Exclude<Shape, SubschemaShape>, Test>> = {
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
    wants: `a list of 1 to ${COLLECTION_LIMITS.schemaEnumValuesMax} values`,
    fits: (value) =>
      Array.isArray(value) && value.length > 0 && value.length <= COLLECTION_LIMITS.schemaEnumValuesMax,
  },
  format: {
    wants: `one of ${FORMATS.join(', ')}`,
    fits: (value) => oneOf(FORMATS, value),
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

/**
 * @param schema any JSON value
 * @returns the same value, checked
 * @throws Problem `schema_invalid` with the errors, each with its pointer
 */
export function checkSchema(schema: unknown): SchemaObject {
  const { errors } = new SchemaCheck(schema)
  if (errors.length === 0) return schema as SchemaObject
  const detail = errors.map((error) => `${error.pointer} ${error.detail}`).join('; ')
  throw new Problem('schema_invalid', { detail, errors })
}

class SchemaCheck {
  readonly errors: InputError[] = []
  #subschemas = 0

  constructor(schema: unknown) {
    if (!isObject(schema)) this.#report('', 'must be an object')
    else if (exceedsDepth(schema, COLLECTION_LIMITS.schemaDepthMax))
      this.#report('', `is nested deeper than ${COLLECTION_LIMITS.schemaDepthMax}`)
    else this.#checkRoot(schema)
  }

  #checkRoot(schema: SchemaObject): void {
    const json = JSON.stringify(schema)
    const bytes = Buffer.byteLength(json)
    if (bytes > COLLECTION_LIMITS.schemaBytesMax) {
      this.#report('', `has ${bytes} bytes; at most ${COLLECTION_LIMITS.schemaBytesMax} are kept`)
      return
    }
    if (UNSTORABLE.test(json)) this.#report('', 'holds a NUL character or half a surrogate pair')
    if (schema['type'] !== undefined && schema['type'] !== 'object') this.#report('/type', 'must be "object"')
    for (const name of Object.keys(Object(schema['properties']))) {
      if (name === 'id' || /^[_$]/.test(name))
        this.#report(`/properties/${shortPointer(name)}`, 'is reserved: no document has it')
    }
    this.#checkSubschema(schema, '')
    if (this.#subschemas > COLLECTION_LIMITS.schemaNodesMax)
      this.#report('', `has more than ${COLLECTION_LIMITS.schemaNodesMax} subschemas`)
  }

  /** Recursion is bounded: the depth was checked before. */
  #checkSubschema(schema: unknown, pointer: string): void {
    this.#subschemas += 1
    if (typeof schema === 'boolean') return
    if (!isObject(schema)) {
      this.#report(pointer, 'must be a schema: an object, true or false')
      return
    }
    for (const [name, value] of Object.entries(schema)) {
      const at = `${pointer}/${shortPointer(name)}`
      const shape = shapeOf(name)
      if (shape === undefined) this.#report(at, 'is not a keyword that is taken here')
      else if (name === '$defs' && pointer !== '') this.#report(at, 'stands at the top only')
      else this.#checkKeyword(NARROWER[name] ?? shape, value, at)
      if (name === 'pattern' && typeof value === 'string') this.#report(at, patternError(value))
    }
  }

  #checkKeyword(expected: Shape | Test, value: unknown, at: string): void {
    if (expected === 'schema') this.#checkSubschema(value, at)
    else if (expected === 'schemas' || expected === 'schemaMap' || expected === 'patternMap')
      this.#checkSubschemas(expected, value, at)
    else {
      const { wants, fits } = typeof expected === 'string' ? TESTS[expected] : expected
      if (!fits(value)) this.#report(at, `must be ${wants}`)
    }
  }

  /** Checks the subschemas in a list or an object. */
  #checkSubschemas(shape: Exclude<SubschemaShape, 'schema'>, value: unknown, at: string): void {
    const isList = shape === 'schemas'
    if (isList ? !Array.isArray(value) || value.length === 0 : !isObject(value)) {
      this.#report(at, isList ? 'must be a list of schemas' : 'must be schemas by name')
      return
    }
    for (const [name, schema] of Object.entries(value as object)) {
      const pointer = `${at}/${shortPointer(name)}`
      if (shape === 'patternMap') this.#report(pointer, patternError(name))
      this.#checkSubschema(schema, pointer)
    }
  }

  #report(pointer: string, detail: string | undefined): void {
    if (detail === undefined || this.errors.length >= CORE_LIMITS.diagnosticsReturnedMax) return
    this.errors.push({ in: 'body', name: 'schema', pointer: `/schema${pointer}`.slice(0, 300), detail })
  }
}

/** Escapes that PostgreSQL rejects in JSON; after an odd number of backslashes they are plain text. */
const UNSTORABLE = /(?<!\\)(?:\\\\)*\\u(?:0000|d[89a-f])/

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
  if (built.size <= COLLECTION_LIMITS.schemaNodesExpandedMax) return { ...built, separable }
  throw invalid(
    `The references of the schema expand to more than ${COLLECTION_LIMITS.schemaNodesExpandedMax} subschemas.`,
  )
}

class Builder {
  readonly #defs: SchemaObject
  readonly #targets = new Map<string, Built>()
  /** The names that are being built: a reference to one of them is cyclic. */
  readonly #building = new Set<string>()

  constructor(defs: SchemaObject) {
    this.#defs = defs
  }

  build(schema: Schema): Built {
    let size = 1
    const add = (built: Built): Schema => {
      size += built.size
      return built.schema
    }
    const subschema = (value: unknown) => add(this.build(value as Schema))
    if (typeof schema === 'boolean') return { schema, size }
    const keywords = new Map<string, unknown>()
    for (const [name, value] of Object.entries(schema)) {
      const shape = assertionShapeOf(name)
      if (shape === undefined) continue
      if (shape === 'schema') keywords.set(name, subschema(value))
      else if (shape === 'schemas') keywords.set(name, (value as unknown[]).map(subschema))
      else if (shape === 'schemaMap' || shape === 'patternMap') {
        const parts = Object.entries(value as object).map(([key, part]) => [key, subschema(part)] as const)
        keywords.set(name, Object.fromEntries(parts))
      } else {
        size += itemCount(value)
        keywords.set(name, value)
      }
    }
    const reference = schema['$ref']
    if (typeof reference === 'string') {
      // `$ref` beside other keywords is one more condition (JSON Schema Core 2020-12 §8.2.3.1).
      const conditions = (keywords.get('allOf') ?? []) as Schema[]
      keywords.set('allOf', [...conditions, add(this.#target(reference))])
    }
    return { schema: Object.fromEntries(keywords), size }
  }

  #target(reference: string): Built {
    const name = unescapePointer(reference.slice('#/$defs/'.length))
    const known = this.#targets.get(name)
    if (known !== undefined) return known
    if (!Object.hasOwn(this.#defs, name)) throw invalid(`${reference} does not refer to a schema.`)
    if (this.#building.has(name)) throw invalid(`${reference} refers to itself, which is not supported.`)
    this.#building.add(name)
    const built = this.build(this.#defs[name] as Schema)
    this.#building.delete(name)
    this.#targets.set(name, built)
    return built
  }
}

/** The number of items of `enum`, `required` and similar keywords: each is a comparison. */
function itemCount(value: unknown): number {
  const lists = Array.isArray(value) ? [value] : Object.values(Object(value)).filter(Array.isArray)
  return lists.reduce((sum, list) => sum + list.length, 0)
}

const invalid = (detail: string) => bodyProblem('/schema', detail, detail, 'schema_invalid')
