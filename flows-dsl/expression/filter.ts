/** Knows what an expression becomes before it runs: functions that pass each output on to who asks. */

import type { Json } from '../json.ts'
import type { Budget } from './budget.ts'
import { refuse, spend } from './budget.ts'
import { type Place, strayed } from './place.ts'
import type { Owned } from './values.ts'

/** What an evaluation knows, and how deep it is. */
export interface Run {
  readonly budget: Budget
  readonly variables: Readonly<Record<string, Json>>
  /** The time of the run: `now`. */
  readonly nowMs: number
  /** How much of the stack is used, in levels of expressions. */
  depth: number
  /** The call that is to be made once the stack is as it was before the caller of the function. */
  tail: TailCall | undefined
}

interface TailCall {
  readonly body: Filter
  readonly env: Env
  readonly input: Json
}

/** Variables and parameters, the latest first. A filter knows when it is made how far back each one is. */
export type Env = Held | undefined

export interface Held {
  readonly value: Json
  /** The argument behind a parameter, with the place where it was written. */
  readonly closure: Closure | undefined
  readonly label: Leaving | undefined
  readonly next: Env
}

export interface Closure {
  readonly filter: Filter
  readonly env: Env
  /** What the argument holds of the stack while its outputs are used. */
  readonly height: number
}

/** `break`: thrown past everything up to the label. No `Error`, whose stack each label would have paid for. */
export class Leaving {}

/** Who receives the outputs wants no more. */
export const STOP = 0
/** Who receives the outputs wants the next one. */
export const ON = 1
/** `run.tail` is still to be called, with the same receiver. */
export const TAIL = 2

/** Only a filter that is compiled for the end of a function gives TAIL. */
export type Signal = typeof STOP | typeof ON | typeof TAIL

export type Emit = (value: Json) => Signal
export type EmitAt = (place: Place, value: Json) => Signal

export type One = (run: Run, env: Env, input: Json) => Json
export type Each = (run: Run, env: Env, input: Json, emit: Emit) => Signal
/** Yields one output, and changes what is `owned` of the input in place: only for an input that nothing else refers to. */
export type InPlace = (run: Run, env: Env, input: Json, owned: Owned) => Json
type At = (run: Run, env: Env, place: Place, input: Json, emit: EmitAt) => Signal

/** A part of an expression, ready to run. */
export interface Filter {
  /** There where it yields exactly one value, whatever the input is. */
  readonly one: One | undefined
  readonly each: Each
  /** There where `one` is, and the input may be changed; nothing of the input is kept but in the output, and there once. */
  readonly inPlace?: InPlace | undefined
  /** Yields its outputs together with where in the input they stand. */
  readonly at: At
}

/** A filter with one output that stands nowhere in the input. */
export function oneValue(one: One): Filter {
  return {
    one,
    each: (run, env, input, emit) => emit(one(run, env, input)),
    at: (run, env, place, input, emit) => {
      const value = one(run, env, input)
      return emit(strayed(place, input, value), value)
    },
  }
}

/** A filter whose outputs stand nowhere in the input. */
export function eachValue(each: Each): Filter {
  return {
    one: undefined,
    each,
    at: (run, env, place, input, emit) =>
      each(run, env, input, (value) => emit(strayed(place, input, value), value)),
  }
}

/** Calls what is still to be called. */
export function settle(run: Run, signal: Signal, emit: Emit): Signal {
  let now = signal
  while (now === TAIL) {
    const { tail } = run
    if (tail === undefined) return ON
    tick(run)
    now = tail.body.each(run, tail.env, tail.input, emit)
  }
  return now
}

/** Pays for one step. */
export function tick(run: Run): void {
  if (--run.budget.steps < 0) refuse('The expressions of the flow take too many steps.')
}

/** To unwind the stack up to what catches an error, in steps. */
const CAUGHT_STEPS = 15

/** Pays for an error that was caught, and goes back to the depth from before. @param depth of `run`, then */
export function recover(run: Run, depth: number): void {
  run.depth = depth
  spend(run.budget, CAUGHT_STEPS)
}

/** All outputs of a filter, as an array. */
export function collect(filter: Filter, run: Run, env: Env, input: Json): Json[] {
  const values: Json[] = []
  if (filter.one !== undefined) {
    values.push(filter.one(run, env, input))
    return values
  }
  filter.each(run, env, input, (value) => {
    tick(run)
    values.push(value)
    return ON
  })
  return values
}

/** Levels of expressions that may be open at once. All of them need less than half of the stack of a main thread. */
const OPEN_MAX = 2_000

/** What a call takes besides the expressions in it. */
const CALL_LEVELS = 3

/** Goes deeper, by a call; `ascend` goes back, unless an error does. */
export function descend(run: Run, levels: number): void {
  run.depth += levels + CALL_LEVELS
  if (run.depth > OPEN_MAX) refuse(`Functions call each other deeper than ${OPEN_MAX} levels of expressions.`)
}

export function ascend(run: Run, levels: number): void {
  run.depth -= levels + CALL_LEVELS
}

/** Calls what is still to be called, in the midst of a function. */
export function settleWithin(run: Run, levels: number, signal: Signal, emit: Emit): Signal {
  if (signal !== TAIL) return signal
  descend(run, levels)
  const settled = settle(run, signal, emit)
  ascend(run, levels)
  return settled
}
