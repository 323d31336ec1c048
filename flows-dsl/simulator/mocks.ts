/** Answers the effects of a simulation from the given mocks, on a virtual clock; a missing answer is an error. */

import { millisecondsOf } from '../compile/duration.ts'
import { type ErrorResponse, FlowError, standardError } from '../errors.ts'
import type { Json, JsonObject } from '../ir.ts'
import { isObject, pointerTo } from '../json.ts'
import type { Effect } from '../machine/state.ts'
import { AWAIT_CALLBACK, callbackName } from '../tasks/call.ts'
import type { StepRef } from '../tasks/task.ts'
import { checkKeys } from './simulation-names.ts'
import { type Answer, type MissingAnswer, type Mocks, SimulationInvalid } from './types.ts'

/** An answer and its delay. */
export interface TimedAnswer {
  readonly afterMs: number
  readonly result: { readonly output: Json } | { readonly error: FlowError }
}

export class MockAnswers {
  readonly #answers: ReadonlyMap<string, TimedAnswer | readonly TimedAnswer[]>
  /** How many answers of each mock were given. */
  readonly used = new Map<string, number>()

  /** @throws SimulationInvalid if an answer is none */
  constructor(mocks: Mocks) {
    const answers = Object.entries(mocks).map(([key, answers]) => [key, parseAnswers(answers, key)] as const)
    this.#answers = new Map(answers)
  }

  /** The next answer for a step or one of these names; undefined if there is none, or no more. */
  next({ pointer, name }: StepRef, ...names: readonly string[]): TimedAnswer | undefined {
    return this.named(pointer, name, ...names)
  }

  /** The next answer for the first of these names that has any. */
  named(...names: readonly string[]): TimedAnswer | undefined {
    const key = names.find((one) => this.#answers.has(one))
    const answers = key === undefined ? undefined : this.#answers.get(key)
    if (key === undefined || answers === undefined) return undefined
    const index = this.used.get(key) ?? 0
    const answer = 'result' in answers ? answers : answers[index]
    if (answer !== undefined) this.used.set(key, index + 1)
    return answer
  }
}

function parseAnswers(answers: Mocks[string], key: string): TimedAnswer | readonly TimedAnswer[] {
  const at = pointerTo('/mocks', key)
  if (!Array.isArray(answers)) return parseAnswer(answers as Answer, at)
  return answers.map((answer, index) => parseAnswer(answer as Answer, `${at}/${index}`))
}

const ANSWER_KEYS = ['output', 'error', 'after']
const ERROR_KEYS = ['type', 'status', 'title', 'detail', 'instance', 'code', 'response']
const RESPONSE_KEYS = ['status', 'headers', 'content', 'truncated']

function parseAnswer(answer: Answer, at: string): TimedAnswer {
  if (!isObject(answer as Json)) throw new SimulationInvalid(at, 'An answer is {output} or {error}.')
  checkKeys(answer, at, ANSWER_KEYS)
  const afterMs = answer.after === undefined ? 0 : parseDelay(answer.after, `${at}/after`)
  if ('error' in answer) return { afterMs, result: { error: errorOf(answer.error, `${at}/error`) } }
  if ('output' in answer) return { afterMs, result: { output: answer.output } }
  throw new SimulationInvalid(at, 'An answer is {output} or {error}.')
}

/** The length of a duration of the flow language, in milliseconds. @throws SimulationInvalid */
export function parseDelay(duration: Json, at: string): number {
  const durationMs = millisecondsOf(duration, 0)
  if (durationMs !== undefined) return durationMs
  throw new SimulationInvalid(at, 'Not a duration; write PT5S, or {seconds: 5}.')
}

/** A standard error by its name (`{type: timeout}`), or any other error. Missing fields have the defaults of the type. */
function errorOf(error: JsonObject, at: string): FlowError {
  if (!isObject(error))
    throw new SimulationInvalid(at, 'An error is {type, status?, title?, detail?, code?, response?}.')
  checkKeys(error, at, ERROR_KEYS)
  const { type, status, title, detail = '', code, response } = error
  if (typeof type !== 'string') throw new SimulationInvalid(`${at}/type`, 'An error needs a type.')
  const known = standardError(type) ?? { type, status: 500, title: 'Error' }
  const kind = {
    type: known.type,
    status: typeof status === 'number' ? status : known.status,
    title: typeof title === 'string' ? title : known.title,
    ...(typeof code === 'string' && { code }),
    ...(response !== undefined && { response: responseOf(response, `${at}/response`) }),
  }
  return new FlowError(kind, String(detail))
}

/** The response of a failed call: `{status?, headers?, content?}`. Names of headers are in lower case, as in executions. */
function responseOf(response: Json, at: string): ErrorResponse {
  if (!isObject(response)) throw new SimulationInvalid(at, 'A response is {status, headers?, content?}.')
  checkKeys(response, at, RESPONSE_KEYS)
  const { status = 500, headers = {}, content = null } = response
  if (typeof status !== 'number') throw new SimulationInvalid(`${at}/status`, 'A status is a number.')
  if (!isObject(headers)) throw new SimulationInvalid(`${at}/headers`, 'Headers are a mapping.')
  const entries = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), String(value)])
  return { status, headers: Object.fromEntries(entries), content }
}

/** The request of an effect, for the trace. */
export function requestOf(effect: Exclude<Effect, { do: 'sleep' }>): JsonObject {
  if (effect.do === 'call') return { function: effect.function, arguments: effect.arguments }
  // Subscriptions are for a host with an event stream.
  const { subscriptions: _, ...details } = effect.details
  return { await: effect.what, details }
}

/** The description of the answer that an effect waits for, with a hint how to give it. */
export function missingAnswer(
  effect: Exclude<Effect, { do: 'sleep' }>,
  { pointer, iteration, name }: StepRef,
): MissingAnswer {
  const step = `${pointer}#${iteration}`
  if (effect.do === 'call') {
    const hint = `Give an answer: mocks: { ${name}: { output: … } }, or for all calls of \`${effect.function}\`.`
    return { step, what: `the answer of ${effect.function}`, hint }
  }
  if (effect.what === 'events')
    return { step, what: 'events', hint: 'Plan them: events: [{ after: PT1S, event: { … } }].' }
  if (effect.what === AWAIT_CALLBACK) {
    const hint = `Give an answer: mocks: { ${callbackName(name)}: { output: … } }.`
    return { step, what: 'a callback', hint }
  }
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

interface Scheduled<T> {
  readonly atMs: number
  readonly value: T
}

/** A virtual clock with a queue of scheduled values. */
export class Clock<T> {
  nowMs: number
  /** Descending by time; of equal times, the one scheduled first is last. */
  readonly #queue: Scheduled<T>[] = []

  constructor(startMs: number) {
    this.nowMs = startMs
  }

  schedule(atMs: number, value: T): void {
    const scheduled = { atMs: Math.max(atMs, this.nowMs), value }
    let low = 0
    for (let high = this.#queue.length; low < high; ) {
      const middle = (low + high) >>> 1
      if ((this.#queue[middle]?.atMs ?? 0) > scheduled.atMs) low = middle + 1
      else high = middle
    }
    this.#queue.splice(low, 0, scheduled)
  }

  /** Advances to the next value that is still wanted and returns it. Other values are dropped without advancing. */
  next(isWanted: (value: T) => boolean): T | undefined {
    for (let next = this.#queue.pop(); next !== undefined; next = this.#queue.pop()) {
      if (!isWanted(next.value)) continue
      this.nowMs = next.atMs
      return next.value
    }
    return undefined
  }
}
