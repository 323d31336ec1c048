/** Removes what purges that have ended have left. */

import type { AdminScope } from '../../../access/scope.ts'
import type { TenantId, TenantRef, WorkspaceId } from '../../../core/tenant.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import type { SystemScope } from '../../../infra/postgres/system-scope.ts'
import type { BackgroundTask } from '../../background/background-task.ts'
import { type TenantServices, tenantTask } from '../../background/tenant-task.ts'
import { TENANT_LIMITS } from '../limits.ts'
import { OWNED } from './owned.ts'
import { destroyKeys } from './owned-rows.ts'
import { endOfDeletion } from './steps.ts'

interface DueRow {
  readonly tenant_id: TenantId
  readonly workspace_id: WorkspaceId | '-'
}

export const purgeLeftovers = (services: TenantServices): BackgroundTask<never> =>
  tenantTask<DueRow>(services, {
    name: 'purges',
    pollMs: TENANT_LIMITS.jobPollMs,
    atOnce: 5,
    due: sql`
      select tenant_id, id as workspace_id from workspaces where state = 'deleted' and delete_after <= now()
      union all
      select id, '-' from tenants where state = 'deleted' and delete_after <= now()`,
    serve: removeLeftovers,
    failure: 'leftovers of a purge not removed',
  })

/** Such as the history of the purge itself, and what a request that was under way at its end has written. */
async function removeLeftovers(
  scope: AdminScope,
  { tenant_id: tenantId, workspace_id: workspaceId }: DueRow,
  system: SystemScope,
): Promise<void> {
  const ref: TenantRef = { tenantId, workspaceId }
  const owner = { scope, ref, workflowId: '-' }
  let hasMore = false
  for (const { remove } of OWNED) hasMore = (await remove(owner)) || hasMore
  if (hasMore) return
  // The purge may have been cut off before its last statements.
  if (workspaceId === '-') await destroyKeys(scope, ref)
  await scope.batch(endOfDeletion(ref))
  // A process that stood still may write late, so leftovers are removed again, each time after twice as long, for a day.
  const next = sql`delete_after = case when updated_at > now() - make_interval(secs => ${TENANT_LIMITS.leftoverWatchedSeconds}::integer)
    then now() + greatest(now() - updated_at, make_interval(secs => ${TENANT_LIMITS.leftoverSeconds}::integer)) end`
  await system.batch(
    workspaceId === '-'
      ? sql`update tenants set ${next} where id = ${tenantId} and state = 'deleted'`
      : sql`update workspaces set ${next} where id = ${workspaceId} and state = 'deleted'`,
  )
}
