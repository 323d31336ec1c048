/** Removes runs that ended longer ago than their workspace keeps them, of all kinds, a few at a time. */

import { Problem } from '../../core/problem.ts'
import { type Sql, sql } from '../../infra/postgres/sql.ts'
import { type BackgroundTask, refOf, type TaskContext, type TurnRow } from '../background/background-task.ts'
import { BACKGROUND_LIMITS } from '../background/limits.ts'
import type { Retention } from '../tenants/workspace-settings.ts'
import { RUN_LIMITS } from './limits.ts'
import type { RunKind } from './run-kind.ts'

const { workspacesMax: workspacesAtOnce, pauseSeconds, servedMs } = RUN_LIMITS.retention

interface PolicyRow extends TurnRow {
  readonly retention: Retention
}

/** The items are the policies of workspaces. A workspace that has more to remove waits for the others alone. */
export function runRetention(kinds: readonly RunKind[]): BackgroundTask<Retention> {
  return {
    name: 'retention of runs',
    pollMs: BACKGROUND_LIMITS.pollMs,
    atOnce: workspacesAtOnce,
    find: async (system, limit) => {
      const rows = await system.rows<PolicyRow>(dueWorkspaces(limit))
      return rows.map((row) => ({ ref: refOf(row), item: row.retention }))
    },
    run: async (context, retention) => {
      const results = await Promise.allSettled(kinds.map((kind) => removeAll(kind, context, retention)))
      const failed = results.find((one) => one.status === 'rejected')
      await context.scope.batch(failed === undefined ? CLEAR_FAILURE : setFailure(failed.reason))
      if (failed !== undefined) throw failed.reason
      if (results.some((one) => one.status === 'fulfilled' && one.value)) await context.scope.batch(SOON)
    },
  }
}

/** @returns true if there may be more */
async function removeAll(kind: RunKind, context: TaskContext, retention: Retention): Promise<boolean> {
  const until = performance.now() + servedMs
  while (await kind.removeExpired(context, retention)) if (performance.now() > until) return true
  return false
}

/** The workspace is served again as soon as those that wait have been. */
const SOON = sql`update workspaces set retention_due_at = now() where id = tenon.workspace()`

/** The workspaces that wait longest, each once in `pauseSeconds`. */
const dueWorkspaces = (limit: number) => sql`
  with due as (
    select id from workspaces where retention_due_at < now()
    order by retention_due_at limit ${limit} for no key update skip locked
  )
  update workspaces w set retention_due_at = now() + make_interval(secs => ${pauseSeconds}::integer)
  from due where w.id = due.id
  returning w.tenant_id, w.id as workspace_id, coalesce(
    (select retention from services s where s.tenant_id = w.tenant_id and s.workspace_id = w.id), '{}') as retention`

/** Admins of the workspace read it with its settings. */
function setFailure(error: unknown): Sql {
  const failure = { at: new Date(), detail: detailOf(error) }
  return sql`update services set retention_failure = ${JSON.stringify(failure)}::jsonb`
}

const CLEAR_FAILURE = sql`update services set retention_failure = null where retention_failure is not null`

/** Other errors are the platform's, and may tell more than tenants should know. */
const detailOf = (error: unknown): string =>
  error instanceof Problem ? error.message : 'Internal error; the log of the worker has more.'
