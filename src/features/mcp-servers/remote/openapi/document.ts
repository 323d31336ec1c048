/** An OpenAPI document: parsed from JSON or YAML, with its local references. Documents are untrusted, and nothing is fetched. */

import { parse } from 'yaml'
import { unescaped } from '../../../../../flows-dsl/json.ts'
import { isObject } from '../../../../core/json.ts'
import { percentDecoded } from '../../../../infra/http-client/parameter-styles.ts'
import { MCP_LIMITS } from '../../limits.ts'

export type Fields = Readonly<Record<string, unknown>>

/** A document, or a part of it, that cannot be read. The message is for the admin. */
export class DocumentFault extends Error {
  constructor(message: string) {
    super(textOf(message))
  }
}

/** `$ref` to `$ref` to … */
const CHAIN_MAX = 20
const REF_CHARS_MAX = 1_000

/**
 * Parses JSON if the text begins with a brace, else YAML.
 * @throws DocumentFault for another text than a document of OpenAPI 3.0 or 3.1
 */
export function parseDocument(text: string): Fields {
  const document = text.trimStart().startsWith('{') ? parsed(JSON.parse, text, 'JSON') : fromYaml(text)
  if (!isObject(document)) throw new DocumentFault('The document is no object.')
  const { openapi, swagger } = document
  if (typeof openapi === 'string' && /^3\.[01]\.\d+/.test(openapi)) return document
  const found =
    openapi === undefined && swagger === undefined ? 'names no version' : `is ${versionOf(document)}`
  throw new DocumentFault(`The document ${found}; OpenAPI 3.0 and 3.1 are read.`)
}

const versionOf = ({ openapi, swagger }: Fields) =>
  openapi === undefined
    ? `Swagger ${String(swagger).slice(0, 20)}`
    : `OpenAPI ${String(openapi).slice(0, 20)}`

function parsed(parser: (text: string) => unknown, text: string, format: string): unknown {
  try {
    return parser(text)
  } catch (error) {
    const [reason = ''] = String((error as Error).message).split('\n')
    throw new DocumentFault(`The document is not valid ${format}: ${reason.slice(0, 200)}`)
  }
}

/** Each use of an alias counts, so that nested aliases cannot expand. Copying by JSON rejects circular aliases. */
function fromYaml(text: string): unknown {
  const options = { maxAliasCount: 100, uniqueKeys: false, logLevel: 'error', prettyErrors: false } as const
  const json = parsed((yaml) => JSON.stringify(parse(yaml, options)) ?? 'null', text, 'YAML') as string
  if (json.length <= 2 * MCP_LIMITS.sources.documentBytesMax) return JSON.parse(json)
  throw new DocumentFault('The aliases of the document expand to too much.')
}

/** An object and the `$ref`s that led to it, outermost first. */
interface Resolved {
  readonly value: Fields
  readonly refs: readonly string[]
}

/**
 * Follows the `$ref` of a value, if it has one. Members beside a `$ref` are dropped, except its description.
 * @throws DocumentFault for a `$ref` that leaves the document, leads to nothing, or to itself
 */
export function resolve(document: Fields, given: unknown): Resolved {
  let value = fieldsOf(given)
  const { description } = value
  const refs: string[] = []
  while (typeof value['$ref'] === 'string') {
    const ref = value['$ref']
    if (refs.includes(ref) || refs.length === CHAIN_MAX) throw fault(ref, 'leads to itself')
    if (ref.length > REF_CHARS_MAX) throw fault(ref, 'is too long')
    if (!/^#(\/|$)/.test(ref)) throw fault(ref, 'leaves the document, and nothing else is fetched')
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
  for (const part of ref.slice(1).split('/').slice(1)) {
    const key = unescaped(percentDecoded(part))
    if (typeof at !== 'object' || at === null || !Object.hasOwn(at, key)) throw fault(ref, 'leads to nothing')
    at = (at as Fields)[key]
  }
  return fieldsOf(at)
}

const fault = (ref: string, why: string) =>
  new DocumentFault(`It has a $ref that ${why}: ${ref.slice(0, 200)}`)

/** A description beside a schema says more than the one within it. */
export function described(schema: Fields, { description }: Fields): Fields {
  const text = textOf(description)?.trim().slice(0, 1_000).toWellFormed() ?? ''
  return text === '' ? schema : { ...schema, description: text }
}

export const fieldsOf = (value: unknown): Fields => (isObject(value) ? value : {})

export const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

/** A text as PostgreSQL stores it in JSON: without NUL and halves of surrogate pairs. */
export const textOf = (value: unknown): string | undefined =>
  typeof value === 'string' ? value.toWellFormed().replaceAll('\0', '\ufffd') : undefined
