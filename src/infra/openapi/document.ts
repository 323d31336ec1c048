/**
 * OpenAPI documents of other people: parses JSON and YAML, checks the version, and follows references. Nothing is fetched, and each step
 * is bounded; libraries dereference a whole document without limits (decision 29).
 */

import { parse } from 'yaml'
import { isObject, unescapePointer } from '../../core/json.ts'
import { percentDecoded } from '../http-client/parameter-styles.ts'
import { INFRA_LIMITS } from '../limits.ts'

export type Fields = Readonly<Record<string, unknown>>

/** A document, or a part of it, that cannot be used. The message is for the person who named the document. */
export class InvalidDocument extends Error {
  constructor(message: string) {
    super(message.toWellFormed().replaceAll('\0', '\ufffd'))
  }
}

/** The versions of the format that a reader takes, with their names for messages. */
interface Versions {
  readonly names: string
  readonly includes: (document: Fields) => boolean
}

const isOpenApi3 = ({ openapi }: Fields) => typeof openapi === 'string' && /^3\.[01]\.\d/.test(openapi)

export const OPENAPI_3: Versions = { names: 'OpenAPI 3.0 and 3.1', includes: isOpenApi3 }
export const ALL_VERSIONS: Versions = {
  names: 'Swagger 2.0 and OpenAPI 3.0 and 3.1',
  includes: (document) => document['swagger'] === '2.0' || isOpenApi3(document),
}

/** True for a text that is parsed as JSON. YAML may begin with a brace too, but documents of OpenAPI do not. */
export const isJsonText = (text: string): boolean => text.trimStart().startsWith('{')

/** @throws InvalidDocument for a text that is no JSON */
export const parseJsonText = (text: string): unknown => parseAs('JSON', () => JSON.parse(text))

/** A text in YAML, and the most characters that it may have as JSON. */
export interface YamlText {
  readonly text: string
  readonly charsMax: number
}

/**
 * Parses YAML, for a worker thread: the time grows with the text, and is not bounded here. Each use of an alias counts, so that nested
 * aliases cannot expand.
 * @returns the value as JSON, which rejects circular aliases
 * @throws InvalidDocument for a text that is no YAML, or expands to too much
 */
export function yamlToJson({ text, charsMax }: YamlText): string {
  const options = { maxAliasCount: 100, uniqueKeys: false, logLevel: 'error', prettyErrors: false } as const
  const json = parseAs('YAML', () => JSON.stringify(parse(text, options)) ?? 'null')
  if (json.length <= charsMax) return json
  throw new InvalidDocument('The aliases of the document expand to too much.')
}

function parseAs<T>(format: string, parser: () => T): T {
  try {
    return parser()
  } catch (error) {
    const [reason = ''] = String((error as Error).message).split('\n')
    throw new InvalidDocument(`The document is not valid ${format}: ${reason.slice(0, 200)}`)
  }
}

/** @throws InvalidDocument for another value than a document of one of these versions */
export function requireVersion(document: unknown, versions: Versions): Fields {
  if (!isObject(document)) throw new InvalidDocument('The document is no object.')
  if (versions.includes(document)) return document
  throw new InvalidDocument(`The document ${versionIn(document)}; ${versions.names} are read.`)
}

function versionIn({ openapi, swagger }: Fields): string {
  if (openapi === undefined && swagger === undefined) return 'names no version'
  const [format, version] = openapi === undefined ? ['Swagger', swagger] : ['OpenAPI', openapi]
  return `is ${format} ${String(version).slice(0, 20)}`
}

/** An object and the `$ref`s that led to it, outermost first. */
interface Resolved {
  readonly value: Fields
  readonly refs: readonly string[]
}

const { refsMax, refCharsMax } = INFRA_LIMITS.openApi

/**
 * Follows the `$ref` of a value, if it has one. Members beside a `$ref` are dropped, except its description.
 * @throws InvalidDocument for a `$ref` that leaves the document, leads to nothing, or to itself
 */
export function resolve(document: Fields, reference: unknown): Resolved {
  let value = fieldsOf(reference)
  const { description } = value
  const refs: string[] = []
  while (typeof value['$ref'] === 'string') {
    const ref = value['$ref']
    if (refs.includes(ref) || refs.length === refsMax) throw invalidRef(ref, 'leads to itself')
    if (ref.length > refCharsMax) throw invalidRef(ref, 'is too long')
    if (!/^#(\/|$)/.test(ref)) throw invalidRef(ref, 'leaves the document, and nothing else is fetched')
    refs.push(ref)
    value = targetOf(document, ref)
  }
  if (refs.length === 0 || typeof description !== 'string') return { value, refs }
  return { value: { ...value, description }, refs }
}

/** The targets of references by document: hundreds of operations share a few schemas. */
const TARGETS = new WeakMap<Fields, Map<string, Fields>>()

function targetOf(document: Fields, ref: string): Fields {
  const known = TARGETS.get(document) ?? new Map<string, Fields>()
  TARGETS.set(document, known)
  const target = known.get(ref) ?? findTarget(document, ref)
  known.set(ref, target)
  return target
}

/** Resolves a JSON pointer in a URI fragment (RFC 6901 §6). */
function findTarget(document: Fields, ref: string): Fields {
  let at: unknown = document
  for (const token of ref.slice(1).split('/').slice(1)) {
    const key = unescapePointer(percentDecoded(token))
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, key))
      throw invalidRef(ref, 'leads to nothing')
    at = (at as Fields)[key]
  }
  return fieldsOf(at)
}

const invalidRef = (ref: string, why: string) =>
  new InvalidDocument(`A \`$ref\` of the document ${why}: ${ref.slice(0, 200)}`)

/** The value if it is an object, and an empty one otherwise. */
export const fieldsOf = (value: unknown): Fields => (isObject(value) ? value : {})

/** The value if it is an array, and an empty one otherwise. */
export const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])
