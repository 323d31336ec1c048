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

/** The items are the policies of workspaces. A workspace that has more to remove is served again after `pauseSeconds`. */
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
      if (!context.isActive) return
      try {
        for (const kind of kinds) await removeAll(kind, context, retention)
      } catch (error) {
        await context.scope.batch(setFailure(error))
        throw error
      }
      await context.scope.batch(CLEAR_FAILURE)
    },
  }
}

async function removeAll(kind: RunKind, context: TaskContext, retention: Retention): Promise<void> {
  const until = performance.now() + servedMs
  while (performance.now() < until && (await kind.removeExpired(context, retention)));
}

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
