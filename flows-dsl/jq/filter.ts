/** Defines filters, the closures that expressions compile to, and the context, environment and paths they pass on. */

import { abort, type Budget, spend, TOO_MANY_STEPS } from '../budget.ts'
import type { Json } from '../json.ts'
import { jqError } from './jq-error.ts'
import type { Owned } from './operators.ts'

/** State of one evaluation. */
export interface EvalContext {
  readonly budget: Budget
  readonly variables: Readonly<Record<string, Json>>
  /** The execution's time in milliseconds: `now`. */
  readonly nowMs: number
  /** Stack in use, in levels of expressions. */
  depth: number
  /** The call to make after the stack of the calling function is unwound. Set with the signal TAIL. */
  tail: TailCall | undefined
}

interface TailCall {
  readonly body: Filter
  readonly env: Env
  readonly input: Json
}

/** Variables, parameters and labels, the latest first. The compiler resolves names to distances from its start. */
export type Env = EnvEntry | undefined

export interface EnvEntry {
  readonly value: Json
  /** The argument bound to a parameter, with the environment of the call site. */
  readonly closure: Closure | undefined
  readonly label: BreakSignal | undefined
  readonly next: Env
}

export interface Closure {
  readonly filter: Filter
  readonly env: Env
  /** Levels of stack that the argument holds while its outputs are consumed. */
  readonly height: number
}

/** Thrown by `break` and caught by its label. Not an `Error`: capturing a stack trace per label is expensive. */
export class BreakSignal {}

/** The receiver wants no more outputs. */
export const STOP = 0
/** The receiver wants the next output. */
export const CONTINUE = 1
/** `context.tail` is still to be called, with the same receiver. */
export const TAIL = 2

/** Only filters compiled in tail position return TAIL, and only when paths are not tracked. */
export type Signal = typeof STOP | typeof CONTINUE | typeof TAIL

export type Emit = (value: Json, path?: Path) => Signal
export type One = (context: EvalContext, env: Env, input: Json) => Json
/** @param path of the input, if paths are tracked; the outputs are then emitted with theirs */
export type Each = (context: EvalContext, env: Env, input: Json, emit: Emit, path?: Path) => Signal
/** Yields one output and may change the `owned` parts of the input in place: only for an input with no other reference. */
export type InPlace = (context: EvalContext, env: Env, input: Json, owned: Owned) => Json

/** A part of an expression, ready to run. */
export interface Filter {
  /** Present if the filter yields exactly one value for every input. */
  readonly one: One | undefined
  readonly each: Each
  /** Present only with `one`. The output must hold parts of the input at most once, and nothing else may keep them. */
  readonly inPlace?: InPlace | undefined
}

/** A filter with one output, which is calculated, so it has no path. */
export function oneValue(one: One): Filter {
  return pathFilter(one, (context, env, input, emit, path) => {
    const value = one(context, env, input)
    return emit(value, pathOfResult(path, input, value))
  })
}

/** A filter with any number of outputs, which tracks paths. */
export function manyValues(each: Each): Filter {
  return { one: undefined, each }
}

/** A filter with any number of outputs, which are calculated, so they have no path. */
export function eachValue(each: Each): Filter {
  return manyValues((context, env, input, emit, path) =>
    path === undefined
      ? each(context, env, input, emit)
      : each(context, env, input, (value) => emit(value, pathOfResult(path, input, value))),
  )
}

/** A filter that tracks paths; without paths, `one` is the shorter way if the filter yields exactly one value. */
export function pathFilter(one: One | undefined, each: Each): Filter {
  if (one === undefined) return manyValues(each)
  return {
    one,
    each: (context, env, input, emit, path) =>
      path === undefined ? emit(one(context, env, input)) : each(context, env, input, emit, path),
  }
}

export const IDENTITY: Filter = {
  one: (_context, _env, input) => input,
  inPlace: (_context, _env, input) => input,
  each: (_context, _env, input, emit, path) => emit(input, path),
}

/** Stands in for absent arguments. */
export const NULL: Filter = oneValue(() => null)

