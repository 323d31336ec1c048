/** Lines of the Temporal SDK in the log of the platform. */

import { TemporalFailure } from '@temporalio/common'
import type { LogEntry } from '@temporalio/worker'

/** Fields of a line about a failed activity or workflow. */
const SHOWN = ['activityType', 'workflowType', 'workflowId', 'attempt', 'isLocal', 'taskQueue', 'durationMs']

/**
 * The fields to log. Errors of activities and workflows have details and output of the code of tenants, which are shown to the
 * tenant and not logged: their code remains. Those of the platform are logged by its interceptor (tenant-interceptor.ts).
 */
export function sdkFields({ meta }: Pick<LogEntry, 'meta'>): Readonly<Record<string, unknown>> {
  if (meta === undefined || !('error' in meta)) return meta ?? {}
  if (!('workflowId' in meta) && !('activityType' in meta)) return meta
  const shown = SHOWN.flatMap((name) => (name in meta ? [[name, meta[name]]] : []))
  const error = meta['error']
  const cause = 'activityType' in meta ? undefined : causeOf(error)
  return { ...Object.fromEntries(shown), code: codeOf(error), ...(cause !== undefined && { cause }) }
}

const CAUSE_CHARS_MAX = 300

/** The cause of a failed activation of a workflow: an error of the interpreter or of the SDK, such as its time limit, and of no tenant. */
function causeOf(error: unknown): string | undefined {
  if (!(error instanceof Error) || error instanceof TemporalFailure) return undefined
  return error.message.slice(0, CAUSE_CHARS_MAX)
}

/** A flow names the types of errors that it raises itself. */
const CODE_CHARS_MAX = 100

/** The code of a failure or of its cause; otherwise the name of the error. */
function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return 'unknown'
  if ('type' in error && typeof error.type === 'string') return error.type.slice(0, CODE_CHARS_MAX)
  return error.cause instanceof Error ? codeOf(error.cause) : error.name
}
