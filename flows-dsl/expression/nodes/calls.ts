/** Knows how functions are defined and called, and how a call at the end of a function needs no stack. */

import type { Json } from '../../json.ts'
import { spend } from '../budget.ts'
import type { Expression, Of } from '../expression.ts'
import {
  ascend,
  type Closure,
  descend,
  type Emit,
  type Env,
  type Filter,
  ON,
  type One,
  type Run,
  settle,
  TAIL,
  tick,
} from '../filter.ts'
import { heightOf } from '../height.ts'
import { type Compile, envBack, type FunctionCell, heldAt, type Scope } from '../scope.ts'
import { functionYieldsOne } from '../yields.ts'

export function compileDefine(node: Of<'define'>, scope: Scope, compile: Compile, tail: boolean): Filter {
  const cell = defineFunction(node, scope, compile)
  return compile(node.rest, scope.define(`${node.name}/${node.params.length}`, cell), tail)
}

/** Compiles a function. A parameter `$a` is both a filter `a` and its value. */
export function defineFunction(
  node: { readonly name: string; readonly params: readonly string[]; readonly body: Expression },
  scope: Scope,
  compile: Compile,
): FunctionCell {
  const values = node.params.filter((param) => param.startsWith('$')).map((param) => param.slice(1))
  const body = values.reduceRight<Expression>(
    (rest, name) => ({
      op: 'as',
      source: { op: 'call', name, args: [] },
      patterns: [{ variable: name }],
      body: rest,
    }),
    node.body,
  )
  const one = functionYieldsOne(node, (called) => scope.yieldsOne(called))
  const cell: FunctionCell = { body: undefined, one, height: heightOf(body), size: scope.size }
  let inner = scope.define(`${node.name}/${node.params.length}`, cell).fresh()
  for (const param of node.params) inner = inner.hold('parameter', `${param.replace('$', '')}/0`)
  cell.body = compile(body, inner, true)
  return cell
}

/** A call of a parameter: the argument runs where it was written. */
export function callParameter(hops: number, scope: Scope): Filter {
  const levels = scope.level
  return {
    one: undefined,
    each: (run, env, input, emit) => {
      const { filter, env: outer, height } = closureAt(env, hops)
      tick(run)
      descend(run, levels + height)
      const signal = filter.each(run, outer, input, emit)
      ascend(run, levels + height)
      return signal
    },
    at: (run, env, place, input, emit) => {
      const { filter, env: outer, height } = closureAt(env, hops)
      tick(run)
      descend(run, levels + height)
      const signal = filter.at(run, outer, place, input, emit)
      ascend(run, levels + height)
      return signal
    },
  }
}

function closureAt(env: Env, hops: number): Closure {
  const { closure } = heldAt(env, hops)
  if (closure === undefined) throw new Error('a parameter has its argument')
  return closure
}

const ARGUMENT_STEPS = 4

export function callFunction(
  cell: FunctionCell,
  args: readonly Expression[],
  scope: Scope,
  compile: Compile,
  tail: boolean,
): Filter {
  const hops = scope.size - cell.size
  const levels = scope.level
  const held = scope.level + cell.height
  const closures = args.map((arg) => compileArgument(arg, scope, compile))
  const enter = (run: Run, env: Env): Env => {
    // Arguments that refer to arguments can grow with each call.
    spend(run.budget, closures.length * ARGUMENT_STEPS)
    let frame = envBack(env, hops)
    for (const closure of closures) {
      frame = { value: null, closure: closure.of(env), label: undefined, next: frame }
    }
    return frame
  }
  const callable = { cell, levels, enter }
  return {
    // At the end of a function the call is left to who called that.
    one: cell.one && !tail && closures.every(({ one }) => one) ? callOne(callable) : undefined,
    each: (run, env, input, emit) => {
      tick(run)
      const body = bodyOf(cell)
      if (tail) {
        run.tail = { body, env: enter(run, env), input }
        return TAIL
      }
      descend(run, held)
      const signal = settle(run, body.each(run, enter(run, env), input, emit), emit)
      ascend(run, held)
      return signal
    },
    at: (run, env, place, input, emit) => {
      tick(run)
      descend(run, held)
      const signal = bodyOf(cell).at(run, enter(run, env), place, input, emit)
      ascend(run, held)
      return signal
    },
  }
}

function bodyOf({ body }: FunctionCell): Filter {
  if (body === undefined) throw new Error('a function is compiled before it runs')
  return body
}

interface Callable {
  readonly cell: FunctionCell
  readonly levels: number
  readonly enter: (run: Run, env: Env) => Env
}

/** The value is there before it is used, so that what uses it does not stand on top of the call. */
function callOne({ cell, levels, enter }: Callable): One {
  return (run, env, input) => {
    tick(run)
    descend(run, levels)
    let result: Json = null
    const emit: Emit = (value) => {
      result = value
      return ON
    }
    settle(run, bodyOf(cell).each(run, enter(run, env), input, emit), emit)
    ascend(run, levels)
    return result
  }
}

interface Argument {
  readonly of: (env: Env) => Closure
  readonly one: boolean
}

/** A parameter that is handed on stays what it is: otherwise each call would add a way to go. */
function compileArgument(arg: Expression, scope: Scope, compile: Compile): Argument {
  if (arg.op === 'call' && arg.args.length === 0) {
    const hops = scope.called(`${arg.name}/0`)
    if (typeof hops === 'number') return { of: (env) => closureAt(env, hops), one: false }
  }
  const filter = compile(arg, scope)
  const height = heightOf(arg)
  return { of: (env) => ({ filter, env, height }), one: filter.one !== undefined }
}
