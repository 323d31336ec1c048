/** Knows the grammar of expressions (jq 1.7 manual), and which parts of jq are not there yet. */

import { didYouMean } from '../faults.ts'
import { Cursor, deeper, type Reader, Stop } from './cursor.ts'
import { type BinaryOperator, childrenOf, type Expression, type ExpressionFault } from './expression.ts'
import { parseObject, parseText } from './literals.ts'

/**
 * All variables there are; where each one stands is said in checker.ts (OWS 1.0 "Runtime expression
 * arguments").
 */
const VARIABLES = ['context', 'input', 'output', 'workflow', 'task', 'runtime'] as const

/**
 * Of the tree, so that the evaluator, which recurses, cannot run out of stack on a long chain of operators.
 */
const DEPTH_MAX = 128
const NODES_MAX = 2_000

type Operator = {
  readonly sign: string
  readonly op: 'and' | 'or' | 'alternative' | BinaryOperator
  readonly level: number
}

/** Longer signs first. `//` is right-associative, comparisons do not associate (jq's grammar). */
const OPERATORS: readonly Operator[] = [
  { sign: '//', op: 'alternative', level: 1 },
  { sign: 'or', op: 'or', level: 2 },
  { sign: 'and', op: 'and', level: 3 },
  { sign: '==', op: '==', level: 4 },
  { sign: '!=', op: '!=', level: 4 },
  { sign: '<=', op: '<=', level: 4 },
  { sign: '>=', op: '>=', level: 4 },
  { sign: '<', op: '<', level: 4 },
  { sign: '>', op: '>', level: 4 },
  { sign: '+', op: '+', level: 5 },
  { sign: '-', op: '-', level: 5 },
]
const ALTERNATIVE = 1
const COMPARISON = 4

