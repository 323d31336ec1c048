/** Finds open executions, of all tenants, that a crash may have left behind; reconcile-execution.ts compares them with their workflows. */

import { sql } from '../../../infra/postgres/sql.ts'
import {
  type BackgroundTask,
  findRoundRobin,
  nextCursor,
  workspacePage,
  workspaceWith,
} from '../../background/background-task.ts'
import { BACKGROUND_LIMITS } from '../../background/limits.ts'
import { FLOW_LIMITS } from '../limits.ts'
import { reconcileExecution } from './reconcile-execution.ts'

const { recheckSeconds: againSeconds, firstCheckSeconds: soonSeconds } = FLOW_LIMITS.reconciler
const { itemsMax: atOnce, pollMs, workspacesSeenMax } = BACKGROUND_LIMITS

/** The items are ids of executions. */
export function openExecutions(): BackgroundTask<string> {
  return {
    name: 'open executions',
    pollMs,
    atOnce,
    find: findRoundRobin(dueExecutions, (row) => row.id),
    run: ({ scope, isActive }, id) => reconcileExecution(scope, id, isActive),
  }
}

/**
 * Executions of the next workspaces that are due for a check, the most overdue one of each first: open since the last check
 * `againSeconds` ago, or not started after `soonSeconds` and not queued.
 */
const dueExecutions = (after: string, limit: number) => sql`
  with recursive ${workspacePage(workspaceWith(sql`executions where ended_at is null`), after, workspacesSeenMax)}, due as materialized (
    select r.* from seen cross join lateral (
      select tenant_id, workspace_id, id, due_at, row_number() over (order by due_at) as place from executions
      where ended_at is null and workspace_id = seen.workspace_id and due_at < now()
      order by due_at limit ${limit}) r
    order by place, due_at limit ${limit}
  ), free as materialized (
    select e.tenant_id, e.workspace_id, e.id from due join executions e
      on e.tenant_id = due.tenant_id and e.workspace_id = due.workspace_id and e.id = due.id
    for update of e skip locked
  ), checked as (
    update executions e set due_at = now() + make_interval(secs => case when e.status = 'pending' and not exists (
        select from concurrency_slots a where a.tenant_id = e.tenant_id and a.workspace_id = e.workspace_id
          and a.execution_id = e.id and a.state = 'queued') then ${soonSeconds}::integer else ${againSeconds}::integer end)
    from free where e.tenant_id = free.tenant_id and e.workspace_id = free.workspace_id and e.id = free.id
    returning e.tenant_id, e.workspace_id, e.id
  )
  select checked.*, behind from (${nextCursor(workspacesSeenMax)}) reached left join checked on true`
