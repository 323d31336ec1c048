/** Assigns ids to local activities that are stable when Temporal re-executes a lost workflow task. */

import { uuid4, workflowInfo } from '@temporalio/workflow'
import type { CallRequest } from '../../../flows-dsl/machine/driver.ts'
import type { FirstAttempt } from '../../core/work.ts'
import { FLOW_LIMITS } from '../../features/flows/limits.ts'

/**
 * A repeated workflow task runs at another time, and its local calls may end in another order. Only the time of earlier
 * history events and the path of a step survive, so ids of local calls derive from these two.
 */
export class LogicalClock {
  /** Local calls of this workflow task, and the time that those to other servers took. */
  #localCalls = 0
  #inlineMs = 0
  /** Number of requests that become activities before the next inline attempt, now and after the next failure. */
  #skip = 0
  #nextSkip: number = FLOW_LIMITS.inlineCalls.skippedCalls.min
  /** Time of the event before the last one (or of the start), which lies in a completed task. */
  #stableMs = workflowInfo().startTime.getTime()
  #lastMs = this.#stableMs
  /** Number of sequential calls since then: the same in each repetition. */
  #sequential = 0
  #inlineCalls = 0

  /** The time of the last event that arrived, or of the start: calls made before it belong to earlier workflow tasks. */
  get taskMs(): number {
    return this.#lastMs
  }

  /** True if the task should end, since so many local calls would be repeated if it were lost. */
  get isTaskFull(): boolean {
    return this.#localCalls >= FLOW_LIMITS.localCallsMax
  }

  /** True if the next request to another server may be tried inline. */
  mayTryInline(): boolean {
    if (this.#skip > 0) {
      this.#skip -= 1
      return false
    }
    return !this.isTaskFull && this.#inlineMs < FLOW_LIMITS.inlineCalls.taskMs
  }

  /** @param ms the duration of the attempt; undefined if it was not admitted or not fast enough */
  recordInlineAttempt(ms: number | undefined): void {
    const { min: restMin, max: restMax } = FLOW_LIMITS.inlineCalls.skippedCalls
    if (ms === undefined) {
      this.#skip = this.#nextSkip
      this.#nextSkip = Math.min(2 * this.#nextSkip, restMax)
    } else {
      this.#inlineMs += ms
      this.#nextSkip = restMin
    }
  }

  /** Records the arrival of a history event. All events of one task arrive at the same time. */
  tick(): void {
    const now = nowMs()
    this.#resetTask()
    if (now === this.#lastMs) return
    // The first event after the start does not move the stable time, but still separates calls.
    this.#sequential = this.#stableMs === this.#lastMs ? this.#sequential + 1 : 0
    this.#stableMs = this.#lastMs
    this.#lastMs = now
  }

  /** Ticks when a timer, an activity or a sub-flow ends. */
  tickAfter(work: Promise<unknown>): void {
    const tick = () => this.tick()
    // A handler of its own, so that it runs in the activation that brings the result.
    void work.then(tick, tick)
  }

  /**
   * Starts a new task's counts after a call that could have been local. It does not tick, since the same call may be
   * local in a repetition.
   */
  resetAfter(work: Promise<unknown>): void {
    const ended = () => this.#resetTask()
    void work.then(ended, ended)
  }

  /** Resets the counts: a workflow task has ended. */
  #resetTask(): void {
    this.#localCalls = 0
    this.#inlineMs = 0
  }

  /** True if inline calls run, whose results arrive before the task ends. */
  get hasInlineCalls(): boolean {
    return this.#inlineCalls > 0
  }

  /** Counts an inline call. @returns a function that ends it */
  startInlineCall(): () => void {
    this.#inlineCalls += 1
    return () => {
      this.#inlineCalls -= 1
    }
  }

  /** The identity of a call that is local or could be, independent of concurrent work. */
  firstAttemptOf({ step, isConcurrent }: CallRequest): FirstAttempt {
    this.#localCalls += 1
    if (!isConcurrent) this.#sequential += 1
    const order = (this.#sequential % 2 ** 12) * 2 ** 20 + (isConcurrent ? concurrentOrder(step) : 0)
    return { activity_id: `local-${step.path}`, at_ms: this.#stableMs, order }
  }
}

/** Orders concurrent calls by the iteration of the enclosing list, then by position in it. */
function concurrentOrder({ path, pointer }: CallRequest['step']): number {
  const nth = Number(/~x(\d+)[^~]*$/.exec(path)?.[1] ?? 0)
  const index = Number(/\/(\d+)\/[^/]*$/.exec(pointer)?.[1] ?? 0)
  return (nth % 2 ** 12) * 2 ** 8 + (index % 2 ** 8)
}

/** The time of the current workflow task, the same at each replay: the sandbox replaces `Date`. */
export function nowMs(): number {
  return Number(new Date())
}

/** A random number from 0 to below 1, the same at each replay. */
export const randomFraction = (): number => Number.parseInt(uuid4().slice(0, 8), 16) / 2 ** 32
