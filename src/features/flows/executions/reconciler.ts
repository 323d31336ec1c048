/**
 * Reconciler: finds executions and runs of functions that a crash may have left behind, queues with a free slot, and workspaces with
 * expired or overdue ones or missed starts, on one process at a time. `createRepair` (activities/flow/background-work.ts) serves what it finds;
 * reconcile-execution.ts compares an execution with its workflow. Deletes expired results of MCP tools, too.
 */

import { LIMITS } from '../../../core/limits.ts'
import type { WorkspaceRef } from '../../../core/tenant.ts'
import type { Log } from '../../../infra/log.ts'
import type { Database } from '../../../infra/postgres/database.ts'
import { type Leadership, LeaderTask } from '../../../infra/postgres/leader-task.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import type { SystemScope } from '../../../infra/postgres/system-scope.ts'
import { type OpenRunCandidate, OpenRuns } from '../../functions/runs/open-runs.ts'
import { hasExpired, type OldestRuns } from '../../functions/runs/retention.ts'
import { DELETE_EXPIRED_RESULTS } from '../../mcp-servers/calls/kept-results.ts'
import type { Retention } from '../../tenants/workspace-settings.ts'

/** An execution or a queue to repair within its workspace. */
export type RepairCandidate =
  | OpenRunCandidate
  | ({ readonly ref: WorkspaceRef } & (
      | { readonly execution: string }
      /** A flow and a concurrency key with a free slot and waiting executions. */
      | { readonly flow: string; readonly key: string }
      /** A workspace whose ended executions may have expired. */
      | { readonly retention: Retention }
      /** A workspace whose ended runs of functions have expired. */
      | { readonly runRetention: Retention }
      /** A workspace with overdue executions, or with flows that may have missed a start. */
      | { readonly isLate: true }
    ))

const TASK = {
  reason: 'reconciler',
  lock: 7_302_519,
  failureMessage: 'reconciling executions failed',
} as const
const { againSeconds, soonSeconds, atOnce, pollMs } = LIMITS.reconciler
const { workspacesSeenMax: seenMax, pauseMs } = LIMITS.functionRetention
const { workspacesSeenMax, workspacesMax } = LIMITS.alerts

export class ExecutionReconciler {
  readonly #task: LeaderTask
  readonly #log: Log
  /** The last workspace that was looked at for late executions; empty to begin with the first. */
  #after = ''
  readonly #openRuns = new OpenRuns()
  readonly #expiredRuns = new ExpiredRuns()

  constructor(database: Database, log: Log) {
    this.#task = new LeaderTask(database, TASK, log)
    this.#log = log
  }

  /** Runs until it is closed. Every worker starts it; one of them is the leader. */
  start(repair: (candidate: RepairCandidate) => Promise<void>): void {
    this.#task.start((leadership) => this.#watch(leadership, repair))
  }

  /** Finishes the repairs under way. */
  close(): Promise<void> {
    return this.#task.close()
  }