/** A function of one input and up to three arguments. */
export type ValueFunction = (context: EvalContext, input: Json, a: Json, b: Json, c: Json) => Json
export type ValueBuiltins = Readonly<Record<string, ValueFunction>>
export type FilterBuiltins = Readonly<Record<string, (a: Filter, b: Filter, c: Filter) => Filter>>

/** Applies a function to every combination of its arguments' outputs; those of the last argument vary slowest. */
export function applied(apply: ValueFunction, args: readonly Filter[]): Filter {
  const [a = NULL, b = NULL, c = NULL] = args
  const { one: oneA } = a
  const { one: oneB } = b
  const { one: oneC } = c
  if (args.length === 0) {
    return oneValue((context, _env, input) => {
      tick(context)
      return apply(context, input, null, null, null)
    })
  }
  if (oneA !== undefined && oneB !== undefined && oneC !== undefined) {
    return oneValue((context, env, input) => {
      tick(context)
      const third = oneC(context, env, input)
      const second = oneB(context, env, input)
      return apply(context, input, oneA(context, env, input), second, third)
    })
  }
  return eachValue((context, env, input, emit) =>
    c.each(context, env, input, (third) =>
      b.each(context, env, input, (second) =>
        a.each(context, env, input, (first) => {
          tick(context)
          return emit(apply(context, input, first, second, third))
        }),
      ),
    ),
  )
}

/** All outputs of a filter. */
export function collect(filter: Filter, context: EvalContext, env: Env, input: Json): Json[] {
  const values: Json[] = []
  if (filter.one !== undefined) {
    values.push(filter.one(context, env, input))
    return values
  }
  filter.each(context, env, input, (value) => {
    tick(context)
    values.push(value)
    return CONTINUE
  })
  return values
}

/** The first output of a filter, if it has one. */
export function firstOf(filter: Filter, context: EvalContext, env: Env, input: Json): Json | undefined {
  if (filter.one !== undefined) return filter.one(context, env, input)
  let first: Json | undefined
  filter.each(context, env, input, (value) => {
    first = value
    return STOP
  })
  return first
}

/** Charges one step. */
export function tick(context: EvalContext): void {
  if (--context.budget.steps < 0) abort(TOO_MANY_STEPS)
}

/** Steps charged for unwinding the stack to the handler of an error. */
const CAUGHT_STEPS = 15

/** Charges for a caught error. @param depth of the context before the part that failed */
export function recover(context: EvalContext, depth: number): void {
  context.depth = depth
  spend(context.budget, CAUGHT_STEPS)
}

/** A path, the last key first; null is the root, undefined means that paths are not tracked. */
export type Path = PathStep | UntrackedPath | null | undefined

interface PathStep {
  readonly key: Json
  readonly before: PathStep | null
}

/** The path of a calculated value, which has none unless it is the very value at the last known path. */
class UntrackedPath {
  readonly path: PathStep | null
  readonly value: Json

  constructor(path: PathStep | null, value: Json) {
    this.path = path
    this.value = value
  }
}

/** The path of a calculated value: that of the input if it is the same value. */
function pathOfResult(path: Path, input: Json, value: Json): Path {
  if (path === undefined) return undefined
  if (path instanceof UntrackedPath) return Object.is(path.value, value) ? path.path : path
  return Object.is(input, value) ? path : new UntrackedPath(path, input)
}

/** @throws JqError if the value has no path */
export function extendPath(path: Path, key: Json, value: Json): Path {
  if (path === undefined) return undefined
  if (path instanceof UntrackedPath) {
    throw jqError('Invalid path expression near attempt to access element %j of %j', key, value)
  }
  return { key, before: path }
}

/** @throws JqError if the value has no path */
export function checkIterable(path: Path, value: Json): void {
  if (path instanceof UntrackedPath) {
    throw jqError('Invalid path expression near attempt to iterate through %j', value)
  }
}

/** The keys of a tracked path from the root. @throws JqError if the value has no path */
export function keysOfPath(path: Path, value: Json): Json[] {
  if (path === undefined) throw new Error('the filter does not track paths')
  if (path instanceof UntrackedPath) throw jqError('Invalid path expression with result %j', value)
  const keys: Json[] = []
  for (let step = path; step !== null; step = step.before) keys.push(step.key)
  return keys.reverse()
}
