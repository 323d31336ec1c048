/** Knows how fields, items and slices are read, and where they stand. */

import type { Json } from '../../json.ts'
import { fieldOf, isObject } from '../../json.ts'
import { at } from '../access.ts'
import type { Of } from '../expression.ts'
import { Failure, failure } from '../failure.ts'
import { type Filter, ON, oneValue, type Run, recover, type Signal, STOP, tick } from '../filter.ts'
import { checkIterable, stepInto } from '../place.ts'
import type { Compile, Scope } from '../scope.ts'
import { keysIn } from '../values.ts'

export const IDENTITY: Filter = {
  one: (_run, _env, input) => input,
  inPlace: (_run, _env, input) => input,
  each: (_run, _env, input, emit) => emit(input),
  at: (_run, _env, place, input, emit) => emit(place, input),
}

export function compileIndex(node: Of<'index'>, scope: Scope, compile: Compile): Filter {
  if (!node.optional && node.key.op === 'literal' && typeof node.key.value === 'string') {
    return fieldFilter(compile(node.of, scope), node.key.value)
  }
  const key = compile(node.key, scope)
  return node.optional
    ? optionalFilter(compile(node.of, scope), key)
    : accessFilter(compile(node.of, scope), key)
}

/** `.a.slice(…)`: the key is an object with `start` and `end`, as jq has it. */
export function compileSlice(node: Of<'slice'>, scope: Scope, compile: Compile): Filter {
  const none = { op: 'literal', value: null } as const
  const start = { op: 'literal', value: 'start' } as const
  const end = { op: 'literal', value: 'end' } as const
  const key = compile(
    { op: 'object', entries: [[start, node.from ?? none] as const, [end, node.to ?? none] as const] },
    scope,
  )
  return node.optional
    ? optionalFilter(compile(node.of, scope), key)
    : accessFilter(compile(node.of, scope), key)
}

function fieldFilter(of: Filter, key: string): Filter {
  const read = (run: Run, value: Json): Json => {
    tick(run)
    if (typeof value === 'object' && value !== null && !Array.isArray(value))
      return fieldOf(value, key) ?? null
    return at(value, key, run.budget)
  }
  const { one } = of
  const place: Filter['at'] = (run, env, before, input, emit) =>
    of.at(run, env, before, input, (here, value) => emit(stepInto(here, key, value), read(run, value)))
  if (one === undefined) {
    return {
      one,
      each: (run, env, input, emit) => of.each(run, env, input, (value) => emit(read(run, value))),
      at: place,
    }
  }
  return { ...oneValue((run, env, input) => read(run, one(run, env, input))), at: place }
}

/** The keys are on the outside: `.[1, 2][3, 4]` yields all of 3 first. */
function accessFilter(of: Filter, key: Filter): Filter {
  const place: Filter['at'] = (run, env, before, input, emit) => {
    return key.each(run, env, input, (k) =>
      of.at(run, env, before, input, (here, value) => {
        tick(run)
        const next = stepInto(here, k, value)
        return emit(next, at(value, k, run.budget))
      }),
    )
  }
  const [ofOne, keyOne] = [of.one, key.one]
  if (ofOne !== undefined && keyOne !== undefined) {
    const one = oneValue((run, env, input) => {
      tick(run)
      const k = keyOne(run, env, input)
      return at(ofOne(run, env, input), k, run.budget)
    })
    return { ...one, at: place }
  }
  return {
    one: undefined,
    each: (run, env, input, emit) =>
      key.each(run, env, input, (k) =>
        of.each(run, env, input, (value) => {
          tick(run)
          return emit(at(value, k, run.budget))
        }),
      ),
    at: place,
  }
}

/** What cannot be read yields nothing; what fails before that fails. */
function optionalFilter(of: Filter, key: Filter): Filter {
  return {
    one: undefined,
    each: (run, env, input, emit) =>
      key.each(run, env, input, (k) =>
        of.each(run, env, input, (value) => {
          const part = partOf(run, value, k)
          return part === undefined ? ON : emit(part)
        }),
      ),
    at: (run, env, before, input, emit) =>
      key.each(run, env, input, (k) =>
        of.at(run, env, before, input, (here, value) => {
          const next = stepInto(here, k, value)
          const part = partOf(run, value, k)
          return part === undefined ? ON : emit(next, part)
        }),
      ),
  }
}

function partOf(run: Run, value: Json, key: Json): Json | undefined {
  tick(run)
  const { depth } = run
  try {
    return at(value, key, run.budget)
  } catch (error) {
    if (!(error instanceof Failure)) throw error
    recover(run, depth)
    return undefined
  }
}

function isContainer(value: Json): boolean {
  return typeof value === 'object' && value !== null
}

export function compileIterate(node: Of<'iterate'>, scope: Scope, compile: Compile): Filter {
  const of = compile(node.of, scope)
  const passes = (value: Json): boolean => node.optional === true && !isContainer(value)
  return {
    one: undefined,
    each: (run, env, input, emit) => {
      const spread = (value: Json): Signal => (passes(value) ? ON : items(run, value, emit))
      return of.one === undefined ? of.each(run, env, input, spread) : spread(of.one(run, env, input))
    },
    at: (run, env, before, input, emit) =>
      of.at(run, env, before, input, (here, value) => {
        checkIterable(here, value)
        if (passes(value)) return ON
        if (!Array.isArray(value)) {
          return items(run, keysOf(run, value), (key) =>
            emit(stepInto(here, key, value), at(value, key, run.budget)),
          )
        }
        for (let i = 0; i < value.length; i++) {
          tick(run)
          if (emit(stepInto(here, i, value), value[i] ?? null) === STOP) return STOP
        }
        return ON
      }),
  }
}

/** `.[]` */
export function items(run: Run, value: Json, emit: (item: Json) => Signal): Signal {
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i++) {
      tick(run)
      if (emit(value[i] ?? null) === STOP) return STOP
    }
    return ON
  }
  if (!isObject(value)) throw failure('Cannot iterate over %v', value)
  for (const key of keysIn(value, run.budget)) {
    tick(run)
    if (emit(value[key] ?? null) === STOP) return STOP
  }
  return ON
}

function keysOf(run: Run, value: Json): Json {
  if (isObject(value)) return keysIn(value, run.budget)
  throw failure('Cannot iterate over %v', value)
}
