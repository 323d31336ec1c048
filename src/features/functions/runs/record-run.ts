/** The record of a run, written by its worker: when the code begins, and when it has ended, with the lines that it printed. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { Problem } from '../../../core/problem.ts'
import { withoutHandles } from '../../../core/secret-handle.ts'
import type { Json } from '../../../core/work.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import { retryTransient } from '../../../infra/retry.ts'
import { type AdmittedRow, releaseSlot, startAdmitted } from '../../runs/slots.ts'
import { notifyRunChanged } from '../../runs/watcher.ts'
import { FUNCTION_LIMITS } from '../limits.ts'
import type { LogLine, Usage } from '../sandbox/invocation.ts'

/** Runs of functions, as a kind of runs. */
export const FUNCTION_RUN = 'function_run'

/** The beginning of an attempt. */
interface Beginning {
  readonly runId: string
  /** Counts from 1. */
  readonly attempt: number
  /** Differs for each worker that tries to make it. */
  readonly by: string
}

/**
 * Counts an attempt, right before its code runs: code whose worker was lost does not run again. Tries again while the database is
 * away: an answer that was lost uses up no attempt.
 * @throws Problem `run_cut_off` if another worker has begun the attempt, or the run has ended
 */
export async function beginAttempt(scope: WorkspaceScope, { runId, attempt, by }: Beginning): Promise<void> {
  const begin = sql`
    update function_runs set status = 'running', attempts = ${attempt}::integer, begun_by = ${by},
      started_at = coalesce(started_at, now())
    where id = ${runId} and ended_at is null
      and (attempts < ${attempt}::integer or attempts = ${attempt}::integer and begun_by = ${by})
    returning id`
  if ((await retryTransient(FUNCTION_LIMITS.beginMs, () => scope.row(begin))) !== undefined) return
  const run = await scope.row<{ attempts: number; reason: string | null }>(
    sql`select attempts, error ->> 'detail' as reason from function_runs where id = ${runId}`,
  )
  const detail =
    run !== undefined && run.attempts >= attempt
      ? 'An earlier attempt has started, and the function is not repeated.'
      : `The run was ended before its code began. ${run?.reason ?? 'The caller has given up.'}`
  throw new Problem('run_cut_off', { detail })
}

/** Takes back the beginning of an attempt whose code did not begin. Idempotent; tries again while the database is unavailable. */
export async function undoBeginning(scope: WorkspaceScope, { runId, attempt, by }: Beginning): Promise<void> {
  const undo = sql`
    update function_runs set status = 'queued', attempts = ${attempt - 1}::integer, begun_by = null,
      started_at = case when ${attempt}::integer = 1 then null else started_at end
    where id = ${runId} and ended_at is null and attempts = ${attempt}::integer and begun_by = ${by}`
  await retryTransient(FUNCTION_LIMITS.beginMs, () => scope.batch(undo))
}

/**
 * Idempotent. Tries again while the database is unavailable, for `functionRecordMs`: the code has run.
 * @param result is kept if it is given
 */
export async function completeRun(
  scope: WorkspaceScope,
  runId: string,
  { result, usage }: { readonly result?: Json; readonly usage?: Usage | undefined },
  lines: readonly NumberedLine[],
): Promise<void> {
  const statements = [
    sql`update function_runs set status = 'completed', ended_at = now(), ${measured(usage)},
        result = ${result === undefined ? null : JSON.stringify(result)}::json
      where id = ${runId} and ended_at is null`,
    releaseSlot(runId),
    ...insertLines(runId, lines),
  ]
  const store = () => scope.batchShared('writing', ...statements)
  const [, admitted = []] = await retryTransient(FUNCTION_LIMITS.recordMs, store)
  notifyRunChanged(scope, runId, true)
  startNext(scope, admitted)
}

/** Without waiting: the worker has other work for its own slot. */
function startNext(scope: WorkspaceScope, admitted: readonly AdmittedRow[]): void {
  if (admitted.length > 0) void startAdmitted(scope, FUNCTION_RUN, admitted)
}

/** The error of a run, as its record shows it. Lines and columns are those of the source. */
export interface RunError {
  readonly code: string
  readonly detail: string
  readonly name?: string
  readonly file?: string
  readonly line?: number
  readonly column?: number
}

/** An error as the workflow passes it on. */
export type RunFailure = RunError & { readonly usage?: Usage }

interface Failure {
  readonly usage?: Usage | undefined
  /** Leaves a run that a worker has begun as it is. */
  readonly unlessBegun?: boolean
}

/** A statement that ends a run; an asynchronous one becomes a dead letter. @returns a row if the run had not ended, nor has begun */
function failure(runId: string, error: RunError, { usage, unlessBegun = false }: Failure): Sql {
  const shown = JSON.stringify(withoutHandles(error as unknown as Json))
  return sql`
    update function_runs set status = 'failed', ended_at = now(), error = ${shown}::json, ${measured(usage)},
      is_dead_letter = is_async
    where id = ${runId} and ended_at is null and (attempts = 0 or not ${unlessBegun}::boolean) returning id`
}

/**
 * Ends a run that has not begun, wakes its followers, and leaves the slot to the caller. Idempotent.
 * @returns false if it has ended before, or has begun
 */
export async function failUnlessBegun(
  scope: WorkspaceScope,
  runId: string,
  error: RunError,
): Promise<boolean> {
  const ended = await scope.row(failure(runId, error, { unlessBegun: true }))
  notifyRunChanged(scope, runId, true)
  return ended !== undefined
}

/** Without a measurement, the duration is that since the first start. */
const measured = (usage: Usage | undefined): Sql => sql`
  memory_mb = ${usage?.memory_mb ?? null}, is_cold = ${usage?.cold ?? null},
  duration_ms = coalesce(${usage?.duration_ms ?? null}::integer,
    (extract(epoch from now() - started_at) * 1000)::integer)`

/** Ends a run that has failed for good, and passes its slot on. Idempotent. @returns true if it has completed before, and stays so */
export async function failRun(
  scope: WorkspaceScope,
  runId: string,
  error: RunError,
  usage?: Usage | undefined,
): Promise<boolean> {
  const [[ended] = [], admitted = []] = await scope.batch(
    failure(runId, error, { usage }),
    releaseSlot(runId),
  )
  notifyRunChanged(scope, runId, true)
  startNext(scope, admitted)
  if (ended !== undefined) return false
  const completed = sql`select id from function_runs where id = ${runId} and status = 'completed'`
  return (await scope.row(completed)) !== undefined
}

/** Stores lines of a run that goes on. Idempotent. */
export async function appendLines(
  scope: WorkspaceScope,
  runId: string,
  lines: readonly NumberedLine[],
): Promise<void> {
  if (lines.length === 0) return
  await scope.batchShared('writing', ...insertLines(runId, lines))
  notifyRunChanged(scope, runId)
}

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
