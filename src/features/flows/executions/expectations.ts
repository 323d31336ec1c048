/** Publishes an event for each execution and each flow that is late by its `expect`, in the transaction that marks it. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { type Sql, sql, textArray } from '../../../infra/postgres/sql.ts'
import {
  type BackgroundTask,
  findRoundRobin,
  nextCursor,
  workspacePage,
} from '../../background/background-task.ts'
import { BACKGROUND_LIMITS } from '../../background/limits.ts'
import { FLOW_LIMITS } from '../limits.ts'

const { eventsMax, workspacesSeenMax, workspacesMax } = FLOW_LIMITS.alerts

/** Reports late executions and missed starts, some workspaces at a time, so that many late executions of one do not delay the others. */
export function unmetExpectations(): BackgroundTask<'late'> {
  return {
    name: 'unmet expectations',
    pollMs: BACKGROUND_LIMITS.pollMs,
    atOnce: workspacesMax,
    find: findRoundRobin(lateWorkspaces, () => 'late'),
    run: async ({ scope, isActive }) => {
      if (isActive) await reportUnmetExpectations(scope)
    },
  }
}

/** The first workspace after one that expects anything of an open execution or of a flow. */
const expectingAfter = (workspace: Sql): Sql => sql`
  select workspace_id from (
    (select workspace_id from executions where ended_at is null and overdue_at is not null and not overdue
      and workspace_id > ${workspace} order by workspace_id limit 1)
    union all
    (select workspace_id from flow_intervals where workspace_id > ${workspace} order by workspace_id limit 1)
  ) expecting order by workspace_id limit 1`

/** The next active workspaces with something late. The next look begins after the last one of them if there may be more. */
const lateWorkspaces = (after: string, limit: number): Sql => sql`
  with recursive ${workspacePage(expectingAfter, after, workspacesSeenMax)}, late as materialized (
    select workspace_id from seen s
    where exists (select from executions e where e.workspace_id = s.workspace_id and e.ended_at is null
        and not e.overdue and e.overdue_at <= now())
      or exists (select from flow_intervals i where i.workspace_id = s.workspace_id and i.due_at <= now())
  ), served as (
    select w.tenant_id, w.id as workspace_id, w.id from late
      join workspaces w on w.id = late.workspace_id and w.state = 'active'
      join tenants t on t.id = w.tenant_id and t.state = 'active'
    order by w.id limit ${limit}
  )
  select served.*, case when (select count(*) from served) = ${limit} then (select max(id) from served) else reached.behind end as behind
  from (${nextCursor(workspacesSeenMax)}) reached left join served on true
  order by served.workspace_id`

/** Publishes `platform.execution.overdue` and `platform.flow.missed`, a bounded number of each. */
async function reportUnmetExpectations(scope: WorkspaceScope): Promise<void> {
  await scope.batch(MARK_OVERDUE, REPORT_MISSED)
}

/** The database trigger `emit_execution_event` (flows.sql) writes the events. */
const MARK_OVERDUE = sql`
  with late as (
    select id from executions where ended_at is null and overdue_at <= now() and not overdue
    order by overdue_at limit ${eventsMax} for update skip locked
  )
  update executions e set overdue = true from late where e.id = late.id`

/**
 * A flow is late if its last start, the end of its pause and the resumption of its workspace are longer ago than its interval.
 * The next event is due after another interval. A flow whose triggers are all paused is expected to miss its starts.
 */
const REPORT_MISSED = sql`
  with due as (
    select flow_id, interval_ms, last_started_at from flow_intervals where due_at <= now()
    order by due_at limit ${eventsMax} for update skip locked
  ), known as (
    select d.flow_id, d.interval_ms, d.interval_ms * interval '1 millisecond' as span,
      greatest(d.last_started_at, (select e.started_at from executions e where e.flow_id = d.flow_id
        order by e.started_at desc, e.id desc limit 1)) as last_started_at,
      greatest(w.resumed_at, n.resumed_at,
        (select max(t.resumed_at) from triggers t where t.workspace_id = w.id and t.target_kind = 'flow'
          and t.target_id = d.flow_id)) as resumed_at,
      (select coalesce(bool_and(t.paused), false) from triggers t
        where t.workspace_id = w.id and t.target_kind = 'flow' and t.target_id = d.flow_id) as is_paused
    from due d join workspaces w on w.id = tenon.workspace() join tenants n on n.id = w.tenant_id
  ), judged as (
    select *, coalesce(greatest(last_started_at, resumed_at) + span <= now(), true) as is_late,
      greatest(last_started_at, resumed_at) + span as late_at
    from known
  ), rescheduled as (
    update flow_intervals i set due_at = case when j.is_late then now() + j.span else j.late_at end
    from judged j where i.flow_id = j.flow_id
  )
  insert into outbox (topic, document, bytes)
  select 'platform.flow.missed', data, length(data::text)
  from judged j join flows f on f.id = j.flow_id cross join lateral (
    select json_strip_nulls(json_build_object(
      'flow', json_build_object('id', f.id, 'version', f.latest_version, 'name', f.name),
      'last_started_at', to_char(j.last_started_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'),
      'expected_interval_ms', j.interval_ms)) as data) as event
  where j.is_late and not j.is_paused and f.deleted_at is null`

/**
 * A statement for the transaction that publishes a version, after the one that inserts it. The same interval as before goes on;
 * another begins now.
 * @param intervalMs `expect.interval` of the version
 */
export function setExpectedInterval(flowId: string, intervalMs: number | undefined): Sql {
  if (intervalMs === undefined) return sql`delete from flow_intervals where flow_id = ${flowId}`
  return sql`insert into flow_intervals as i (flow_id, interval_ms, due_at)
    select id, ${intervalMs}::bigint, now() + ${intervalMs}::bigint * interval '1 millisecond'
    from flows where id = ${flowId} and deleted_at is null
    on conflict (tenant_id, workspace_id, flow_id) do update set interval_ms = excluded.interval_ms,
      due_at = case when i.interval_ms = excluded.interval_ms then i.due_at else excluded.due_at end`
}

/** A statement for the transaction that removes executions, before it does: their flows have started nevertheless. */
export const rememberStarts = (executions: readonly string[]): Sql => sql`
  update flow_intervals i set last_started_at = greatest(i.last_started_at, e.started_at)
  from (select flow_id, max(started_at) as started_at from executions
    where id = any(${textArray(executions)}::text[]) group by flow_id) e
  where i.flow_id = e.flow_id`
