/** The record of a run that has failed for good, whether its code ran or not. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { withoutHandles } from '../../../core/secret-handle.ts'
import type { Json } from '../../../core/work.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import type { Usage } from '../sandbox/invocation.ts'
import { notifyRunChanged } from './run-changes.ts'

/** The error of a run, as its record shows it. Lines and columns are those of the source. */
export interface RunError {
  readonly code: string
  readonly detail: string
  readonly name?: string
  readonly file?: string
  readonly line?: number
  readonly column?: number
}

/** A run that a statement has ended. */
export interface EndedRow {
  readonly function_id: string
  readonly slot: string | null
}

interface Failure {
  readonly usage?: Usage | undefined
  /** Leaves a run that a worker has begun as it is. */
  readonly unlessBegun?: boolean
}

/**
 * Ends a run; an asynchronous one becomes a dead letter. Wakes followers, and leaves the slot to the caller. Idempotent.
 * @returns undefined if it has ended before
 */
export async function recordFailure(
  scope: WorkspaceScope,
  runId: string,
  error: RunError,
  { usage, unlessBegun = false }: Failure = {},
): Promise<EndedRow | undefined> {
  const shown = JSON.stringify(withoutHandles(error as unknown as Json))
  const ended = await scope.row<EndedRow>(sql`
    update function_runs set status = 'failed', ended_at = now(), error = ${shown}::json, ${measured(usage)},
      is_dead_letter = is_async
    where id = ${runId} and ended_at is null and (attempts = 0 or not ${unlessBegun}::boolean)
    returning function_id, slot`)
  notifyRunChanged(scope, runId)
  return ended
}

/** Without a measurement, the duration is that since the first start. */
export const measured = (usage: Usage | undefined): Sql => sql`
  memory_mb = ${usage?.memory_mb ?? null}, is_cold = ${usage?.cold ?? null},
  duration_ms = coalesce(${usage?.duration_ms ?? null}::integer,
    (extract(epoch from now() - started_at) * 1000)::integer)`
