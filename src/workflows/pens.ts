/** How what a run has to record is written: by a local activity, and at its end with the task that ends it. */

import { CancellationScope, proxyLocalActivities, proxySinks } from '@temporalio/workflow'
import type { Activities, Records } from '../activities/contract.ts'
import type { RunUpdate } from '../core/run.ts'

/** Each is given what gathers all that is to be written, and asks it when it can write. */
export interface Pen {
  /** @returns when it is written */
  write(taken: () => RunUpdate): Promise<void>
  /** For the last time. @returns when the run may end */
  end(taken: () => RunUpdate): Promise<void>
}

/**
 * One write follows the other, so the last state wins.
 * @param protocol of when the run began (core/run.ts)
 */
export function penOf(protocol: number): Pen {
  const merges = protocol >= 2
  let last: Promise<void> = Promise.resolve()
  let next: Promise<void> | undefined
  let isEnding = false
  const write: Pen['write'] = (taken) => {
    if (merges && next !== undefined) return next
    const update = merges ? undefined : taken()
    const written = last.then(() => {
      next = undefined
      if (isEnding) return
      return recordRun(update ?? taken())
    })
    next = written
    last = written
    return written
  }
  if (protocol < 4) return { write, end: write }
  const end: Pen['end'] = (taken) => {
    isEnding = true
    return last.then(() => sinks.records.write(taken()))
  }
  return { write, end }
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

/** Written before Temporal is told that the run has ended (activities/recording.ts), so there is no answer to wait for. */
const sinks = proxySinks<Records>()
