/** Parses the order of a list and the selection of its fields, and projects documents to that selection. */

import Type from 'typebox'
import { nearest } from '../../../../flows-dsl/diagnostics/diagnostics.ts'
import { AnyName } from '../../../access/operation-builders.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import type { OrderKey, Path } from './filter.ts'
import { commaParts, type PathPiece, readPath, refusal, type Source, splitPath, toPath } from './syntax.ts'

/** The forms of sort keys in JSON: `{"age": -1}`, or `["age.desc.nullslast", "n"]` as in a URL. */
export const SORT_FORMS = [
  Type.Record(AnyName, Type.Union([Type.Literal(1), Type.Literal(-1)])),
  Type.Array(Type.String()),
] as const

const DIRECTIONS = ['asc', 'desc']
const NULLS = ['nullsfirst', 'nullslast']
const URL: Source = { code: 'order_invalid', in: 'query', name: 'order' }
const BODY: Source = { code: 'order_invalid', in: 'body', name: 'sort' }

/** By default ascending; nulls last, or first when descending. */
export function readOrder(text: string): OrderKey[] {
  return readKeys(commaParts(text), URL)
}

/**
 * Reads an object in the order of its members, or a list: that also expresses the position of nulls, and names that are
 * whole numbers, which JavaScript reorders in an object.
 */
export function readSort(sort: Readonly<Record<string, 1 | -1>> | readonly string[]): OrderKey[] {
  if (Array.isArray(sort)) return readKeys(sort, BODY)
  const keys = Object.entries(sort)
  checkCount(keys, BODY)
  return keys.map(([key, direction]) => orderKey(readPath(key, BODY), direction === -1))
}

function readKeys(parts: readonly string[], source: Source): OrderKey[] {
  checkCount(parts, source)
  const keys = parts.map((part) => readKey(part, source))
  const names = keys.map(({ path }) => JSON.stringify(path))
  const twice = names.findIndex((name, index) => names.indexOf(name) < index)
  if (twice >= 0)
    throw refusal(source, `${String(parts[twice]).slice(0, 50)} occurs twice.`, 'Name each field once.')
  return keys
}

function checkCount(keys: readonly unknown[], source: Source): void {
  if (keys.length > COLLECTION_LIMITS.orderKeysMax)
    throw refusal(source, `An order has at most ${COLLECTION_LIMITS.orderKeysMax} keys.`)
}

/** Spellings of other products, and what they are here. */
const SPELLINGS: readonly (readonly [RegExp, (name: string, word?: string) => string])[] = [
  [/^[-+](.+)$/su, (name) => `${name}.desc`],
  [/^(.+?)(?:\s+|:)(asc|desc)$/isu, (name, word = '') => `${name}.${word.toLowerCase()}`],
]

function refuseSpellings(text: string, source: Source): void {
  for (const [pattern, right] of SPELLINGS) {
    const [, name, word] = pattern.exec(text) ?? []
    if (name === undefined) continue
    const written = right(name, word).slice(0, 100)
    const hint = `Write ${written}, or write a field of that name in quotes: ${JSON.stringify(text.slice(0, 50))}.`
    throw refusal(source, `${text.slice(0, 50)} is not a key of an order.`, hint)
  }
}

function readKey(text: string, source: Source): OrderKey {
  refuseSpellings(text, source)
  const pieces = splitPath(text, source)
  const nulls = takeWord(pieces, NULLS)
  const direction = takeWord(pieces, DIRECTIONS)
  const last = pieces.at(-1)
  if (pieces.length > 1 && last !== undefined && isWord(last)) checkMisspelt(last.text, source)
  return orderKey(toPath(pieces, source), direction === 'desc', nulls)
}

/** By default nulls stand where PostgreSQL puts them: as if they were larger than all values. */
function orderKey(path: Path, descending: boolean, nulls?: string): OrderKey {
  return { path, descending, nullsFirst: nulls === undefined ? descending : nulls === 'nullsfirst' }
}

const isWord = ({ quoted, by }: PathPiece) => !quoted && by === '.'

function takeWord(pieces: PathPiece[], words: readonly string[]): string | undefined {
  const last = pieces.at(-1)
  if (pieces.length < 2 || last === undefined || !isWord(last) || !words.includes(last.text)) return undefined
  pieces.pop()
  return last.text
}

/** Rejects `age.descc`, which is a typing error rather than a field below age. */
function checkMisspelt(name: string, source: Source): void {
  const word = [...DIRECTIONS, ...NULLS, 'ascending', 'descending'].find(
    (known) => name.toLowerCase() === known || nearest(name, [known]) !== undefined,
  )
  if (word === undefined) return
  const hint = `Write asc, desc, nullsfirst or nullslast; a field of that name in quotes: a."${name.slice(0, 50)}".`
  throw refusal(source, `${name.slice(0, 50)} is not a direction.`, hint)
}

