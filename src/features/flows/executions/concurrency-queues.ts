/** Finds queues of concurrency slots, of all tenants, that do not move, and executions with a slot that have not started. */

import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import type { SystemScope } from '../../../infra/postgres/system-scope.ts'
import {
  type BackgroundTask,
  findRoundRobin,
  nextCursor,
  refOf,
  type TurnRow,
  WorkspaceRoundRobin,
  workspacePage,
  workspaceWith,
} from '../../background/background-task.ts'
import { BACKGROUND_LIMITS } from '../../background/limits.ts'
import { FLOW_LIMITS } from '../limits.ts'
import { promoteQueued, reconcileExecution } from './reconcile-execution.ts'

const { firstCheckSeconds: soonSeconds, queuesSeenMax, holdersMax, slotsSeenMax } = FLOW_LIMITS.reconciler
const { itemsMax: atOnce, pollMs, workspacesSeenMax } = BACKGROUND_LIMITS

/** A queue with a free slot, or an execution whose slot the queue waits for. */
type QueueItem = { readonly flow: string; readonly key: string } | { readonly execution: string }

/** Gives free slots to queues, and compares executions that others wait for with their workflows. */
export function concurrencyQueues(): BackgroundTask<QueueItem> {
  const queues = new Queues()
  return {
    name: 'concurrency queues',
    pollMs,
    atOnce,
    find: (system, limit) => queues.find(system, limit),
    run: async ({ scope, isActive }, item) => {
      if ('execution' in item) await reconcileExecution(scope, item.execution, isActive)
      else if (isActive) await promoteQueued(scope, item.flow, item.key)
    },
  }
}

interface QueueRow extends TurnRow {
  /** The flow and the key of the queue; null for a workspace without further queues. */
  readonly id: string
  readonly key: string
  /** The number of the queue among those of its workspace in this look. */
  readonly place: number
  readonly is_free: boolean
  /** Executions that hold its slots, if none is free. */
  readonly holders: readonly string[]
}

/** Looks at `queuesSeenMax` queues of each workspace at a time: a workspace may have one for each of its executions. */
class Queues {
  readonly #turns = new WorkspaceRoundRobin()
  /** Flow and key of the last queue in the last look at a workspace that has more of them, by workspace. */
  readonly #last = new Map<string, readonly [flow: string, key: string]>()

