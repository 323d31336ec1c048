/** Runs one function call as a workflow: once, on a task queue of its own. */

import { ActivityFailure, ApplicationFailure, TimeoutFailure } from '@temporalio/common'
import { proxyActivities, setCurrentDetails } from '@temporalio/workflow'
import type { Activities } from '../../activities/contract.ts'
import { LIMITS } from '../../core/limits.ts'
import type { ProblemCode } from '../../core/problem.ts'
import { type FunctionRunInput, type Json, QUEUES, type SuspendedFailure } from '../../core/work.ts'

/** @throws what the code failed with, so that the run is red in the Temporal UI */
export async function functionRun(input: FunctionRunInput): Promise<Json> {
  const { name, version } = input.function
  setCurrentDetails(`**${name}** v${version}`)
  const { runFunction } = proxyActivities<Activities>({
    taskQueue: QUEUES.functions,
    summary: `${name} v${version}`,
    scheduleToStartTimeout: LIMITS.functionQueueMs,
    // The worker counts the time itself; this is for a worker that does not.
    startToCloseTimeout: input.timeout_ms + 2 * LIMITS.functionHeartbeatMs,
    heartbeatTimeout: LIMITS.functionHeartbeatMs,
    retry: { maximumAttempts: 1 },
  })
  try {
    return await runFunction(input)
  } catch (error) {
    throw told(error)
  }
}

/** What Temporal alone knows of, in words for the caller; and that it was refused a place, or lost it. */
function told(error: unknown): unknown {
  if (!(error instanceof ActivityFailure)) return error
  if (error.cause instanceof ApplicationFailure && error.cause.type === 'held') return refused(error.cause)
  if (!(error.cause instanceof TimeoutFailure)) return error
  if (error.cause.timeoutType === 'SCHEDULE_TO_START')
    return failure('overloaded', 'All places for functions were taken; the function was not run.')
  return failure('run_cut_off', 'The worker that ran the function was lost. It is not run again by itself.')
}

/** Of whom somebody waits at the door, or a run that will ask again. */
function refused({ details, message }: ApplicationFailure): ApplicationFailure {
  const [{ code }] = details as [SuspendedFailure]
  return failure(code, message)
}

function failure(code: ProblemCode, detail: string): ApplicationFailure {
  return ApplicationFailure.nonRetryable(detail, code)
}
