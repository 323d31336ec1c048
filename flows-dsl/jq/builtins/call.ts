/** Compiles calls of builtins. */

import { fieldOf } from '../../json.ts'
import type { Node } from '../expression.ts'
import { applied, type Filter, NULL } from '../filter.ts'
import { callFunction, defineFunction } from '../nodes/calls.ts'
import { parseExpression } from '../parser/parse.ts'
import type { FunctionCell, Scope } from '../scope.ts'
import { FILTERS, PRELUDE, VALUES } from './builtins.ts'

const CELLS = new Map<string, FunctionCell>()

export function callBuiltin(node: Node<'call'>, scope: Scope, tail: boolean): Filter {
  const name = `${node.name}/${node.args.length}`
  const value = fieldOf(VALUES, name)
  if (value !== undefined) {
    const args = node.args.map((arg) => scope.compile(arg))
    return applied(value, args)
  }
  const filter = fieldOf(FILTERS, name)
  if (filter === undefined) return callFunction(preludeCell(name, scope), node.args, scope, tail)
  const [a = NULL, b = NULL, c = NULL] = node.args.map((arg) => scope.compile(arg))
  return filter(a, b, c)
}

/** A builtin that is defined in jq, parsed and compiled at its first use. */
function preludeCell(name: string, scope: Scope): FunctionCell {
  const known = CELLS.get(name)
  if (known !== undefined) return known
  const parsed = parseExpression(`${fieldOf(PRELUDE, name) ?? ''} .`, [])
  if (!('op' in parsed && parsed.op === 'define'))
    throw new Error(`the definition of the builtin ${name} is invalid: ${JSON.stringify(parsed)}`)
  const cell = defineFunction(parsed, scope.empty())
  CELLS.set(name, cell)
  return cell
}
