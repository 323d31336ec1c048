/** Knows how an expression yields its value. Takes only trees of the definition; data is never parsed. */

import type { Json } from '../ir.ts'
import { fieldOf, objectOf } from '../json.ts'
import { type Budget, checkDepth, checkSize, measure, spend } from './budget.ts'
import type { BinaryOperator, Expression } from './expression.ts'
import { add, at, compare, refuse, subtract, typeOf } from './values.ts'

type Variables = Readonly<Record<string, Json>>

interface Scope {
  readonly variables: Variables
  readonly budget: Budget
}

/**
 * Evaluates a parsed expression.
 * @param input the value of `.`
 * @param budget is used up by the call, so that many evaluations can share one
 * @throws FlowError (expression) where jq would fail and where the budget ends
 */
export function evaluate(expression: Expression, input: Json, variables: Variables, budget: Budget): Json {
  const output = valueAt(expression, input, { variables, budget }, 1)
  measure(output, budget)
  return output
}

/** What jq takes for true: everything but null and false. */
export function isTrue(value: Json): boolean {
  return value !== null && value !== false
}

function valueAt(node: Expression, input: Json, scope: Scope, depth: number): Json {
  spend(scope.budget, 1)
  checkDepth(scope.budget, depth)
  const of = (child: Expression, dot = input): Json => valueAt(child, dot, scope, depth + 1)
  switch (node.op) {
    case 'identity':
      return input
    case 'literal':
      return node.value
    case 'variable':
      return fieldOf(scope.variables, node.name) ?? null
    case 'index':
      return at(of(node.of), of(node.key))
    case 'object':
      return objectOf(node.entries.map(([key, value]) => [keyOf(of(key)), of(value)]))
    case 'array':
      return node.items.map((item) => of(item))
    case 'text':
      return join(
        node.parts.map((part) => of(part)),
        scope.budget,
      )
    case 'negate':
      return subtract(0, of(node.of))
    case 'not':
      return !isTrue(input)
    case 'pipe':
      return of(node.right, of(node.left))
    case 'and':
      return isTrue(of(node.left)) && isTrue(of(node.right))
    case 'or':
      return isTrue(of(node.left)) || isTrue(of(node.right))
    case 'alternative': {
      const left = of(node.left)
      return isTrue(left) ? left : of(node.right)
    }
    case 'binary':
      return binary(node.operator, of(node.left), of(node.right), scope.budget)
  }
}

function binary(op: BinaryOperator, a: Json, b: Json, budget: Budget): Json {
  switch (op) {
    case '+':
      return add(a, b, budget)
    case '-':
      return subtract(a, b)
    case '==':
      return compare(a, b, budget) === 0
    case '!=':
      return compare(a, b, budget) !== 0
    case '<':
      return compare(a, b, budget) < 0
    case '<=':
      return compare(a, b, budget) <= 0
    case '>':
      return compare(a, b, budget) > 0
    case '>=':
      return compare(a, b, budget) >= 0
  }
}

function keyOf(key: Json): string {
  if (typeof key === 'string') return key
  throw refuse(`A key of an object must be a string, not ${typeOf(key)}.`)
}

/** Strings as they are, everything else as JSON. */
function join(parts: readonly Json[], budget: Budget): string {
  const texts = parts.map((part) => (typeof part === 'string' ? part : writeJson(part, budget)))
  const length = texts.reduce((sum, text) => sum + text.length, 0)
  checkSize(budget, length)
  spend(budget, 1 + length / 64)
  return texts.join('')
}

/** Measured first: `JSON.stringify` recurses, and shared parts can grow without end. */
function writeJson(value: Json, budget: Budget): string {
  measure(value, budget)
  return JSON.stringify(value)
}