/** A tree of names; an empty one stands for all that is below. */
export type Selection = ReadonlyMap<string, Selection> & {
  /** Names in quotes: fields of the document, also if a reference is called so. */
  readonly quoted?: ReadonlySet<string>
}
type MutableSelection = Map<string, MutableSelection>

/**
 * `a,b.c`, or a list of such paths.
 * @returns undefined for all fields: without a selection, or `*`
 */
export function readSelection(
  requested: string | readonly string[] | undefined,
  place: Source['in'],
): Selection | undefined {
  if (requested === undefined) return undefined
  const source: Source = { code: 'select_invalid', in: place, name: 'select' }
  const parts = typeof requested === 'string' ? commaParts(requested) : requested
  if (parts.length > COLLECTION_LIMITS.fieldsSelectedMax)
    throw refusal(source, `At most ${COLLECTION_LIMITS.fieldsSelectedMax} fields can be selected.`)
  for (const part of parts) refuseEmbedding(part, source)
  if (parts.includes('*') && parts.length > 1)
    throw refusal(
      source,
      '* cannot be combined with fields, because it selects all fields.',
      'Leave select out, or name the fields.',
    )
  if (parts.includes('*')) return undefined
  const tree: MutableSelection = new Map()
  const paths = parts.map((part) => ({ path: readPath(part, source), isQuoted: part.startsWith('"') }))
  for (const { path } of paths) addPath(tree, path)
  const quoted = paths.flatMap(({ path: [name], isQuoted }) => (isQuoted ? [name] : []))
  return quoted.length === 0 ? tree : Object.assign(tree, { quoted: new Set(quoted) })
}

/** Rejects the syntax by which other products rename fields, embed related documents or aggregate. */
function refuseEmbedding(part: string, source: Source): void {
  if (part.startsWith('"')) return
  const call = /(?:^|[.:])(count|count_distinct|sum|avg|min|max|bucket)\(/.exec(part)
  if (call !== null) {
    const detail = `${part.slice(0, 50)}: a list returns documents; aggregates have a route of their own.`
    throw refusal(source, detail, `Write GET …/aggregate?select=${part.slice(0, 50)}.`)
  }
  const [, kind] = /([:(])/.exec(part) ?? []
  if (kind === undefined) return
  const isRenamed = kind === ':'
  const detail = isRenamed
    ? 'fields are not renamed.'
    : 'select takes fields; expand takes related documents.'
  const meant = isRenamed
    ? `select=${part.split(/[:(]/)[1]?.slice(0, 50) ?? ''}`
    : `expand=${part.slice(0, 50)}`
  throw refusal(
    source,
    `${part.slice(0, 50)}: ${detail}`,
    `Write ${meant}, or write a field of that name in quotes: ${JSON.stringify(part.slice(0, 50))}.`,
  )
}

/** `a,b`: names of fields of the document itself. */
export function readFieldNames(text: string | undefined, parameter: 'unset' | 'upsert' | 'on'): string[] {
  if (text === undefined) return []
  const source: Source = { code: 'validation_failed', in: 'query', name: parameter }
  const parts = commaParts(text)
  if (parts.length > COLLECTION_LIMITS.fieldsSelectedMax)
    throw refusal(source, `\`${parameter}\` names at most ${COLLECTION_LIMITS.fieldsSelectedMax} fields.`)
  return parts.map((part) => {
    const [name, ...below] = readPath(part, source)
    if (below.length === 0 && name !== 'id' && !name.startsWith('_')) return name
    throw refusal(
      source,
      `\`${parameter}\` accepts only top-level fields of the document, without system fields.`,
    )
  })
}

/** `a` beside `a.b` shows all of a, whichever comes first. */
function addPath(tree: MutableSelection, [name, ...rest]: readonly string[]): void {
  if (name === undefined) {
    tree.clear()
    return
  }
  const known = tree.get(name)
  if (known?.size === 0) return
  const below = known ?? new Map()
  tree.set(name, below)
  addPath(below, rest)
}

type Members = Record<string, unknown>

/** The selected part in the shape of the whole, without members that are missing or no objects. */
export function project<T extends { id: string }>(
  document: T,
  selection: Selection | undefined,
): { id: string } & Members {
  if (selection === undefined) return document as { id: string } & Members
  return { id: document.id, ...pickMembers(document, selection) }
}

function pickMembers(value: object, selection: Selection): Members {
  // A field may be called __proto__.
  const picked: Members = Object.create(null)
  for (const [name, below] of selection) {
    if (!Object.hasOwn(value, name)) continue
    const member = (value as Members)[name]
    if (below.size === 0) picked[name] = member
    else if (typeof member === 'object' && member !== null && !Array.isArray(member))
      picked[name] = pickMembers(member, below)
  }
  return picked
}
