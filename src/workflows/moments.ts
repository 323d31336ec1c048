/** Knows times that stay the same when a workflow task is done again, as that of the task itself does not. */

import { workflowInfo } from '@temporalio/workflow'

/**
 * For ids of what is made beside the run. A task that was lost is done again later, by another clock: only what tasks
 * before it have seen is known for ever. Each moment is later than the one before.
 */
export class Moments {
  #seenMs = workflowInfo().runStartTime.getTime()
  #beforeMs = this.#seenMs
  #lastMs = 0

  /** Milliseconds since 1970: of the task before this one, or of the start of the run. */
  next(): number {
    const now = Number(new Date())
    if (now !== this.#seenMs) [this.#beforeMs, this.#seenMs] = [this.#seenMs, now]
    this.#lastMs = Math.max(this.#beforeMs, this.#lastMs + 1)
    return this.#lastMs
  }
}
