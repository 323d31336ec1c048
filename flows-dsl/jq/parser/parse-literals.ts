/** Parses strings, formats, variables, objects, and the patterns after `as`. */

import { didYouMean } from '../../diagnostics/diagnostics.ts'
import { VARIABLES } from '../../diagnostics/remedies.ts'
import { fieldOf } from '../../json.ts'
import { FORMAT_NAMES } from '../builtins/formats.ts'
import { type Expression, type FieldPattern, type Pattern, variablesOf } from '../expression.ts'
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
 * A string in double quotes, with the escapes of JSON and `\( … )` for interpolated values.
 * @param format of interpolated values, without `@`
 */
export function parseText(reader: Reader, format?: string): Expression {
  const parts: Expression[] = []
  let plain = ''
  reader.expect('"')
  for (;;) {
    plain += reader.match(PLAIN) ?? ''
    if (reader.match(/"/y) !== undefined) break
    if (reader.match(/\\\(/y) === undefined) {
      plain += parseEscape(reader)
      continue
    }
    parts.push({ op: 'literal', value: plain }, reader.grammar.query(reader))
    plain = ''
    reader.expect(')')
  }
  if (parts.length === 0) return { op: 'literal', value: plain }
  return { op: 'text', parts: [...parts, { op: 'literal', value: plain }], ...(format && { format }) }
}

function parseEscape(reader: Reader): string {
  const start = reader.offset
  if (reader.match(/\\/y) === undefined) throw reader.syntaxError('The text is not closed; a `"` is missing.')
  const sign = reader.match(/[\s\S]/y) ?? ''
  const plain = ESCAPES[sign]
  if (plain !== undefined) return plain
  const unit = sign === 'u' ? parseHex(reader) : undefined
  if (unit === undefined) throw reader.syntaxError(`\`\\${sign}\` is no escape of a text.`, start)
  if (unit < 0xd800 || unit > 0xdfff) return String.fromCharCode(unit)
  const low = unit < 0xdc00 && reader.match(/\\u/y) !== undefined ? parseHex(reader) : undefined
  if (low === undefined || low < 0xdc00 || low > 0xdfff)
    throw reader.syntaxError('Half of a surrogate pair.', start)
  return String.fromCharCode(unit, low)
}

function parseHex(reader: Reader): number | undefined {
  const digits = reader.match(HEX)
  return digits === undefined ? undefined : Number.parseInt(digits, 16)
}

/** After an `@`: the format of the value itself, or of the values interpolated into the string that follows. */
export function parseFormat(reader: Reader): Expression {
  const start = reader.offset - 1
  const name = reader.match(/\w+/y) ?? ''
  if (!FORMAT_NAMES.includes(name)) {
    const hint = didYouMean(name, FORMAT_NAMES, '@') ?? `There are: @${FORMAT_NAMES.join(', @')}.`
    throw reader.syntaxError(`There is no format @${name}.`, start, hint)
  }
  return reader.isNext('"') ? parseText(reader, name) : { op: 'format', name }
}

/** After a `$`. `$ENV` is empty: a flow has no environment variables. */
export function parseVariable(reader: Reader): Expression {
  const start = reader.offset
  const name = reader.expectVariableName()
  const { variables } = reader.names
  if (variables.includes(name)) return { op: 'variable', name }
  if (name === 'ENV') return { op: 'literal', value: {} }
  if (name === '__loc__') {
    const line = reader.text.slice(0, start).split('\n').length
    return { op: 'literal', value: { file: '<top-level>', line } }
  }
  const all = `There are: ${variables.map((variable) => `$${variable}`).join(', ')}.`
  const hint = fieldOf(VARIABLES, name) ?? didYouMean(name, variables, '$') ?? all
  throw reader.syntaxError(`There is no variable $${name} here.`, start - 1, hint)
}

type Entry = readonly [key: Expression, value: Expression]

/** After a `{`. `{a}` is `{a: .a}` and `{$a}` is `{a: $a}`, as in jq. */
export function parseObject(reader: Reader): Expression {
  const entries: Entry[] = []
  while (!reader.take('}')) {
    entries.push(parseEntry(reader))
    if (reader.take(',')) continue
    reader.expect('}')
    break
  }
  return { op: 'object', entries }
}

function parseEntry(reader: Reader): Entry {
  reader.blank()
  if (reader.take('$')) return parseVariableEntry(reader)
  const isCalculated = reader.isNext('(')
  const key = reader.take('@') ? parseFormat(reader) : parseKey(reader, 'A key is')
  if (!isCalculated && !reader.take(':')) return [key, { op: 'index', of: { op: 'identity' }, key }]
  if (isCalculated) reader.expect(':')
  return [key, parseValue(reader)]
}

/** `{$a}`, `{$__loc__}`, and `{$a: 1}`, whose key is the value of `$a`. */
function parseVariableEntry(reader: Reader): Entry {
  const start = reader.offset
  const variable = parseVariable(reader)
  if (reader.take(':')) return [variable, parseValue(reader)]
  const name = reader.text.slice(start).match(/^\w+/)?.[0] ?? ''
  return [{ op: 'literal', value: name }, variable]
}

/** A comma ends the value, so it can have operators and pipes, but neither commas nor bindings. */
function parseValue(reader: Reader): Expression {
  return reader.nested(() => {
    const left = reader.grammar.operators(reader)
    return reader.take('|') ? { op: 'pipe', left, right: parseValue(reader) } : left
  })
}

/** A key: a name, a string, or an expression in parentheses. A literal that is not a string can never be a key. */
function parseKey(reader: Reader, subject: string): Expression {
  reader.blank()
  const word = reader.word()
  if (word !== undefined) return { op: 'literal', value: word }
  if (reader.isNext('"')) return parseText(reader)
  if (!reader.take('(')) {
    throw reader.syntaxError(
      `${subject} a name, a text or an expression in ( ), not ${reader.describeNext()}.`,
    )
  }
  const start = reader.offset
  const key = reader.grammar.query(reader)
  if (key.op === 'literal' && typeof key.value !== 'string') {
    throw reader.syntaxError(`A key must be a text, not ${JSON.stringify(key.value).slice(0, 40)}.`, start)
  }
  reader.expect(')')
  return key
}

/** One pattern, or several with `?//` between them: `$a`, `[$a, $b]`, `{$a, b: $b, "c": [$c], (.d): $d}`. */
export function parsePatterns(reader: Reader): Pattern[] {
  const patterns = [parsePattern(reader)]
  while (reader.take('?//')) patterns.push(parsePattern(reader))
  return patterns
}

function parsePattern(reader: Reader): Pattern {
  return reader.nested(() => {
    if (reader.take('$')) return { variable: reader.expectVariableName() }
    if (reader.take('[')) return { array: parseItems(reader) }
    if (reader.take('{')) return { object: parseFields(reader) }
    throw reader.syntaxError(`A pattern is \`$name\`, \`[ … ]\` or \`{ … }\`, not ${reader.describeNext()}.`)
  })
}

/** The keys of fields can use the variables of patterns to their left. */
function parseItems(reader: Reader): Pattern[] {
  const items: Pattern[] = []
  do items.push(reader.withNames({ variables: items.flatMap(variablesOf) }, parsePattern))
  while (reader.take(','))
  reader.expect(']')
  return items
}

function parseFields(reader: Reader): FieldPattern[] {
  const fields: FieldPattern[] = []
  do fields.push(reader.withNames({ variables: variablesOf({ object: fields }) }, parseField))
  while (reader.take(','))
  reader.expect('}')
  return fields
}

function parseField(reader: Reader): FieldPattern {
  if (reader.take('$')) {
    const variable = reader.expectVariableName()
    const key = { op: 'literal', value: variable } as const
    return reader.take(':') ? { key, variable, value: parsePattern(reader) } : { key, variable }
  }
  const key = parseKey(reader, 'A field is `$name`,')
  reader.expect(':')
  return { key, value: parsePattern(reader) }
}
