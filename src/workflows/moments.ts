/** Knows times that stay the same when a workflow task is done again, as that of the task itself does not. */

import { workflowInfo } from '@temporalio/workflow'
import { LIMITS } from '../core/limits.ts'

/**
 * For ids of what is made beside the run. A task that was lost is done again later, by another clock, and its local calls
 * end at other times, between other tasks where it lasts: only when it was that something of the run's history was heard
 * before, in another task, is known for ever. Each moment is later than the one before.
 */
export class Moments {
  /** Local calls since something was heard. */
  #made = 0
  /** When something was heard before what was heard last, or the run began: that is in a task that has ended. */
  #knownMs = workflowInfo().startTime.getTime()
  #heardMs = this.#knownMs
  #lastMs: number

  /** @param lastMs the last one, where the run has been elsewhere */
  constructor(lastMs = 0) {
    this.#lastMs = lastMs
  }

  get lastMs(): number {
    return this.#lastMs
  }

  /** Whether there were so many local calls that a task should end: what it does is lost with it. */
  get areMany(): boolean {
    return this.#made >= LIMITS.localCallsMax
  }

  /** What is no local call answers: a timer, an activity, the world. All that a task brings comes at one time. */
  answeredBy(work: Promise<unknown>): void {
    const heard = () => this.#hear(Number(new Date()))
    // Beside whoever waits for it, so that it is heard in the activation that brings it.
    void work.then(heard, heard)
  }

  /** Milliseconds since 1970: of what was heard in a task before, or of the start of the run. */
  next(): number {
    this.#made += 1
    this.#lastMs = Math.max(this.#knownMs, this.#lastMs + 1)
    return this.#lastMs
  }

  #hear(nowMs: number): void {
    this.#made = 0
    if (nowMs === this.#heardMs) return
    this.#knownMs = this.#heardMs
    this.#heardMs = nowMs
  }
}
