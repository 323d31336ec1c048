/** Pieces that the query grammars share: quoting, paths, literals, and the bounds of one query. */

import { escapePointer } from '../../../core/json.ts'
import { type InputError, Problem } from '../../../core/problem.ts'
import type { ProblemCode } from '../../../core/problem-catalogue.ts'
import { readsBack } from '../../../core/strict-json.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import type { Literal, Path } from './filter.ts'

/** The origin of a piece of a query, and the problem code of its faults. */
export interface Source {
  readonly code: ProblemCode
  readonly in: InputError['in']
  readonly name: string
}

/** A problem with a part of a query. */
export function refusal(source: Source, detail: string, hint?: string): Problem {
  const name = source.name.slice(0, 100)
  const pointer = source.in === 'body' ? `/${escapePointer(name)}` : ''
  const errors = [{ in: source.in, name, pointer, detail }]
  return new Problem(source.code, { detail, errors, ...(hint !== undefined && { hint }) })
}

/** Runs a check of one member of the body, and names the member in its problem. @param pointer of the member, such as `/access/user/read` */
export function atPointer<T>(pointer: string, check: () => T): T {
  try {
    return check()
  } catch (error) {
    if (!(error instanceof Problem)) throw error
    const [name = '', ...below] = pointer.slice(1).split('/')
    const detail = error.detail ?? error.message
    const errors = error.errors.map((one) => ({
      ...one,
      in: 'body' as const,
      pointer: `${pointer}${one.pointer}`,
    }))
    throw new Problem('validation_failed', {
      detail: `${[name, ...below].join('.')}: ${detail}`,
      errors: errors.length > 0 ? errors : [{ in: 'body', name, pointer, detail }],
      ...(error.hint !== undefined && { hint: error.hint }),
      cause: error,
    })
  }
}

/** Names of the platform that a query may use. */
const SYSTEM_FIELDS = new Set(['_created_at', '_updated_at', '_version', '_owner'])

/** A piece between separators; `quoted` if it was in quotes, which are removed. */
export interface Piece {
  readonly text: string
  readonly quoted: boolean
}

/** A piece and its end. */
type Found = Piece & { readonly end: number }

/** Reads the piece at an offset: a quoted text, or everything up to the next match of `stop` (a global pattern). */
export function pieceAt(text: string, at: number, stop: RegExp, source: Source): Found {
  if (text[at] === '"') return quotedAt(text, at, source)
  stop.lastIndex = at
  const end = stop.exec(text)?.index ?? text.length
  return { text: text.slice(at, end), quoted: false, end }
}

/** Inside the quotes, a backslash takes the next character as it is. */
export function quotedAt(text: string, from: number, source: Source): Found {
  let value = ''
  for (let at = from + 1; at < text.length; at++) {
    const char = text[at]
    if (char === '"') return { text: value, quoted: true, end: at + 1 }
    if (char === '\\') at += 1
    value += text[at] ?? ''
  }
  throw refusal(source, `The quote at ${from} is not closed.`)
}

/** A name of a path, and the separator before it. */
export interface PathPiece extends Piece {
  readonly by: string
}

/** Separators of names: `a.b`, or as PostgREST has it `a->b`, and last `a->>b`. */
export const BETWEEN_NAMES = /->>?|\./y
const NAME_ENDS = /->|\./g

/** `a.b."c.d"`, `a->b->>c` */
export function splitPath(text: string, source: Source): PathPiece[] {
  const pieces: PathPiece[] = []
  let by = ''
  for (let at = 0; ; ) {
    const { end, ...piece } = pieceAt(text, at, NAME_ENDS, source)
    pieces.push({ ...piece, by })
    if (end >= text.length) return pieces
    BETWEEN_NAMES.lastIndex = end
    by = BETWEEN_NAMES.exec(text)?.[0] ?? ''
    if (by === '') throw refusal(source, `A closing quote is followed by other text at ${end}.`)
    at = end + by.length
  }
}

/** Splits at commas outside quotes and keeps the quotes in the parts. */
export function commaParts(text: string): string[] {
  const parts = ['']
  let quoted = false
  for (const [token] of text.matchAll(/\\.|./gsu)) {
    const part = parts.at(-1) ?? ''
    // A quote opens where a name begins, and nowhere else.
    if (token === '"') quoted = !quoted && /(?:^|\.|->>?)$/.test(part)
    if (token === ',' && !quoted) parts.push('')
    else parts[parts.length - 1] = part + token
  }
  return parts
}

export const readPath = (text: string, source: Source): Path => toPath(splitPath(text, source), source)

