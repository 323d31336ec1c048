/** Parses the selection of an aggregate in a URL: `status,day:_created_at.bucket(day,Europe/Berlin),n:count()`. */

import { COLLECTION_LIMITS } from '../limits.ts'
import { readOrder } from '../query/order-and-selection.ts'
import { BETWEEN_NAMES, type PathPiece, pieceAt, refusal, type Source, toPath } from '../query/syntax.ts'
import { readFilters, readHaving } from '../query/url.ts'
import { type Aggregate, checkAggregate, type Group, type Measure } from './aggregate.ts'
import { isFunction, isMeasure, meantFunction, readBucket } from './words.ts'

const SELECT: Source = { code: 'select_invalid', in: 'query', name: 'select' }
const HAVING: Source = { code: 'filter_invalid', in: 'query', name: 'having' }
const ORDER: Source = { code: 'order_invalid', in: 'query', name: 'order' }

interface Request {
  readonly select: string
  readonly filters: readonly (readonly [string, string])[]
  readonly having: string | undefined
  readonly order: string | undefined
}

/** @throws Problem with the spelling that there is, if a part has another one */
export function readUrlAggregate({ select, filters, having, order }: Request): Aggregate {
  const columns = new SelectReader(select).all()
  const aggregate: Aggregate = {
    filter: readFilters(filters, { joins: true }),
    groups: columns.filter((column): column is Group => !('fn' in column)),
    measures: columns.filter((column): column is Measure => 'fn' in column),
    having: having === undefined ? { kind: 'all', of: [] } : readHaving(having),
    order: order === undefined ? [] : readOrder(order),
  }
  return checkAggregate(aggregate, { select: SELECT, having: HAVING, order: ORDER })
}

const COLUMNS_MAX = COLLECTION_LIMITS.groupFieldsMax + COLLECTION_LIMITS.measuresMax
const ENDS = /->|[.,:()]/g
const ARGUMENT_ENDS = /[,()]/g

/** A function with its arguments, as they are written. */
interface Call {
  readonly word: string
  readonly args: readonly string[]
}

class SelectReader {
  readonly #text: string
  #at = 0

  constructor(text: string) {
    this.#text = text
  }

