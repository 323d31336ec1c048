/** Knows how a call of a builtin runs. */

import type { Json } from '../../json.ts'
import { spend } from '../budget.ts'
import type { Expression, Of } from '../expression.ts'
import { type Env, eachValue, type Filter, oneValue, type Run, type Signal, tick } from '../filter.ts'
import { compileNot } from '../nodes/basic.ts'
import { callFunction, defineFunction } from '../nodes/calls.ts'
import { parseExpression } from '../parse.ts'
import { type Compile, type FunctionCell, Scope } from '../scope.ts'
import type { ValueBuiltin } from './builtin.ts'
import { PRELUDE } from './prelude.ts'
import { BUILTIN_NAMES, FILTERS, VALUES } from './tables.ts'

const CELLS = new Map<string, FunctionCell>()
const NOTHING: Filter = oneValue(() => null)

export function callBuiltin(node: Of<'call'>, scope: Scope, compile: Compile, tail: boolean): Filter {
  const name = `${node.name}/${node.args.length}`
  const value = own(VALUES, name)
  if (value !== undefined) {
    return callValue(
      value,
      node.args.map((arg) => compile(arg, scope)),
    )
  }
  const filter = own(FILTERS, name)
  if (filter !== undefined) {
    const [a = NOTHING, b = NOTHING, c = NOTHING] = node.args.map((arg) => compile(arg, scope))
    return filter(a, b, c)
  }
  if (name === 'not/0') return compileNot()
  if (name === 'builtins/0') {
    return oneValue(({ budget }) => {
      spend(budget, BUILTIN_NAMES.length)
      return BUILTIN_NAMES.filter((known) => !known.startsWith('_'))
    })
  }
  return callFunction(preludeCell(name, compile), node.args, scope, compile, tail)
}

function own<T>(table: Readonly<Record<string, T>>, name: string): T | undefined {
  return Object.hasOwn(table, name) ? table[name] : undefined
}

/** Several values are combined, those of the last argument on the outside. */
function callValue(builtin: ValueBuiltin, args: readonly Filter[]): Filter {
  const [first, second, third] = args
  if (first === undefined) {
    return oneValue((run, _env, input) => {
      tick(run)
      return builtin(run, input, null, null, null)
    })
  }
  if (args.every(({ one }) => one !== undefined)) {
    return oneValue((run, env, input) => {
      tick(run)
      const c = third?.one?.(run, env, input) ?? null
      const b = second?.one?.(run, env, input) ?? null
      return builtin(run, input, first.one?.(run, env, input) ?? null, b, c)
    })
  }
  const each = (
    filter: Filter | undefined,
    run: Run,
    env: Env,
    input: Json,
    then: (v: Json) => Signal,
  ): Signal => (filter === undefined ? then(null) : filter.each(run, env, input, then))
  return eachValue((run, env, input, emit) =>
    each(third, run, env, input, (c) =>
      each(second, run, env, input, (b) =>
        first.each(run, env, input, (a) => {
          tick(run)
          return emit(builtin(run, input, a, b, c))
        }),
      ),
    ),
  )
}

/** A builtin that is written in jq, parsed and compiled at its first use. */
function preludeCell(name: string, compile: Compile): FunctionCell {
  const known = CELLS.get(name)
  if (known !== undefined) return known
  const node = definitionOf(name)
  const cell = defineFunction(node, new Scope(), compile)
  CELLS.set(name, cell)
  return cell
}

function definitionOf(name: string): Extract<Expression, { readonly op: 'define' }> {
  const parsed = parseExpression(`${own(PRELUDE, name) ?? ''} .`, [])
  if ('op' in parsed && parsed.op === 'define') return parsed
  throw new Error(`the builtin ${name} is not as it should be: ${JSON.stringify(parsed)}`)
}