/** @throws Problem if a name is empty, too long, not storable, or begins with `_` and is no system field */
export function toPath(pieces: readonly PathPiece[], source: Source): Path {
  if (pieces.slice(0, -1).some(({ by }) => by === '->>'))
    throw refusal(source, 'A path cannot continue after ->>.')
  const names = pieces.map(({ text }) => text)
  const [first, ...rest] = names
  if (first === undefined || names.includes('')) throw refusal(source, 'A field name is empty.')
  if (names.length > COLLECTION_LIMITS.pathDepthMax)
    throw refusal(source, `A path has at most ${COLLECTION_LIMITS.pathDepthMax} names.`)
  for (const name of names) checkName(name, source)
  if (first === '_search')
    throw refusal(
      source,
      'A search stands in the filter of a list, a query, an export or an aggregate, and not in a group.',
      'Write _search=wfts.fresh milk beside the other filters.',
    )
  if (first.startsWith('_') && !(SYSTEM_FIELDS.has(first) && rest.length === 0)) {
    throw refusal(source, `The only fields that begin with _ are ${[...SYSTEM_FIELDS].join(', ')}.`)
  }
  return [first, ...rest]
}

function checkName(name: string, source: Source): void {
  if (Buffer.byteLength(name) > COLLECTION_LIMITS.fieldNameBytesMax)
    throw refusal(source, `A field name has at most ${COLLECTION_LIMITS.fieldNameBytesMax} bytes.`)
  checkText(name, source)
}

/** @throws Problem if a text contains characters that no stored text can contain */
export function checkText(text: string, source: Source): void {
  if (text.includes('\u0000'))
    throw refusal(source, 'The text contains a NUL character, which documents cannot contain.')
  if (/\p{Surrogate}/u.test(text)) throw refusal(source, 'The text contains an unpaired surrogate.')
}

const QUOTED = /^"((?:[^"\\]|\\.)*)"$/su
const NUMBER = /^-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?$/

/** A whole text as a piece; quoted if all of it is one quoted text. */
export function pieceOf(text: string): Piece {
  const content = QUOTED.exec(text)?.[1]?.replaceAll(/\\(.)/gsu, '$1')
  return { text: content ?? text, quoted: content !== undefined }
}

/**
 * Reads an untyped literal: a text if quoted, else the number or boolean that it spells, or the same text.
 * @throws Problem `filter_null_operator`, or `number_unsafe` for an integer that would be rounded
 */
export function readLiteral({ text, quoted }: Piece, source: Source): Literal {
  checkText(text, source)
  if (quoted) return [text]
  if (text === 'null')
    throw refusal({ ...source, code: 'filter_null_operator' }, `${source.name} is compared with null.`)
  if (text === 'true' || text === 'false') return [text === 'true', text]
  const number = NUMBER.test(text) ? Number(text) : Number.NaN
  if (!Number.isFinite(number) || (number === 0 && /[1-9]/.test(text.split(/e/i)[0] ?? ''))) return [text]
  if (!readsBack(text)) throw rounded(text, source)
  return [number === 0 ? 0 : number, text]
}

/** No document has such a number, and the nearest one would match others. */
function rounded(text: string, source: Source): Problem {
  const written = text.slice(0, 50)
  const detail = `${written} is an integer beyond 2^53 and would be rounded.`
  return refusal({ ...source, code: 'number_unsafe' }, detail, `Write the text in quotes: "${written}".`)
}

export type FilterOptions = Partial<Pick<Budget, 'comparesFields' | 'joins'>>

export class Budget {
  /** True if operands may be fields of the document: in conditions of declarations. */
  readonly comparesFields: boolean
  /** True if a filter may be on documents at the other end of a reference: where a store is asked. */
  readonly joins: boolean
  #left: number = COLLECTION_LIMITS.filtersMax

  constructor({ comparesFields = false, joins = false }: FilterOptions = {}) {
    this.comparesFields = comparesFields
    this.joins = joins
  }

  /** One more test. @throws Problem `filter_too_large` */
  spend(source: Source): void {
    this.#left -= 1
    if (this.#left >= 0) return
    const detail = `A query has at most ${COLLECTION_LIMITS.filtersMax} filters, those in groups among them.`
    throw refusal({ ...source, code: 'filter_too_large' }, detail)
  }

  /** @param depth of the group that opens, 1 for the outermost. @throws Problem `filter_invalid` */
  open(depth: number, source: Source): void {
    if (depth > COLLECTION_LIMITS.filterDepthMax)
      throw refusal(source, `Filters are nested at most ${COLLECTION_LIMITS.filterDepthMax} deep.`)
  }
}
