/** Knows how texts and objects are written in an expression. */

import type { Reader } from './cursor.ts'
import type { Expression } from './expression.ts'

const PLAIN = /[^"\\]+/y
const HEX = /[0-9a-fA-F]{4}/y
const ESCAPES: Readonly<Record<string, string>> = {
  '"': '"',
  '\\': '\\',
  '/': '/',
  b: '\b',
  f: '\f',
  n: '\n',
  r: '\r',
  t: '\t',
}

/** A text in double quotes, with the escapes of JSON and `\( … )`, whose value is put in. */
export function parseText(reader: Reader): Expression {
  const { cursor } = reader
  const parts: Expression[] = []
  let plain = ''
  cursor.expect('"')
  for (;;) {
    plain += cursor.match(PLAIN) ?? ''
    if (cursor.match(/"/y) !== undefined) break
    if (cursor.match(/\\\(/y) === undefined) {
      plain += escaped(reader)
      continue
    }
    parts.push({ op: 'literal', value: plain }, reader.nested(reader))
    plain = ''
    cursor.expect(')')
  }
  if (parts.length === 0) return { op: 'literal', value: plain }
  return { op: 'text', parts: [...parts, { op: 'literal', value: plain }] }
}

function escaped({ cursor }: Reader): string {
  const start = cursor.offset
  if (cursor.match(/\\/y) === undefined) throw cursor.stop('The text is not closed; a `"` is missing.')
  const sign = cursor.match(/[\s\S]/y) ?? ''
  const plain = ESCAPES[sign]
  if (plain !== undefined) return plain
  const unit = sign === 'u' ? hex(cursor.match(HEX)) : undefined
  if (unit === undefined) throw cursor.stop(`\`\\${sign}\` is no escape of a text.`, start)
  if (unit < 0xd800 || unit > 0xdfff) return String.fromCharCode(unit)
  const low = unit < 0xdc00 && cursor.match(/\\u/y) !== undefined ? hex(cursor.match(HEX)) : undefined
  if (low === undefined || low < 0xdc00 || low > 0xdfff) throw cursor.stop('Half of a surrogate pair.', start)
  return String.fromCharCode(unit, low)
}

function hex(digits: string | undefined): number | undefined {
  return digits === undefined ? undefined : Number.parseInt(digits, 16)
}

/** The inside of `{ }`. `{a}` is `{a: .a}` and `{$a}` is `{a: $a}`, as in jq; the `{` is already read. */
export function parseObject(reader: Reader): Expression {
  const { cursor } = reader
  const entries: (readonly [Expression, Expression])[] = []
  while (!cursor.take('}')) {
    entries.push(parseEntry(reader))
    if (cursor.take(',')) continue
    cursor.expect('}')
    break
  }
  return { op: 'object', entries }
}

function parseEntry(reader: Reader): readonly [Expression, Expression] {
  const { cursor } = reader
  cursor.blank()
  if (cursor.take('$')) {
    const variable = reader.variable(reader)
    return [{ op: 'literal', value: variable.op === 'variable' ? variable.name : '' }, variable]
  }
  const word = cursor.word()
  const short = word !== undefined || cursor.text[cursor.offset] === '"'
  const key = word !== undefined ? ({ op: 'literal', value: word } as const) : parseKey(reader)
  if (short && !cursor.take(':')) return [key, { op: 'index', of: { op: 'identity' }, key }]
  if (!short) cursor.expect(':')
  return [key, reader.nested(reader)]
}

function parseKey(reader: Reader): Expression {
  const { cursor } = reader
  if (cursor.text[cursor.offset] === '"') return parseText(reader)
  if (!cursor.take('(')) {
    throw cursor.stop(`A key is a name, a text or an expression in ( ), not ${cursor.here()}.`)
  }
  const key = reader.nested(reader)
  cursor.expect(')')
  return key
}
