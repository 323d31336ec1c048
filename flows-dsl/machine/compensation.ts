/**
 * Compensates completed tasks of an execution that faulted or was cancelled: last completed first, each retried by
 * itself.
 */

import { durationText } from '../compile/duration.ts'
import type { ErrorObject, FlowError } from '../errors.ts'
import type { Lists } from './children.ts'
import type { MachineContext } from './machine-context.ts'
import type { CompletedTask, FlowResult, FlowState } from './state.ts'
import { hasUnsettled, isEnding, remember } from './unsettled-calls.ts'

const ATTEMPTS = 4
const FIRST_DELAY_MS = 1_000

export class Compensator {
  readonly #machine: MachineContext
  readonly #lists: Lists
  readonly #end: (result: FlowResult) => void

  /** The owner of the lists calls `next` or `failed` when a compensation has ended. */
  constructor(machine: MachineContext, lists: Lists, end: (result: FlowResult) => void) {
    this.#machine = machine
    this.#lists = lists
    this.#end = end
  }

  get #state(): FlowState {
    return this.#machine.state
  }

  /** Remembers a completed task, except one that ends the execution: compensations are not compensated themselves. */
  add(undo: CompletedTask): void {
    if (!isEnding(this.#state)) remember(this.#state, undo)
  }

  begin(because: { readonly error: ErrorObject } | { readonly cancelled: true }): void {
    this.#state.compensation = { because, undone: [], failures: [], attempt: 1 }
    this.#proceed()
  }

  /** @param key `undo` after a task was compensated, `again` when the next attempt is due */
  next(key: string): void {
    const { compensation: undoing, completed: undos } = this.#state
    if (undoing === undefined) return
    if (key === 'undo') {
      const undo = undos.pop()
      if (undo !== undefined) undoing.undone.push(stepOf(undo))
      undoing.attempt = 1
    }
    this.#proceed()
  }

  failed(error: FlowError): void {
    const { compensation: undoing, completed: undos } = this.#state
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

  /** Goes on when the outcome of every cancelled call is known, as it waited for them. */
  settled(): void {
    if (this.#state.compensation?.isWaiting !== true) return
    delete this.#state.compensation.isWaiting
    this.#proceed()
  }

  #proceed(): void {
    const { compensation } = this.#state
    if (compensation !== undefined && hasUnsettled(this.#state)) {
      compensation.isWaiting = true
      return
    }
    const undo = this.#state.completed.at(-1)
    if (undo === undefined) this.#end(this.#result())
    else this.#run(undo)
  }

  #run({ pointer, data, variables, context }: CompletedTask): void {
    const branchContext = { context, isExported: false }
    const list = { parent: 0, key: 'undo', of: pointer, list: 'compensate', variables, data, branchContext }
    this.#machine.scheduleNext(() => this.#lists.open(list))
  }

  #wait({ pointer }: CompletedTask, durationMs: number): void {
    const untilMs = this.#machine.environment.nowMs() + durationMs
    const summary = `undo ${pointer} again in ${durationText(durationMs)}`
    this.#machine.startEffect({ parent: 0, key: 'again' }, { do: 'sleep', untilMs, limits: false, summary })
  }

  #result(): FlowResult {
    const { because, undone = [], failures = [] } = this.#state.compensation ?? {}
    const compensation = undone.length + failures.length > 0 ? { compensation: { undone, failures } } : {}
    if (because !== undefined && 'error' in because)
      return { status: 'faulted', error: because.error, ...compensation }
    return { status: 'cancelled', ...compensation }
  }
}

function stepOf({ pointer, iteration }: CompletedTask): string {
  return `${pointer}#${iteration}`
}
