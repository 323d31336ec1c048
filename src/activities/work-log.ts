/** Lines of the worker about its work: one for each attempt of an activity and each end of an execution, bounded in number. */

import type { Info } from '@temporalio/activity'
import type { Log } from '../infra/log.ts'

/** Lines per second and process: a worker may do thousands of things in a second. */
const LINES_PER_SECOND = 100
const SECOND_MS = 1_000

/** Activities of an execution's own thread are many and short; of these, only runs of functions get a line. */
const LOGGED_INLINE = ['runFunctionInline', 'callHttpInline']

export class WorkLog {
  readonly #log: Log
  #endsMs = 0
  #written = 0
  #omitted = 0

  constructor(log: Log) {
    this.#log = log
  }

  /** @param code of the problem that it failed with */
  activityEnded(
    { activityType: activity, workflowExecution, attempt, isLocal }: Info,
    tookMs: number,
    code?: string,
  ): void {
    if (isLocal && !LOGGED_INLINE.includes(activity)) return
    const ms = Math.round(tookMs * 10) / 10
    const work = { activity, workflow: workflowExecution?.workflowId, attempt, ms }
    this.#write({ ...work, status: code === undefined ? 'completed' : 'failed', code }, 'activity')
  }

  executionEnded(workflow: string, execution: string, status: string): void {
    this.#write({ workflow, execution, status }, 'execution')
  }

  /** The first line after a second with too many says how many it has omitted. */
  #write(fields: Readonly<Record<string, unknown>>, message: string): void {
    const nowMs = performance.now()
    if (nowMs >= this.#endsMs) {
      this.#endsMs = nowMs + SECOND_MS
      this.#written = 0
    }
    if (this.#written >= LINES_PER_SECOND) {
      this.#omitted += 1
      return
    }
    this.#written += 1
    const omitted = this.#omitted
    this.#omitted = 0
    this.#log.info(omitted === 0 ? fields : { ...fields, omitted }, message)
  }
}
