/** Finds open runs, of all tenants, that a crash may have left behind; reconcile.ts compares them with their workflows. */

import { sql } from '../../infra/postgres/sql.ts'
import {
  type BackgroundTask,
  nextCursor,
  workspacePage,
  workspaceWith,
} from '../background/background-task.ts'
import { BACKGROUND_LIMITS } from '../background/limits.ts'
import { RUN_LIMITS } from './limits.ts'
import { reconcileTask } from './reconcile.ts'
import type { RunKind } from './run-kind.ts'
import { IS_QUEUED } from './slots.ts'

const { recheckSeconds: queuedSeconds, firstCheckSeconds } = RUN_LIMITS
const { workspacesSeenMax } = BACKGROUND_LIMITS

export const openRuns = (kind: RunKind): BackgroundTask<string> =>
  reconcileTask(kind, `open ${kind.plural}`, (after, limit) => dueRuns(kind, after, limit))

/**
 * Runs of the next workspaces that are due for a check, the most overdue one of each first. The next check of a pending one is soon;
 * one that queues for a slot is checked rarely: {@link unstartedSlots} does so when it has its slot.
 */
const dueRuns = ({ table, isPending, recheckSeconds }: RunKind, after: string, limit: number) => sql`
  with recursive ${workspacePage(workspaceWith(sql`${table} where ended_at is null`), after, workspacesSeenMax)}, due as materialized (
    select d.* from seen cross join lateral (
      select tenant_id, workspace_id, id, due_at, row_number() over (order by due_at) as place from ${table}
      where ended_at is null and workspace_id = seen.workspace_id and due_at < now()
      order by due_at limit ${limit}) d
    order by place, due_at limit ${limit}
  ), free as materialized (
    select r.tenant_id, r.workspace_id, r.id, ${IS_QUEUED} as is_queued
    from due join ${table} r on r.tenant_id = due.tenant_id and r.workspace_id = due.workspace_id and r.id = due.id
      left join run_slots s on s.tenant_id = r.tenant_id and s.workspace_id = r.workspace_id and s.run_id = r.id
    for update of r skip locked
  ), checked as (
    update ${table} r set due_at = now() + make_interval(secs => case when is_queued then ${queuedSeconds}::integer
      when ${isPending} then ${firstCheckSeconds}::integer else ${recheckSeconds}::integer end)
    from free where r.tenant_id = free.tenant_id and r.workspace_id = free.workspace_id and r.id = free.id
    returning r.tenant_id, r.workspace_id, r.id
  )
  select checked.*, behind from (${nextCursor(workspacesSeenMax)}) reached left join checked on true`
