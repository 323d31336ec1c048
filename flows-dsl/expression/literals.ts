/** Knows how texts and objects are written in an expression. */

import type { Expression } from './expression.ts'
import type { Reader } from './reader.ts'

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

/**
 * A text in double quotes, with the escapes of JSON and `\( … )`, whose value is put in.
 * @param format how values that are put in are written, without `@`
 */
export function parseText(reader: Reader, format?: string): Expression {
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
    parts.push({ op: 'literal', value: plain }, reader.grammar.query(reader))
    plain = ''
    cursor.expect(')')
  }
  if (parts.length === 0) return { op: 'literal', value: plain }
  return { op: 'text', parts: [...parts, { op: 'literal', value: plain }], ...(format && { format }) }
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