const NUMBER = /(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?/y
const NOT_YET = /\.\.|\.\[\s*\]|\?\/\/|[|+*/%-]=|[,*/%?@=]/y

/**
 * Parses the text of an expression, without `${ }`.
 * @param variables names that exist where the text stands, without `$`
 * @returns the tree, or the first fault with its offset in UTF-16 units; never throws
 */
export function parseExpression(
  text: string,
  variables: readonly string[] = VARIABLES,
): Expression | ExpressionFault {
  try {
    const cursor = new Cursor(text)
    const reader: Reader = { cursor, variables, nested: parsePipe, variable: parseVariable, nesting: 0 }
    const expression = parsePipe(reader)
    if (cursor.offset < text.length) throw unexpected(cursor)
    return withinLimits(expression) ? expression : { offset: 0, message: 'The expression is too large.' }
  } catch (error) {
    if (error instanceof Stop) return error.fault
    throw error
  }
}

/** Reads up to the end or to a sign that cannot go on; blanks after it are read too. */
function parsePipe(reader: Reader): Expression {
  return deeper(reader, () => {
    const { cursor } = reader
    const left = parseBinary(reader, ALTERNATIVE)
    const piped = !startsWith(cursor, '|=') && cursor.take('|')
    return piped ? { op: 'pipe', left, right: parsePipe(reader) } : left
  })
}

/** Precedence climbing. Only `//` associates to the right and so recurses on itself. */
function parseBinary(reader: Reader, level: number): Expression {
  let left = parseUnary(reader)
  for (;;) {
    const operator = takeOperator(reader.cursor, level)
    if (operator === undefined) return left
    const right =
      operator.level === ALTERNATIVE
        ? deeper(reader, () => parseBinary(reader, ALTERNATIVE))
        : parseBinary(reader, operator.level + 1)
    left = combine(operator.op, left, right)
    if (operator.level === COMPARISON && takeOperator(reader.cursor, COMPARISON) !== undefined) {
      throw reader.cursor.stop('Comparisons do not chain; put `and` between them.')
    }
  }
}

function combine(op: Operator['op'], left: Expression, right: Expression): Expression {
  if (op === 'alternative' || op === 'or' || op === 'and') return { op, left, right }
  return { op: 'binary', operator: op, left, right }
}

function takeOperator(cursor: Cursor, level: number): Operator | undefined {
  cursor.blank()
  const { text, offset } = cursor
  const found = OPERATORS.find(({ sign }) => text.startsWith(sign, offset))
  if (found === undefined || found.level < level) return undefined
  const after = text.slice(offset + found.sign.length, offset + found.sign.length + 1)
  const isWord = found.op === 'and' || found.op === 'or'
  if (isWord ? /[A-Za-z0-9_]/.test(after) : after === '=' && !found.sign.includes('=')) return undefined
  cursor.offset += found.sign.length
  return found
}

function parseUnary(reader: Reader): Expression {
  if (!reader.cursor.take('-')) return parsePath(reader)
  const of = deeper(reader, parseUnary)
  return of.op === 'literal' && typeof of.value === 'number'
    ? { op: 'literal', value: -of.value }
    : { op: 'negate', of }
}

/** A term and the fields and indices behind it: `.a.b`, `.["x"]`, `$name.path[0]`. */
function parsePath(reader: Reader): Expression {
  const { cursor } = reader
  cursor.blank()
  const dot = cursor.match(/\.(?![.\d])/y) !== undefined
  const key = dot ? parseName(reader) : undefined
  let path: Expression = dot ? { op: 'identity' } : parseTerm(reader)
  if (key !== undefined) path = { op: 'index', of: path, key }
  for (;;) {
    const next = parseField(reader) ?? parseIndex(reader)
    if (next === undefined) return path
    path = { op: 'index', of: path, key: next }
  }
}

/** `.name`, `."name"`; also the dot of `.[`, which is not needed behind a path. */
function parseField(reader: Reader): Expression | undefined {
  const { cursor } = reader
  cursor.blank()
  const start = cursor.offset
  if (cursor.match(/\./y) === undefined) return undefined
  const name = parseName(reader)
  if (name === undefined && cursor.text[cursor.offset] !== '[') throw unexpected(cursor, start)
  return name
}

function parseName(reader: Reader): Expression | undefined {
  const { cursor } = reader
  const word = cursor.word()
  if (word !== undefined) return { op: 'literal', value: word }
  return cursor.text[cursor.offset] === '"' ? parseText(reader) : undefined
}

function parseIndex(reader: Reader): Expression | undefined {
  const { cursor } = reader
  if (cursor.text[cursor.offset] !== '[') return undefined
  if (/^\[\s*\]/.test(cursor.text.slice(cursor.offset, cursor.offset + 32))) throw notYet(cursor, '.[]')
  cursor.expect('[')
  const key = parsePipe(reader)
  if (startsWith(cursor, ':')) throw notYet(cursor, 'a slice')
  cursor.expect(']')
  return key
}

function parseTerm(reader: Reader): Expression {
  const { cursor } = reader
  const number = cursor.match(NUMBER)
  if (number !== undefined) return numberOf(cursor, number)
  if (cursor.text[cursor.offset] === '"') return parseText(reader)
  if (cursor.take('$')) return parseVariable(reader)
  if (cursor.take('[')) return parseArray(reader)
  if (cursor.take('{')) return parseObject(reader)
  if (!cursor.take('(')) return parseKeyword(cursor)
  const inner = parsePipe(reader)
  cursor.expect(')')
  return inner
}

function parseArray(reader: Reader): Expression {
  const { cursor } = reader
  const items: Expression[] = []
  if (cursor.take(']')) return { op: 'array', items }
  do items.push(parsePipe(reader))
  while (cursor.take(','))
  cursor.expect(']')
  return { op: 'array', items }
}

function parseVariable({ cursor, variables }: Reader): Expression {
  const start = cursor.offset
  const name = cursor.word()
  if (name === undefined) throw cursor.stop('A name must follow `$`.')
  if (variables.includes(name)) return { op: 'variable', name }
  const there = `There are: ${variables.map((variable) => `$${variable}`).join(', ')}.`
  throw cursor.stop(
    `There is no variable $${name} here.`,
    start - 1,
    didYouMean(name, variables, '$') ?? there,
  )
}

function parseKeyword(cursor: Cursor): Expression {
  const start = cursor.offset
  const word = cursor.word()
  if (word === undefined) throw unexpected(cursor)
  if (word === 'not') return { op: 'not' }
  if (word === 'true' || word === 'false') return { op: 'literal', value: word === 'true' }
  if (word === 'null') return { op: 'literal', value: null }
  cursor.offset = start
  throw notYet(cursor, `\`${word}\``, `A field is written \`.${word}\`, a text \`"${word}"\`.`)
}

function numberOf(cursor: Cursor, text: string): Expression {
  const value = Number(text)
  if (!Number.isFinite(value))
    throw cursor.stop(`${text} is too large for a number.`, cursor.offset - text.length)
  return { op: 'literal', value }
}

function startsWith(cursor: Cursor, sign: string): boolean {
  cursor.blank()
  return cursor.text.startsWith(sign, cursor.offset)
}

function unexpected(cursor: Cursor, offset = cursor.offset): Stop {
  cursor.offset = offset
  const found = cursor.match(NOT_YET)
  cursor.offset = offset
  if (found !== undefined) return notYet(cursor, `\`${found}\``)
  return cursor.stop(`Did not expect ${cursor.here()} here.`)
}

function notYet(cursor: Cursor, what: string, hint?: string): Stop {
  return cursor.stop(`${what} is not a part of the language in this release.`, cursor.offset, hint)
}

function withinLimits(root: Expression): boolean {
  const open: { readonly node: Expression; readonly depth: number }[] = [{ node: root, depth: 1 }]
  let nodes = 0
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    if (next.depth > DEPTH_MAX || ++nodes > NODES_MAX) return false
    for (const node of childrenOf(next.node)) open.push({ node, depth: next.depth + 1 })
  }
  return true
}
