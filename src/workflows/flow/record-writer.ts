/** Writes a run's record: by local activities while it goes on, and with the workflow task that ends it. */

import { CancellationScope, proxyLocalActivities, proxySinks } from '@temporalio/workflow'
import type { Activities, Records } from '../../activities/contract.ts'
import type { RunUpdate } from '../../core/run.ts'

/** Both methods are given what gathers all that is to be written, and ask it when they can write. */
export interface Pen {
  /** @returns when it is written */
  write(taken: () => RunUpdate): Promise<void>
  /** For the last time. @returns when the run may end */
  end(taken: () => RunUpdate): Promise<void>
}

/** One write follows the other, so the last state wins; all that wait for one are one. */
export function pen(): Pen {
  let last: Promise<void> = Promise.resolve()
  let next: Promise<void> | undefined
  let isEnding = false
  return {
    write: (taken) => {
      next ??= last.then(() => {
        next = undefined
        return isEnding ? undefined : recordRun(taken())
      })
      last = next
      return next
    },
    end: (taken) => {
      isEnding = true
      return last.then(() => sinks.records.write(taken()))
    },
  }
}

/** Local: the projection is one short idempotent write, and it must come however long the database is away. */
const activities = proxyLocalActivities<Activities>({
  startToCloseTimeout: '10s',
  retry: { initialInterval: '200ms', backoffCoefficient: 2, maximumInterval: '10s' },
})

/** Whoever is given up takes timers and calls along, a run or a branch, never the record of what was done. */
function recordRun(update: RunUpdate): Promise<void> {
  return CancellationScope.nonCancellable(() => activities.recordRun(update))
}

/** Written before Temporal is told that the run has ended (activities/flow/record-sink.ts), so there is no answer to wait for. */
const sinks = proxySinks<Records>()
