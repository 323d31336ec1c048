/** Knows what a term is, and what can be attached to one: fields, indices, slices, `?`. */

import type { Expression, Of } from './expression.ts'
import { parseText } from './literals.ts'
import { parseObject } from './parse-objects.ts'
import { parseVariable } from './parse-variables.ts'
import { parseFormat, parseWord, unexpected } from './parse-words.ts'
import type { Reader } from './reader.ts'

const NUMBER = /(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?/y

/** A term with all that is attached to it: `.a.b`, `.["x"]?`, `$name.path[0]`, `-.a`, `f(.)[]`. */
export function parsePostfix(reader: Reader): Expression {
  if (!reader.cursor.take('-')) return parseSuffixes(reader, parseTerm(reader))
  const of = reader.deeper(parsePostfix)
  // A minus before zero is a value of its own, which JSON would lose.
  return of.op === 'literal' && typeof of.value === 'number' && of.value !== 0
    ? { op: 'literal', value: -of.value }
    : { op: 'negate', of }
}

function parseSuffixes(reader: Reader, term: Expression): Expression {
  let path = term
  for (;;) {
    const next = parseSuffix(reader, path)
    if (next === undefined) return path
    path = next
  }
}

function parseSuffix(reader: Reader, of: Expression): Expression | undefined {
  const { cursor } = reader
  cursor.blank()
  const start = cursor.offset
  if (takeOptional(reader)) return { op: 'try', body: of, handler: null }
  if (cursor.sees('[')) return optional(reader, parseBrackets(reader, of))
  if (cursor.match(/\.(?!\d)/y) === undefined) return undefined
  const key = parseName(reader)
  if (key !== undefined) return optional(reader, { op: 'index', of, key })
  if (!cursor.sees('[')) throw unexpected(cursor, start)
  return optional(reader, parseBrackets(reader, of))
}

function takeOptional({ cursor }: Reader): boolean {
  cursor.blank()
  return cursor.match(/\?(?!\/\/)/y) !== undefined
}

/** A `?` right behind a part of a path belongs to that part alone. */
function optional(reader: Reader, part: Access): Expression {
  return takeOptional(reader) ? { ...part, optional: true } : part
}

type Access = Of<'index' | 'slice' | 'iterate'>

/** The name of a field behind its dot. */
function parseName(reader: Reader): Expression | undefined {
  const word = reader.cursor.word()
  if (word !== undefined) return { op: 'literal', value: word }
  return reader.cursor.sees('"') ? parseText(reader) : undefined
}

/** `[]`, `[key]`, `[from:to]`, `[from:]`, `[:to]`. */
function parseBrackets(reader: Reader, of: Expression): Access {
  const { cursor } = reader
  cursor.expect('[')
  if (cursor.take(']')) return { op: 'iterate', of }
  if (cursor.take(':')) return { op: 'slice', of, from: null, to: parseLast(reader) }
  const key = reader.grammar.query(reader)
  if (cursor.take(']')) return { op: 'index', of, key }
  if (!cursor.take(':')) throw cursor.stop(`Expected \`]\` but found ${cursor.here()}.`)
  if (cursor.take(']')) return { op: 'slice', of, from: key, to: null }
  return { op: 'slice', of, from: key, to: parseLast(reader) }
}

function parseLast(reader: Reader): Expression {
  const last = reader.grammar.query(reader)
  reader.cursor.expect(']')
  return last
}

function parseTerm(reader: Reader): Expression {
  const { cursor } = reader
  cursor.blank()
  const number = cursor.match(NUMBER)
  if (number !== undefined) return { op: 'literal', value: numberOf(number) }
  if (cursor.sees('.')) return parseDot(reader)
  if (cursor.sees('"')) return parseText(reader)
  if (cursor.take('$')) return parseVariable(reader)
  if (cursor.take('@')) return parseFormat(reader)
  if (cursor.take('[')) return parseArray(reader)
  if (cursor.take('{')) return parseObject(reader)
  if (!cursor.take('(')) return parseWord(reader)
  const inner = reader.grammar.query(reader)
  cursor.expect(')')
  return inner
}

/** `.`, `.name`, `."name"`, `.[…]` and `..`. */
function parseDot(reader: Reader): Expression {
  const { cursor } = reader
  if (cursor.take('..')) return { op: 'call', name: 'recurse', args: [] }
  cursor.take('.')
  const key = parseName(reader)
  return key === undefined
    ? { op: 'identity' }
    : optional(reader, { op: 'index', of: { op: 'identity' }, key })
}

function parseArray(reader: Reader): Expression {
  if (reader.cursor.take(']')) return { op: 'array', items: [] }
  const inside = reader.grammar.query(reader)
  reader.cursor.expect(']')
  return { op: 'array', items: inside.op === 'comma' ? inside.items : [inside] }
}

/** What is too large for a double is the largest one: so jq writes it. */
function numberOf(text: string): number {
  return Math.min(Number(text), Number.MAX_VALUE)
}
