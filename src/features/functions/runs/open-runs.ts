/** Finds open runs of functions, of all tenants, that may have lost their process or that wait for a slot, for the reconciler. */

import { sql } from '../../../infra/postgres/sql.ts'
import {
  type BackgroundTask,
  findRoundRobin,
  nextCursor,
  refOf,
  type TurnRow,
  workspacePage,
  workspaceWith,
} from '../../background/background-task.ts'
import { BACKGROUND_LIMITS } from '../../background/limits.ts'
import { FUNCTION_LIMITS } from '../limits.ts'
import { reconcileRun } from './reconcile-run.ts'
import { startQueued } from './start-queued.ts'

const { recheckSeconds: runSeconds } = FUNCTION_LIMITS
const { itemsMax: atOnce, pollMs, workspacesSeenMax } = BACKGROUND_LIMITS

/** Compares open runs with their workflows. The items are ids of runs. */
export function openRuns(): BackgroundTask<string> {
  return {
    name: 'open function runs',
    pollMs,
    atOnce,
    find: findRoundRobin(dueRuns, (row) => row.id),
    run: ({ scope, isActive }, id) => reconcileRun(scope, id, isActive),
  }
}

interface QueueRow extends TurnRow {
  /** The function. Null in the only row of a look that has found nothing. */
  readonly id: string
  /** The last queue of a look that did not reach the end; null otherwise. */
  readonly behind_function: string | null
}

/** Starts asynchronous runs of functions with a queue. The items are ids of functions. */
export function functionQueues(): BackgroundTask<string> {
  /** Workspace and function of the last queue of the last look; empty to begin with the first. */
  let last: readonly [workspace: string, functionId: string] = ['', '']
  return {
    name: 'function queues',
    pollMs,
    atOnce,
    find: async (system, limit) => {
      const rows = await system.rows<QueueRow>(dueQueues(...last, limit))
      last = [rows[0]?.behind ?? '', rows[0]?.behind_function ?? '']
      return rows.flatMap((row) => (row.id === null ? [] : [{ ref: refOf(row), item: row.id }]))
    },
    run: async ({ scope, isActive }, functionId) => {
      if (isActive) await startQueued(scope, functionId)
    },
  }
}

/** Open, and not in the queue of a function: as in the indexes of function_runs. */
const BEGUN = sql`ended_at is null and (slot is distinct from 'awaited' or not is_async)`
const QUEUED = sql`ended_at is null and slot = 'awaited' and is_async`

const LATER = sql`now() + make_interval(secs => ${runSeconds}::integer)`

/** Due runs of the next workspaces, each once in `runSeconds`: the most overdue run of each, then the second of each, and so on. */
const dueRuns = (after: string, limit: number) => sql`
  with recursive ${workspacePage(workspaceWith(sql`function_runs where ${BEGUN}`), after, workspacesSeenMax)}, due as materialized (
    select r.* from seen cross join lateral (
      select tenant_id, workspace_id, id, due_at, row_number() over (order by due_at) as place from function_runs
      where ${BEGUN} and workspace_id = seen.workspace_id and due_at < now()
      order by due_at limit ${limit}) r
    order by place, due_at limit ${limit}
  ), free as materialized (
    select r.tenant_id, r.workspace_id, r.id from due join function_runs r
      on r.tenant_id = due.tenant_id and r.workspace_id = due.workspace_id and r.id = due.id
    for update of r skip locked
  ), checked as (
    update function_runs r set due_at = ${LATER} from free
    where r.tenant_id = free.tenant_id and r.workspace_id = free.workspace_id and r.id = free.id
    returning r.tenant_id, r.workspace_id, r.id
  )
  select checked.*, behind from (${nextCursor(workspacesSeenMax)}) reached left join checked on true`

/** The next functions with a queue whose first run is due. The others of a queue need no look. */
const dueQueues = (workspace: string, functionId: string, limit: number) => sql`
  with recursive heads as (
    (select tenant_id, workspace_id, function_id, id, due_at, 1 as n from function_runs
      where ${QUEUED} and (workspace_id, function_id) > (${workspace}::text, ${functionId}::text)
      order by workspace_id, function_id, id limit 1)
    union all
    select next.*, n + 1 from heads cross join lateral (
      select tenant_id, workspace_id, function_id, id, due_at from function_runs
      where ${QUEUED} and (workspace_id, function_id) > (heads.workspace_id, heads.function_id)
      order by workspace_id, function_id, id limit 1) next
    where n < ${limit}
  ), checked as (
    update function_runs r set due_at = ${LATER} from heads
    where r.tenant_id = heads.tenant_id and r.workspace_id = heads.workspace_id and r.id = heads.id
      and heads.due_at < now()
    returning r.tenant_id, r.workspace_id, r.function_id as id
  )
  select checked.*, last.workspace_id as behind, last.function_id as behind_function
  from (select max(n) from heads) reached
    left join heads last on last.n = ${limit}
    left join checked on true`
