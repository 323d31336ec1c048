/** What a list is ordered by: `a.desc.nullslast,b.c` in the URL, `{a: -1}` or `["a.desc"]` in JSON. */

import { nearest } from '../../../../flows-dsl/faults.ts'
import { LIMITS } from '../../../core/limits.ts'
import type { OrderKey, Path } from './filter.ts'
import { commaParts, type PathPiece, readPath, refusal, type Source, splitPath, toPath } from './text.ts'

const DIRECTIONS = ['asc', 'desc']
const NULLS = ['nullsfirst', 'nullslast']
const URL: Source = { code: 'order_invalid', in: 'query', name: 'order' }
const BODY: Source = { code: 'order_invalid', in: 'body', name: 'sort' }

/** Ascending where nothing is said; nulls last, or first when descending. */
export function readOrder(text: string): OrderKey[] {
  return readKeys(commaParts(text), URL)
}

/**
 * An object in the order of its members; a list where that order is not the one they were written in, as with names
 * that are whole numbers, or where nulls stand elsewhere.
 */
export function readSort(sort: Readonly<Record<string, 1 | -1>> | readonly string[]): OrderKey[] {
  if (Array.isArray(sort)) return readKeys(sort, BODY)
  const keys = Object.entries(sort)
  checkCount(keys, BODY)
  return keys.map(([key, direction]) => orderKey(readPath(key, BODY), direction === -1))
}

function readKeys(parts: readonly string[], source: Source): OrderKey[] {
  checkCount(parts, source)
  return parts.map((part) => readKey(part, source))
}

function checkCount(keys: readonly unknown[], source: Source): void {
  if (keys.length > LIMITS.orderKeysMax)
    throw refusal(source, `An order has at most ${LIMITS.orderKeysMax} keys.`)
}

function readKey(text: string, source: Source): OrderKey {
  const pieces = splitPath(text, source)
  const nulls = takeWord(pieces, NULLS)
  const direction = takeWord(pieces, DIRECTIONS)
  const last = pieces.at(-1)
  if (pieces.length > 1 && last !== undefined && isWord(last)) refuseAlmost(last.text, source)
  return orderKey(toPath(pieces, source), direction === 'desc', nulls)
}

/** Nulls stand where PostgreSQL puts them: as if they were larger than everything. */
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

/** `age.descc` would be a field below age that nobody has: a slip of the finger, not a wish. */
function refuseAlmost(name: string, source: Source): void {
  const word = [...DIRECTIONS, ...NULLS, 'ascending', 'descending'].find(
    (known) => name.toLowerCase() === known || nearest(name, [known]) !== undefined,
  )
  if (word === undefined) return
  const hint = `Write asc, desc, nullsfirst or nullslast; a field of that name in quotes: a."${name.slice(0, 50)}".`
  throw refusal(source, `${name.slice(0, 50)} is not a direction.`, hint)
}
