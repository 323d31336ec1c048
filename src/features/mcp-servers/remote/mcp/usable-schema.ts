/**
 * Reduces schemas of other servers, in any dialect of JSON Schema, to what this platform validates (flows-dsl/json-schema). The
 * result accepts every value that the given schema accepts, and perhaps more: the other server checks its arguments itself.
 */

import { fieldOf } from '../../../../../flows-dsl/json.ts'
import { patternError } from '../../../../../flows-dsl/json-schema/pattern.ts'
import {
  KEYWORDS,
  LATER_KEYWORDS,
  referenceName,
  type Shape,
  TYPES,
} from '../../../../../flows-dsl/json-schema/vocabulary.ts'
import { escapePointer, isObject } from '../../../../core/json.ts'
import { COLLECTION_LIMITS } from '../../../collections/limits.ts'
import { prepare } from '../../../collections/schemas/schema-language.ts'
import { MCP_LIMITS } from '../../limits.ts'
import type { JsonSchema } from '../../tool-name.ts'

/** Words that clients do not need, or that hide text from readers; definitions are reduced by themselves. */
const LEFT_OUT = ['$schema', '$comment', '$defs', 'definitions']
/** Words that restrict values in some dialect. All others that are unknown restrict nothing. */
const UNSUPPORTED = [...LATER_KEYWORDS, 'additionalItems', 'dependencies', '$recursiveRef']

/**
 * An open schema stays open: its server may take members that it does not describe.
 * @returns undefined if it is no schema of an object, or too large
 */
export function usableSchema(original: unknown): JsonSchema | undefined {
  if (!isObject(original)) return undefined
  const { type = isObject(original['properties']) ? 'object' : undefined } = original
  if (type !== 'object') return undefined
  const definitions = { ...asObject(original['definitions']), ...asObject(original['$defs']) }
  const reducer = new Reducer(definitions)
  const { schema } = reducer.reduce({ ...original, type }, '', 0)
  const $defs = reducer.definitions()
  const root = { ...Object(schema), ...(Object.keys($defs).length > 0 && { $defs }) } as JsonSchema
  return reducer.nodes > MCP_LIMITS.upstream.schemaNodesMax || expandsTooMuch(root) ? undefined : root
}

const asObject = (value: unknown) => (isObject(value) ? value : {})

function expandsTooMuch(root: JsonSchema): boolean {
  try {
    prepare(root)
    return false
  } catch {
    return true
  }
}

/** A schema without what is not supported. */
interface Reduced {
  readonly schema: unknown
  /** It accepts exactly what was accepted before. */
  readonly isExact: boolean
}

class Reducer {
  nodes = 0
  readonly #definitions: JsonSchema
  readonly #dropped: ReadonlySet<string>

  /** @param given the definitions that references lead to */
  constructor(original: JsonSchema) {
    this.#definitions = original
    this.#dropped = closingReferences(original)
  }

  definitions(): Record<string, unknown> {
    return Object.fromEntries(
      Object.entries(this.#definitions).map(([name, schema]) => [name, this.reduce(schema, name, 1).schema]),
    )
  }

  /** @param within the definition that it is in; empty for the root */
  reduce(original: unknown, within: string, depth: number): Reduced {
    this.nodes += 1
    // Clients of MCP refuse a whole list of tools that has a schema `true` or `false`.
    if (original === false) return { schema: { not: {} }, isExact: true }
    if (original === true) return { schema: {}, isExact: true }
    const isTooMuch =
      depth > COLLECTION_LIMITS.schemaDepthMax || this.nodes > MCP_LIMITS.upstream.schemaNodesMax
    if (!isObject(original) || isTooMuch) return { schema: {}, isExact: false }
    const usable: Record<string, unknown> = {}
    let isExact = true
    for (const [keyword, value] of Object.entries(withNull(original))) {
      if (LEFT_OUT.includes(keyword)) continue
      if (!Object.hasOwn(KEYWORDS, keyword) && !UNSUPPORTED.includes(keyword)) continue
      const one = this.#keyword(keyword, value, { within, depth })
      if (one === undefined || !one.isExact) isExact = false
      if (one !== undefined) usable[one.keyword ?? keyword] ??= one.schema
    }
    return { schema: withoutDependents(usable, original), isExact }
  }

  /** @returns undefined if the keyword is left out */
  #keyword(
    keyword: string,
    value: unknown,
    at: { readonly within: string; readonly depth: number },
  ): (Reduced & { readonly keyword?: string }) | undefined {
    const shape = fieldOf(KEYWORDS, keyword)
    const reduce = (one: unknown) => this.reduce(one, at.within, at.depth + 1)
    if (shape === 'reference') return this.#reference(value, at.within)
    if (shape === 'schema') {
      if (typeof value !== 'boolean' && !isObject(value)) return undefined
      const one = keyword === 'additionalProperties' && value === false ? exactly(false) : reduce(value)
      // With less in them, these would refuse more.
      return NEGATIVE.includes(keyword) && !one.isExact ? undefined : one
    }
    if (shape === 'schemas') {
      if (!Array.isArray(value) || value.length === 0) return undefined
      const { schema, isExact } = together(value.map(reduce))
      const all = { schema, isExact }
      return keyword === 'oneOf' && !isExact ? { ...all, keyword: 'anyOf' } : all
    }
    if (shape === 'schemaMap' || shape === 'patternMap') {
      if (!isObject(value)) return undefined
      if (shape === 'patternMap' && Object.keys(value).some((name) => patternError(name) !== undefined))
        return undefined
      return byName(Object.entries(value).map(([name, one]) => [name, reduce(one)]))
    }
    return shape !== undefined && FITS[shape](value, keyword) ? exactly(value) : undefined
  }

