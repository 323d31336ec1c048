/** Assigns ids to local activities that are stable when Temporal re-executes a lost workflow task. */

import { workflowInfo } from '@temporalio/workflow'
import type { CallRequest } from '../../../flows-dsl/machine/driver.ts'
import { LIMITS } from '../../core/limits.ts'
import type { FirstAttempt } from '../../core/work.ts'

/**
 * For ids of what is made beside the run. A task that was lost is done again later, by another clock; its local calls end
 * at other times, in another order, and between other tasks where they last. What is known for ever is when something of
 * the run's history was heard in a task before, and at which place of the flow a call stands.
 */
export class LogicalClock {
  /** Local calls since something was heard, and for how long those of servers elsewhere have been waited for. */
  #made = 0
  #tookMs = 0
  /** How many requests have a task each before another is tried beside the run, now and where that is in vain. */
  #rest = 0
  #nextRest: number = LIMITS.briefCalls.restMin
  /** When something was heard before what was heard last, or the run began: in a task that has ended. */
  #knownMs = workflowInfo().startTime.getTime()
  #heardMs = this.#knownMs
  /** Calls of that moment that had nothing beside them: the same ones, whenever they are made. */
  #alone = 0
  #underWay = 0

  /** Whether there were so many local calls that a task should end: what it does is lost with it. */
  get isTaskFull(): boolean {
    return this.#made >= LIMITS.localCallsMax
  }

  /** Whether the next request to a server elsewhere may be made beside the run. */
  mayTryInline(): boolean {
    if (this.#rest > 0) {
      this.#rest -= 1
      return false
    }
    return !this.isTaskFull && this.#tookMs < LIMITS.briefCalls.taskMs
  }

  /** @param ms how long it took; undefined where it had no place, or was not over in time */
  recordInlineAttempt(ms: number | undefined): void {
    const { restMin, restMax } = LIMITS.briefCalls
    if (ms === undefined) {
      this.#rest = this.#nextRest
      this.#nextRest = Math.min(2 * this.#nextRest, restMax)
    } else {
      this.#tookMs += ms
      this.#nextRest = restMin
    }
  }

  /** Something came that is an event of the run's history. All that a task brings comes at one time, before anything else. */
  tick(): void {
    const now = nowMs()
    this.#startOver()
    if (now === this.#heardMs) return
    // What is heard first makes no other moment known, and still comes between calls.
    this.#alone = this.#knownMs === this.#heardMs ? this.#alone + 1 : 0
    this.#knownMs = this.#heardMs
    this.#heardMs = now
  }

  /** What is no local call answers: a timer, an activity, another flow. */
  tickAfter(work: Promise<unknown>): void {
    const heard = () => this.tick()
    // Beside whoever waits for it, so that it is heard in the activation that brings it.
    void work.then(heard, heard)
  }

  /**
   * So does a call that could have been local: the task ends there, and no moment is known by it. Where it is all done
   * again, the same call may be a local one.
   */
  resetAfter(work: Promise<unknown>): void {
    const ended = () => this.#startOver()
    void work.then(ended, ended)
  }

  /** A task has ended, and what is lost begins anew. */
  #startOver(): void {
    this.#made = 0
    this.#tookMs = 0
  }

  /** Whether calls beside the run go on: what they answer comes before the task ends. */
  get hasInlineCalls(): boolean {
    return this.#underWay > 0
  }

  /** A call beside the run begins. @returns says that it has ended */
  startInlineCall(): () => void {
    this.#underWay += 1
    return () => {
      this.#underWay -= 1
    }
  }

  /** Where a call of a step begins that is local, or could be, whatever else the run does meanwhile. */
  firstAttemptOf({ step, isConcurrent: beside }: CallRequest): FirstAttempt {
    this.#made += 1
    if (!beside) this.#alone += 1
    const order = (this.#alone % 2 ** 12) * 2 ** 20 + (beside ? concurrentOrder(step) : 0)
    return { activity_id: `local-${step.path}`, at_ms: this.#knownMs, order }
  }
}

/** Beside others: how often the list around it had been run, then where in that list it stands. */
function concurrentOrder({ path: place, pointer }: CallRequest['step']): number {
  const nth = Number(/~x(\d+)[^~]*$/.exec(place)?.[1] ?? 0)
  const index = Number(/\/(\d+)\/[^/]*$/.exec(pointer)?.[1] ?? 0)
  return (nth % 2 ** 12) * 2 ** 8 + (index % 2 ** 8)
}

/** In the sandbox `Date` is the time of the current workflow task: the same at each replay. */
export function nowMs(): number {
  return Number(new Date())
}
