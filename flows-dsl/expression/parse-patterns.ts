/** Knows how the patterns behind `as` are written: `$a`, `[$a, $b]`, `{$a, b: $b, "c": [$c], (.d): $d}`. */

import type { Expression, FieldPattern, Pattern } from './expression.ts'
import { variablesOf } from './expression.ts'
import { parseText } from './literals.ts'
import { parseCalculatedKey } from './parse-keys.ts'
import type { Reader } from './reader.ts'

/** One pattern, or several with `?//` between them. */
export function parsePatterns(reader: Reader): Pattern[] {
  const patterns = [parsePattern(reader)]
  while (reader.cursor.take('?//')) patterns.push(parsePattern(reader))
  return patterns
}

function parsePattern(reader: Reader): Pattern {
  return reader.deeper(() => {
    const { cursor } = reader
    if (cursor.take('$')) return { variable: nameOf(reader) }
    if (cursor.take('[')) return { array: parseItems(reader) }
    if (cursor.take('{')) return { object: parseFields(reader) }
    throw cursor.stop(`A pattern is \`$name\`, \`[ … ]\` or \`{ … }\`, not ${cursor.here()}.`)
  })
}

function nameOf({ cursor }: Reader): string {
  const name = cursor.word()
  if (name === undefined) throw cursor.stop('A name must follow `$`.')
  return name
}

/** Names that stand further left can be used in the keys of fields further right. */
function parseItems(reader: Reader): Pattern[] {
  const items: Pattern[] = []
  do items.push(reader.within({ variables: items.flatMap(variablesOf) }, parsePattern))
  while (reader.cursor.take(','))
  reader.cursor.expect(']')
  return items
}

function parseFields(reader: Reader): FieldPattern[] {
  const fields: FieldPattern[] = []
  do {
    const variables = variablesOf({ object: fields })
    fields.push(reader.within({ variables }, parseField))
  } while (reader.cursor.take(','))
  reader.cursor.expect('}')
  return fields
}

function parseField(reader: Reader): FieldPattern {
  const { cursor } = reader
  if (cursor.take('$')) {
    const variable = nameOf(reader)
    const key = { op: 'literal', value: variable } as const
    return cursor.take(':') ? { key, variable, value: parsePattern(reader) } : { key, variable }
  }
  const key = parseKey(reader)
  cursor.expect(':')
  return { key, value: parsePattern(reader) }
}

function parseKey(reader: Reader): Expression {
  const { cursor } = reader
  cursor.blank()
  const word = cursor.word()
  if (word !== undefined) return { op: 'literal', value: word }
  if (cursor.sees('"')) return parseText(reader)
  if (!cursor.take('(')) {
    throw cursor.stop(`A field is \`$name\`, a name, a text or an expression in ( ), not ${cursor.here()}.`)
  }
  return parseCalculatedKey(reader)
}
