/**
 * Slots of functions with `concurrency`: runs hold them from their admission to their end, in the order in which they were
 * created. A slot is a mark on the record of its run, so it ends with the record whatever happens to a process.
 */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { LIMITS } from '../../../core/limits.ts'
import { Problem } from '../../../core/problem.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import { notifyRunChanged, watchRun } from './run-changes.ts'

/**
 * Waits until a run whose caller waits holds a slot. The scope is an admin's.
 * @throws Problem `function_busy` after `functionQueueMs`; then the record is deleted, since nothing was run
 */
export async function awaitSlot(scope: WorkspaceScope, functionId: string, runId: string): Promise<void> {
  const untilMs = performance.now() + LIMITS.functionQueueMs
  const watch = watchRun(scope, runId)
  try {
    for (;;) {
      const [, admitted = []] = await scope.batch(lock(functionId), admit(functionId, sql`id = ${runId}`))
      if (admitted.length > 0) return
      const leftMs = untilMs - performance.now()
      if (leftMs <= 0) break
      await watch.next(Math.min(leftMs, LIMITS.functionWatchPollMs))
    }
  } finally {
    watch.stop()
  }
  await scope.batch(sql`delete from function_runs where id = ${runId} and slot = 'awaited'`)
  // The next in the queue may have waited for this one.
  for (const id of await nextCallers(scope, functionId)) notifyRunChanged(scope, id)
  throw new Problem('function_busy', {
    detail: `No run of the function ended within ${LIMITS.functionQueueMs / 1_000} s. Nothing was run.`,
  })
}

/**
 * Gives free slots to asynchronous runs, and wakes the callers whose turn it is. The scope is an admin's.
 * @returns the runs that are to be started
 */
export async function admitQueued(scope: WorkspaceScope, functionId: string): Promise<readonly string[]> {
  const [, admitted = [], callers = []] = await scope.batch(
    lock(functionId),
    admit(functionId, sql`is_async`),
    waitingCallers(functionId),
  )
  for (const { id } of callers) notifyRunChanged(scope, String(id))
  return admitted.map(({ id }) => String(id))
}

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
const placed = (functionId: string): Sql => sql`
  select id, is_async, slot from function_runs
  where function_id = ${functionId} and slot is not null and ended_at is null
    and (slot = 'held' or is_async
      or created_at > now() - make_interval(secs => ${LIMITS.functionQueueMs / 1_000 + 5}))
  order by slot desc, id
  limit (select coalesce((config ->> 'concurrency')::integer, ${LIMITS.functionConfig.concurrencyMax}) from functions
    where id = ${functionId})`

const admit = (functionId: string, which: Sql): Sql => sql`
  update function_runs r set slot = 'held'
  from (select id from (${placed(functionId)}) placed where slot = 'awaited' and ${which}) next
  where r.id = next.id and r.ended_at is null returning r.id`

const waitingCallers = (functionId: string): Sql => sql`
  select id from (${placed(functionId)}) placed where slot = 'awaited' and not is_async`