  async #watch(leadership: Leadership, repair: (candidate: RepairCandidate) => Promise<void>): Promise<void> {
    // The previous leader may have died during work that Temporal resumes by itself.
    await leadership.wait(soonSeconds * 1_000)
    while (!leadership.isOver) {
      const found = await this.#findCandidates(leadership.system)
      await Promise.all(
        found.map((candidate) =>
          // A candidate that cannot be repaired now is found again.
          repair(candidate).catch((error: unknown) =>
            this.#log.warn({ err: error, candidate }, 'execution repair failed'),
          ),
        ),
      )
      leadership.resetBackoff()
      await leadership.wait(pollMs)
    }
  }

  async #findCandidates(system: SystemScope): Promise<RepairCandidate[]> {
    const [due = [], blocking = [], free = [], expiring = [], late = []] = (await system.batch(
      UNCHECKED,
      BLOCKING,
      FREE,
      EXPIRING,
      lateWorkspaces(this.#after),
      DELETE_EXPIRED_RESULTS,
    )) as unknown as Row[][]
    const next = late.length === workspacesMax ? late.at(-1)?.workspace_id : late[0]?.more_behind
    this.#after = next ?? ''
    const refOf = (row: Row) => ({ tenantId: row.tenant_id, workspaceId: row.workspace_id })
    return [
      ...[...due, ...blocking].map((row) => ({ ref: refOf(row), execution: row.id })),
      ...free.map((row) => ({ ref: refOf(row), flow: row.id, key: row.key })),
      ...expiring.map((row) => ({ ref: refOf(row), retention: row.retention })),
      ...(await this.#openRuns.find(system)),
      ...(await this.#expiredRuns.find(system)),
      // Without a late workspace, one row has the end of the look.
      ...late
        .filter((row) => row.workspace_id !== null)
        .map((row) => ({ ref: refOf(row), isLate: true as const })),
    ]
  }
}

/** Looks for workspaces with expired runs of functions, some workspaces at a time, and all of them once in `pauseMs`. */
class ExpiredRuns {
  /** The last workspace of the last look; empty to begin with the first. */
  #after = ''
  #nextMs = 0

  async find(system: SystemScope): Promise<RepairCandidate[]> {
    if (performance.now() < this.#nextMs) return []
    const rows = await system.rows<Row & OldestRuns>(oldestRuns(this.#after))
    this.#after = rows.length === seenMax ? (rows.at(-1)?.workspace_id ?? '') : ''
    if (this.#after === '') this.#nextMs = performance.now() + pauseMs
    return rows
      .filter((row) => hasExpired(row.retention, row))
      .map((row) => ({
        ref: { tenantId: row.tenant_id, workspaceId: row.workspace_id },
        runRetention: row.retention,
      }))
  }
}

interface Row {
  readonly tenant_id: WorkspaceRef['tenantId']
  readonly workspace_id: WorkspaceRef['workspaceId']
  readonly id: string
  readonly key: string
  readonly retention: Retention
  readonly more_behind: string | null
}

/** Executions that are due for a check: open since the last check `againSeconds` ago, or not started after `soonSeconds` and not queued. */
const UNCHECKED = sql`
  with due as (
    select tenant_id, workspace_id, id from executions where ended_at is null and due_at < now()
    order by due_at limit ${atOnce} for update skip locked
  )
  update executions e set due_at = now() + make_interval(secs => case when e.status = 'pending' and not exists (
      select from concurrency_slots a where a.tenant_id = e.tenant_id and a.workspace_id = e.workspace_id
        and a.execution_id = e.id and a.state = 'queued') then ${soonSeconds}::integer else ${againSeconds}::integer end)
  from due where e.tenant_id = due.tenant_id and e.workspace_id = due.workspace_id and e.id = due.id
  returning e.tenant_id, e.workspace_id, e.id`

/** The next workspaces with ended runs, which a recursion finds one by one in the index, and the end of the oldest of each. */
const oldestRuns = (after: string): Sql => sql`
  with recursive seen as (
    (select tenant_id, workspace_id, 1 as n from function_runs where ended_at is not null
      and workspace_id > ${after}::text order by workspace_id limit 1)
    union all
    select next.tenant_id, next.workspace_id, n + 1 from seen cross join lateral (
      select tenant_id, workspace_id from function_runs where ended_at is not null and workspace_id > seen.workspace_id
      order by workspace_id limit 1) next
    where n < ${seenMax}
  )
  select tenant_id, workspace_id,
    coalesce((select retention from services s where s.tenant_id = seen.tenant_id and s.workspace_id = seen.workspace_id),
      '{}') as retention,
    ${oldestEnd(sql`false`)} as oldest, ${oldestEnd(sql`true`)} as oldest_letter
  from seen order by workspace_id`

const oldestEnd = (isLetter: Sql): Sql => sql`(select min(ended_at) from function_runs r
  where r.workspace_id = seen.workspace_id and r.is_dead_letter = ${isLetter} and r.ended_at is not null)`

/** Executions that hold a slot and block a queue, have not started, or have not acknowledged it. */
const BLOCKING = sql`
  with suspects as (
    select a.tenant_id, a.workspace_id, a.execution_id from concurrency_slots a
    where a.state = 'admitted' and a.checked_at < now() - make_interval(secs => ${soonSeconds}::integer)
      and (exists (select from concurrency_slots q where q.tenant_id = a.tenant_id and q.workspace_id = a.workspace_id
          and q.flow_id = a.flow_id and q.key = a.key and q.state in ('queued', 'requeued'))
        or a.notify_pending
        or exists (select from executions e where e.tenant_id = a.tenant_id and e.workspace_id = a.workspace_id
          and e.id = a.execution_id and e.status = 'pending' and e.ended_at is null))
    order by a.checked_at limit ${atOnce} for update skip locked
  )
  update concurrency_slots a set checked_at = now() from suspects s
  where a.tenant_id = s.tenant_id and a.workspace_id = s.workspace_id and a.execution_id = s.execution_id
  returning a.tenant_id, a.workspace_id, a.execution_id as id`

/** Workspaces with a retention policy, each once in `pauseSeconds`. */
const EXPIRING = sql`
  with due as (
    select tenant_id, workspace_id from services
    where retention_due_at < now() and retention ? 'executions'
    order by retention_due_at limit ${atOnce} for update skip locked
  )
  update services s set retention_due_at = now() + make_interval(secs => ${LIMITS.retention.pauseSeconds}::integer)
  from due where s.tenant_id = due.tenant_id and s.workspace_id = due.workspace_id
  returning s.tenant_id, s.workspace_id, s.retention`

/** Heads of queues with a free slot, in active workspaces. */
const FREE = sql`
  select q.tenant_id, q.workspace_id, q.flow_id as id, q.key from concurrency_slots q
    join workspaces w on w.id = q.workspace_id and w.state = 'active'
    join tenants t on t.id = q.tenant_id and t.state = 'active'
  where q.state in ('queued', 'requeued')
    and not exists (select from concurrency_slots b where b.tenant_id = q.tenant_id and b.workspace_id = q.workspace_id
      and b.flow_id = q.flow_id and b.key = q.key and b.state in ('queued', 'requeued')
      and tenon.slot_rank(b.state, b.seq) < tenon.slot_rank(q.state, q.seq))
    and q.max > (select count(*) from concurrency_slots a where a.tenant_id = q.tenant_id
      and a.workspace_id = q.workspace_id and a.flow_id = q.flow_id and a.key = q.key and a.state = 'admitted')
  limit ${atOnce}`

/** The first workspace after one that expects anything of an open execution or of a flow. */
const expectingAfter = (workspace: Sql): Sql => sql`
  select workspace_id from (
    (select workspace_id from executions where ended_at is null and overdue_at is not null and not overdue
      and workspace_id > ${workspace} order by workspace_id limit 1)
    union all
    (select workspace_id from flow_intervals where workspace_id > ${workspace} order by workspace_id limit 1)
  ) expecting order by workspace_id limit 1`

/**
 * Active workspaces with something late, round robin, so that many late executions of one do not delay the others. The
 * recursion finds the workspaces one by one in the indexes.
 */
const lateWorkspaces = (after: string): Sql => sql`
  with recursive seen as (
    select workspace_id, 1 as n from (${expectingAfter(sql`${after}::text`)}) first
    union all
    select next.workspace_id, n + 1 from seen cross join lateral (${expectingAfter(sql`seen.workspace_id`)}) next
    where n < ${workspacesSeenMax}
  ), late as materialized (
    select workspace_id from seen s
    where exists (select from executions e where e.workspace_id = s.workspace_id and e.ended_at is null
        and not e.overdue and e.overdue_at <= now())
      or exists (select from flow_intervals i where i.workspace_id = s.workspace_id and i.due_at <= now())
  ), served as (
    select w.tenant_id, w.id as workspace_id from late
      join workspaces w on w.id = late.workspace_id and w.state = 'active'
      join tenants t on t.id = w.tenant_id and t.state = 'active'
    order by w.id limit ${workspacesMax}
  )
  select served.*, reached.more_behind
  from (select case when count(*) = ${workspacesSeenMax} then max(workspace_id) end as more_behind from seen) reached
    left join served on true
  order by served.workspace_id`