  #reference(value: unknown, within: string): Reduced | undefined {
    const name = targetOf(value)
    if (name === undefined || !Object.hasOwn(this.#definitions, name)) return undefined
    if (this.#dropped.has(edge(within, name))) return undefined
    return exactly(`#/$defs/${escapePointer(name)}`)
  }
}

const NEGATIVE = ['not', 'if', 'contains']
const exactly = (schema: unknown): Reduced => ({ schema, isExact: true })

function together(parts: readonly Reduced[]): Reduced {
  return { schema: parts.map(({ schema }) => schema), isExact: parts.every(({ isExact }) => isExact) }
}

function byName(parts: readonly (readonly [name: string, one: Reduced])[]): Reduced {
  const schema = Object.fromEntries(parts.map(([name, one]) => [name, one.schema]))
  return { schema, isExact: parts.every(([, { isExact }]) => isExact) }
}

/** `nullable` of OpenAPI 3.0, which generators of MCP servers use, in the words of JSON Schema. */
function withNull(original: JsonSchema): JsonSchema {
  const { nullable, type, enum: values } = original
  if (nullable !== true || type === undefined) return original
  return {
    ...original,
    type: [...new Set([type, 'null'].flat())],
    ...(Array.isArray(values) && { enum: [...new Set([...values, null])] }),
  }
}

/** Leaves out keywords that count on another one which was left out, and would refuse more without it. */
function withoutDependents(usable: Record<string, unknown>, original: JsonSchema): Record<string, unknown> {
  for (const [keyword, dependents] of Object.entries(DEPENDENTS)) {
    if (!Object.hasOwn(original, keyword) || Object.hasOwn(usable, keyword)) continue
    for (const dependent of dependents) delete usable[dependent]
  }
  return usable
}

const DEPENDENTS: Readonly<Record<string, readonly string[]>> = {
  properties: ['additionalProperties'],
  patternProperties: ['additionalProperties'],
  prefixItems: ['items'],
  contains: ['minContains', 'maxContains'],
  if: ['then', 'else'],
}

const isNames = (value: unknown) =>
  Array.isArray(value) &&
  value.every((name) => typeof name === 'string') &&
  new Set(value).size === value.length
const isType = (value: unknown) => TYPES.includes(String(value))

type OtherShape = Exclude<Shape, 'schema' | 'schemas' | 'schemaMap' | 'patternMap' | 'reference'>

const FITS: Readonly<Record<OtherShape, (value: unknown, keyword: string) => boolean>> = {
  any: () => true,
  boolean: (value) => typeof value === 'boolean',
  count: (value) => Number.isSafeInteger(value) && Number(value) >= 0,
  number: (value) => typeof value === 'number',
  positive: (value) => typeof value === 'number' && value > 0,
  // Testing the format `regex` would compile texts of callers.
  text: (value, keyword) => typeof value === 'string' && !(keyword === 'format' && value === 'regex'),
  pattern: (value) => typeof value === 'string' && patternError(value) === undefined,
  texts: isNames,
  textsMap: (value) => isObject(value) && Object.values(value).every(isNames),
  types: (value) => (Array.isArray(value) ? isNames(value) && value.every(isType) : isType(value)),
  values: (value, keyword) => Array.isArray(value) && (keyword !== 'enum' || value.length > 0),
  dialect: () => false,
}

/** The name of the definition that a reference leads to; undefined for any other reference. */
function targetOf(reference: unknown): string | undefined {
  if (typeof reference !== 'string') return undefined
  return referenceName(reference.replace(/^#\/definitions\//, '#/$defs/'))
}

const edge = (from: string, to: string) => JSON.stringify([from, to])

/** The references that close a cycle of definitions: validation would not end. */
function closingReferences(definitions: JsonSchema): ReadonlySet<string> {
  const closing = new Set<string>()
  const done = new Set<string>()
  const targets = new Map(Object.entries(definitions).map(([name, one]) => [name, targetsIn(one)]))
  const visit = (name: string, above: ReadonlySet<string>): void => {
    const inside = new Set([...above, name])
    for (const target of targets.get(name) ?? []) {
      if (inside.has(target)) closing.add(edge(name, target))
      else if (!done.has(target)) visit(target, inside)
    }
    done.add(name)
  }
  const names = [...targets.keys()]
  if (names.length <= MCP_LIMITS.upstream.schemaDepthMax * 4)
    for (const name of names) if (!done.has(name)) visit(name, new Set())
  return closing
}

function targetsIn(value: unknown): string[] {
  if (typeof value !== 'object' || value === null) return []
  const own = isObject(value) ? targetOf(value['$ref']) : undefined
  return [...(own === undefined ? [] : [own]), ...Object.values(value).flatMap(targetsIn)]
}
