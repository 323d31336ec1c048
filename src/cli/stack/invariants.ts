/**
 * Compares what PostgreSQL and Temporal say of executions and runs, and names what contradicts itself: for `tenon doctor --deep` and
 * for tests. Reads only, and at most `limit` rows of each kind.
 */

import {
  type Client as Temporal,
  type WorkflowExecutionStatusName,
  WorkflowNotFoundError,
} from '@temporalio/client'
import type { Client as Database } from 'pg'
import { uuidOf } from '../../core/ids.ts'
import { FUNCTION_LIMITS } from '../../features/functions/limits.ts'

export interface Violation {
  /** The rule that is broken. */
  readonly rule: (typeof RULES)[number]
  /** The id of the execution, run or workflow, or the flow and key of a queue. */
  readonly subject: string
  /** The finding, in a sentence. */
  readonly detail: string
}

const RULES = [
  'a slot belongs to an open record',
  'a queue moves while a slot is free',
  'a run starts before its deadline or ends',
  'an open execution has an open workflow',
  'an open run has an open workflow',
  'an open workflow has an open record',
  'an ended execution has one final event',
  'record and workflow end alike',
  'a final status is that of its event',
] as const

export interface InvariantOptions {
  /** A role that row-level security does not hide rows from, such as a superuser. */
  readonly database: Database
  readonly temporal: Temporal
  /** Tenants to check; all by default. */
  readonly tenants?: readonly string[]
  /** The age in seconds at which a disagreement counts: the reconciler repairs younger ones. */
  readonly graceSeconds?: number
  readonly limit?: number
}

interface Scope {
  readonly tenants: readonly string[] | null
  readonly grace: number
  readonly limit: number
}

const AT_ONCE = 8

/** @returns the violations; empty if there are none */
export async function findViolations(options: InvariantOptions): Promise<Violation[]> {
  const { database, temporal, tenants = null, graceSeconds = 60, limit = 1_000 } = options
  const scope = { tenants, grace: graceSeconds, limit }
  return [
    ...(await inTables(database, scope)),
    ...(await withoutWorkflow(database, temporal, scope)),
    ...(await withoutRecord(database, temporal, scope)),
    ...(await endedOtherwise(database, temporal, scope)),
  ]
}

/** Records of all kinds of runs. */
const RECORDS = `(select tenant_id, workspace_id, id, status, started_at as created_at, ended_at from tenon.executions
  union all select tenant_id, workspace_id, id, status, created_at, ended_at from tenon.function_runs) r`

/** A condition on a record: it queues for a slot. */
const isQueued = (
  record: string,
) => `exists (select from tenon.run_slots s where s.tenant_id = ${record}.tenant_id
  and s.workspace_id = ${record}.workspace_id and s.run_id = ${record}.id and s.state = 'queued')`

