/** Knows how a key is written that is calculated: `{(.name): 1}`. */

import type { Expression } from './expression.ts'
import type { Reader } from './reader.ts'

/** Behind a `(` that is already read. A literal that is no text can never be a key. */
export function parseCalculatedKey(reader: Reader): Expression {
  const { cursor } = reader
  const start = cursor.offset
  const key = reader.grammar.query(reader)
  if (key.op === 'literal' && typeof key.value !== 'string') {
    throw cursor.stop(`A key must be a text, not ${JSON.stringify(key.value).slice(0, 40)}.`, start)
  }
  cursor.expect(')')
  return key
}
