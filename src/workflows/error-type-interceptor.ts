/** Records the type of the error of a failed execution as a search attribute, without its text. */

import {
  ActivityFailure,
  ApplicationFailure,
  ChildWorkflowFailure,
  defineSearchAttributeKey,
  TimeoutFailure,
} from '@temporalio/common'
import {
  isCancellation,
  upsertSearchAttributes,
  type WorkflowInterceptorsFactory,
} from '@temporalio/workflow'

const ERROR_TYPE = defineSearchAttributeKey('ErrorType', 'KEYWORD')

export const interceptors: WorkflowInterceptorsFactory = () => ({
  inbound: [{ execute: (input, next) => next(input).catch(recordErrorType) }],
})

function recordErrorType(error: unknown): never {
  const type = isCancellation(error) ? undefined : typeOf(error)
  if (type !== undefined) upsertSearchAttributes([{ key: ERROR_TYPE, value: type }])
  throw error
}

/** The error type, such as `communication`; undefined for errors that end no execution: continue-as-new, failed tasks. */
function typeOf(error: unknown): string | undefined {
  if (error instanceof ActivityFailure || error instanceof ChildWorkflowFailure) return typeOf(error.cause)
  if (error instanceof TimeoutFailure) return 'timeout'
  if (!(error instanceof ApplicationFailure) || !error.type) return undefined
  return error.type.slice(error.type.lastIndexOf('/') + 1)
}
