/** Records the progress of an execution: its status, steps and events, written by its own activity. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import type { Ending, ExecutionEventUpdate, ExecutionUpdate } from '../../../core/execution.ts'
import { notFound } from '../../../core/problem.ts'
import { MASK, replaceHandles } from '../../../core/secret-handle.ts'
import { isRefusedBy } from '../../../infra/postgres/errors.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { ANALYTICS_LIMITS } from '../../analytics/limits.ts'
import { RUN_LIMITS } from '../../runs/limits.ts'
import { ackSlot, releaseSlot, startAdmitted } from '../../runs/slots.ts'
import { notifyRunChanged } from '../../runs/watcher.ts'
import { recordApprovals } from '../approvals/approval-record.ts'
import { FLOW_LIMITS } from '../limits.ts'
import { endSubscriptions } from '../subscriptions/subscriptions.ts'
import { maskCallbackTokens } from './callbacks.ts'
import { EXECUTION } from './concurrency.ts'

/**
 * Idempotent: a repeated update has no further effect, and an ended execution stays ended. If a lost workflow task is executed
 * again with another outcome, the later update replaces the earlier one, including the numbers of steps.
 * An update of a workflow task before the one that was recorded last is dropped.
 * @throws Problem `not_found` if the execution does not belong to the workspace of the scope
 */
export async function recordExecution(scope: WorkspaceScope, update: ExecutionUpdate): Promise<void> {
  try {
    await writeUpdate(scope, update)
  } catch (error) {
    if (!isRefusedBy(error, 'newest_record')) throw error
  }
}

async function writeUpdate(scope: WorkspaceScope, update: ExecutionUpdate): Promise<void> {
  const { execution_id: id, events = [], ending, order } = update
  const last = events.at(-1)?.seq ?? 0
  const [[row] = [], , next = []] = await scope.batchShared(
    'writing',
    sql`update executions set
        status = case when ended_at is null and ${ending === undefined}::boolean then ${update.status} else status end,
        ending = ${json(ending)}::jsonb,
        due_at = case when ${ending === undefined}::boolean then due_at
          else now() + make_interval(secs => ${RUN_LIMITS.firstCheckSeconds}::integer) end,
        output = coalesce(${json(update.output)}::jsonb, output),
        error = case when ${update.status} = 'completed' then null else coalesce(${json(update.error)}::jsonb, error) end,
        compensation = coalesce(${json(update.compensation)}::jsonb, compensation),
        events = greatest(events, ${last}),
        paused = coalesce(${update.paused ?? null}::boolean, paused),
        pause_reason = case when ${update.paused ?? null}::boolean is null then pause_reason
          else ${update.pause_reason ?? null} end,
        recorded_run = coalesce(${order?.[0] ?? null}::bigint, recorded_run),
        recorded_events = coalesce(${order?.[1] ?? null}::integer, recorded_events),
        ended_at = coalesce(ended_at, ${update.ended_at ?? null}::timestamptz),
        counted_at = case when ended_at is null and ${update.ended_at ?? null}::timestamptz <
            now() - make_interval(secs => ${ANALYTICS_LIMITS.lateSeconds}::integer) then now() else counted_at end
      where id = ${id} returning id`,
    sql`insert into execution_steps
        (execution_id, seq, name, kind, pointer, iteration, path, summary, status, attempt, error, result, truncated, reused,
          digest, child, data, started_at, ended_at)
      select ${id}, seq, name, kind, pointer, iteration, path, summary, status, coalesce(attempt, 1), error, result,
        coalesce(truncated, false), coalesce(reused, false), digest, child, data, started_at, ended_at
      from jsonb_to_recordset(${json(update.steps)}::jsonb) as step (
        seq integer, name text, kind text, pointer text, iteration integer, path text, summary text, status text,
        attempt integer, error jsonb, result jsonb, truncated boolean, reused boolean, digest text, child text,
        data jsonb, started_at timestamptz, ended_at timestamptz)
      where exists (select from executions where id = ${id})
      on conflict (tenant_id, workspace_id, execution_id, seq) do update
        set name = excluded.name, kind = excluded.kind, pointer = excluded.pointer, iteration = excluded.iteration,
          path = excluded.path, summary = excluded.summary, started_at = excluded.started_at,
          status = excluded.status, attempt = excluded.attempt, error = excluded.error, result = excluded.result,
          truncated = excluded.truncated, reused = excluded.reused, digest = excluded.digest, child = excluded.child,
          data = excluded.data, ended_at = excluded.ended_at`,
    // The third statement: its rows are read below.
    ...(update.ended_at === undefined ? [] : [releaseSlot(id)]),
    ...(update.ack_generation === undefined ? [] : [ackSlot(id, update.ack_generation)]),
    ...(update.unsubscribed === undefined
      ? []
      : [endSubscriptions(id, update.unsubscribed, update.ended_at !== undefined)]),
    ...recordApprovals(id, update.steps, json),
    ...(events.length > 0 ? [insertEvents(id, events)] : []),
    ...(last > FLOW_LIMITS.eventsKeptMax ? [deleteEvents(id, last - FLOW_LIMITS.eventsKeptMax)] : []),
  )
  if (row === undefined) throw notFound('execution')
  notifyRunChanged(scope, id, update.ended_at !== undefined)
  // If this process dies here, the reconciler finds them by their slots.
  await startAdmitted(scope, EXECUTION, next)
}

