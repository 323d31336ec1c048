/** Counts executions and runs of functions that end in this worker, and measures how long they waited for their first step. */

import type { InjectedSinks } from '@temporalio/worker'
import { timeOf, uuidOf } from '../core/ids.ts'
import { Problem } from '../core/problem.ts'
import type { Metrics } from '../infra/metrics/metrics.ts'
import type { Records } from './contract.ts'
import type { Implementation } from './tenant-interceptor.ts'

type WriteRecord = InjectedSinks<Records>['records']['write']

/** The sinks of executions. @param write records the end of an execution */
export function executionSinks(metrics: Metrics, write: WriteRecord): InjectedSinks<Records> {
  return {
    records: {
      began: {
        fn: (_info, executionId) => recordWait(metrics, 'execution', executionId),
      },
      write: {
        ...write,
        fn: (info, update) => {
          metrics.add('tenon_runs_total', 1, { kind: 'execution', outcome: update.status })
          return write.fn(info, update)
        },
      },
    },
  }
}

type RunActivities = Pick<Implementation, 'runFunction' | 'runFunctionInline'>

/** Adds the measurements to the activities that run functions. */
export function measureFunctionRuns(metrics: Metrics, activities: RunActivities): RunActivities {
  if (!metrics.isExported) return activities
  return {
    runFunction: (call, input) => measured(metrics, () => activities.runFunction(call, input)),
    runFunctionInline: (call, input) => measured(metrics, () => activities.runFunctionInline(call, input)),
  }
}

/** Without a free slot, an attempt within a workflow task gives null, and is no attempt. */
async function measured<T>(metrics: Metrics, run: () => Promise<T>): Promise<T> {
  const count = (outcome: string) => metrics.add('tenon_runs_total', 1, { kind: 'function_run', outcome })
  try {
    const result = await run()
    if (result !== null) count('completed')
    return result
  } catch (error) {
    // Such as a cancellation.
    count(error instanceof Problem ? error.code : 'other')
    throw error
  }
}

/** The id of a run carries the time of the request or event that started it. */
export function recordWait(metrics: Metrics, kind: 'execution' | 'function_run', id: string): void {
  const waitedMs = Math.max(0, Date.now() - timeOf(uuidOf(id)))
  metrics.record('tenon_queue_seconds', waitedMs / 1_000, { kind })
}
