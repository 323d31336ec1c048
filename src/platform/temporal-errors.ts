/** What the Temporal client throws, as the platform means it. */

import {
  isGrpcServiceError,
  type WorkflowFailedError,
  WorkflowNotFoundError,
  WorkflowUpdateFailedError,
} from '@temporalio/client'
import { ApplicationFailure } from '@temporalio/common'
import { isProblemCode, Problem } from '../core/problem.ts'

/** What there is no workflow for any more, or never was, is undefined. */
export async function unlessGone<T>(work: Promise<T>): Promise<T | undefined> {
  try {
    return await work
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return undefined
    throw error
  }
}

/** The server counts the signals of a workflow, and refuses more with this text and no code of its own. */
export function unlessFull(error: unknown): never {
  const cause = error instanceof Error ? error.cause : undefined
  const full = [error, cause].some((each) => each instanceof Error && /limit for signal/.test(each.message))
  if (!full) throw error
  throw new Problem('state_conflict', { detail: 'The run has heard as many events as it can.', cause: error })
}

/** A workflow that ended while it was about to answer has ended. */
export function unlessCutOff(error: unknown): undefined {
  const cause = error instanceof WorkflowUpdateFailedError ? error.cause : undefined
  if (cause instanceof ApplicationFailure && cause.type === 'AcceptedUpdateCompletedWorkflow')
    return undefined
  throw error
}

/** The inverse of what the door of activities does with a Problem. */
export function problemOf(error: WorkflowFailedError): Problem {
  for (let cause: unknown = error.cause; cause instanceof Error; cause = cause.cause) {
    if (!(cause instanceof ApplicationFailure) || !isProblemCode(cause.type)) continue
    const members = cause.details?.[1] as Readonly<Record<string, unknown>> | undefined
    return new Problem(cause.type, { detail: cause.message, ...(members && { members }), cause: error })
  }
  return new Problem('run_cut_off', { detail: 'The run was ended from outside.', cause: error })
}

export function causedByGrpc(error: unknown): boolean {
  return error instanceof Error && isGrpcServiceError(error.cause)
}
