/** Records the usage of a workspace by the hour, and removes what it no longer keeps: executions, runs of functions and rows that expire by their age, a few at a time. */

import type { WorkspaceScope } from '../../access/scope.ts'
import { Problem } from '../../core/problem.ts'
import { durationMs } from '../../core/units.ts'
import { type Sql, sql } from '../../infra/postgres/sql.ts'
import { repeatFor } from '../../infra/retry.ts'
import { ANALYTICS_LIMITS } from '../analytics/limits.ts'
import { recordUsage } from '../analytics/usage.ts'
import { findExportBegin } from '../archives/steps.ts'
import { type BackgroundTask, refOf, type TaskContext, type TurnRow } from '../background/background-task.ts'
import { BACKGROUND_LIMITS } from '../background/limits.ts'
import { sweepBlobs } from '../objects/sweep-blobs.ts'
import type { RunKind } from '../runs/run-kind.ts'
import { RETENTION_LIMITS } from './limits.ts'
import { pauseSecondsOf, periodsOf, type Retention } from './retention-settings.ts'

const { workspacesMax, pauseSeconds, servedMs, usageSpreadSeconds } = RETENTION_LIMITS

interface DueWorkspace {
  readonly retention: Retention
}

/** Removes some of what has expired. @returns true if there may be more */
type Removal = () => Promise<boolean>

/** A workspace that has more to remove waits for the others alone. */
export function workspaceRetention(kinds: readonly RunKind[]): BackgroundTask<DueWorkspace> {
  return {
    name: 'retention of workspaces',
    pollMs: BACKGROUND_LIMITS.pollMs,
    atOnce: workspacesMax,
    find: async (system, limit) => {
      const rows = await system.rows<TurnRow & DueWorkspace>(dueWorkspaces(limit))
      return rows.map((row) => ({ ref: refOf(row), item: { retention: row.retention } }))
    },
    run: (context, due) => removeExpired(kinds, context, due),
  }
}

/** One after the other, so that a workspace uses one connection. A kind that fails does not keep the others from their turn. */
async function removeExpired(
  kinds: readonly RunKind[],
  context: TaskContext,
  { retention }: DueWorkspace,
): Promise<void> {
  const periods = periodsOf(retention)
  // It counts what is removed afterwards, so nothing is removed without it.
  try {
    await recordUsage(context.scope)
  } catch (error) {
    await context.scope.batch(setFailure(error), nextLook(pauseSecondsOf(periods.values())))
    throw error
  }
  const removals: Removal[] = [
    ...kinds.map((kind) => () => kind.removeExpired(context, retention.workspace)),
    () => removeExpiredRows(context.scope, periods),
    () => sweepBlobs(context.service, () => findExportBegin(context.scope)),
  ]
  let hasMore = false
  let failure: unknown
  for (const removal of removals)
    try {
      if (await repeatFor(servedMs, removal)) hasMore = true
    } catch (error) {
      failure = error
    }
  await context.scope.batch(
    failure === undefined ? CLEAR_FAILURE : setFailure(failure),
    nextLook(hasMore ? 0 : pauseSecondsOf(periods.values())),
  )
  if (failure !== undefined) throw failure
}

/** A table whose rows expire by their age alone. */
interface ExpiringRows {
  /** The period of the settings. */
  readonly period: string
  readonly table: Sql
  /** The column of the time from which on a row is kept; null: the row does not expire yet. */
  readonly since: Sql
  /** A condition on rows that do not expire yet, however old they are. */
  readonly isKept?: Sql
}

/** Row-level security shows an admin of the workspace its rows; of operations, those of its tenant. */
const TABLES: readonly ExpiringRows[] = [
  { period: 'meters', table: sql`meters`, since: sql`at` },
  { period: 'usage', table: sql`usage_records`, since: sql`hour` },
  { period: 'webhook_deliveries', table: sql`webhook_deliveries`, since: sql`received_at` },
  // Those of a tenant or workspace that is unfinished or being deleted say how it was made, and what its purge has found.
  {
    period: 'operations',
    table: sql`operations`,
    since: sql`finished_at`,
    isKept: sql`operations.target in (
      select id from workspaces where state in ('provisioning', 'provisioning_failed', 'deleting')
      union all select id from tenants where state in ('provisioning', 'provisioning_failed', 'deleting'))`,
  },
]

/**
 * Deletes some expired rows of each table, in one transaction.
 * @param scope an admin's @param periods by name
 * @returns true if more may have expired
 */
async function removeExpiredRows(
  scope: WorkspaceScope,
  periods: ReadonlyMap<string, string>,
): Promise<boolean> {
  const statements = TABLES.map((rows) =>
    deletion(rows, periods.get(rows.period) ?? RETENTION_LIMITS.keptMax),
  )
  const counts = await scope.batch(...statements)
  return counts.some(([row]) => row?.['removed'] === RETENTION_LIMITS.rowsMax)
}

function deletion({ table, since, isKept = sql`false` }: ExpiringRows, period: string): Sql {
  const before = new Date(Date.now() - durationMs(period))
  return sql`
    with removed as (
      delete from ${table} where ctid = any(array(
        select ctid from ${table} where ${since} < ${before} and not ${isKept} limit ${RETENTION_LIMITS.rowsMax})) returning 1)
    select count(*)::integer as removed from removed`
}

/** The workspaces that wait longest. They are due again after `pauseSeconds.min` if nothing sets a later time. */
const dueWorkspaces = (limit: number) => sql`
  with due as (
    select id from workspaces where retention_due_at < now() and state <> 'deleted' and purged_from is null
    order by retention_due_at limit ${limit} for no key update skip locked
  ), served as (
    update workspaces w set retention_due_at = now() + make_interval(secs => ${pauseSeconds.min}::integer)
    from due where w.id = due.id
    returning w.tenant_id, w.id as workspace_id
  )
  select w.tenant_id, w.workspace_id, json_build_object('workspace', coalesce(s.retention, '{}'), 'tenant', t.retention) as retention
  from served w join tenants t on t.id = w.tenant_id
    left join services s on s.tenant_id = w.tenant_id and s.workspace_id = w.workspace_id`

/** After the pause, or as soon as the usage of this hour can be recorded; the workspaces share some minutes for that. */
const nextLook = (seconds: number): Sql => sql`
  update workspaces set retention_due_at = least(now() + make_interval(secs => ${seconds}::integer),
    date_trunc('hour', now(), 'UTC') + interval '1 hour'
      + make_interval(secs => ${ANALYTICS_LIMITS.usageDelaySeconds}::integer + random() * ${usageSpreadSeconds}::integer))
  where id = tenon.workspace()`

/** Admins of the workspace read it with its settings. */
function setFailure(error: unknown): Sql {
  const failure = { at: new Date(), detail: detailOf(error) }
  return sql`update services set retention_failure = ${JSON.stringify(failure)}::jsonb`
}

const CLEAR_FAILURE = sql`update services set retention_failure = null where retention_failure is not null`

/** Other errors are the platform's, and may tell more than tenants should know. */
const detailOf = (error: unknown): string =>
  error instanceof Problem ? error.message : 'Internal error; the log of the worker has more.'