/** $1: tenants or null, $2: seconds of grace, $3: limit. Each selects `subject` and `detail`. */
const IN_TABLES: Partial<Record<Violation['rule'], string>> = {
  'a slot belongs to an open record': `
    select s.run_id as subject, format('It ended as %s and is still %s in its queue.', r.status, s.state) as detail
    from tenon.run_slots s join ${RECORDS} using (tenant_id, workspace_id)
    where r.id = s.run_id and r.ended_at < now() - make_interval(secs => $2::float8)
      and ($1::text[] is null or tenant_id = any($1)) limit $3`,
  'a queue moves while a slot is free': `
    select concat_ws(' ', owner_id, nullif(key, '')) as subject,
      format('%s of %s slots are held, and %s wait.', held, max, waiting) as detail
    from (select s.tenant_id, s.workspace_id, s.owner_id, s.key, max(s.max) as max,
        count(*) filter (where s.state = 'admitted') as held,
        count(*) filter (where s.state in ('queued', 'requeued')) as waiting,
        min(r.created_at) filter (where s.state = 'queued') as since,
        max(s.checked_at) as changed
      from tenon.run_slots s join ${RECORDS} using (tenant_id, workspace_id)
      where r.id = s.run_id and coalesce(s.expires_at > now(), true) and ($1::text[] is null or tenant_id = any($1))
      group by 1, 2, 3, 4) queues
      join tenon.workspaces w on w.id = queues.workspace_id and w.state = 'active'
      join tenon.tenants t on t.id = queues.tenant_id and t.state = 'active'
    where held < max and waiting > 0 and greatest(since, changed) < now() - make_interval(secs => $2::float8) limit $3`,
  'a run starts before its deadline or ends': `
    select r.id as subject, format('It has waited for a slot since %s.', r.created_at) as detail
    from tenon.function_runs r
      join tenon.workspaces w on w.id = r.workspace_id and w.state = 'active'
      join tenon.tenants t on t.id = r.tenant_id and t.state = 'active'
    where r.ended_at is null and ${isQueued('r')} and ($1::text[] is null or r.tenant_id = any($1))
      and r.created_at < now() - make_interval(secs => $2::float8
        + case when r.is_async then ${FUNCTION_LIMITS.asyncQueueMs / 1_000} else ${FUNCTION_LIMITS.queueMs / 1_000} end) limit $3`,
  'an ended execution has one final event': `
    select e.id as subject, format('It has %s final events.', count(v.seq)) as detail
    from (select * from tenon.executions where ended_at between now() - interval '1 day'
        and now() - make_interval(secs => $2::float8) and events > 0
        and ($1::text[] is null or tenant_id = any($1)) order by ended_at desc limit $3) e
      left join tenon.execution_events v on v.tenant_id = e.tenant_id and v.workspace_id = e.workspace_id
        and v.execution_id = e.id and v.step is null and v.what in ('completed', 'faulted', 'cancelled')
    group by e.id having count(v.seq) > 1 limit $3`,
  // The database lets nobody change a final status (tenon.refuse_other_end), and keeps both in one transaction.
  'a final status is that of its event': `
    select e.id as subject, format('It is %s, and its final event says %s.', e.status, v.what) as detail
    from (select * from tenon.executions where ended_at between now() - interval '1 day'
        and now() - make_interval(secs => $2::float8)
        and ($1::text[] is null or tenant_id = any($1)) order by ended_at desc limit $3) e
      join tenon.execution_events v on v.tenant_id = e.tenant_id and v.workspace_id = e.workspace_id
        and v.execution_id = e.id and v.step is null and v.what in ('completed', 'faulted', 'cancelled')
    where v.what <> e.status limit $3`,
}

async function inTables(database: Database, scope: Scope): Promise<Violation[]> {
  const found: Violation[] = []
  for (const [rule, text] of Object.entries(IN_TABLES)) {
    const { rows } = await database.query(text, parameters(scope))
    found.push(...rows.map((row) => ({ rule: rule as Violation['rule'], ...row })))
  }
  return found
}

const parameters = ({ tenants, grace, limit }: Scope) => [tenants, grace, limit]

/** Open records whose workflow is over or does not exist; of an execution or a run that waits for a slot there is none yet. */
async function withoutWorkflow(database: Database, temporal: Temporal, scope: Scope): Promise<Violation[]> {
  const executions = await database.query(
    `select e.id, e.workflow_id, 'an open execution has an open workflow' as rule from tenon.executions e
      join tenon.workspaces w on w.id = e.workspace_id and w.state = 'active'
      where e.ended_at is null and not ${isQueued('e')} and e.started_at < now() - make_interval(secs => $2::float8)
        and ($1::text[] is null or e.tenant_id = any($1)) order by e.started_at limit $3`,
    parameters(scope),
  )
  const runs = await database.query(
    `select id, concat_ws(':', tenant_id, workspace_id, function_id) as prefix, 'an open run has an open workflow' as rule
      from tenon.function_runs r where ended_at is null and not ${isQueued('r')}
        and created_at < now() - make_interval(secs => $2::float8)
        and ($1::text[] is null or tenant_id = any($1)) order by created_at limit $3`,
    parameters(scope),
  )
  const open: { id: string; workflow_id: string; rule: Violation['rule'] }[] = [
    ...executions.rows,
    ...runs.rows.map((run) => ({ ...run, workflow_id: `${run.prefix}:${uuidOf(run.id)}` })),
  ]
  const checked = await eachAtOnce(open, async ({ id, workflow_id, rule }) => {
    const status = await findStatus(temporal, workflow_id)
    if (status === 'RUNNING' || !(await isStillOpen(database, id))) return []
    const detail =
      status === undefined ? 'Temporal has no such workflow.' : `The workflow of the record is ${status}.`
    return [{ rule, subject: id, detail }]
  })
  return checked.flat()
}

