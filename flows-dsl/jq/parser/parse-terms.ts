/** Parses terms and their suffixes: paths, literals, arrays, keywords and calls. */

import { didYouMean } from '../../diagnostics/diagnostics.ts'
import { FUNCTIONS } from '../../diagnostics/remedies.ts'
import { fieldOf, losesDigits } from '../../json.ts'
import { BUILTIN_NAMES } from '../builtins/builtins.ts'
import { diagnoseRegex } from '../builtins/strings.ts'
import { type Expression, type Node, variablesOf } from '../expression.ts'
import { parseFormat, parseObject, parsePatterns, parseText, parseVariable } from './parse-literals.ts'
import type { ExpressionSyntaxError, Reader } from './reader.ts'

const NUMBER = /(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?/y

/** A term with its suffixes: `.a.b`, `.["x"]?`, `$name.path[0]`, `-.a`, `f(.)[]`. */
export function parsePostfix(reader: Reader): Expression {
  if (!reader.take('-')) {
    let path = parseTerm(reader)
    for (;;) {
      const next = parseSuffix(reader, path)
      if (next === undefined) return path
      path = next
    }
  }
  const of = reader.nested(parsePostfix)
  // Negative zero is a value of its own, which JSON would lose.
  return of.op === 'literal' && typeof of.value === 'number' && of.value !== 0
    ? { op: 'literal', value: -of.value }
    : { op: 'negate', of }
}

function parseSuffix(reader: Reader, of: Expression): Expression | undefined {
  reader.blank()
  const start = reader.offset
  if (takeOptional(reader)) return { op: 'try', body: of, handler: null }
  if (reader.isNext('[')) return optional(reader, parseBrackets(reader, of))
  if (reader.match(/\.(?!\d)/y) === undefined) return undefined
  const key = parseFieldName(reader)
  if (key !== undefined) return optional(reader, { op: 'index', of, key })
  if (!reader.isNext('[')) throw reader.unexpected(start)
  return optional(reader, parseBrackets(reader, of))
}

function takeOptional(reader: Reader): boolean {
  reader.blank()
  return reader.match(/\?(?!\/\/)/y) !== undefined
}

type Access = Node<'index' | 'slice' | 'iterate'>

/** A `?` directly after a part of a path belongs to that part alone. */
function optional(reader: Reader, part: Access): Expression {
  return takeOptional(reader) ? { ...part, optional: true } : part
}

/** The name of a field after its dot. */
function parseFieldName(reader: Reader): Expression | undefined {
  const word = reader.word()
  if (word !== undefined) return { op: 'literal', value: word }
  return reader.isNext('"') ? parseText(reader) : undefined
}

/** `[]`, `[key]`, `[from:to]`, `[from:]`, `[:to]`. */
function parseBrackets(reader: Reader, of: Expression): Access {
  reader.expect('[')
  if (reader.take(']')) return { op: 'iterate', of }
  if (reader.take(':')) return { op: 'slice', of, from: null, to: parseLast(reader) }
  const key = reader.grammar.query(reader)
  if (reader.take(']')) return { op: 'index', of, key }
  if (!reader.take(':')) throw reader.syntaxError(`Expected \`]\` but found ${reader.describeNext()}.`)
  if (reader.take(']')) return { op: 'slice', of, from: key, to: null }
  return { op: 'slice', of, from: key, to: parseLast(reader) }
}

function parseLast(reader: Reader): Expression {
  const last = reader.grammar.query(reader)
  reader.expect(']')
  return last
}

function parseTerm(reader: Reader): Expression {
  reader.blank()
  const start = reader.offset
  const number = reader.match(NUMBER)
  if (number !== undefined && losesDigits(number)) {
    const hint = 'Write it as text, in quotes.'
    throw reader.syntaxError('The integer is beyond 2^53 and would lose digits.', start, hint)
  }
  // Numbers too large for a double become the largest double, as in jq's output.
  if (number !== undefined) return { op: 'literal', value: Math.min(Number(number), Number.MAX_VALUE) }
  if (reader.isNext('.')) return parseDot(reader)
  if (reader.isNext('"')) return parseText(reader)
  if (reader.take('$')) return parseVariable(reader)
  if (reader.take('@')) return parseFormat(reader)
  if (reader.take('[')) return parseArray(reader)
  if (reader.take('{')) return parseObject(reader)
  if (!reader.take('(')) return parseWord(reader)
  const inner = reader.grammar.query(reader)
  reader.expect(')')
  return inner
}

/** `.`, `.name`, `."name"`, `.[…]` and `..`. */
function parseDot(reader: Reader): Expression {
  if (reader.take('..')) return { op: 'call', name: 'recurse', args: [] }
  reader.take('.')
  const key = parseFieldName(reader)
  return key === undefined
    ? { op: 'identity' }
    : optional(reader, { op: 'index', of: { op: 'identity' }, key })
}

function parseArray(reader: Reader): Expression {
  if (reader.take(']')) return { op: 'array', items: [] }
  const inside = parseLast(reader)
  return { op: 'array', items: inside.op === 'comma' ? inside.items : [inside] }
}

/** Words that are not names of functions. */
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

/** A keyword with its operands, or a call of a function. */
function parseWord(reader: Reader): Expression {
  const start = reader.offset
  const word = reader.word()
  if (word === undefined || RESERVED.includes(word)) throw reader.unexpected(start)
  if (MODULES.includes(word) || reader.isNext('::')) {
    throw reader.syntaxError('Modules are not a part of the language.', start)
  }
  const keyword = fieldOf(KEYWORDS, word)
  return keyword === undefined ? parseCall(reader, word, start) : keyword(reader)
}

function parseCall(reader: Reader, name: string, start: number): Expression {
  const args = reader.take('(') ? parseArguments(reader) : []
  const called = `${name}/${args.length}`
  if (reader.names.functions.includes(called)) return { op: 'call', name, args }
  if (!BUILTIN_NAMES.includes(called)) throw unknownFunction(reader, name, args.length, start)
  const message = diagnoseRegex(name, args)
  if (message !== undefined) throw reader.syntaxError(message, start)
  return called === 'not/0' ? { op: 'not' } : { op: 'call', name, args }
}

function parseArguments(reader: Reader): Expression[] {
  const args: Expression[] = []
  do args.push(reader.grammar.query(reader))
  while (reader.take(';'))
  reader.expect(')')
  return args
}

function unknownFunction(reader: Reader, name: string, arity: number, start: number): ExpressionSyntaxError {
  const known = [...reader.names.functions, ...BUILTIN_NAMES].map((other) => other.split('/'))
  const arities = known.filter(([other]) => other === name).map(([, other]) => other)
  if (arities.length > 0) {
    const message = `\`${name}\` takes ${[...new Set(arities)].sort().join(' or ')} arguments, not ${arity}.`
    return reader.syntaxError(message, start, arity === 0 ? undefined : 'A `;` stands between arguments.')
  }
  const names = [...new Set(known.map(([other = '']) => other))]
  const hint =
    fieldOf(FUNCTIONS, name) ??
    didYouMean(name, names) ??
    `A field is written \`.${name}\`, a text \`"${name}"\`.`
  return reader.syntaxError(`There is no function \`${name}\`.`, start, hint)
}

function parseIf(reader: Reader): Expression {
  const { query } = reader.grammar
  const branches: [Expression, Expression][] = []
  do {
    const condition = query(reader)
    reader.expectWord('then')
    branches.push([condition, query(reader)])
  } while (reader.takeWord('elif'))
  const otherwise = reader.takeWord('else') ? query(reader) : null
  reader.expectWord('end')
  return { op: 'if', branches, otherwise }
}

function parseTry(reader: Reader): Expression {
  const { postfix } = reader.grammar
  const body = reader.nested(postfix)
  return { op: 'try', body, handler: reader.takeWord('catch') ? reader.nested(postfix) : null }
}

function parseReduce(reader: Reader): Expression {
  const fold = parseFold(reader)
  reader.expect(')')
  return { op: 'reduce', ...fold }
}

function parseForeach(reader: Reader): Expression {
  const fold = parseFold(reader)
  const variables = fold.patterns.flatMap(variablesOf)
  const extract = reader.take(';') ? reader.withNames({ variables }, reader.grammar.query) : null
  reader.expect(')')
  return { op: 'foreach', ...fold, extract }
}

/** `source as $pattern (init; update` */
function parseFold(reader: Reader): Omit<Node<'reduce'>, 'op'> {
  const { operators, query } = reader.grammar
  const source = reader.nested(operators)
  reader.expectWord('as')
  const patterns = parsePatterns(reader)
  reader.expect('(')
  const init = query(reader)
  reader.expect(';')
  return {
    source,
    patterns,
    init,
    update: reader.withNames({ variables: patterns.flatMap(variablesOf) }, query),
  }
}

function parseBreak(reader: Reader): Expression {
  reader.expect('$')
  const name = reader.word()
  if (name !== undefined && reader.names.labels.includes(name)) return { op: 'break', name }
  throw reader.syntaxError(`There is no label $${name ?? ''} here.`)
}
