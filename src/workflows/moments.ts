/** Knows times that stay the same when a workflow task is done again, as that of the task itself does not. */

import { workflowInfo } from '@temporalio/workflow'
import { LIMITS } from '../core/limits.ts'

/**
 * For ids of what is made beside the run. A task that was lost is done again later, by another clock, and its local calls
 * end at other times: only what tasks before it have seen is known for ever. Each moment is later than the one before.
 */
export class Moments {
  /** Events before the task that is done; another number is another task. */
  #length = -1
  #inTask = 0
  #knownMs = 0
  /** Not `runStartTime`, which is that of the first task. */
  #seenMs = workflowInfo().startTime.getTime()
  #lastMs: number

  /** @param lastMs the last one, where the run has been elsewhere */
  constructor(lastMs = 0) {
    this.#lastMs = lastMs
  }

  get lastMs(): number {
    return this.#lastMs
  }

  /** Whether the task has made so many local calls that it should end: what it does is lost with it. */
  get areMany(): boolean {
    return workflowInfo().historyLength === this.#length && this.#inTask >= LIMITS.localCallsMax
  }

  /** The time, in the sandbox that of the workflow task: the same at each replay, and seen. */
  now(): number {
    const { historyLength } = workflowInfo()
    if (historyLength !== this.#length) {
      this.#length = historyLength
      this.#inTask = 0
      this.#knownMs = this.#seenMs
    }
    this.#seenMs = Number(new Date())
    return this.#seenMs
  }

  /** Milliseconds since 1970: of what the task before this one has seen last, or of the start of the run. */
  next(): number {
    this.now()
    this.#inTask += 1
    this.#lastMs = Math.max(this.#knownMs, this.#lastMs + 1)
    return this.#lastMs
  }
}