/**
 * Records what an execution has done, and keeps how it ends until {@link confirmEnd}: Temporal may still refuse its end, if a
 * message or a cancellation has arrived meanwhile. Then the execution goes on, and may end otherwise.
 */
export async function recordEnding(scope: WorkspaceScope, update: ExecutionUpdate): Promise<void> {
  const { execution_id, status, steps, order, events = [], ...end } = update
  const last = events.filter(({ what, step }) => what === status && step === undefined)
  const ending = { ...end, status, events: last }
  const others = events.filter((one) => !last.includes(one))
  await recordExecution(scope, {
    ...{ execution_id, status, steps, events: others, ending },
    ...(order !== undefined && { order }),
  })
}

/**
 * Ends an execution as it was recorded, since its workflow has ended in Temporal with that status. Idempotent.
 * @returns false if nothing was recorded, or another end
 */
export async function confirmEnd(
  scope: WorkspaceScope,
  id: string,
  status: Ending['status'],
): Promise<boolean> {
  const row = await scope.row<{ ending: Ending | null }>(
    sql`select ending from executions where id = ${id} and ended_at is null`,
  )
  if (row?.ending?.status !== status) return false
  await recordExecution(scope, { execution_id: id, steps: [], ...row.ending })
  return true
}

const insertEvents = (id: string, events: readonly ExecutionEventUpdate[]) => sql`
  insert into execution_events (execution_id, seq, at, step, what, detail)
  select ${id}, seq, at, step, what, detail
  from jsonb_to_recordset(${json(events.map(storedEvent))}::jsonb) as event (
    seq integer, at timestamptz(3), step integer, what text, detail jsonb)
  where exists (select from executions where id = ${id})
  on conflict (tenant_id, workspace_id, execution_id, seq) do update
    set at = excluded.at, step = excluded.step, what = excluded.what, detail = excluded.detail`

const deleteEvents = (id: string, upTo: number) => sql`
  delete from execution_events where execution_id = ${id} and seq <= ${upTo}`

/** An event as it is stored. Of an error it keeps one line, since an execution has many events. */
function storedEvent({ seq, at, step, what, error, ...rest }: ExecutionEventUpdate): object {
  const { type, status, title, detail, instance } = (error ?? {}) as Record<string, unknown>
  const clipped =
    typeof detail === 'string' ? redacted(detail).slice(0, FLOW_LIMITS.errorCharsMax) : undefined
  const all = {
    ...rest,
    ...(error !== undefined && { error: { type, status, title, detail: clipped, instance } }),
  }
  return { seq, at, step, what, ...(Object.keys(all).length > 0 && { detail: all }) }
}

/** Replaces handles, so that readers of the record cannot pass one to an execution. */
const redacted = (text: string): string => maskCallbackTokens(replaceHandles(text, () => MASK))

const json = (value: unknown) => (value === undefined ? null : storable(redacted(JSON.stringify(value))))

/**
 * Replaces NUL and half surrogates, which `JSON.stringify` writes as escapes, by U+FFFD: PostgreSQL refuses them. The interpreter
 * lets no value of a flow have any (flows-dsl/storable.ts), so this only saves records whose other texts the interpreter does not check.
 */
const storable = (text: string): string =>
  text.replace(/\\\\|\\u0000|\\ud[89a-f][0-9a-f]{2}/g, (found) => (found === '\\\\' ? found : '\\ufffd'))