  all(): (Group | Measure)[] {
    const columns = [this.#column()]
    while (this.#text[this.#at] === ',') {
      this.#at += 1
      columns.push(this.#column())
      if (columns.length > COLUMNS_MAX)
        throw refusal(SELECT, `An aggregate has at most ${COLUMNS_MAX} columns.`)
    }
    if (this.#at < this.#text.length) throw this.#unexpected('a comma or the end')
    return columns
  }

  #column(): Group | Measure {
    const from = this.#at
    let pieces = this.#path()
    let alias: string | undefined
    if (this.#text[this.#at] === ':') {
      if (this.#text[this.#at + 1] === ':') throw this.#cast()
      alias = nameOf(pieces)
      this.#at += 1
      pieces = this.#path()
    }
    const call = this.#text[this.#at] === '(' ? this.#call(pieces) : undefined
    const written = this.#text.slice(from, this.#at)
    if (this.#text.startsWith('::', this.#at)) throw this.#cast()
    return call === undefined ? toGroup(pieces, alias, written) : toColumn(pieces, call, alias)
  }

  /** Names up to a comma, a colon or a parenthesis. */
  #path(): PathPiece[] {
    const pieces: PathPiece[] = []
    for (let by = ''; ; ) {
      const { end, ...piece } = pieceAt(this.#text, this.#at, ENDS, SELECT)
      pieces.push({ ...piece, text: piece.quoted ? piece.text : piece.text.trim(), by })
      BETWEEN_NAMES.lastIndex = end
      by = BETWEEN_NAMES.exec(this.#text)?.[0] ?? ''
      this.#at = end + by.length
      if (by === '') return pieces
    }
  }

  /** Takes the last name as the function. */
  #call(pieces: PathPiece[]): Call {
    const word = pieces.pop()
    if (word === undefined || word.quoted) throw this.#unexpected('a function, not in quotes,')
    const args: string[] = []
    do {
      const { text, end } = pieceAt(this.#text, this.#at + 1, ARGUMENT_ENDS, SELECT)
      args.push(text.trim())
      this.#at = end
    } while (this.#text[this.#at] === ',')
    if (this.#text[this.#at] !== ')') throw this.#unexpected(')')
    this.#at += 1
    const [only] = args
    return { word: word.text, args: args.length === 1 && only === '' ? [] : args }
  }

  #cast(): Error {
    return refusal(SELECT, 'There are no casts (::).', 'Leave the type out. Numbers are summed exactly.')
  }

  #unexpected(expected: string): Error {
    const hint = 'select=status,day:_created_at.bucket(day,Europe/Berlin),n:count(),total:amount.sum()'
    const as = /^\s*as\s+([\p{L}\p{N}_]+)/iu.exec(this.#text.slice(this.#at))?.[1]
    const detail = `At ${this.#at} there should be ${expected}.`
    return refusal(
      SELECT,
      detail,
      as === undefined ? hint : `A name stands before: ${as.slice(0, 50)}:amount.sum()`,
    )
  }
}

/** The name of a column, which is one name of a path. */
function nameOf(pieces: readonly PathPiece[]): string {
  const [name, ...below] = toPath(pieces, SELECT)
  if (below.length === 0) return name
  throw refusal(SELECT, `${shown(pieces)} is not a name of a column.`, 'Write total:amount.sum().')
}

const shown = (pieces: readonly PathPiece[]): string =>
  pieces
    .map(({ text, quoted }) => (quoted ? JSON.stringify(text) : text))
    .join('.')
    .slice(0, 100)

function toGroup(pieces: readonly PathPiece[], alias: string | undefined, column: string): Group {
  refuseSpellings(pieces, column)
  const path = toPath(pieces, SELECT)
  const [name, ...below] = path
  if (alias !== undefined || below.length === 0) return { name: alias ?? name, path }
  const last = path.at(-1) ?? name
  const written = `${/^[\p{L}\p{N}_]+$/u.test(last) ? last : 'name'}:${shown(pieces)}`
  throw refusal(SELECT, `${shown(pieces)} needs a name in the answer.`, `Write ${written}.`)
}

/** Rejects what means a measure elsewhere. */
function refuseSpellings(pieces: readonly PathPiece[], written: string): void {
  const last = pieces.at(-1)
  if (last === undefined || last.quoted) return
  if (last.text === '*') {
    const hint = 'Write count() for the number of documents, or name the fields to group by.'
    throw refusal(SELECT, '* cannot be grouped by.', hint)
  }
  const before = pieces.slice(0, -1)
  if (isFunction(last.text) && (before.length > 0 || isMeasure(last.text))) {
    const call = `${before.length > 0 ? shown(before) : last.text === 'count' ? '' : 'amount'}.${last.text}`
    const quoted = shown([...before, { ...last, quoted: true }])
    const hint = `Write ${call.replace(/^\./, '')}(${last.text === 'bucket' ? 'day' : ''}). A field of that name is written in quotes: ${quoted}.`
    throw refusal(SELECT, `${written.slice(0, 100)} has no parentheses.`, hint)
  }
  const as = /^(\S+)\s+(?:as\s+)?(\S+)$/i.exec(last.text)
  if (as !== null)
    throw refusal(
      SELECT,
      `${written.slice(0, 100)} is not a column.`,
      `A name stands before: ${as[2]?.slice(0, 50)}:${as[1]?.slice(0, 50)}. A field of that name is written in quotes.`,
    )
}

function toColumn(pieces: readonly PathPiece[], call: Call, alias: string | undefined): Group | Measure {
  const { word, args } = call
  if (!isFunction(word)) throw unknownFunction(pieces, call)
  if (word === 'bucket') return toBucket(pieces, args, alias)
  const fn = word as Measure['fn']
  if (args.length > 0) throw misplaced(pieces, call)
  if (pieces.length > 0) return { name: alias ?? fn, fn, path: toPath(pieces, SELECT) }
  if (fn === 'count') return { name: alias ?? fn, fn }
  throw refusal(SELECT, `${fn}() needs a field.`, `Write amount.${fn}().`)
}

function toBucket(pieces: readonly PathPiece[], args: readonly string[], alias: string | undefined): Group {
  const [unit, zone, ...more] = args
  if (pieces.length === 0 || unit === undefined || more.length > 0) {
    const hint = 'Write day:_created_at.bucket(day,Europe/Berlin).'
    throw refusal(SELECT, 'bucket takes a field, a period and a time zone.', hint)
  }
  return { name: alias ?? 'bucket', path: toPath(pieces, SELECT), bucket: readBucket(unit, zone, SELECT) }
}

/** Arguments in parentheses, as SQL has them. */
function misplaced(pieces: readonly PathPiece[], { word, args }: Call): Error {
  const [first = ''] = args
  const detail = `${word} takes nothing in parentheses.`
  if (pieces.length > 0) return refusal(SELECT, detail, `Write ${shown(pieces)}.${word}().`)
  if (word === 'count' && first === '*') return refusal(SELECT, detail, 'Write count().')
  const distinct = /^distinct\s+(.+)$/i.exec(first)?.[1]
  if (distinct !== undefined)
    return refusal(SELECT, detail, `Write ${distinct.slice(0, 50)}.count_distinct().`)
  return refusal(SELECT, detail, `Write ${first.slice(0, 50)}.${word}().`)
}

function unknownFunction(pieces: readonly PathPiece[], { word, args }: Call): Error {
  const meant = meantFunction(word)
  const field = pieces.length > 0 ? shown(pieces) : (args.find((arg) => /^[\w.]+$/.test(arg)) ?? 'amount')
  const written: Readonly<Record<string, string>> = {
    bucket: `${pieces.length > 0 ? field : '_created_at'}.bucket(day,Europe/Berlin)`,
    count: 'count()',
  }
  const hint =
    meant === undefined
      ? 'There are count(), amount.count_distinct(), .sum(), .avg(), .min(), .max() and .bucket(day). Related documents are not aggregated.'
      : `Write ${written[meant] ?? `${field}.${meant}()`}.`
  return refusal(SELECT, `There is no function ${word.slice(0, 50)}.`, hint)
}
