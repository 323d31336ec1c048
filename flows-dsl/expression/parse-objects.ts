/** Knows how objects are written in an expression. */

import type { Expression } from './expression.ts'
import { parseText } from './literals.ts'
import { parseCalculatedKey } from './parse-keys.ts'
import { parseVariable } from './parse-variables.ts'
import { parseFormat } from './parse-words.ts'
import type { Reader } from './reader.ts'

type Entry = readonly [key: Expression, value: Expression]

/** The inside of `{ }`. `{a}` is `{a: .a}` and `{$a}` is `{a: $a}`, as in jq; the `{` is already read. */
export function parseObject(reader: Reader): Expression {
  const { cursor } = reader
  const entries: Entry[] = []
  while (!cursor.take('}')) {
    entries.push(parseEntry(reader))
    if (cursor.take(',')) continue
    cursor.expect('}')
    break
  }
  return { op: 'object', entries }
}

function parseEntry(reader: Reader): Entry {
  const { cursor } = reader
  cursor.blank()
  if (cursor.take('$')) return parseVariableEntry(reader)
  const word = cursor.word()
  const short = word !== undefined || cursor.sees('"') || cursor.sees('@')
  const key = word !== undefined ? ({ op: 'literal', value: word } as const) : parseKey(reader)
  if (short && !cursor.take(':')) return [key, { op: 'index', of: { op: 'identity' }, key }]
  if (!short) cursor.expect(':')
  return [key, parseValue(reader)]
}

/** `{$a}`, `{$__loc__}`, and `{$a: 1}`, whose key is the value of `$a`. */
function parseVariableEntry(reader: Reader): Entry {
  const start = reader.cursor.offset
  const variable = parseVariable(reader)
  if (reader.cursor.take(':')) return [variable, parseValue(reader)]
  const name = reader.cursor.text.slice(start).match(/^\w+/)?.[0] ?? ''
  return [{ op: 'literal', value: name }, variable]
}

function parseKey(reader: Reader): Expression {
  const { cursor } = reader
  if (cursor.sees('"')) return parseText(reader)
  if (cursor.take('@')) return parseFormat(reader)
  if (!cursor.take('(')) {
    throw cursor.stop(`A key is a name, a text or an expression in ( ), not ${cursor.here()}.`)
  }
  return parseCalculatedKey(reader)
}

/** A comma ends the value, so it can have operators and pipes, but neither commas nor bindings. */
function parseValue(reader: Reader): Expression {
  return reader.deeper(() => {
    const left = reader.grammar.operators(reader)
    return reader.cursor.take('|') ? { op: 'pipe', left, right: parseValue(reader) } : left
  })
}
