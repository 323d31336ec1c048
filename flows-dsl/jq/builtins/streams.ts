/** Implements the builtins that run filters: ranges, limits, quantifiers, recursion. */

import { abort, chargeFields, checkDepth, spend } from '../../budget.ts'
import { isObject, type Json } from '../../json.ts'
import {
  CONTINUE,
  type Emit,
  type Env,
  type EvalContext,
  eachValue,
  extendPath,
  type Filter,
  type FilterBuiltins,
  firstOf,
  IDENTITY,
  manyValues,
  oneValue,
  type Path,
  type Signal,
  STOP,
  tick,
} from '../filter.ts'
import { jqError } from '../jq-error.ts'
import { items } from '../nodes/paths.ts'
import { addInPlace, define, isTrue, keysIn, type Owned } from '../operators.ts'
import { enterCall, leaveCall } from '../trampolines.ts'

const ZERO = oneValue(() => 0)
const ONE = oneValue(() => 1)
const ITEMS: Filter = manyValues((context, _env, input, emit, path) => items(context, input, emit, path))
const EMPTY: Filter = manyValues(() => CONTINUE)

export const STREAMS: FilterBuiltins = {
  'empty/0': () => EMPTY,
  'recurse/0': () => manyValues((context, _env, input, emit, path) => recurse(context, input, emit, path)),
  'map/1': (f) => oneValue((context, env, input) => mapped(context, env, input, f)),
  'select/1': select,
  'range/1': (end) => ranges(ZERO, end, ONE),
  'range/2': (from, end) => ranges(from, end, ONE),
  'range/3': ranges,
  'first/1': (f) => limited(f, 0, 1),
  'limit/2': (count, f) => counted(count, 'limit', (n) => limited(f, 0, n)),
  'skip/2': (count, f) => counted(count, 'skip', (n) => limited(f, n, Number.POSITIVE_INFINITY)),
  'nth/2': (count, f) =>
    counted(count, 'nth', (n) => limited(f, n, 1), "nth doesn't support negative indices"),
  'last/1': last,
  'isempty/1': (f) => oneValue((context, env, input) => firstOf(f, context, env, input) === undefined),
  'any/0': () => quantifier(IDENTITY, ITEMS, true),
  'all/0': () => quantifier(IDENTITY, ITEMS, false),
  'any/1': (condition) => quantifier(ITEMS, condition, true),
  'all/1': (condition) => quantifier(ITEMS, condition, false),
  'any/2': (source, condition) => quantifier(source, condition, true),
  'all/2': (source, condition) => quantifier(source, condition, false),
  'add/1': (f) =>
    oneValue((context, env, input) => {
      let sum: Json = null
      const owned: Owned = new Set()
      f.each(context, env, input, (value) => {
        tick(context)
        sum = addInPlace(sum, value, context.budget, owned)
        return CONTINUE
      })
      return sum
    }),
  'walk/1': (f) => eachValue((context, env, input, emit) => walk(context, env, input, f, 1, emit)),
  'env/0': () => oneValue(() => ({})),
  'now/0': () => oneValue((context) => context.nowMs / 1_000),
  'input/0': () =>
    eachValue(() => {
      throw jqError('break')
    }),
  'inputs/0': () => EMPTY,
  'debug/0': () => IDENTITY,
  'debug/1': () => IDENTITY,
  'stderr/0': () => IDENTITY,
  'input_filename/0': () => oneValue(() => null),
  'input_line_number/0': () => oneValue(() => 0),
  'have_decnum/0': () => oneValue(() => false),
  'have_literal_numbers/0': () => oneValue(() => true),
}

function mapped(context: EvalContext, env: Env, input: Json, f: Filter): Json[] {
  const values: Json[] = []
  tick(context)
  const { one } = f
  if (one !== undefined && Array.isArray(input)) {
    for (let i = 0; i < input.length; i++) {
      tick(context)
      values.push(one(context, env, input[i] ?? null))
    }
    return values
  }
  const push = (value: Json): Signal => {
    tick(context)
    values.push(value)
    return CONTINUE
  }
  items(context, input, (item) => f.each(context, env, item, push))
  return values
}

/** Yields its input once for each true output of the condition. */
function select(condition: Filter): Filter {
  const { one } = condition
  return manyValues((context, env, input, emit, path) => {
    tick(context)
    if (one !== undefined) return isTrue(one(context, env, input)) ? emit(input, path) : CONTINUE
    return condition.each(context, env, input, (value) => (isTrue(value) ? emit(input, path) : CONTINUE))
  })
}

