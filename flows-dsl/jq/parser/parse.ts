/** Parses expressions (jq 1.7 manual): pipes, commas, bindings, definitions and operators. */

import {
  type AssignOperator,
  type BinaryOperator,
  childrenOf,
  type Expression,
  type ExpressionDiagnostic,
  variablesOf,
} from '../expression.ts'
import { parsePatterns } from './parse-literals.ts'
import { parsePostfix } from './parse-terms.ts'
import { ExpressionSyntaxError, type Grammar, Reader } from './reader.ts'

/** All variables of flows; checker.ts says where each one exists (OWS 1.0 "Runtime expression arguments"). */
const VARIABLES = ['context', 'input', 'output', 'workflow', 'task', 'runtime'] as const

/** Depth of the tree, which keeps the recursive evaluator from running out of stack on a long chain of operators. */
const DEPTH_MAX = 128
const NODES_MAX = 2_000

const ALTERNATIVE = 1
const ASSIGNMENT = 2
const COMPARISON = 5

/** Precedence of each operator. `//` is right-associative; assignments and comparisons are not associative. */
const PRECEDENCE: Readonly<Record<string, number>> = {
  '//': ALTERNATIVE,
  ...levelOf(ASSIGNMENT, '= |= += -= *= /= %= //='),
  or: 3,
  and: 4,
  ...levelOf(COMPARISON, '== != < <= > >='),
  ...levelOf(6, '+ -'),
  ...levelOf(7, '* / %'),
}
/** Longer operators first, so that none matches the beginning of another. */
const OPERATORS = Object.keys(PRECEDENCE).sort((a, b) => b.length - a.length)

function levelOf(level: number, operators: string): Readonly<Record<string, number>> {
  return Object.fromEntries(operators.split(' ').map((operator) => [operator, level]))
}

const GRAMMAR: Grammar = {
  query: parseQuery,
  operators: (reader) => parseBinary(reader, ALTERNATIVE),
  postfix: parsePostfix,
}

/**
 * Parses the text of an expression, without `${ }`. Never throws.
 * @param variables names of the variables in scope, without `$`
 * @returns the tree, or a diagnostic of the first error
 */
export function parseExpression(
  text: string,
  variables: readonly string[] = VARIABLES,
): Expression | ExpressionDiagnostic {
  try {
    const reader = new Reader(text, { variables, functions: [], labels: [] }, GRAMMAR)
    const expression = parseQuery(reader)
    if (reader.offset < text.length) throw reader.unexpected()
    return withinLimits(expression) ? expression : { offset: 0, message: 'The expression is too large.' }
  } catch (error) {
    if (error instanceof ExpressionSyntaxError) return error.diagnostic
    throw error
  }
}

/** Reads up to a sign that cannot continue the expression, trailing blanks included. */
function parseQuery(reader: Reader): Expression {
  return reader.nested(() => {
    const items = [parseItem(reader)]
    while (reader.take(',')) items.push(parseItem(reader))
    const [first] = items
    const left: Expression = items.length === 1 && first !== undefined ? first : { op: 'comma', items }
    return reader.take('|') ? { op: 'pipe', left, right: parseQuery(reader) } : left
  })
}

/** An operand of a comma. A definition or a binding extends to the end of the enclosing query. */
function parseItem(reader: Reader): Expression {
  if (reader.takeWord('def')) return parseDefinition(reader)
  if (reader.takeWord('label')) return parseLabel(reader)
  const source = parseBinary(reader, ALTERNATIVE)
  if (!reader.takeWord('as')) return source
  const patterns = parsePatterns(reader)
  reader.expect('|')
  const body = reader.withNames({ variables: patterns.flatMap(variablesOf) }, parseQuery)
  return { op: 'as', source, patterns, body }
}

function parseLabel(reader: Reader): Expression {
  reader.expect('$')
  const name = reader.expectVariableName()
  reader.expect('|')
  return { op: 'label', name, body: reader.withNames({ labels: [name] }, parseQuery) }
}

function parseDefinition(reader: Reader): Expression {
  const name = reader.expectName()
  const params = reader.take('(') ? parseParams(reader) : []
  reader.expect(':')
  const own = `${name}/${params.length}`
  const values = params.filter((param) => param.startsWith('$')).map((param) => param.slice(1))
  const filters = params.map((param) => `${param.replace('$', '')}/0`)
  const inside = { functions: [...filters, own], variables: values }
  const body = reader.withNames(inside, parseQuery)
  reader.expect(';')
  return { op: 'define', name, params, body, rest: reader.withNames({ functions: [own] }, parseQuery) }
}

function parseParams(reader: Reader): string[] {
  const params: string[] = []
  do params.push((reader.take('$') ? '$' : '') + reader.expectName())
  while (reader.take(';'))
  reader.expect(')')
  return params
}

/** Parses operators of a precedence or higher. Only `//` associates to the right and so recurses on itself. */
function parseBinary(reader: Reader, minimum: number): Expression {
  let left = parsePostfix(reader)
  for (;;) {
    const operator = takeOperator(reader, minimum)
    if (operator === undefined) return left
    const level = precedenceOf(operator)
    const right =
      level === ALTERNATIVE
        ? reader.nested(() => parseBinary(reader, ALTERNATIVE))
        : parseBinary(reader, level + 1)
    left = combine(operator, left, right)
    rejectChain(reader, level)
  }
}

function precedenceOf(operator: string): number {
  return PRECEDENCE[operator] ?? 0
}

function rejectChain(reader: Reader, level: number): void {
  if (level !== COMPARISON && level !== ASSIGNMENT) return
  const next = takeOperator(reader, level)
  if (next === undefined) return
  if (precedenceOf(next) !== level) {
    reader.offset -= next.length
    return
  }
  throw reader.syntaxError(
    level === COMPARISON
      ? 'Comparisons do not chain; put `and` between them.'
      : 'Assignments do not chain; put `|` between them.',
  )
}

function combine(operator: string, left: Expression, right: Expression): Expression {
  if (operator === 'or' || operator === 'and') return { op: operator, left, right }
  if (operator === '//') return { op: 'alternative', left, right }
  return precedenceOf(operator) === ASSIGNMENT
    ? { op: 'assign', operator: operator as AssignOperator, left, right }
    : { op: 'binary', operator: operator as BinaryOperator, left, right }
}

function takeOperator(reader: Reader, minimum: number): string | undefined {
  reader.blank()
  const { text, offset } = reader
  const operator = OPERATORS.find((sign) => text.startsWith(sign, offset))
  if (operator === undefined || precedenceOf(operator) < minimum) return undefined
  const end = offset + operator.length
  if (/^[a-z]/.test(operator) && /[A-Za-z0-9_]/.test(text.charAt(end))) return undefined
  reader.offset = end
  return operator
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
