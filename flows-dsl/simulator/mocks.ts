/** Answers the effects of a simulation from the given mocks, on a virtual clock; a missing answer is an error. */

import { millisecondsOf } from '../compile/duration.ts'
import { ERRORS, type ErrorKind, FlowError } from '../errors.ts'
import type { Json, JsonObject } from '../ir.ts'
import { isObject } from '../json.ts'
import type { Effect } from '../machine/state.ts'
import type { StepRef } from '../tasks/task.ts'
import type { Wanted } from './types.ts'
import { type Answer, type Mocks, SimulationInvalid } from './types.ts'

/** An answer, and when it comes. */
export interface Answered {
  readonly afterMs: number
  readonly how: { readonly output: Json } | { readonly error: FlowError }
}

export class Answers {
  readonly #mocks: Mocks
  readonly #used = new Map<string, number>()

  constructor(mocks: Mocks) {
    this.#mocks = mocks
  }

  /** The answer to what a step asks, by one of those names; undefined where there is none, or no more. */
  next({ pointer, name }: StepRef, ...asked: readonly string[]): Answered | undefined {
    const key = [pointer, name, ...asked].find((one) => Object.hasOwn(this.#mocks, one))
    const given = key === undefined ? undefined : this.#mocks[key]
    if (key === undefined || given === undefined) return undefined
    const at = `/mocks/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`
    if (!Array.isArray(given)) return answered(given as Answer, at)
    const index = this.#used.get(key) ?? 0
    this.#used.set(key, index + 1)
    return index < given.length ? answered(given[index] as Answer, `${at}/${index}`) : undefined
  }
}

function answered(answer: Answer, at: string): Answered {
  if (!isObject(answer as Json)) throw new SimulationInvalid(at, 'An answer is {output} or {error}.')
  const afterMs = answer.after === undefined ? 0 : afterOf(answer.after, `${at}/after`)
  if ('error' in answer) return { afterMs, how: { error: errorOf(answer.error, `${at}/error`) } }
  if ('output' in answer) return { afterMs, how: { output: answer.output } }
  throw new SimulationInvalid(at, 'An answer is {output} or {error}.')
}

/** A duration as the language writes one. @throws SimulationInvalid */
export function afterOf(duration: Json, at: string): number {
  const durationMs = millisecondsOf(duration, 0)
  if (durationMs !== undefined) return durationMs
  throw new SimulationInvalid(at, 'Not a duration; write PT5S, or {seconds: 5}.')
}

/** A standard error by its name (`{type: timeout}`), or one of its own; what is not given is of the type. */
function errorOf(given: JsonObject, at: string): FlowError {
  if (!isObject(given)) throw new SimulationInvalid(at, 'An error is {type, status?, title?, detail?}.')
  const { type, status, title, detail = '' } = given
  if (typeof type !== 'string') throw new SimulationInvalid(`${at}/type`, 'An error needs a type.')
  const known: ErrorKind = Object.hasOwn(ERRORS, type)
    ? ERRORS[type as keyof typeof ERRORS]
    : { type, status: 500, title: 'Error' }
  const kind = {
    type: known.type,
    status: typeof status === 'number' ? status : known.status,
    title: typeof title === 'string' ? title : known.title,
  }
  return new FlowError(kind, String(detail))
}

export function asked(effect: Exclude<Effect, { do: 'sleep' }>): JsonObject {
  if (effect.do === 'call') return { function: effect.function, arguments: effect.arguments }
  return { await: effect.what, details: effect.details }
}

export function wantedBy(
  effect: Exclude<Effect, { do: 'sleep' }>,
  { pointer, iteration, name }: StepRef,
): Wanted {
  const step = `${pointer}#${iteration}`
  if (effect.do === 'call') {
    const hint = `Give an answer: mocks: { ${name}: { output: … } }, or for all calls of \`${effect.function}\`.`
    return { step, what: `the answer of ${effect.function}`, hint }
  }
  if (effect.what === 'events')
    return { step, what: 'events', hint: 'Plan them: events: [{ after: PT1S, event: { … } }].' }
  if (effect.what === 'approval') {
    const hint = `Plan one: decisions: [{ task: ${name}, decision: { by: …, approved: true } }].`
    return { step, what: 'a decision', hint }
  }
  return {
    step,
    what: `the end of a ${effect.what}`,
    hint: `Give an answer: mocks: { ${name}: { output: … } }.`,
  }
}

interface Due<T> {
  readonly atMs: number
  readonly seq: number
  readonly what: T
}

export class Clock<T> {
  nowMs: number
  readonly #due: Due<T>[] = []
  #seq = 0

  constructor(startMs: number) {
    this.nowMs = startMs
  }

  plan(atMs: number, what: T): void {
    const due = { atMs: Math.max(atMs, this.nowMs), seq: this.#seq++, what }
    let low = 0
    for (let high = this.#due.length; low < high; ) {
      const middle = (low + high) >>> 1
      if ((this.#due[middle]?.atMs ?? 0) > due.atMs) low = middle + 1
      else high = middle
    }
    // The last is the next: those of the same time that were planned before stand behind.
    this.#due.splice(low, 0, due)
  }

  /** Lets time pass until the next is due that is still wanted; for others no time passes. */
  next(isWanted: (what: T) => boolean): T | undefined {
    for (let due = this.#due.pop(); due !== undefined; due = this.#due.pop()) {
      if (!isWanted(due.what)) continue
      this.nowMs = due.atMs
      return due.what
    }
    return undefined
  }
}
