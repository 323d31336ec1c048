/** Compiles definitions and calls of functions, and finds out which functions yield exactly one value. */

import { spend } from '../../budget.ts'
import type { Json } from '../../json.ts'
import { builtinYieldsOne } from '../builtins/builtins.ts'
import { childrenOf, type Expression, type Node, type Pattern } from '../expression.ts'
import {
  type Closure,
  CONTINUE,
  type Emit,
  type Env,
  type EvalContext,
  type Filter,
  manyValues,
  type One,
  TAIL,
  tick,
} from '../filter.ts'
import { entryAt, envBack, type FunctionCell, type Scope } from '../scope.ts'
import { heightOf } from '../stack-depth.ts'
import { enterCall, leaveCall, runTailCalls } from '../trampolines.ts'

export function compileDefine(node: Node<'define'>, scope: Scope, tail: boolean): Filter {
  const cell = defineFunction(node, scope)
  return scope.define(`${node.name}/${node.params.length}`, cell).compile(node.rest, tail)
}

type Definition = Pick<Node<'define'>, 'name' | 'params' | 'body'>

/** Compiles a function. A parameter `$a` is both a filter `a` and its value. */
export function defineFunction(node: Definition, scope: Scope): FunctionCell {
  const values = node.params.filter((param) => param.startsWith('$')).map((param) => param.slice(1))
  const body = values.reduceRight<Expression>((rest, name) => {
    const source = { op: 'call', name, args: [] } as const
    return { op: 'as', source, patterns: [{ variable: name }], body: rest }
  }, node.body)
  const one = functionYieldsOne(node, (name) => {
    const found = scope.findCallable(name)
    return found === undefined ? undefined : typeof found !== 'number' && found.one
  })
  const cell: FunctionCell = { body: undefined, one, height: heightOf(body), size: scope.size }
  let inner = scope.define(`${node.name}/${node.params.length}`, cell).atFunctionStart()
  for (const param of node.params) inner = inner.bind('parameter', `${param.replace('$', '')}/0`)
  cell.body = inner.compile(body, true)
  return cell
}

/** A call of a parameter: the argument runs in the environment of its call site. */
export function callParameter(distance: number, scope: Scope): Filter {
  return manyValues((context, env, input, emit, path) => {
    const { filter, env: outer, height } = closureAt(env, distance)
    tick(context)
    enterCall(context, scope.level + height)
    const signal = filter.each(context, outer, input, emit, path)
    leaveCall(context, scope.level + height)
    return signal
  })
}

function closureAt(env: Env, distance: number): Closure {
  const { closure } = entryAt(env, distance)
  if (closure === undefined) throw new Error('a parameter lacks its argument')
  return closure
}

const ARGUMENT_STEPS = 4

export function callFunction(
  cell: FunctionCell,
  args: readonly Expression[],
  scope: Scope,
  tail: boolean,
): Filter {
  const distance = scope.size - cell.size
  const { level } = scope
  const levels = level + cell.height
  const closures = args.map((arg) => compileArgument(arg, scope))
  const enter = (context: EvalContext, env: Env): Env => {
    // Arguments that refer to arguments can grow with each call.
    spend(context.budget, closures.length * ARGUMENT_STEPS)
    let frame = envBack(env, distance)
    for (const closure of closures) {
      frame = { value: null, closure: closure.of(env), label: undefined, next: frame }
    }
    return frame
  }
  // The value exists before it is consumed, so its consumer does not run on top of the call.
  const one: One = (context, env, input) => {
    tick(context)
    enterCall(context, level)
    let result: Json = null
    const emit: Emit = (value) => {
      result = value
      return CONTINUE
    }
    runTailCalls(context, bodyOf(cell).each(context, enter(context, env), input, emit), emit)
    leaveCall(context, level)
    return result
  }
  return {
    // A tail call is left to the caller of the function.
    one: cell.one && !tail && closures.every(({ one }) => one) ? one : undefined,
    each: (context, env, input, emit, path) => {
      tick(context)
      const body = bodyOf(cell)
      if (tail && path === undefined) {
        context.tail = { body, env: enter(context, env), input }
        return TAIL
      }
      enterCall(context, levels)
      const first = body.each(context, enter(context, env), input, emit, path)
      const signal = runTailCalls(context, first, emit)
      leaveCall(context, levels)
      return signal
    },
  }
}

function bodyOf({ body }: FunctionCell): Filter {
  if (body === undefined) throw new Error('a function runs before it is compiled')
  return body
}

interface Argument {
  readonly of: (env: Env) => Closure
  readonly one: boolean
}

/** A parameter that is passed on keeps its closure: otherwise each call would add an indirection. */
function compileArgument(arg: Expression, scope: Scope): Argument {
  if (arg.op === 'call' && arg.args.length === 0) {
    const distance = scope.findCallable(`${arg.name}/0`)
    if (typeof distance === 'number') return { of: (env) => closureAt(env, distance), one: false }
  }
  const filter = scope.compile(arg)
  const height = heightOf(arg)
  return { of: (env) => ({ filter, env, height }), one: filter.one !== undefined }
}

/** Tests if a function of this name and arity yields one value if its arguments do; undefined for a builtin. */
type YieldsOne = (name: string) => boolean | undefined

/** A function that calls itself is assumed to yield one value until it is shown not to. */
function functionYieldsOne({ name, params, body }: Definition, known: YieldsOne): boolean {
  const own = [`${name}/${params.length}`, ...params.map((param) => `${param.replace('$', '')}/0`)]
  return yieldsOne(body, (called) => own.includes(called) || known(called))
}

/** Operations that may yield any number of values, whatever their parts yield. */
const MANY: readonly string[] = ['iterate', 'comma', 'foreach', 'label', 'break']

/** Tests if an expression certainly yields exactly one value. */
function yieldsOne(node: Expression, known: YieldsOne): boolean {
  const one = (child: Expression): boolean => yieldsOne(child, known)
  if (node.op === 'array') return true
  if (MANY.includes(node.op)) return false
  if (node.op === 'assign') return node.operator === '|=' || one(node.right)
  if (node.op === 'try') return node.handler !== null && one(node.body) && one(node.handler)
  if (node.op === 'as') return one(node.source) && node.patterns.every(isPlain) && one(node.body)
  if (node.op === 'reduce') return one(node.init)
  if (node.op === 'define') {
    const self = `${node.name}/${node.params.length}`
    const selfYieldsOne = functionYieldsOne(node, known)
    return yieldsOne(node.rest, (name) => (name === self ? selfYieldsOne : known(name)))
  }
  if (node.op === 'call') {
    const name = `${node.name}/${node.args.length}`
    const argumentsDo = node.args.every(one)
    const own = known(name)
    return own === undefined ? builtinYieldsOne(name, argumentsDo) : own && argumentsDo
  }
  const isOptional = 'optional' in node && node.optional
  return !isOptional && childrenOf(node).every(one)
}

/** Tests if a pattern destructures a value in one way only. */
function isPlain(pattern: Pattern): boolean {
  if ('variable' in pattern) return true
  if ('array' in pattern) return pattern.array.every(isPlain)
  return pattern.object.every(
    ({ key, value }) => key.op === 'literal' && (value === undefined || isPlain(value)),
  )
}
