/** Maps errors of the Temporal service to problems, by the status code of gRPC; texts of the server stay in the log. */

import { isGrpcServiceError } from '@temporalio/client'
import { Problem } from '../../core/problem.ts'
import { unavailable } from '../unavailable.ts'

/** Status codes (gRPC, "Status codes and their use") that tell more than that the server does not answer. */
export const GRPC = {
  INVALID_ARGUMENT: 3,
  DEADLINE_EXCEEDED: 4,
  NOT_FOUND: 5,
  PERMISSION_DENIED: 7,
  RESOURCE_EXHAUSTED: 8,
  FAILED_PRECONDITION: 9,
  UNAVAILABLE: 14,
  UNAUTHENTICATED: 16,
} as const

/** True for an error of the service, and for one of the client with such a cause. */
export const isGrpcError = (error: unknown): boolean => statusOf(error) !== undefined

/** True if the workflow, or the call of one, does not exist or has ended. */
export const isUnknownWork = (error: unknown): boolean => statusOf(error)?.code === GRPC.NOT_FOUND

/** True if the service refuses the call since it has too much to do. */
export const isExhausted = (error: unknown): boolean => statusOf(error)?.code === GRPC.RESOURCE_EXHAUSTED

/** True if the service refuses the call since it has too much to do, or does not answer it. */
export const isOverload = (error: unknown): boolean => OVERLOADS.includes(statusOf(error)?.code ?? 0)

const OVERLOADS: readonly number[] = [GRPC.DEADLINE_EXCEEDED, GRPC.RESOURCE_EXHAUSTED, GRPC.UNAVAILABLE]

/** True if the workflow task that an update was in has failed: the update had no effect. */
export function isDiscardedUpdate(error: unknown): boolean {
  const status = statusOf(error)
  return status?.code === GRPC.FAILED_PRECONDITION && /workflow task failure/.test(status.details)
}

/**
 * An error of the service as a Problem: `state_conflict` if the workflow has received as many signals or updates as the server
 * allows, `value_invalid`, `overloaded`, or else `dependency_unavailable`. Other errors stay as they are.
 */
export function toProblem(error: unknown): unknown {
  const status = statusOf(error)
  if (status === undefined) return error
  const limited = LIMITED.find(([pattern]) => pattern.test(status.details))?.[1]
  if (limited !== undefined)
    return new Problem('state_conflict', {
      detail: `The execution has received as many ${limited} as it can: cancel it, and rerun it.`,
      cause: error,
    })
  return problemByCode(status.code, error)
}

/** The texts of the server's limits per workflow, which have no codes of their own. */
const LIMITED = [
  [/limit for signal/, 'events'],
  [/limit on (the )?(total )?number of (total|distinct) updates/, 'commands'],
] as const

const REFUSED = 'Temporal refuses the platform: an operator must give it access to the namespace.'

function problemByCode(code: number, cause: unknown): Problem {
  switch (code) {
    case GRPC.INVALID_ARGUMENT:
      return new Problem('value_invalid', {
        detail: 'Temporal does not accept a value of the request.',
        cause,
      })
    case GRPC.RESOURCE_EXHAUSTED:
      return new Problem('overloaded', { detail: 'Temporal has too many requests at present.', cause })
    case GRPC.PERMISSION_DENIED:
    case GRPC.UNAUTHENTICATED:
      return unavailable('temporal', cause, REFUSED)
    default:
      return unavailable('temporal', cause)
  }
}

function statusOf(error: unknown): { readonly code: number; readonly details: string } | undefined {
  if (isGrpcServiceError(error)) return error
  return error instanceof Error && isGrpcServiceError(error.cause) ? error.cause : undefined
}
