/**
 * Slots of functions with `concurrency`: runs hold them from their admission to their end, in the order in which they were
 * created. A slot is a mark on the record of its run, so it ends with the record whatever happens to a process.
 */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { Problem } from '../../../core/problem.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import { ACTIVE } from '../../tenants/tenants.ts'
import { FUNCTION_LIMITS } from '../limits.ts'
import { notifyRunChanged, watchRun } from './run-changes.ts'

/**
 * Waits until a run whose caller waits holds a slot. The scope is an admin's.
 * @throws Problem `function_busy` after `functionQueueMs`; then the record is deleted, since nothing was run
 */
export async function awaitSlot(scope: WorkspaceScope, functionId: string, runId: string): Promise<void> {
  const watch = watchRun(scope, runId)
  try {
    let turn = await takeSlot(scope, functionId, runId)
    while (!turn.is_over && turn.left_ms > 0) {
      await watch.next(Math.min(turn.left_ms, FUNCTION_LIMITS.watchPollMs))
      // Looks without the lock first, on which all callers of the function would wait for one another.
      const { left_ms, is_next } = await readSlotState(scope, functionId, runId)
      turn = is_next ? await takeSlot(scope, functionId, runId) : { left_ms, is_over: false }
    }
    if (turn.is_over) return
  } finally {
    watch.stop()
  }
  await scope.batch(sql`delete from function_runs where id = ${runId} and slot = 'awaited'`)
  // The next in the queue may have waited for this one.
  for (const id of await nextCallers(scope, functionId)) notifyRunChanged(scope, id)
  throw new Problem('function_busy', {
    detail: `No run of the function ended within ${FUNCTION_LIMITS.queueMs / 1_000} s. Nothing was run.`,
  })
}

interface SlotState {
  /** How long the caller still waits. */
  readonly left_ms: number
  /** The run holds a slot, or has ended: a call that is repeated finds the run of the first one. */
  readonly is_over: boolean
}

const REMAINING_MS = sql`(${FUNCTION_LIMITS.queueMs}::integer - extract(epoch from now() - created_at) * 1000)::float8 as left_ms`
const NO_SLOT = { left_ms: 0, is_over: false, is_next: false }

async function takeSlot(scope: WorkspaceScope, functionId: string, runId: string): Promise<SlotState> {
  const [, , [turn] = []] = await scope.batch(
    lock(functionId),
    admit(functionId, sql`id = ${runId}`, 1),
    sql`select ${REMAINING_MS}, slot = 'held' or ended_at is not null as is_over from function_runs where id = ${runId}`,
  )
  return (turn as unknown as SlotState | undefined) ?? NO_SLOT
}

const readSlotState = async (scope: WorkspaceScope, functionId: string, runId: string) =>
  (await scope.row<SlotState & { is_next: boolean }>(sql`
    select ${REMAINING_MS}, id in (select id from (${queuePositions(functionId)}) placed) as is_next from function_runs where id = ${runId}`)) ??
  NO_SLOT

/**
 * Gives free slots to asynchronous runs, unless the workspace is suspended, and wakes the callers whose turn it is. The scope is
 * an admin's.
 * @param max runs at once
 * @returns the runs that are to be started
 */
export async function admitQueued(
  scope: WorkspaceScope,
  functionId: string,
  max: number,
): Promise<readonly string[]> {
  const [, admitted = [], callers = []] = await scope.batch(
    lock(functionId),
    admit(functionId, sql`is_async and ${isActive(scope)}`, max),
    waitingCallers(functionId),
  )
  for (const { id } of callers) notifyRunChanged(scope, String(id))
  return admitted.map(({ id }) => String(id))
}

const isActive = ({ ref }: WorkspaceScope): Sql =>
  sql`exists (select from workspaces where id = ${ref.workspaceId} and ${ACTIVE})`

async function nextCallers(scope: WorkspaceScope, functionId: string): Promise<readonly string[]> {
  return (await scope.rows<{ id: string }>(waitingCallers(functionId))).map(({ id }) => id)
}

/** Admissions to one function follow one another: each counts the slots that the one before has given. */
const lock = (functionId: string): Sql =>
  sql`select pg_advisory_xact_lock(hashtextextended(${functionId}, 34))`

/**
 * The runs that hold a slot, and then as many of those that wait as the limit allows. A caller that has waited longer than
 * it may is gone. Without a limit any more, all wait for nothing.
 */
const queuePositions = (functionId: string): Sql => sql`
  select id, is_async, slot from function_runs
  where function_id = ${functionId} and slot is not null and ended_at is null
    and (slot = 'held' or is_async
      or created_at > now() - make_interval(secs => ${FUNCTION_LIMITS.queueMs / 1_000 + 5}))
  order by slot desc, id
  limit (select coalesce((config ->> 'concurrency')::integer, ${FUNCTION_LIMITS.config.concurrencyMax}) from functions
    where id = ${functionId})`

const admit = (functionId: string, which: Sql, max: number): Sql => sql`
  update function_runs r set slot = 'held'
  from (select id from (${queuePositions(functionId)}) placed where slot = 'awaited' and ${which} order by id limit ${max}) next
  where r.id = next.id and r.ended_at is null returning r.id`

const waitingCallers = (functionId: string): Sql => sql`
  select id from (${queuePositions(functionId)}) placed where slot = 'awaited' and not is_async`
