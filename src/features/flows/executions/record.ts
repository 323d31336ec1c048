/** Records the progress of an execution: its status, steps and events, written by its own activity. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { LIMITS } from '../../../core/limits.ts'
import { notFound, Problem } from '../../../core/problem.ts'
import type { RunEventUpdate, RunUpdate } from '../../../core/run.ts'
import { MASK, replaceHandles } from '../../../core/secret-handle.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { ackSlot, releaseSlot } from './concurrency.ts'
import { resumeAdmitted } from './start-workflow.ts'
import { notifyExecutionChanged } from './watcher.ts'

/**
 * Idempotent: an update that comes twice has no further effect, and an ended execution stays ended. If a workflow task
 * was lost after it had written, what is written now is what has happened: which step has which number, too.
 * @throws Problem `not_found` where the execution is not of the scope's workspace
 */
export async function recordRun(scope: WorkspaceScope, update: RunUpdate): Promise<void> {
  try {
    await write(scope, update)
  } catch (error) {
    if (!(error instanceof Problem) || error.code !== 'value_invalid') throw error
    await write(scope, unstorable(update))
  }
}

/** A run whose values the store refuses (NUL, half surrogates) still ends, and says why it has no output. */
function unstorable({ output: _output, error: _error, ...update }: RunUpdate): RunUpdate {
  const fault = { title: 'Value error', status: 400, detail: 'It holds NUL or half of a surrogate pair.' }
  const steps = update.steps.map(({ error: _stepError, answer: _answer, ...step }) => ({
    ...step,
    summary: plain(step.summary),
    place: plain(step.place),
  }))
  const events = (update.events ?? []).map(({ error: _eventError, took: _took, ...event }) => event)
  return update.ended_at === undefined
    ? { ...update, steps, events }
    : { ...update, steps, events, status: 'faulted', error: fault }
}

const plain = (text: string) => Buffer.from(text.replaceAll('\u0000', '')).toString()

async function write(scope: WorkspaceScope, update: RunUpdate): Promise<void> {
  const { execution_id: id, events = [] } = update
  const last = events.at(-1)?.seq ?? 0
  const [[row] = [], , next = []] = await scope.batchShared(
    'writing',
    sql`update executions set
        status = case when ended_at is null or ${update.ended_at ?? null}::timestamptz is not null
          then ${update.status} else status end,
        output = coalesce(${json(update.output)}::jsonb, output),
        error = coalesce(${json(update.error)}::jsonb, error),
        events = greatest(events, ${last}),
        paused = coalesce(${update.paused ?? null}::boolean, paused),
        pause_reason = case when ${update.paused ?? null}::boolean is null then pause_reason
          else ${update.pause_reason ?? null} end,
        ended_at = coalesce(ended_at, ${update.ended_at ?? null}::timestamptz)
      where id = ${id} returning id`,
    sql`insert into execution_steps
        (execution_id, seq, name, kind, pointer, iteration, path, summary, status, attempt, error, result, truncated, reused,
          digest, child, started_at, ended_at)
      select ${id}, seq, name, kind, pointer, iteration, place, summary, status, coalesce(attempt, 1), error, answer,
        coalesce(cut, false), coalesce(reused, false), digest, child, started_at, ended_at
      from jsonb_to_recordset(${json(update.steps)}::jsonb) as step (
        seq integer, name text, kind text, pointer text, iteration integer, place text, summary text, status text,
        attempt integer, error jsonb, answer jsonb, cut boolean, reused boolean, digest text, child text,
        started_at timestamptz, ended_at timestamptz)
      where exists (select from executions where id = ${id})
      on conflict (tenant_id, workspace_id, execution_id, seq) do update
        set name = excluded.name, kind = excluded.kind, pointer = excluded.pointer, iteration = excluded.iteration,
          path = excluded.path, summary = excluded.summary, started_at = excluded.started_at,
          status = excluded.status, attempt = excluded.attempt, error = excluded.error, result = excluded.result,
          truncated = excluded.truncated, reused = excluded.reused, digest = excluded.digest, child = excluded.child,
          ended_at = excluded.ended_at`,
    // The third, whose rows are read below.
    ...(update.ended_at === undefined ? [] : [releaseSlot(id)]),
    ...(update.placed === undefined ? [] : [ackSlot(id, update.placed)]),
    ...(events.length > 0 ? [tell(id, events)] : []),
    ...(last > LIMITS.executionEventsMax ? [forget(id, last - LIMITS.executionEventsMax)] : []),
  )
  if (row === undefined) throw notFound('execution')
  notifyExecutionChanged(scope, id, update.ended_at !== undefined)
  // If this process dies here, the reconciler finds them by their slots.
  await resumeAdmitted(scope, next)
}

const tell = (id: string, events: readonly RunEventUpdate[]) => sql`
  insert into execution_events (execution_id, seq, at, step, what, detail)
  select ${id}, seq, at, step, what, detail
  from jsonb_to_recordset(${json(events.map(shown))}::jsonb) as event (
    seq integer, at timestamptz(3), step integer, what text, detail jsonb)
  where exists (select from executions where id = ${id})
  on conflict (tenant_id, workspace_id, execution_id, seq) do update
    set at = excluded.at, step = excluded.step, what = excluded.what, detail = excluded.detail`

const forget = (id: string, upTo: number) => sql`
  delete from execution_events where execution_id = ${id} and seq <= ${upTo}`

/** Many are kept of a run, so of an error only what a line of a screen shows. */
function shown({ seq, at, step, what, error, ...rest }: RunEventUpdate): object {
  const { type, status, title, detail, instance } = (error ?? {}) as Record<string, unknown>
  const clipped =
    typeof detail === 'string' ? masked(detail).slice(0, LIMITS.executionErrorShownCharsMax) : undefined
  const told = {
    ...rest,
    ...(error !== undefined && { error: { type, status, title, detail: clipped, instance } }),
  }
  return { seq, at, step, what, ...(Object.keys(told).length > 0 && { detail: told }) }
}

/** People see no handles: one that they give to a run again must not be that of a secret. */
const masked = (text: string): string => replaceHandles(text, () => MASK)

const json = (value: unknown) => (value === undefined ? null : masked(JSON.stringify(value)))
