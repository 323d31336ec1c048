/** Finds queues of concurrency slots, of all tenants, that do not move, and runs with a slot that have not started. */

import { type Sql, sql } from '../../infra/postgres/sql.ts'
import type { SystemScope } from '../../infra/postgres/system-scope.ts'
import {
  type BackgroundTask,
  nextCursor,
  refOf,
  type TurnRow,
  WorkspaceRoundRobin,
  workspacePage,
  workspaceWith,
} from '../background/background-task.ts'
import { BACKGROUND_LIMITS } from '../background/limits.ts'
import { RUN_LIMITS } from './limits.ts'
import { reconcileRun, reconcileTask } from './reconcile.ts'
import type { RunKind } from './run-kind.ts'
import { promoteQueued } from './slots.ts'

const { firstCheckSeconds, queuesSeenMax, holdersMax, slotsSeenMax } = RUN_LIMITS
const { itemsMax: atOnce, pollMs, workspacesSeenMax } = BACKGROUND_LIMITS

/** A queue with a free slot, or a run whose slot the queue waits for. */
type QueueItem = { readonly ownerId: string; readonly key: string } | { readonly run: string }

/** Gives free slots to queues, and compares runs that others wait for with their workflows. */
export function slotQueues(kind: RunKind): BackgroundTask<QueueItem> {
  const queues = new Queues(kind)
  return {
    name: `queues of ${kind.plural}`,
    pollMs,
    atOnce,
    find: (system, limit) => queues.find(system, limit),
    run: async ({ scope, isActive }, item) => {
      if ('run' in item) await reconcileRun(scope, kind, { id: item.run, mayStart: isActive })
      else if (isActive) await promoteQueued(scope, kind.name, item)
    },
  }
}

interface QueueRow extends TurnRow {
  /** The owner of the queue; null for a workspace without further queues. */
  readonly id: string
  readonly key: string
  /** The number of the queue among those of its workspace in this look. */
  readonly place: number
  readonly is_free: boolean
  /** Runs that hold its slots, if none is free. */
  readonly holders: readonly string[]
}

/** Looks at `queuesSeenMax` queues of each workspace at a time: a workspace may have one for each of its runs. */
class Queues {
  readonly #kind: RunKind
  readonly #turns = new WorkspaceRoundRobin()
  /** Owner and key of the last queue in the last look at a workspace that has more of them, by workspace. */
  readonly #last = new Map<string, readonly [owner: string, key: string]>()

  constructor(kind: RunKind) {
    this.#kind = kind
  }

