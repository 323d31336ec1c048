/**
 * Translates schemas of OpenAPI 3.0 and 3.1 into schemas of tools (JSON Schema 2020-12) without references: bounded in depth
 * and size, and with the keywords alone that arguments are checked by. A part that is dropped makes the result accept more, never
 * less: the server of the source checks again.
 */

import { storableText } from '../../../../../flows-dsl/json.ts'
import { patternError } from '../../../../../flows-dsl/json-schema/pattern.ts'
import { TYPES } from '../../../../../flows-dsl/json-schema/vocabulary.ts'
import { isObject } from '../../../../core/json.ts'
import { type Fields, fieldsOf, listOf, resolve } from '../../../../infra/openapi/document.ts'
import type { JsonSchema } from '../../tool-name.ts'

/** Bounds of one schema. */
export interface SchemaBounds {
  readonly depth: number
  /** Of all schemas of an operation together. */
  readonly nodes: number
}

const DESCRIPTION_CHARS_MAX = 1_000
const VALUES_MAX = 100
const VALUE_CHARS_MAX = 200
const PROPERTIES_MAX = 100
const PARTS_MAX = 20
/** Formats that texts are checked against; others are hints for generators. */
const FORMATS = ['date-time', 'date', 'uuid', 'email', 'uri', 'ipv4', 'ipv6']
const COUNTS = ['minLength', 'maxLength', 'minItems', 'maxItems', 'minProperties', 'maxProperties']
const NUMBERS = ['minimum', 'maximum']

type Place = { readonly depth: number; readonly refs: readonly string[] }

/** Translates the schemas of one operation, in one direction. */
export class SchemaReader {
  readonly #document: Fields
  readonly #bounds: SchemaBounds
  /** Properties that this direction leaves out: a request has no `readOnly` ones, a response no `writeOnly` ones. */
  readonly #omitted: 'readOnly' | 'writeOnly'
  readonly #patterns: Map<string, boolean>
  #nodes = 0
  #cuts = 0

  /** @param patterns which patterns can be matched, known for the whole document */
  constructor(
    document: Fields,
    bounds: SchemaBounds,
    omitted: 'readOnly' | 'writeOnly',
    patterns = new Map<string, boolean>(),
  ) {
    this.#document = document
    this.#bounds = bounds
    this.#omitted = omitted
    this.#patterns = patterns
  }

  /** True if a part was left out: it refers to itself, or the schema is too deep or too large. */
  get hasCuts(): boolean {
    return this.#cuts > 0
  }

  /** @throws InvalidDocument for an invalid `$ref` */
  read(schema: unknown): JsonSchema {
    return this.#schema(schema, { depth: 0, refs: [] })
  }

  #schema(reference: unknown, { depth, refs }: Place): JsonSchema {
    this.#nodes += 1
    const { value, refs: followed } = resolve(this.#document, reference)
    const [again] = followed.filter((ref) => refs.includes(ref))
    if (again !== undefined) return this.#cut(value, `Another ${again.split('/').at(-1)?.slice(0, 100)}.`)
    const isTooMuch = depth >= this.#bounds.depth || this.#nodes > this.#bounds.nodes
    if (isTooMuch) return this.#cut(value)
    const at = { depth: depth + 1, refs: [...refs, ...followed] }
    const parts = this.#partsOf(value, at.refs)
    // A value fits all parts, so that one of two equal keywords is less than both.
    const merged: Fields = Object.assign({}, ...parts.toReversed())
    const object = this.#object(parts, at)
    const type = typesOf(merged) ?? (object['properties'] === undefined ? undefined : 'object')
    return {
      ...(type !== undefined && { type }),
      ...describedBy(merged),
      ...this.#scalars(merged),
      ...this.#array(merged, at),
      ...object,
      ...this.#alternatives(merged, at),
    }
  }