function ranges(from: Filter, to: Filter, by: Filter): Filter {
  return eachValue((context, env, input, emit) =>
    from.each(context, env, input, (start) =>
      to.each(context, env, input, (end) =>
        by.each(context, env, input, (step) => range(context, start, end, step, emit)),
      ),
    ),
  )
}

function range(context: EvalContext, from: Json, to: Json, by: Json, emit: (value: Json) => Signal): Signal {
  if (typeof from !== 'number' || typeof to !== 'number' || typeof by !== 'number') {
    throw jqError('Range bounds must be numeric')
  }
  if (!(by > 0 || by < 0)) return CONTINUE
  for (let i = from; by > 0 ? i < to : i > to; i += by) {
    tick(context)
    if (emit(i) === STOP) return STOP
    // The step is too small to change the number.
    if (i + by === i) abort('A range never ends.')
  }
  return CONTINUE
}

/** `any` if the sign is true, `all` if it is false. Stops at the first item that decides. */
function quantifier(source: Filter, condition: Filter, sign: boolean): Filter {
  return oneValue((context, env, input) => {
    let found = false
    const test: Emit = (value) => {
      tick(context)
      found = isTrue(value) === sign
      return found ? STOP : CONTINUE
    }
    source.each(context, env, input, (item) => condition.each(context, env, item, test))
    return found === sign
  })
}

/** `walk`: applies the filter bottom-up. Within arrays all outputs are kept, within objects the first one, if any. */
function walk(
  context: EvalContext,
  env: Env,
  input: Json,
  f: Filter,
  depth: number,
  emit: (value: Json) => Signal,
): Signal {
  tick(context)
  checkDepth(context.budget, depth)
  enterCall(context, 0)
  let value = input
  if (Array.isArray(input)) {
    const list: Json[] = []
    const push = (item: Json): Signal => {
      list.push(item)
      return CONTINUE
    }
    for (const item of input) walk(context, env, item, f, depth + 1, push)
    value = list
  } else if (isObject(input)) {
    const object = {}
    const keys = keysIn(input, context.budget)
    chargeFields(context.budget, keys.length)
    for (const key of keys) {
      walk(context, env, input[key] ?? null, f, depth + 1, (part) => {
        define(object, key, part)
        return STOP
      })
    }
    value = object
  }
  const signal = f.each(context, env, value, emit)
  leaveCall(context, 0)
  return signal
}

/** `..`: a value and everything below it. */
function recurse(context: EvalContext, value: Json, emit: Emit, path: Path): Signal {
  tick(context)
  if (emit(value, path) === STOP) return STOP
  if (typeof value !== 'object' || value === null) return CONTINUE
  let signal: Signal = CONTINUE
  enterCall(context, 0)
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length && signal !== STOP; i++)
      signal = recurse(context, value[i] ?? null, emit, extendPath(path, i, value))
  } else {
    for (const key of keysIn(value, context.budget)) {
      signal = recurse(context, value[key] ?? null, emit, extendPath(path, key, value))
      if (signal === STOP) break
    }
  }
  leaveCall(context, 0)
  return signal
}

/** Steps of a limit, besides those of its outputs. */
const LIMIT_STEPS = 4

/** Skips some outputs and passes on some. It asks for no more than it needs. */
function limited(f: Filter, skip: number, take: number): Filter {
  return manyValues((context, env, input, emit, path) => {
    if (take <= 0) return CONTINUE
    spend(context.budget, LIMIT_STEPS)
    let [before, left] = [skip, take]
    let isFull = false
    const pass: Emit = (value, valuePath) => {
      tick(context)
      if (before-- > 0) return CONTINUE
      left--
      const signal = emit(value, valuePath)
      isFull = signal !== STOP && left <= 0
      return isFull ? STOP : signal
    }
    const signal = f.each(context, env, input, pass, path)
    return isFull ? CONTINUE : signal
  })
}

/** A filter for each output of `count`. @param message for a negative count */
function counted(
  count: Filter,
  name: string,
  filter: (n: number) => Filter,
  message = `${name} doesn't support negative count`,
): Filter {
  return manyValues((context, env, input, emit, path) =>
    count.each(context, env, input, (n) => {
      if (typeof n !== 'number') throw jqError(`Invalid arguments to ${name}`)
      if (n < 0) throw jqError(message)
      return filter(Math.ceil(n)).each(context, env, input, emit, path)
    }),
  )
}

function last(f: Filter): Filter {
  return manyValues((context, env, input, emit, path) => {
    let found: (() => Signal) | undefined
    const keep: Emit = (value, valuePath) => {
      tick(context)
      found = () => emit(value, valuePath)
      return CONTINUE
    }
    f.each(context, env, input, keep, path)
    return found === undefined ? CONTINUE : found()
  })
}