async function isStillOpen(database: Database, id: string): Promise<boolean> {
  const { rows } = await database.query(
    `select from tenon.executions where id = $1 and ended_at is null
      union all select from tenon.function_runs where id = $1 and ended_at is null`,
    [id],
  )
  return rows.length > 0
}

/** Open workflows of executions whose record has ended or does not exist. */
async function withoutRecord(database: Database, temporal: Temporal, scope: Scope): Promise<Violation[]> {
  const before = new Date(Date.now() - scope.grace * 1_000).toISOString()
  const among =
    scope.tenants === null ? '' : ` AND TenantId IN (${scope.tenants.map((id) => `"${id}"`).join(', ')})`
  const query = `ExecutionStatus = "Running" AND ExecutionId IS NOT NULL AND StartTime < "${before}"${among}`
  const listed: string[] = []
  if (scope.tenants?.length !== 0)
    for await (const { workflowId } of temporal.workflow.list({ query })) {
      listed.push(workflowId)
      if (listed.length === scope.limit) break
    }
  const { rows } = await database.query(
    `select workflow_id from tenon.executions where workflow_id = any($1) and ended_at is null`,
    [listed],
  )
  const recorded = new Set(rows.map(({ workflow_id }) => workflow_id))
  const missing = listed.filter((id) => !recorded.has(id))
  const open = await eachAtOnce(missing, async (id) => (await findStatus(temporal, id)) === 'RUNNING')
  return missing
    .filter((_, n) => open[n])
    .map((subject) => ({
      rule: 'an open workflow has an open record',
      subject,
      detail: 'The execution of the workflow has ended or does not exist.',
    }))
}

const ENDS: Readonly<Record<string, readonly WorkflowExecutionStatusName[]>> = {
  completed: ['COMPLETED'],
  faulted: ['FAILED', 'TIMED_OUT'],
  cancelled: ['CANCELLED', 'TERMINATED'],
}

/** Executions that ended within the last hour, the newest first. One that was cancelled in its queue had no workflow. */
async function endedOtherwise(database: Database, temporal: Temporal, scope: Scope): Promise<Violation[]> {
  const { rows } = await database.query(
    `select id, workflow_id, status from tenon.executions
      where ended_at between now() - interval '1 hour' and now() - make_interval(secs => $2::float8)
        and ($1::text[] is null or tenant_id = any($1)) order by ended_at desc limit $3`,
    parameters(scope),
  )
  const checked = await eachAtOnce(rows, async ({ id, workflow_id, status }) => {
    const seen = await findStatus(temporal, workflow_id)
    if (seen === undefined || ENDS[status]?.includes(seen)) return []
    const detail = `The record says ${status}, and the workflow is ${seen}.`
    return [{ rule: 'record and workflow end alike' as const, subject: id, detail }]
  })
  return checked.flat()
}

/** @returns undefined if Temporal does not know the workflow */
async function findStatus(
  temporal: Temporal,
  workflowId: string,
): Promise<WorkflowExecutionStatusName | undefined> {
  try {
    return (await temporal.workflow.getHandle(workflowId).describe()).status.name
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return undefined
    throw error
  }
}

/** Calls `work` for each item, some at a time. @returns the results in the order of the items */
async function eachAtOnce<Item, Result>(
  items: readonly Item[],
  work: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = []
  for (let at = 0; at < items.length; at += AT_ONCE)
    results.push(...(await Promise.all(items.slice(at, at + AT_ONCE).map(work))))
  return results
}
