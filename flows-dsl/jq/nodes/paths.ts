/** Compiles access to fields, items and slices, and assignments to them. */

import { fieldOf, isObject, type Json } from '../../json.ts'
import { at, deletePaths, getPath, setPath } from '../access.ts'
import type { BinaryOperator, Expression, Node } from '../expression.ts'
import {
  CONTINUE,
  checkIterable,
  type Emit,
  type Env,
  type EvalContext,
  eachValue,
  extendPath,
  type Filter,
  firstOf,
  type InPlace,
  keysOfPath,
  manyValues,
  type One,
  oneValue,
  type Path,
  pathFilter,
  recover,
  type Signal,
  STOP,
  tick,
} from '../filter.ts'
import { JqError, jqError } from '../jq-error.ts'
import { isTrue, keysIn, OPERATIONS, type Owned, shared } from '../operators.ts'
import type { Scope } from '../scope.ts'
import { readsInput } from '../stack-depth.ts'

export function compileIndex(node: Node<'index'>, scope: Scope): Filter {
  const of = scope.compile(node.of)
  if (!node.optional && node.key.op === 'literal' && typeof node.key.value === 'string')
    return fieldFilter(of, node.key.value)
  return accessFilter(of, scope.compile(node.key), node.optional === true)
}

/** The key of a slice is an object with `start` and `end`, as in jq. */
export function compileSlice(node: Node<'slice'>, scope: Scope): Filter {
  const literal = (value: Json): Expression => ({ op: 'literal', value })
  const from = [literal('start'), node.from ?? literal(null)] as const
  const to = [literal('end'), node.to ?? literal(null)] as const
  const key = scope.compile({ op: 'object', entries: [from, to] })
  return accessFilter(scope.compile(node.of), key, node.optional === true)
}

function fieldFilter(of: Filter, key: string): Filter {
  const read = (context: EvalContext, value: Json): Json => {
    tick(context)
    if (typeof value === 'object' && value !== null && !Array.isArray(value))
      return fieldOf(value, key) ?? null
    return at(value, key, context.budget)
  }
  const { one } = of
  return pathFilter(
    one && ((context, env, input) => read(context, one(context, env, input))),
    (context, env, input, emit, path) =>
      of.each(
        context,
        env,
        input,
        (value, valuePath) => {
          const next = extendPath(valuePath, key, value)
          return emit(read(context, value), next)
        },
        path,
      ),
  )
}

/**
 * The keys vary slowest: `.[1, 2][3, 4]` yields all of 3 first.
 * @param optional whether a value that cannot be read yields nothing; errors before it remain errors
 */
function accessFilter(of: Filter, key: Filter, optional: boolean): Filter {
  const [ofOne, keyOne] = [of.one, key.one]
  const one: One | undefined =
    optional || ofOne === undefined || keyOne === undefined
      ? undefined
      : (context, env, input) => {
          tick(context)
          const k = keyOne(context, env, input)
          return at(ofOne(context, env, input), k, context.budget)
        }
  return pathFilter(one, (context, env, input, emit, path) =>
    key.each(context, env, input, (k) => {
      const access: Emit = (value, valuePath) => {
        const next = extendPath(valuePath, k, value)
        tick(context)
        const part = optional ? partOf(context, value, k) : at(value, k, context.budget)
        return part === undefined ? CONTINUE : emit(part, next)
      }
      return of.each(context, env, input, access, path)
    }),
  )
}

function partOf(context: EvalContext, value: Json, key: Json): Json | undefined {
  const { depth } = context
  try {
    return at(value, key, context.budget)
  } catch (error) {
    if (!(error instanceof JqError)) throw error
    recover(context, depth)
    return undefined
  }
}

export function compileIterate(node: Node<'iterate'>, scope: Scope): Filter {
  const of = scope.compile(node.of)
  return manyValues((context, env, input, emit, path) => {
    const spread: Emit = (value, valuePath) => {
      checkIterable(valuePath, value)
      if (node.optional && (typeof value !== 'object' || value === null)) return CONTINUE
      return items(context, value, emit, valuePath)
    }
    return of.each(context, env, input, spread, path)
  })
}

/** `.[]` */
export function items(context: EvalContext, value: Json, emit: Emit, path?: Path): Signal {
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) {
      tick(context)
      if (emit(value[i] ?? null, extendPath(path, i, value)) === STOP) return STOP
    }
    return CONTINUE
  }
  if (!isObject(value)) throw jqError('Cannot iterate over %v', value)
  for (const key of keysIn(value, context.budget)) {
    tick(context)
    if (emit(value[key] ?? null, extendPath(path, key, value)) === STOP) return STOP
  }
  return CONTINUE
}

export function compileAssign(node: Node<'assign'>, scope: Scope): Filter {
  const [left, right] = [scope.compile(node.left), scope.compile(node.right)]
  if (node.operator === '|=') return changing((...args) => updated(left, right, ...args))
  const change = changeOf(node.operator)
  const assigned = (context: EvalContext, env: Env, input: Json, value: Json, owned: Owned): Json => {
    let result = input
    for (const path of pathsOf(left, context, env, input)) {
      // The part moves within the result, so nothing else refers to it.
      const next = change(context, () => getPath(result, path, context.budget), value)
      result = setPath(result, path, next, context.budget, owned)
    }
    return result
  }
  const { one } = right
  if (one !== undefined) {
    const reads = readsInput(node.right)
    return changing((context, env, input, owned) => {
      const value = one(context, env, input)
      return assigned(context, env, input, reads ? shared(value, owned) : value, owned)
    })
  }
  return eachValue((context, env, input, emit) =>
    right.each(context, env, input, (value) => emit(assigned(context, env, input, value, new Set()))),
  )
}

function changing(inPlace: InPlace): Filter {
  return { ...oneValue((context, env, input) => inPlace(context, env, input, new Set())), inPlace }
}

type Change = (context: EvalContext, before: () => Json, value: Json) => Json

function changeOf(operator: string): Change {
  if (operator === '=') return (_context, _before, value) => value
  if (operator === '//=') {
    return (_context, before, value) => {
      const current = before()
      return isTrue(current) ? current : value
    }
  }
  const operation = OPERATIONS[operator.slice(0, 1) as BinaryOperator]
  return (context, before, value) => operation(before(), value, context.budget)
}

/** The paths of a filter's outputs. @throws JqError if an output has none */
export function pathsOf(filter: Filter, context: EvalContext, env: Env, input: Json): Json[][] {
  const paths: Json[][] = []
  tick(context)
  const push: Emit = (value, path) => {
    tick(context)
    paths.push(keysOfPath(path, value))
    return CONTINUE
  }
  filter.each(context, env, input, push, null)
  return paths
}

/** `|=`: sets the first output of the update at each path, and deletes the path if there is none. */
function updated(
  left: Filter,
  right: Filter,
  context: EvalContext,
  env: Env,
  input: Json,
  owned: Owned,
): Json {
  let result = input
  const deletedPaths: Json[][] = []
  for (const path of pathsOf(left, context, env, input)) {
    const before = getPath(result, path, context.budget)
    const after = right.inPlace
      ? right.inPlace(context, env, before, owned)
      : firstOf(right, context, env, shared(before, owned))
    if (after === undefined) deletedPaths.push(path)
    else result = setPath(result, path, after, context.budget, owned)
  }
  return deletePaths(result, deletedPaths, context.budget)
}
