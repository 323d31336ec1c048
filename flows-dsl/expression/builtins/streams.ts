/** Knows the builtins that run their arguments: for each item, up to a limit, until something is found. */

import type { Json } from '../../json.ts'
import { isObject } from '../../json.ts'
import { chargeFields, checkDepth, refuse } from '../budget.ts'
import { failure } from '../failure.ts'
import {
  ascend,
  descend,
  type Each,
  type Env,
  eachValue,
  type Filter,
  ON,
  oneValue,
  type Run,
  type Signal,
  STOP,
  tick,
} from '../filter.ts'
import { firstOf } from '../nodes/assign.ts'
import { items } from '../nodes/paths.ts'
import { addInPlace, define, isTrue, keysIn, type Owned } from '../values.ts'
import type { FilterBuiltins } from './builtin.ts'
import { recurse } from './recurse.ts'
import { counted, last, limited } from './some.ts'

export const STREAMS: FilterBuiltins = {
  'empty/0': () => ({ one: undefined, each: () => ON, at: () => ON }),
  'recurse/0': recurse,
  'map/1': (f) => oneValue((run, env, input) => mapped(run, env, input, f)),
  'select/1': select,
  'range/1': (upto) => ranges(upto, (run, _env, _input, to, emit) => range(run, 0, to, 1, emit)),
  'range/2': (from, upto) =>
    ranges(from, (run, env, input, start, emit) =>
      upto.each(run, env, input, (to) => range(run, start, to, 1, emit)),
    ),
  'range/3': (from, upto, by) =>
    ranges(from, (run, env, input, start, emit) =>
      upto.each(run, env, input, (to) =>
        by.each(run, env, input, (step) => range(run, start, to, step, emit)),
      ),
    ),
  'first/1': (f) => limited(f, 0, 1),
  'limit/2': (count, f) => counted(count, 'limit', (n) => limited(f, 0, n)),
  'skip/2': (count, f) => counted(count, 'skip', (n) => limited(f, n, Number.POSITIVE_INFINITY)),
  'nth/2': (count, f) =>
    counted(count, 'nth', (n) => limited(f, n, 1), "nth doesn't support negative indices"),
  'last/1': last,
  'isempty/1': (f) => oneValue((run, env, input) => firstOf(f, run, env, input) === undefined),
  'any/0': () => oneValue((run, _env, input) => found(run, (test) => items(run, input, test), isTrue)),
  'all/0': () => oneValue((run, _env, input) => !found(run, (test) => items(run, input, test), isFalse)),
  'any/1': (condition) => quantifier(undefined, condition, true),
  'all/1': (condition) => quantifier(undefined, condition, false),
  'any/2': (source, condition) => quantifier(source, condition, true),
  'all/2': (source, condition) => quantifier(source, condition, false),
  'add/1': (f) =>
    oneValue((run, env, input) => {
      let sum: Json = null
      const owned: Owned = new Set()
      f.each(run, env, input, (value) => {
        tick(run)
        sum = addInPlace(sum, value, run.budget, owned)
        return ON
      })
      return sum
    }),
  'walk/1': (f) => eachValue((run, env, input, emit) => walk(run, env, input, f, 1, emit)),
  'env/0': () => oneValue(() => ({})),
  'now/0': () => oneValue((run) => run.nowMs / 1_000),
  'input/0': () =>
    eachValue(() => {
      throw failure('break')
    }),
  'inputs/0': () => ({ one: undefined, each: () => ON, at: () => ON }),
  'debug/0': () => same(),
  'debug/1': () => same(),
  'stderr/0': () => same(),
  'input_filename/0': () => oneValue(() => null),
  'input_line_number/0': () => oneValue(() => 0),
  'have_decnum/0': () => oneValue(() => false),
  'have_literal_numbers/0': () => oneValue(() => true),
}

function same(): Filter {
  return {
    one: (_run, _env, input) => input,
    each: (_run, _env, input, emit) => emit(input),
    at: (_run, _env, place, input, emit) => emit(place, input),
  }
}