  async find(system: SystemScope, limit: number) {
    const last = [...this.#last].map(([workspace, [owner, key]]) => ({ workspace, owner, key }))
    const rows = await this.#turns.next<QueueRow>(system, (after) => nextQueues(this.#kind, after, last))
    for (const { workspace_id } of rows) this.#last.delete(workspace_id)
    for (const { workspace_id, id, key, place } of rows)
      if (place === queuesSeenMax) this.#last.set(workspace_id, [id, key])
    const free = rows.filter((row) => row.is_free)
    const held = rows.flatMap(({ holders, ...row }) => holders.map((id) => ({ ...row, id })))
    const checked = held.length === 0 ? [] : await system.rows<TurnRow>(markChecked(held.slice(0, limit)))
    return [
      ...free.map((row) => ({ ref: refOf(row), item: { ownerId: row.id, key: row.key } })),
      ...checked.map((row) => ({ ref: refOf(row), item: { run: row.id } })),
    ].slice(0, limit)
  }
}

/** As in the indexes of run_slots. */
const queued = ({ name }: RunKind): Sql => sql`kind = ${name} and state in ('queued', 'requeued')`

/** The first run of the first queue of a workspace after an owner and a key. */
const nextHead = (kind: RunKind, workspace: Sql, owner: Sql, key: Sql): Sql => sql`
  select tenant_id, workspace_id, owner_id, key, max from run_slots
  where ${queued(kind)} and workspace_id = ${workspace} and (owner_id, key) > (${owner}, ${key})
  order by owner_id, key, state desc, seq limit 1`

/**
 * The next queues of the next workspaces, which recursions find one by one in the index, and whether each has a free slot.
 * A queue of a workspace that is not active is not free.
 * @param last the queues of workspaces after which the look begins, instead of with the first
 */
const nextQueues = (kind: RunKind, after: string, last: readonly object[]) => sql`
  with recursive ${workspacePage(workspaceWith(sql`run_slots where ${queued(kind)}`), after, workspacesSeenMax)},
  last as (select * from jsonb_to_recordset(${JSON.stringify(last)}::jsonb) as l(workspace text, owner text, key text)),
  queues as materialized (
    select q.tenant_id, seen.workspace_id, q.owner_id, q.key, q.place, q.max,
      (select count(*) from (select from run_slots a where a.tenant_id = q.tenant_id and a.workspace_id = q.workspace_id
        and a.owner_id = q.owner_id and a.key = q.key and a.state = 'admitted' limit q.max) held) as running
    from seen left join last on last.workspace = seen.workspace_id left join lateral (
      with recursive heads as (
        select first.*, 1 as place
          from (${nextHead(kind, sql`seen.workspace_id`, sql`coalesce(last.owner, '')`, sql`coalesce(last.key, '')`)}) first
        union all
        select next.*, place + 1 from heads
          cross join lateral (${nextHead(kind, sql`heads.workspace_id`, sql`heads.owner_id`, sql`heads.key`)}) next
        where place < ${queuesSeenMax}
      )
      select * from heads) q on true
  )
  select q.tenant_id, q.workspace_id, q.owner_id as id, q.key, q.place, behind,
    q.running < q.max and exists (select from workspaces w join tenants t on t.id = q.tenant_id and t.state = 'active'
      where w.id = q.workspace_id and w.state = 'active') as is_free,
    to_json(case when q.running >= q.max then array(select a.run_id from run_slots a
      where a.tenant_id = q.tenant_id and a.workspace_id = q.workspace_id and a.owner_id = q.owner_id and a.key = q.key
        and a.state = 'admitted' and a.checked_at < now() - make_interval(secs => ${firstCheckSeconds}::integer)
      limit ${holdersMax}) else '{}' end) as holders
  from (${nextCursor(workspacesSeenMax)}) reached left join queues q on true
  order by q.place, q.workspace_id`

/** Runs that are not locked, each once in `firstCheckSeconds`. */
const markChecked = (held: readonly object[]) => sql`
  with held as materialized (
    select a.tenant_id, a.workspace_id, a.run_id
    from jsonb_to_recordset(${JSON.stringify(held)}::jsonb) as h(tenant_id text, workspace_id text, id text)
      join run_slots a on a.tenant_id = h.tenant_id and a.workspace_id = h.workspace_id and a.run_id = h.id
    for update of a skip locked
  )
  update run_slots a set checked_at = now() from held h
  where a.tenant_id = h.tenant_id and a.workspace_id = h.workspace_id and a.run_id = h.run_id
  returning a.tenant_id, a.workspace_id, a.run_id as id`

/** Starts runs that got a slot and have not started, and notifies those that have not acknowledged it. */
export const unstartedSlots = (kind: RunKind): BackgroundTask<string> =>
  reconcileTask(kind, `unstarted ${kind.plural}`, (after, limit) => dueSlots(kind, after, limit))

/** As in the index of run_slots. */
const unstarted = ({ name }: RunKind): Sql =>
  sql`kind = ${name} and state = 'admitted' and (notify_pending or not started)`

/** Slots of the next workspaces, the longest unchecked one of each first. The others, whose runs have started, are marked. */
const dueSlots = (kind: RunKind, after: string, limit: number) => sql`
  with recursive ${workspacePage(workspaceWith(sql`run_slots where ${unstarted(kind)}`), after, workspacesSeenMax)},
  due as materialized (
    select r.* from seen cross join lateral (
      select tenant_id, workspace_id, run_id, row_number() over (order by checked_at) as place from run_slots
      where ${unstarted(kind)} and workspace_id = seen.workspace_id
        and checked_at < now() - make_interval(secs => ${firstCheckSeconds}::integer)
      order by checked_at limit ${slotsSeenMax}) r
    order by place limit ${slotsSeenMax}
  ), free as materialized (
    select a.tenant_id, a.workspace_id, a.run_id, a.notify_pending, due.place,
      exists (select from ${kind.table} r where r.tenant_id = a.tenant_id and r.workspace_id = a.workspace_id
        and r.id = a.run_id and ${kind.isPending}) as is_pending
    from due join run_slots a on a.tenant_id = due.tenant_id and a.workspace_id = due.workspace_id
      and a.run_id = due.run_id
    for update of a skip locked
  ), settled as (
    update run_slots a set started = true from free f
    where a.tenant_id = f.tenant_id and a.workspace_id = f.workspace_id and a.run_id = f.run_id
      and not f.is_pending and not f.notify_pending
  ), checked as (
    update run_slots a set checked_at = now()
    from (select * from free where is_pending or notify_pending order by place limit ${limit}) f
    where a.tenant_id = f.tenant_id and a.workspace_id = f.workspace_id and a.run_id = f.run_id
    returning a.tenant_id, a.workspace_id, a.run_id as id
  )
  select checked.*, behind from (${nextCursor(workspacesSeenMax)}) reached left join checked on true`
