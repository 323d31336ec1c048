/** The record of a run, written by its worker: claimed before the code runs, ended after it, with the lines that it printed. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { Problem } from '../../../core/problem.ts'
import type { Json } from '../../../core/work.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import type { LogLine, Usage } from '../sandbox/invocation.ts'

/**
 * Counts an attempt before the code runs, so that code whose worker was lost does not run again.
 * @returns the number of this attempt
 * @throws Problem `run_cut_off` if the run has ended, or had all its attempts
 */
export async function claimRun(scope: WorkspaceScope, runId: string, attemptsMax: number): Promise<number> {
  const row = await scope.row<{ attempts: number }>(sql`
    update function_runs set status = 'running', attempts = attempts + 1, started_at = coalesce(started_at, now())
    where id = ${runId} and ended_at is null and attempts < ${attemptsMax} returning attempts`)
  if (row !== undefined) return row.attempts
  throw new Problem('run_cut_off', {
    detail: 'An earlier attempt has begun, and the function is not repeated.',
  })
}

/** @param result is kept if it is given */
export async function completeRun(
  scope: WorkspaceScope,
  runId: string,
  { result, usage }: { readonly result?: Json; readonly usage?: Usage | undefined },
  lines: readonly NumberedLine[],
): Promise<void> {
  await scope.batchShared(
    'writing',
    sql`update function_runs set status = 'completed', ended_at = now(),
        memory_mb = ${usage?.memoryMb ?? null}, duration_ms = ${duration(usage)}, is_cold = ${usage?.cold ?? null},
        result = ${result === undefined ? null : JSON.stringify(result)}::json
      where id = ${runId} and ended_at is null`,
    ...insertLines(runId, lines),
  )
}

/** Ends a run that has failed for good. Idempotent. @param error `{code, detail, …}` */
export async function failRun(
  scope: WorkspaceScope,
  runId: string,
  error: Json,
  usage?: Usage | undefined,
): Promise<void> {
  await scope.batch(
    sql`update function_runs set status = 'failed', ended_at = now(), error = ${JSON.stringify(error)}::json,
        memory_mb = ${usage?.memoryMb ?? null}, duration_ms = ${duration(usage)}, is_cold = ${usage?.cold ?? null},
        is_dead_letter = is_async
      where id = ${runId} and ended_at is null`,
  )
}

/** Stores lines of a run that goes on. Idempotent. */
export async function appendLines(
  scope: WorkspaceScope,
  runId: string,
  lines: readonly NumberedLine[],
): Promise<void> {
  if (lines.length > 0) await scope.batchShared('writing', ...insertLines(runId, lines))
}

const duration = (usage: Usage | undefined): number | null =>
  usage === undefined ? null : Math.round(usage.durationMs)

/** @param seq counts the lines of a run from 1 */
export interface NumberedLine extends LogLine {
  readonly seq: number
}

function insertLines(runId: string, lines: readonly NumberedLine[]): Sql[] {
  if (lines.length === 0) return []
  // PostgreSQL stores neither NUL nor half of a surrogate pair.
  const stored = lines.map(({ at, text, ...line }) => ({
    ...line,
    at: new Date(at).toISOString(),
    text: text.replaceAll('\u0000', '').toWellFormed(),
  }))
  return [
    sql`insert into function_run_logs (run_id, seq, at, level, text)
      select ${runId}, seq, at, level, text
      from jsonb_to_recordset(${JSON.stringify(stored)}::jsonb) as line (seq integer, at timestamptz, level text, text text)
      where exists (select from function_runs where id = ${runId})
      on conflict do nothing`,
  ]
}
