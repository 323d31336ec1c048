/** Maps errors of the Temporal service to problems, by the status code of gRPC; texts of the server stay in the log. */

import { isGrpcServiceError } from '@temporalio/client'
import { NamespaceNotFoundError } from '@temporalio/common'
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
  UNIMPLEMENTED: 12,
  UNAVAILABLE: 14,
  UNAUTHENTICATED: 16,
} as const

/** True for an error of the service, and for one of the client with such a cause. */
export const isGrpcError = (error: unknown): boolean =>
  statusOf(error) !== undefined || error instanceof NamespaceNotFoundError

/** The status code of an error of the service; undefined for other errors. */
export const grpcCode = (error: unknown): number | undefined => statusOf(error)?.code

/** True if the workflow, or the call of one, does not exist or has ended. */
export function isUnknownWork(error: unknown): boolean {
  const status = statusOf(error)
  return status?.code === GRPC.NOT_FOUND && !NO_NAMESPACE.test(status.details)
}

/** Without its namespace, Temporal knows nothing of a workflow. The client names this case only in part of its calls. */
const NO_NAMESPACE = /^Namespace .*not found/i

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
 * allows, `overloaded`, or else `dependency_unavailable`. Other errors stay as they are.
 */
export function toProblem(error: unknown): unknown {
  if (error instanceof NamespaceNotFoundError)
    return unfit('The namespace of the platform does not exist.', error)
  const status = statusOf(error)
  if (status === undefined) return error
  const limited = LIMITED.find(([pattern]) => pattern.test(status.details))?.[1]
  if (limited !== undefined)
    return new Problem('state_conflict', {
      detail: `The execution has received as many ${limited} as it can: cancel it, and rerun it.`,
      cause: error,
    })
  return problemByCode(status, error)
}

/** The texts of the server's limits per workflow, which have no codes of their own. */
const LIMITED = [
  [/limit for signal/, 'events'],
  [/limit on (the )?(total )?number of (total|distinct) updates/, 'commands'],
] as const

function problemByCode({ code, details }: GrpcStatus, cause: unknown): Problem {
  switch (code) {
    // Ids, names, payloads and search attributes are all made by the platform: no value of a caller is at fault.
    case GRPC.INVALID_ARGUMENT:
      return unfit('It does not accept a request of the platform.', cause)
    case GRPC.NOT_FOUND:
      return NO_NAMESPACE.test(details)
        ? unfit('The namespace of the platform does not exist.', cause)
        : unavailable('temporal', cause)
    case GRPC.RESOURCE_EXHAUSTED:
      return new Problem('overloaded', { detail: 'Temporal has too many requests at present.', cause })
    case GRPC.PERMISSION_DENIED:
    case GRPC.UNAUTHENTICATED:
      return unfit('It lacks access to the namespace.', cause)
    default:
      return unavailable('temporal', cause)
  }
}

const unfit = (reason: string, cause: unknown) =>
  unavailable('temporal', cause, `Temporal refuses the platform. ${reason}`).changed({
    adminHint:
      'Operators run `npx tenon doctor`, which says what is missing; `npx tenon migrate` makes the namespace.',
  })

interface GrpcStatus {
  readonly code: number
  readonly details: string
}

function statusOf(error: unknown): GrpcStatus | undefined {
  if (isGrpcServiceError(error)) return error
  return error instanceof Error && isGrpcServiceError(error.cause) ? error.cause : undefined
}
