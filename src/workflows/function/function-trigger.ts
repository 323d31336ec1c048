/**
 * The workflow that the schedule of a function starts: it starts one run and does not wait for its end, so a due run starts even
 * if others go on. The function's `concurrency` bounds them.
 */

import { setCurrentDetails } from '@temporalio/workflow'
import type { FunctionTriggerInput, ScheduledRun } from '../../core/execution.ts'
import { dueTime, startActivities, unlessSuspended } from '../due-start.ts'

/** @returns the run, or the reason why none was started */
export async function functionTrigger(input: FunctionTriggerInput): Promise<ScheduledRun> {
  const { startScheduledRun } = startActivities(input.patience_ms, 'start a run')
  const started = await unlessSuspended(() => startScheduledRun({ ...input, ...dueTime() }))
  setCurrentDetails(detailsOf(started))
  return started
}

/** For operators in the Temporal UI. */
function detailsOf(started: ScheduledRun): string {
  if ('skipped' in started) return `No run was started. ${started.skipped}`
  return `Run \`${started.run_id}\``
}
