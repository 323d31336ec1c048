/** Runs one function call as a workflow. Its activity has a task queue of its own and is never retried. */

import { ActivityFailure, ApplicationFailure, TimeoutFailure } from '@temporalio/common'
import { proxyActivities, setCurrentDetails } from '@temporalio/workflow'
import type { Activities } from '../../activities/contract.ts'
import { LIMITS } from '../../core/limits.ts'
import type { ProblemCode } from '../../core/problem-catalogue.ts'
import { type FunctionRunInput, type Json, QUEUES, type SuspendedFailure } from '../../core/work.ts'

/** @throws the failure of the code, so that the Temporal UI shows the workflow as failed */
export async function functionRun(input: FunctionRunInput): Promise<Json> {
  const { name, version } = input.function
  setCurrentDetails(`**${name}** v${version}`)
  const { runFunction } = proxyActivities<Activities>({
    taskQueue: QUEUES.functions,
    summary: `${name} v${version}`,
    scheduleToStartTimeout: LIMITS.functionQueueMs,
    // The worker enforces the time limit itself; this timeout is for a worker that fails to.
    startToCloseTimeout: input.timeout_ms + 2 * LIMITS.functionHeartbeatMs,
    heartbeatTimeout: LIMITS.functionHeartbeatMs,
    retry: { maximumAttempts: 1 },
  })
  try {
    return await runFunction(input)
  } catch (error) {
    throw toFailure(error)
  }
}

/** Converts Temporal's timeouts and the refusal in a suspended workspace to failures with a problem code for the caller. */
function toFailure(error: unknown): unknown {
  if (!(error instanceof ActivityFailure)) return error
  if (error.cause instanceof ApplicationFailure && error.cause.type === 'held')
    return suspendedFailure(error.cause)
  if (!(error.cause instanceof TimeoutFailure)) return error
  if (error.cause.timeoutType === 'SCHEDULE_TO_START')
    return failure('overloaded', 'No worker was free for the function in time; the function was not run.')
  return failure('run_cut_off', 'The worker that ran the function was lost. The function is not retried.')
}

/** The failure of a call in a suspended workspace; a calling execution repeats the call when it is resumed. */
function suspendedFailure({ details, message }: ApplicationFailure): ApplicationFailure {
  const [{ code }] = details as [SuspendedFailure]
  return failure(code, message)
}

function failure(code: ProblemCode, detail: string): ApplicationFailure {
  return ApplicationFailure.nonRetryable(detail, code)
}
