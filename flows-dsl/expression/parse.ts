/** Knows the grammar of expressions (jq 1.7 manual): pipes, commas, bindings and operators. */

import { Stop } from './cursor.ts'
import {
  type AssignOperator,
  type BinaryOperator,
  childrenOf,
  type Expression,
  type ExpressionFault,
  variablesOf,
} from './expression.ts'
import { parsePatterns } from './parse-patterns.ts'
import { parsePostfix } from './parse-terms.ts'
import { unexpected } from './parse-words.ts'
import { type Grammar, Reader } from './reader.ts'

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

type Operator = { readonly sign: string; readonly level: number }

/** Longer signs first. `//` is right-associative; assignments and comparisons do not associate (jq's grammar). */
const OPERATORS: readonly Operator[] = [
  { sign: '//=', level: 2 },
  { sign: '//', level: 1 },
  { sign: '==', level: 5 },
  { sign: '!=', level: 5 },
  { sign: '<=', level: 5 },
  { sign: '>=', level: 5 },
  { sign: '|=', level: 2 },
  { sign: '+=', level: 2 },
  { sign: '-=', level: 2 },
  { sign: '*=', level: 2 },
  { sign: '/=', level: 2 },
  { sign: '%=', level: 2 },
  { sign: '=', level: 2 },
  { sign: 'or', level: 3 },
  { sign: 'and', level: 4 },
  { sign: '<', level: 5 },
  { sign: '>', level: 5 },
  { sign: '+', level: 6 },
  { sign: '-', level: 6 },
  { sign: '*', level: 7 },
  { sign: '/', level: 7 },
  { sign: '%', level: 7 },
]
const ALTERNATIVE = 1
const ASSIGNMENT = 2
const COMPARISON = 5

const GRAMMAR: Grammar = {
  query: parseQuery,
  operators: (reader) => parseBinary(reader, ALTERNATIVE),
  postfix: parsePostfix,
}

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
    const reader = new Reader(text, { variables, functions: [], labels: [] }, GRAMMAR)
    const expression = parseQuery(reader)
    if (reader.cursor.offset < text.length) throw unexpected(reader.cursor)
    return withinLimits(expression) ? expression : { offset: 0, message: 'The expression is too large.' }
  } catch (error) {
    if (error instanceof Stop) return error.fault
    throw error
  }
}

/** Reads up to the end or to a sign that cannot go on; blanks after it are read too. */
function parseQuery(reader: Reader): Expression {
  return reader.deeper(() => {
    const { cursor } = reader
    const items = [parseItem(reader)]
    while (cursor.take(',')) items.push(parseItem(reader))
    const [first] = items
    const left: Expression = items.length === 1 && first !== undefined ? first : { op: 'comma', items }
    return cursor.take('|') ? { op: 'pipe', left, right: parseQuery(reader) } : left
  })
}

/** What stands between commas. A definition or a binding reaches to the end of what it stands in. */
function parseItem(reader: Reader): Expression {
  const { cursor } = reader
  if (cursor.takeWord('def')) return parseDefinition(reader)
  if (cursor.takeWord('label')) return parseLabel(reader)
  const source = parseBinary(reader, ALTERNATIVE)
  if (!cursor.takeWord('as')) return source
  const patterns = parsePatterns(reader)
  cursor.expect('|')
  const body = reader.within({ variables: patterns.flatMap(variablesOf) }, parseQuery)
  return { op: 'as', source, patterns, body }
}

function parseLabel(reader: Reader): Expression {
  const { cursor } = reader
  cursor.expect('$')
  const name = cursor.word()
  if (name === undefined) throw cursor.stop('A name must follow `$`.')
  cursor.expect('|')
  return { op: 'label', name, body: reader.within({ labels: [name] }, parseQuery) }
}

function parseDefinition(reader: Reader): Expression {
  const { cursor } = reader
  cursor.blank()
  const name = cursor.word()
  if (name === undefined) throw cursor.stop(`Expected a name but found ${cursor.here()}.`)
  const params = cursor.take('(') ? parseParams(reader) : []
  cursor.expect(':')
  const own = `${name}/${params.length}`
  const values = params.filter((param) => param.startsWith('$')).map((param) => param.slice(1))
  const filters = params.map((param) => `${param.replace('$', '')}/0`)
  const inside = { functions: [...filters, own], variables: values }
  const body = reader.within(inside, parseQuery)
  cursor.expect(';')
  return { op: 'define', name, params, body, rest: reader.within({ functions: [own] }, parseQuery) }
}

function parseParams({ cursor }: Reader): string[] {
  const params: string[] = []
  do {
    const sign = cursor.take('$') ? '$' : ''
    cursor.blank()
    const name = cursor.word()
    if (name === undefined) throw cursor.stop(`Expected a name but found ${cursor.here()}.`)
    params.push(sign + name)
  } while (cursor.take(';'))
  cursor.expect(')')
  return params
}

/** Precedence climbing. Only `//` associates to the right and so recurses on itself. */
function parseBinary(reader: Reader, level: number): Expression {
  let left = parsePostfix(reader)
  for (;;) {
    const operator = takeOperator(reader, level)
    if (operator === undefined) return left
    const right =
      operator.level === ALTERNATIVE
        ? reader.deeper(() => parseBinary(reader, ALTERNATIVE))
        : parseBinary(reader, operator.level + 1)
    left = combine(operator.sign, left, right)
    refuseChain(reader, operator.level)
  }
}

function refuseChain(reader: Reader, level: number): void {
  if (level !== COMPARISON && level !== ASSIGNMENT) return
  const next = takeOperator(reader, level)
  if (next?.level !== level) {
    if (next !== undefined) reader.cursor.offset -= next.sign.length
    return
  }
  const what = level === COMPARISON ? 'Comparisons do not chain; put `and` between them.' : ''
  throw reader.cursor.stop(what || 'Assignments do not chain; put `|` between them.')
}

function combine(sign: string, left: Expression, right: Expression): Expression {
  if (sign === 'or' || sign === 'and') return { op: sign, left, right }
  if (sign === '//') return { op: 'alternative', left, right }
  if (sign === '=' || (sign.endsWith('=') && !'== != <= >='.includes(sign)))
    return { op: 'assign', operator: sign as AssignOperator, left, right }
  return { op: 'binary', operator: sign as BinaryOperator, left, right }
}

function takeOperator({ cursor }: Reader, level: number): Operator | undefined {
  cursor.blank()
  const { text, offset } = cursor
  const found = OPERATORS.find(({ sign }) => text.startsWith(sign, offset))
  if (found === undefined || found.level < level) return undefined
  const after = text.slice(offset + found.sign.length, offset + found.sign.length + 1)
  if ((found.sign === 'and' || found.sign === 'or') && /[A-Za-z0-9_]/.test(after)) return undefined
  cursor.offset += found.sign.length
  return found
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