function mapped(run: Run, env: Env, input: Json, f: Filter): Json[] {
  const values: Json[] = []
  tick(run)
  const { one } = f
  if (one !== undefined && Array.isArray(input)) {
    for (let i = 0; i < input.length; i++) {
      tick(run)
      values.push(one(run, env, input[i] ?? null))
    }
    return values
  }
  const push = (value: Json): Signal => {
    tick(run)
    values.push(value)
    return ON
  }
  items(run, input, (item) => f.each(run, env, item, push))
  return values
}

/** As often as the condition is true. */
function select(condition: Filter): Filter {
  const { one } = condition
  return {
    one: undefined,
    each: (run, env, input, emit) => {
      tick(run)
      if (one !== undefined) return isTrue(one(run, env, input)) ? emit(input) : ON
      return condition.each(run, env, input, (value) => (isTrue(value) ? emit(input) : ON))
    },
    at: (run, env, place, input, emit) => {
      tick(run)
      return condition.each(run, env, input, (value) => (isTrue(value) ? emit(place, input) : ON))
    },
  }
}

type FromStart = (run: Run, env: Env, input: Json, start: Json, emit: (value: Json) => Signal) => Signal

function ranges(start: Filter, from: FromStart): Filter {
  return eachValue((run, env, input, emit) =>
    start.each(run, env, input, (value) => from(run, env, input, value, emit)),
  )
}

function range(run: Run, from: Json, to: Json, by: Json, emit: (value: Json) => Signal): Signal {
  if (typeof from !== 'number' || typeof to !== 'number' || typeof by !== 'number') {
    throw failure('Range bounds must be numeric')
  }
  if (!(by > 0 || by < 0)) return ON
  for (let i = from; by > 0 ? i < to : i > to; i += by) {
    tick(run)
    if (emit(i) === STOP) return STOP
    // A step that is too small to change the number would go on for ever.
    if (i + by === i) refuse('A range never ends.')
  }
  return ON
}

function isFalse(value: Json): boolean {
  return !isTrue(value)
}

/** Whether a source gives something of which the test holds; asks for no more than it needs. */
function found(
  run: Run,
  source: (test: (value: Json) => Signal) => Signal,
  holds: (value: Json) => boolean,
): boolean {
  let yes = false
  source((value) => {
    tick(run)
    yes = holds(value)
    return yes ? STOP : ON
  })
  return yes
}

/** `any` where the sign is true, `all` where it is not. */
function quantifier(source: Filter | undefined, condition: Filter, sign: boolean): Filter {
  const each: Each = source?.each ?? ((run, _env, input, emit) => items(run, input, emit))
  return oneValue((run, env, input) => {
    const one = found(
      run,
      (test) => each(run, env, input, (item) => condition.each(run, env, item, test)),
      (value) => isTrue(value) === sign,
    )
    return one === sign
  })
}

/** What each level of a value takes of the stack. */
const WALK_LEVELS = 0

/** From the leaves up. A part for which there is no output is left out; the first output is taken within arrays. */
function walk(
  run: Run,
  env: Env,
  input: Json,
  f: Filter,
  depth: number,
  emit: (value: Json) => Signal,
): Signal {
  tick(run)
  checkDepth(run.budget, depth)
  descend(run, WALK_LEVELS)
  let value = input
  if (Array.isArray(input)) {
    const list: Json[] = []
    const push = (item: Json): Signal => {
      list.push(item)
      return ON
    }
    for (const item of input) walk(run, env, item, f, depth + 1, push)
    value = list
  } else if (isObject(input)) {
    const object = {}
    const keys = keysIn(input, run.budget)
    chargeFields(run.budget, keys.length)
    for (const key of keys) {
      walk(run, env, input[key] ?? null, f, depth + 1, (part) => {
        define(object, key, part)
        return STOP
      })
    }
    value = object
  }
  const signal = f.each(run, env, value, emit)
  ascend(run, WALK_LEVELS)
  return signal
}
