/** Registers schedules in Temporal that a restore of the installation has marked: the database is of another time than Temporal. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import type { TargetRef } from '../../../core/execution.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import {
  type BackgroundTask,
  findRoundRobin,
  nextCursor,
  workspacePage,
  workspaceWith,
} from '../../background/background-task.ts'
import { BACKGROUND_LIMITS } from '../../background/limits.ts'
import type { TargetKind } from './trigger.ts'
import { placeOf, syncSchedules } from './trigger-store.ts'

const { pollMs, itemsMax, workspacesSeenMax } = BACKGROUND_LIMITS

/** The items are ids of triggers. A suspension of the workspace does not matter: schedules start nothing meanwhile. */
export const unregisteredSchedules = (targets: readonly TargetKind[]): BackgroundTask<string> => ({
  name: 'schedules after a restore',
  pollMs,
  atOnce: itemsMax,
  find: findRoundRobin(unregistered, (row) => row.id),
  run: ({ scope }, id) => register(scope, targets, id),
})

const unregistered = (after: string, limit: number) => sql`
  with recursive ${workspacePage(workspaceWith(sql`triggers where is_unregistered`), after, workspacesSeenMax)}, due as (
    select t.* from seen cross join lateral (
      select tenant_id, workspace_id, id from triggers
      where is_unregistered and workspace_id = seen.workspace_id order by id limit 1) t
    limit ${limit}
  )
  select due.*, behind from (${nextCursor(workspacesSeenMax)}) reached left join due on true`

interface Unregistered {
  readonly target_kind: TargetRef['kind']
  readonly target_id: string
  readonly updated_at: string
}

/** With all schedules of its target. A change meanwhile leaves the mark, and it is registered again. */
async function register(scope: WorkspaceScope, targets: readonly TargetKind[], id: string): Promise<void> {
  const row = await scope.row<Unregistered>(
    sql`select target_kind, target_id, updated_at::text from triggers where id = ${id} and is_unregistered`,
  )
  const of = targets.find(({ kind }) => kind === row?.target_kind)
  if (row === undefined || of === undefined) return
  await syncSchedules(placeOf(scope), of, {
    target: { kind: row.target_kind, id: row.target_id },
    before: [],
  })
  await scope.batch(
    sql`update triggers set is_unregistered = false where id = ${id} and updated_at = ${row.updated_at}::timestamptz`,
  )
}
