/** Knows the terms that begin with a word: `if`, `try`, `reduce`, `foreach`, `break`, and calls. */

import { didYouMean } from '../faults.ts'
import { FORMAT_NAMES } from './builtins/formats.ts'
import { faultOfRegex } from './builtins/regex.ts'
import { BUILTIN_NAMES } from './builtins/tables.ts'
import type { Cursor, Stop } from './cursor.ts'
import { type Expression, variablesOf } from './expression.ts'
import { parseText } from './literals.ts'
import { parsePatterns } from './parse-patterns.ts'
import type { Reader } from './reader.ts'

/** Words that are no names of functions. */
const RESERVED = ['def', 'then', 'elif', 'else', 'end', 'as', 'catch', 'label', 'and', 'or']
const MODULES = ['module', 'import', 'include']

const KEYWORDS: Readonly<Record<string, (reader: Reader) => Expression>> = {
  if: parseIf,
  try: parseTry,
  reduce: parseReduce,
  foreach: parseForeach,
  break: parseBreak,
  true: () => ({ op: 'literal', value: true }),
  false: () => ({ op: 'literal', value: false }),
  null: () => ({ op: 'literal', value: null }),
}

/** A keyword with what belongs to it, or the call of a function. */
export function parseWord(reader: Reader): Expression {
  const { cursor } = reader
  const start = cursor.offset
  const word = cursor.word()
  if (word === undefined || RESERVED.includes(word)) throw unexpected(cursor, start)
  if (MODULES.includes(word) || cursor.sees('::')) {
    throw cursor.stop('Modules are not a part of the language.', start)
  }
  const keyword = Object.hasOwn(KEYWORDS, word) ? KEYWORDS[word] : undefined
  return keyword === undefined ? parseCall(reader, word, start) : keyword(reader)
}

/** Behind an `@`: the format of the value itself, or of what is put into the text that follows. */
export function parseFormat(reader: Reader): Expression {
  const { cursor } = reader
  const start = cursor.offset - 1
  const name = cursor.match(/\w+/y) ?? ''
  if (!FORMAT_NAMES.includes(name)) {
    throw cursor.stop(
      `There is no format @${name}.`,
      start,
      didYouMean(name, FORMAT_NAMES, '@') ?? `There are: @${FORMAT_NAMES.join(', @')}.`,
    )
  }
  return cursor.sees('"') ? parseText(reader, name) : { op: 'format', name }
}

/** A fault at a sign that cannot stand there. */
export function unexpected(cursor: Cursor, offset = cursor.offset): Stop {
  cursor.offset = offset
  return cursor.stop(`Did not expect ${cursor.here()} here.`)
}

function parseCall(reader: Reader, name: string, start: number): Expression {
  const { cursor, names } = reader
  const args = cursor.take('(') ? parseArguments(reader) : []
  const called = `${name}/${args.length}`
  if (names.functions.includes(called)) return { op: 'call', name, args }
  if (!BUILTIN_NAMES.includes(called)) throw unknownFunction(reader, name, args.length, start)
  const fault = faultOfRegex(name, args)
  if (fault !== undefined) throw cursor.stop(fault, start)
  return called === 'not/0' ? { op: 'not' } : { op: 'call', name, args }
}

function parseArguments(reader: Reader): Expression[] {
  const args: Expression[] = []
  do args.push(reader.grammar.query(reader))
  while (reader.cursor.take(';'))
  reader.cursor.expect(')')
  return args
}

function unknownFunction({ cursor, names }: Reader, name: string, arity: number, start: number): Stop {
  const known = [...names.functions, ...BUILTIN_NAMES]
  const arities = known.filter((other) => other.startsWith(`${name}/`)).map((other) => other.split('/')[1])
  if (arities.length > 0) {
    const there = `\`${name}\` takes ${[...new Set(arities)].sort().join(' or ')} arguments, not ${arity}.`
    return cursor.stop(there, start, arity === 0 ? undefined : 'A `;` stands between arguments.')
  }
  const plain = [...new Set(known.map((other) => other.split('/')[0] ?? ''))]
  return cursor.stop(
    `There is no function \`${name}\`.`,
    start,
    didYouMean(name, plain) ?? `A field is written \`.${name}\`, a text \`"${name}"\`.`,
  )
}

function parseIf(reader: Reader): Expression {
  const { cursor, grammar } = reader
  const branches: [Expression, Expression][] = []
  do {
    const condition = grammar.query(reader)
    cursor.expectWord('then')
    branches.push([condition, grammar.query(reader)])
  } while (cursor.takeWord('elif'))
  const otherwise = cursor.takeWord('else') ? grammar.query(reader) : null
  cursor.expectWord('end')
  return { op: 'if', branches, otherwise }
}

function parseTry(reader: Reader): Expression {
  const body = reader.deeper(reader.grammar.postfix)
  const caught = reader.cursor.takeWord('catch')
  return { op: 'try', body, handler: caught ? reader.deeper(reader.grammar.postfix) : null }
}

function parseReduce(reader: Reader): Expression {
  const { cursor, grammar } = reader
  const source = reader.deeper(grammar.operators)
  cursor.expectWord('as')
  const patterns = parsePatterns(reader)
  cursor.expect('(')
  const init = grammar.query(reader)
  cursor.expect(';')
  const update = reader.within({ variables: patterns.flatMap(variablesOf) }, grammar.query)
  cursor.expect(')')
  return { op: 'reduce', source, patterns, init, update }
}

function parseForeach(reader: Reader): Expression {
  const { cursor, grammar } = reader
  const source = reader.deeper(grammar.operators)
  cursor.expectWord('as')
  const patterns = parsePatterns(reader)
  const variables = patterns.flatMap(variablesOf)
  cursor.expect('(')
  const init = grammar.query(reader)
  cursor.expect(';')
  const update = reader.within({ variables }, grammar.query)
  const extract = cursor.take(';') ? reader.within({ variables }, grammar.query) : null
  cursor.expect(')')
  return { op: 'foreach', source, patterns, init, update, extract }
}

function parseBreak(reader: Reader): Expression {
  const { cursor, names } = reader
  cursor.expect('$')
  const name = cursor.word()
  if (name !== undefined && names.labels.includes(name)) return { op: 'break', name }
  throw cursor.stop(`There is no label $${name ?? ''} here.`)
}