  #cut(value: Fields, description?: string): JsonSchema {
    this.#cuts += 1
    const type = typesOf(value)
    const text = description === undefined ? describedBy(value) : { description }
    return { ...(type !== undefined && { type }), ...text }
  }

  #scalars(value: Fields): JsonSchema {
    const { pattern, format } = value
    const values = valuesOf(value)
    return {
      ...(values !== undefined && { enum: values }),
      ...(typeof format === 'string' && FORMATS.includes(format) && { format }),
      ...(typeof pattern === 'string' && this.#matches(pattern) && { pattern }),
      ...picked(value, COUNTS, (one) => Number.isSafeInteger(one) && Number(one) >= 0),
      ...picked(value, NUMBERS, Number.isFinite),
      ...exclusiveBounds(value),
      ...defaultOf(value),
    }
  }

  #matches(pattern: string): boolean {
    const known = this.#patterns.get(pattern)
    if (known !== undefined) return known
    const isValid = patternError(pattern) === undefined && textOf(pattern) === pattern
    this.#patterns.set(pattern, isValid)
    return isValid
  }

  #array({ items, uniqueItems }: Fields, at: Place): JsonSchema {
    return {
      ...(isObject(items) && { items: this.#schema(items, at) }),
      ...(uniqueItems === true && { uniqueItems }),
    }
  }

  /** The members of all parts of a value, in one schema; of too many, the required ones first. */
  #object(parts: readonly Fields[], at: Place): JsonSchema {
    const members = new Map(parts.flatMap(({ properties }) => Object.entries(fieldsOf(properties))))
    const isShown = ([, schema]: [string, unknown]) =>
      resolve(this.#document, schema).value[this.#omitted] !== true
    const needed = new Set(parts.flatMap((part) => listOf(part['required'])))
    const kept = [...members].filter(isShown)
    const most = Math.min(PROPERTIES_MAX, Math.max(0, this.#bounds.nodes - this.#nodes))
    const isCut = kept.length > most
    if (isCut) {
      this.#cuts += 1
      kept.sort(([a], [b]) => Number(needed.has(b)) - Number(needed.has(a)))
    }
    const properties = Object.fromEntries(
      kept.slice(0, most).map(([name, schema]) => [textOf(name) ?? '', this.#schema(schema, at)]),
    )
    const required = [...needed].filter((name) => Object.hasOwn(properties, String(name)))
    const others = parts.length === 1 ? parts[0]?.['additionalProperties'] : undefined
    return {
      ...(members.size > 0 && { properties }),
      ...(required.length > 0 && { required }),
      ...(others === false && !isCut && { additionalProperties: false }),
      ...(isObject(others) && members.size === 0 && { additionalProperties: this.#schema(others, at) }),
    }
  }

  /** A value and the parts of its `allOf`, each once, without their references. */
  #partsOf(value: Fields, refs: readonly string[]): readonly Fields[] {
    const seen = new Set(refs)
    const found: Fields[] = []
    const left: unknown[] = [value]
    for (let next = left.shift(); next !== undefined && found.length < PARTS_MAX; next = left.shift()) {
      const { value: part, refs: followed } = resolve(this.#document, next)
      if (followed.some((ref) => seen.has(ref))) continue
      for (const ref of followed) seen.add(ref)
      found.push(part)
      left.push(...listOf(part['allOf']).slice(0, PARTS_MAX))
    }
    return found
  }

  /** `oneOf` becomes `anyOf`, since more than one schema may fit after parts were dropped. */
  #alternatives({ oneOf, anyOf }: Fields, at: Place): JsonSchema {
    const options = [...listOf(oneOf), ...(oneOf === undefined ? listOf(anyOf) : [])]
    if (options.length === 0 || options.length > VALUES_MAX) return {}
    return { anyOf: options.map((schema) => this.#schema(schema, at)) }
  }
}

/** `type` of 3.1, or of 3.0 with `nullable`; `object` for a schema with members alone. */
function typesOf(value: Fields): string | string[] | undefined {
  const declared = [value['type']].flat().filter((type) => TYPES.includes(String(type))) as string[]
  const known = declared.length > 0 ? declared : isObject(value['properties']) ? ['object'] : []
  const types = known.length > 0 && value['nullable'] === true ? [...new Set([...known, 'null'])] : known
  return types.length > 1 ? types : types[0]
}

function describedBy({ description }: Fields): JsonSchema {
  const text = textOf(description)?.trim() ?? ''
  if (text === '') return {}
  const isLong = text.length > DESCRIPTION_CHARS_MAX
  return { description: isLong ? `${text.slice(0, DESCRIPTION_CHARS_MAX).toWellFormed()}…` : text }
}

const isScalar = (value: unknown) =>
  value === null || typeof value === 'boolean' || Number.isFinite(value) || isShortText(value)

const isShortText = (value: unknown) =>
  typeof value === 'string' && value.length <= VALUE_CHARS_MAX && textOf(value) === value

/** `enum`, or `const` of 3.1; undefined if they are too many, or not scalars alone. */
function valuesOf({ enum: many, const: one, nullable }: Fields): unknown[] | undefined {
  const values = one === undefined ? many : [one]
  if (!Array.isArray(values) || values.length === 0 || values.length > VALUES_MAX) return undefined
  if (!values.every(isScalar)) return undefined
  return [...new Set(nullable === true ? [...values, null] : values)]
}

const defaultOf = ({ default: value }: Fields): JsonSchema =>
  value !== undefined && isScalar(value) ? { default: value } : {}

const picked = (value: Fields, names: readonly string[], isValid: (one: unknown) => boolean): JsonSchema =>
  Object.fromEntries(names.filter((name) => isValid(value[name])).map((name) => [name, value[name]]))

/** Bounds of 3.1 are numbers; those of 3.0 are flags beside `minimum` and `maximum`, which then also hold. */
const exclusiveBounds = (value: Fields): JsonSchema =>
  Object.fromEntries(
    (['Minimum', 'Maximum'] as const).flatMap((bound) => {
      const exclusive = value[`exclusive${bound}`]
      const limit = exclusive === true ? value[bound.toLowerCase()] : exclusive
      return Number.isFinite(limit) ? [[`exclusive${bound}`, limit]] : []
    }),
  )

/** A description beside a schema says more than the one within it. */
export function described(schema: JsonSchema, description: unknown): JsonSchema {
  const text = textOf(description)?.trim().slice(0, DESCRIPTION_CHARS_MAX).toWellFormed() ?? ''
  return text === '' ? schema : { ...schema, description: text }
}

/** A text as PostgreSQL stores it in JSON: without NUL and halves of surrogate pairs. */
export const textOf = (value: unknown): string | undefined =>
  typeof value === 'string' ? storableText(value) : undefined