  async find(system: SystemScope, limit: number) {
    const last = [...this.#last].map(([workspace, [flow, key]]) => ({ workspace, flow, key }))
    const rows = await this.#turns.next<QueueRow>(system, (after) => nextQueues(after, last))
    for (const { workspace_id } of rows) this.#last.delete(workspace_id)
    for (const { workspace_id, id, key, place } of rows)
      if (place === queuesSeenMax) this.#last.set(workspace_id, [id, key])
    const free = rows.filter((row) => row.is_free)
    const held = rows.flatMap(({ holders, ...row }) => holders.map((id) => ({ ...row, id })))
    const checked = held.length === 0 ? [] : await system.rows<TurnRow>(markChecked(held.slice(0, limit)))
    return [
      ...free.map((row) => ({ ref: refOf(row), item: { flow: row.id, key: row.key } })),
      ...checked.map((row) => ({ ref: refOf(row), item: { execution: row.id } })),
    ].slice(0, limit)
  }
}

const QUEUED = sql`state in ('queued', 'requeued')`

/** The first execution of the first queue of a workspace after a flow and a key. */
const nextHead = (workspace: Sql, flow: Sql, key: Sql): Sql => sql`
  select tenant_id, workspace_id, flow_id, key, max from concurrency_slots
  where ${QUEUED} and workspace_id = ${workspace} and (flow_id, key) > (${flow}, ${key})
  order by flow_id, key, state desc, seq limit 1`

/**
 * The next queues of the next workspaces, which recursions find one by one in the index, and whether each has a free slot.
 * A queue of a workspace that is not active is not free.
 * @param last the queues of workspaces after which the look begins, instead of with the first
 */
const nextQueues = (after: string, last: readonly object[]) => sql`
  with recursive ${workspacePage(workspaceWith(sql`concurrency_slots where ${QUEUED}`), after, workspacesSeenMax)},
  last as (select * from jsonb_to_recordset(${JSON.stringify(last)}::jsonb) as l(workspace text, flow text, key text)),
  queues as materialized (
    select q.tenant_id, seen.workspace_id, q.flow_id, q.key, q.place, q.max,
      (select count(*) from (select from concurrency_slots a where a.tenant_id = q.tenant_id and a.workspace_id = q.workspace_id
        and a.flow_id = q.flow_id and a.key = q.key and a.state = 'admitted' limit q.max) held) as running
    from seen left join last on last.workspace = seen.workspace_id left join lateral (
      with recursive heads as (
        select first.*, 1 as place
          from (${nextHead(sql`seen.workspace_id`, sql`coalesce(last.flow, '')`, sql`coalesce(last.key, '')`)}) first
        union all
        select next.*, place + 1 from heads
          cross join lateral (${nextHead(sql`heads.workspace_id`, sql`heads.flow_id`, sql`heads.key`)}) next
        where place < ${queuesSeenMax}
      )
      select * from heads) q on true
  )
  select q.tenant_id, q.workspace_id, q.flow_id as id, q.key, q.place, behind,
    q.running < q.max and exists (select from workspaces w join tenants t on t.id = q.tenant_id and t.state = 'active'
      where w.id = q.workspace_id and w.state = 'active') as is_free,
    to_json(case when q.running >= q.max then array(select a.execution_id from concurrency_slots a
      where a.tenant_id = q.tenant_id and a.workspace_id = q.workspace_id and a.flow_id = q.flow_id and a.key = q.key
        and a.state = 'admitted' and a.checked_at < now() - make_interval(secs => ${soonSeconds}::integer)
      limit ${holdersMax}) else '{}' end) as holders
  from (${nextCursor(workspacesSeenMax)}) reached left join queues q on true
  order by q.place, q.workspace_id`

/** Executions that are not locked, each once in `soonSeconds`. */
const markChecked = (held: readonly object[]) => sql`
  with held as materialized (
    select a.tenant_id, a.workspace_id, a.execution_id
    from jsonb_to_recordset(${JSON.stringify(held)}::jsonb) as h(tenant_id text, workspace_id text, id text)
      join concurrency_slots a on a.tenant_id = h.tenant_id and a.workspace_id = h.workspace_id and a.execution_id = h.id
    for update of a skip locked
  )
  update concurrency_slots a set checked_at = now() from held h
  where a.tenant_id = h.tenant_id and a.workspace_id = h.workspace_id and a.execution_id = h.execution_id
  returning a.tenant_id, a.workspace_id, a.execution_id as id`

/** Starts executions that got a slot and have not started, and notifies those that have not acknowledged it. */
export function unstartedSlots(): BackgroundTask<string> {
  return {
    name: 'unstarted slots',
    pollMs,
    atOnce,
    find: findRoundRobin(dueSlots, (row) => row.id),
    run: ({ scope, isActive }, id) => reconcileExecution(scope, id, isActive),
  }
}

/** As in the index of concurrency_slots. */
const UNSTARTED = sql`state = 'admitted' and (notify_pending or not started)`

/** Slots of the next workspaces, the longest unchecked one of each first. The others, whose executions have started, are marked. */
const dueSlots = (after: string, limit: number) => sql`
  with recursive ${workspacePage(workspaceWith(sql`concurrency_slots where ${UNSTARTED}`), after, workspacesSeenMax)},
  due as materialized (
    select r.* from seen cross join lateral (
      select tenant_id, workspace_id, execution_id, row_number() over (order by checked_at) as place from concurrency_slots
      where ${UNSTARTED} and workspace_id = seen.workspace_id
        and checked_at < now() - make_interval(secs => ${soonSeconds}::integer)
      order by checked_at limit ${slotsSeenMax}) r
    order by place limit ${slotsSeenMax}
  ), free as materialized (
    select a.tenant_id, a.workspace_id, a.execution_id, a.notify_pending, due.place,
      exists (select from executions e where e.tenant_id = a.tenant_id and e.workspace_id = a.workspace_id
        and e.id = a.execution_id and e.status = 'pending' and e.ended_at is null) as is_pending
    from due join concurrency_slots a on a.tenant_id = due.tenant_id and a.workspace_id = due.workspace_id
      and a.execution_id = due.execution_id
    for update of a skip locked
  ), settled as (
    update concurrency_slots a set started = true from free f
    where a.tenant_id = f.tenant_id and a.workspace_id = f.workspace_id and a.execution_id = f.execution_id
      and not f.is_pending and not f.notify_pending
  ), checked as (
    update concurrency_slots a set checked_at = now()
    from (select * from free where is_pending or notify_pending order by place limit ${limit}) f
    where a.tenant_id = f.tenant_id and a.workspace_id = f.workspace_id and a.execution_id = f.execution_id
    returning a.tenant_id, a.workspace_id, a.execution_id as id
  )
  select checked.*, behind from (${nextCursor(workspacesSeenMax)}) reached left join checked on true`
