/**
 * Compensates completed tasks of an execution that faulted or was cancelled: last completed first, each retried by
 * itself.
 */

import { durationText } from '../compile/duration.ts'
import type { ErrorObject, FlowError } from '../errors.ts'
import type { Lists } from './children.ts'
import type { Desk } from './machine-context.ts'
import type { RunResult, RunState, Undo } from './state.ts'

const ATTEMPTS = 4
const FIRST_DELAY_MS = 1_000

export class Undoing {
  readonly #desk: Desk
  readonly #lists: Lists
  readonly #end: (result: RunResult) => void

  /** What it begins tells `next` or `failed` when it has ended. */
  constructor(desk: Desk, lists: Lists, end: (result: RunResult) => void) {
    this.#desk = desk
    this.#lists = lists
    this.#end = end
  }

  get #state(): RunState {
    return this.#desk.state
  }

  /** What undoes a task is not undone: it would take the place of the task that is being undone, for ever. */
  note(undo: Undo): void {
    if (this.#state.undoing !== undefined) return
    this.#state.undos.push(undo)
  }

  begin(because: { readonly error: ErrorObject } | { readonly cancelled: true }): void {
    this.#state.undoing = { because, undone: [], failures: [], attempt: 1 }
    this.#proceed()
  }

  /** @param key `undo` where one is undone, `again` where it is time for the next attempt */
  next(key: string): void {
    const { undoing, undos } = this.#state
    if (undoing === undefined) return
    if (key === 'undo') {
      const undo = undos.pop()
      if (undo !== undefined) undoing.undone.push(stepOf(undo))
      undoing.attempt = 1
    }
    this.#proceed()
  }

  failed(error: FlowError): void {
    const { undoing, undos } = this.#state
    const undo = undos.at(-1)
    if (undoing === undefined || undo === undefined) return
    if (undoing.attempt < ATTEMPTS) {
      const delayMs = FIRST_DELAY_MS * 2 ** (undoing.attempt - 1)
      undoing.attempt += 1
      this.#wait(undo, delayMs)
      return
    }
    undos.pop()
    undoing.failures.push({ step: stepOf(undo), error: error.toObject() })
    undoing.attempt = 1
    this.#proceed()
  }

  #proceed(): void {
    const undo = this.#state.undos.at(-1)
    if (undo === undefined) this.#end(this.#result())
    else this.#run(undo)
  }

  #run({ pointer, data, variables, context }: Undo): void {
    const memory = { context, isExported: false }
    const list = { parent: 0, key: 'undo', of: pointer, list: 'compensate', variables, data, memory }
    this.#desk.soon(() => this.#lists.open(list))
  }

  #wait({ pointer }: Undo, durationMs: number): void {
    const untilMs = this.#desk.surroundings.nowMs() + durationMs
    const summary = `undo ${pointer} again in ${durationText(durationMs)}`
    this.#desk.ask({ parent: 0, key: 'again' }, { do: 'sleep', untilMs, limits: false, summary })
  }

  #result(): RunResult {
    const { because, undone = [], failures = [] } = this.#state.undoing ?? {}
    const compensation = undone.length + failures.length > 0 ? { compensation: { undone, failures } } : {}
    if (because !== undefined && 'error' in because)
      return { status: 'faulted', error: because.error, ...compensation }
    return { status: 'cancelled', ...compensation }
  }
}

function stepOf({ pointer, iteration }: Undo): string {
  return `${pointer}#${iteration}`
}
