/** The list grammar of the URL (interface.md §4): `field=operator.value` pairs, `order` and `select`. */

import { nearest } from '../../../../flows-dsl/faults.ts'
import { LIMITS } from '../../../core/limits.ts'
import { Problem } from '../../../core/problem.ts'
import type { Filter, Literal, OrderKey, Path, Test } from './filter.ts'
import { readPathTest } from './json-path.ts'
import { readPattern } from './pattern.ts'
import {
  checkText,
  commaParts,
  type Piece,
  readLiteral,
  readPath,
  refusal,
  type Source,
  split,
  toPath,
  unquoted,
} from './text.ts'

const one = (text: string, source: Source): readonly [Literal] => [readLiteral(text, source)]

/** What each operator makes of the text behind its dot. */
const TESTS: Readonly<Record<string, (text: string, source: Source) => Test>> = {
  eq: (text, source) => ({ op: 'in', values: one(text, source) }),
  in: (text, source) => ({ op: 'in', values: readList(text, source) }),
  gt: (text, source) => ({ op: 'gt', value: readLiteral(text, source) }),
  gte: (text, source) => ({ op: 'gte', value: readLiteral(text, source) }),
  lt: (text, source) => ({ op: 'lt', value: readLiteral(text, source) }),
  lte: (text, source) => ({ op: 'lte', value: readLiteral(text, source) }),
  like: (text, source) => like(text, source, false),
  ilike: (text, source) => like(text, source, true),
  json_path_eq: readPathTest,
}
const OPERATORS = [...Object.keys(TESTS), 'neq', 'is', 'not']

const like = (text: string, source: Source, fold: boolean): Test => ({
  op: 'like',
  pattern: readPattern(unquoted(text) ?? text, source),
  fold,
})

/** Keys that are, or may become, parameters: a field of such a name is written in quotes. */
const RESERVED = /^(or|and|not\.or|not\.and|not|limit|offset|count|columns|on_conflict|apikey)$|^page\[/

/** All pairs hold; the same field may come more than once. */
export function readFilters(pairs: readonly (readonly [string, string])[]): Filter {
  if (pairs.length > LIMITS.filtersMax) {
    const detail = `A query has at most ${LIMITS.filtersMax} filters; this one has ${pairs.length}.`
    throw new Problem('filter_too_large', { detail })
  }
  return { kind: 'all', of: pairs.map(readFilter) }
}

function readFilter([key, text]: readonly [string, string]): Filter {
  const source: Source = { code: 'filter_invalid', in: 'query', name: key }
  if (RESERVED.test(key)) {
    const hint = `A field of that name is written in quotes: "${key}"=eq.…`
    throw refusal({ ...source, code: 'unknown_parameter' }, `${key} is not a parameter of this route.`, hint)
  }
  return readExpression(readPath(key, source), text, source)
}

function readExpression(path: Path, text: string, source: Source): Filter {
  const [, not, operator = '', value = ''] = /^(not\.)?([a-z_]+)\.(.*)$/su.exec(text) ?? []
  const negated = not !== undefined
  if (operator === 'is') return readIs(path, value, negated, source)
  if (operator === 'neq') {
    return { kind: 'test', path, test: { op: 'in', values: one(value, source) }, not: !negated }
  }
  const read = Object.hasOwn(TESTS, operator) ? TESTS[operator] : undefined
  if (read === undefined) throw noOperator(text, operator, source)
  return { kind: 'test', path, test: read(value, source), not: negated }
}

function readIs(path: Path, value: string, negated: boolean, source: Source): Filter {
  if (value === 'null') return { kind: 'null', path, not: negated }
  if (value === 'not_null') return { kind: 'null', path, not: !negated }
  throw refusal(source, '`is` takes null or not_null.', `${source.name}=is.null`)
}

function noOperator(text: string, operator: string, source: Source): Problem {
  const name = source.name.slice(0, 100)
  const hint = `${name}=eq.${text.slice(0, 100)}`
  if (operator === '') {
    const detail = `The filter on ${name} has no operator.`
    return refusal({ ...source, code: 'filter_operator_missing' }, detail, hint)
  }
  const near = nearest(operator, OPERATORS)
  const detail = `There is no operator ${operator.slice(0, 50)}. There are ${OPERATORS.join(', ')}.`
  const better = near === undefined ? hint : `${name}=${near}.…`
  return refusal({ ...source, code: 'filter_operator_unknown' }, detail, better)
}

/** `(a,"b,c",3)`; `()` is the list of nothing. */
function readList(text: string, source: Source): Literal[] {
  const inside = /^\((.*)\)$/su.exec(text)?.[1]
  if (inside === undefined)
    throw refusal(source, '`in` takes a list in parentheses.', `${source.name}=in.(a,b)`)
  if (inside === '') return []
  const pieces = split(inside, ',', source)
  if (pieces.length > LIMITS.filterValuesMax) {
    const detail = `A list has at most ${LIMITS.filterValuesMax} elements; this one has ${pieces.length}.`
    throw refusal({ ...source, code: 'filter_too_large' }, detail, 'Ask in several queries.')
  }
  return pieces.map((piece) => readElement(piece, source))
}

function readElement({ text, quoted }: Piece, source: Source): Literal {
  checkText(text, source)
  if (quoted) return [text]
  if (text.includes(')')) throw refusal(source, 'An element with a parenthesis is written in quotes.')
  return readLiteral(text, source)
}

const DIRECTIONS = ['asc', 'desc']
const NULLS = ['nullsfirst', 'nullslast']
const ORDER: Source = { code: 'order_invalid', in: 'query', name: 'order' }

/** `a.desc.nullslast,b.c`: ascending where nothing is said; nulls last, or first when descending. */
export function readOrder(text: string): OrderKey[] {
  const parts = commaParts(text)
  if (parts.length > LIMITS.orderKeysMax)
    throw refusal(ORDER, `An order has at most ${LIMITS.orderKeysMax} keys.`)
  return parts.map(readKey)
}

function readKey(text: string): OrderKey {
  const pieces = split(text, '.', ORDER)
  const nulls = takeWord(pieces, NULLS)
  const direction = takeWord(pieces, DIRECTIONS)
  const last = pieces.at(-1)
  if (pieces.length > 1 && last !== undefined && !last.quoted) refuseAlmost(last.text)
  const path = toPath(
    pieces.map((piece) => piece.text),
    ORDER,
  )
  return orderKey(path, direction === 'desc', nulls)
}

/** Nulls stand where PostgreSQL puts them: as if they were larger than everything. */
export function orderKey(path: Path, descending: boolean, nulls?: string): OrderKey {
  return { path, descending, nullsFirst: nulls === undefined ? descending : nulls === 'nullsfirst' }
}

function takeWord(pieces: Piece[], words: readonly string[]): string | undefined {
  const last = pieces.at(-1)
  if (pieces.length < 2 || last === undefined || last.quoted || !words.includes(last.text)) return undefined
  pieces.pop()
  return last.text
}

/** `age.descc` would be a field below age that nobody has: a slip of the finger, not a wish. */
function refuseAlmost(name: string): void {
  const word = [...DIRECTIONS, ...NULLS, 'ascending', 'descending'].find(
    (known) => name.toLowerCase() === known || nearest(name, [known]) !== undefined,
  )
  if (word === undefined) return
  const hint = `Write asc, desc, nullsfirst or nullslast; a field of that name in quotes: a."${name.slice(0, 50)}".`
  throw refusal(ORDER, `${name.slice(0, 50)} is not a direction.`, hint)
}
