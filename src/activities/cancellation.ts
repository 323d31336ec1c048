/** How the cancellation of a call reaches it: one that was not sent is not sent any more, and one that was sent says that its outcome is unknown. */

import { activityInfo, CancelledFailure, Context, cancellationSignal } from '@temporalio/activity'
import { OUTCOME_UNKNOWN } from '../../flows-dsl/errors.ts'
import { FLOW_LIMITS } from '../features/flows/limits.ts'
import { isUnknownWork } from '../infra/temporal/errors.ts'
import { callFailure } from './call-failure.ts'
import type { FunctionCall } from './contract.ts'

/** Aborts when the call is cancelled or has timed out, and not when the worker shuts down: the response may still come. */
export function cancelRequestedSignal(): AbortSignal {
  const controller = new AbortController()
  const signal = cancellationSignal()
  const pass = () => {
    const { message } = signal.reason as Error
    if (message !== 'WORKER_SHUTDOWN') controller.abort(signal.reason)
  }
  if (signal.aborted) pass()
  else signal.addEventListener('abort', pass)
  return controller.signal
}

/**
 * Asks right before a call is sent whether it was cancelled. Temporal tells a worker so with the answer to a heartbeat, so a call
 * that has waited since it was scheduled sends one.
 * @throws CancelledFailure
 */
export async function rejectIfCancelled(signal: AbortSignal): Promise<void> {
  signal.throwIfAborted()
  const { currentAttemptScheduledTimestampMs: scheduledMs, taskToken, namespace } = activityInfo()
  if (Date.now() - scheduledMs < FLOW_LIMITS.cancelCheckAfterMs) return
  const { workflowService } = Context.current().client
  const asked = workflowService.recordActivityTaskHeartbeat({ namespace, taskToken })
  // A workflow that has ended gets no answer any more. After another error a call is sent, and its cancellation noticed later.
  const isCancelled = await asked.then(({ cancelRequested }) => cancelRequested, isUnknownWork)
  if (isCancelled) throw new CancelledFailure('CANCELLED')
}

/**
 * Waits for a call, until it is cancelled: what it does may go on.
 * @throws ApplicationFailure (communication, `outcome_unknown`) if it is cancelled, unless the call finishes in any case
 */
export async function untilCancelled<T>(
  { finishes, function: name }: FunctionCall,
  work: () => Promise<T>,
): Promise<T> {
  const signal = cancelRequestedSignal()
  await rejectIfCancelled(signal)
  if (finishes) return work()
  const cancelled = Promise.withResolvers<never>()
  const detail = `${name}: the call was cancelled before its answer arrived. It may have had its effect.`
  signal.addEventListener('abort', () =>
    cancelled.reject(callFailure('communication', detail, { code: OUTCOME_UNKNOWN })),
  )
  return Promise.race([work(), cancelled.promise])
}
