/** Removes what purges that have ended have left. */

import type { AdminScope } from '../../../access/scope.ts'
import type { TenantId, TenantRef, WorkspaceId } from '../../../core/tenant.ts'
import type { Log } from '../../../infra/log.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import type { SystemScope } from '../../../infra/postgres/system-scope.ts'
import type { BackgroundTask } from '../../background/background-task.ts'
import { TENANT_LIMITS } from '../limits.ts'
import { OWNED } from './owned.ts'
import { destroyKeys } from './owned-rows.ts'
import { endOfDeletion } from './steps.ts'

export interface PurgeServices {
  /** The structure of a tenant. */
  readonly openTenant: (tenantId: TenantId) => AdminScope
  readonly log: Log
}

interface DueRow {
  readonly tenant_id: TenantId
  readonly workspace_id: WorkspaceId | '-'
}

const AT_ONCE = 20

/** It finds and removes by itself, since a tenant that is purged has no workspace in which an item could run. */
export const purgeLeftovers = ({ openTenant, log }: PurgeServices): BackgroundTask<never> => ({
  name: 'purges',
  pollMs: TENANT_LIMITS.jobPollMs,
  atOnce: 1,
  find: async (system) => {
    for (const ref of await leftovers(system)) {
      const removal = removeLeftovers(system, openTenant(ref.tenantId), ref)
      await removal.catch((err: unknown) => log.warn({ err, ref }, 'leftovers of a purge not removed'))
    }
    return []
  },
  run: async () => {},
})

async function leftovers(system: SystemScope): Promise<TenantRef[]> {
  const rows = await system.rows<DueRow>(sql`
    select tenant_id, id as workspace_id from workspaces where state = 'deleted' and delete_after <= now()
    union all
    select id, '-' from tenants where state = 'deleted' and delete_after <= now()
    limit ${AT_ONCE}`)
  return rows.map(({ tenant_id, workspace_id }) => ({ tenantId: tenant_id, workspaceId: workspace_id }))
}

/** Such as the history of the purge itself, and what a request that was under way at its end has written. */
async function removeLeftovers(system: SystemScope, scope: AdminScope, ref: TenantRef): Promise<void> {
  const { tenantId, workspaceId } = ref
  const owner = { scope, ref, workflowId: '-' }
  let hasMore = false
  for (const { remove } of OWNED) hasMore = (await remove(owner)) || hasMore
  if (hasMore) return
  // The purge may have been cut off before its last statements.
  if (workspaceId === '-') await destroyKeys(scope, ref)
  await scope.batch(endOfDeletion(ref))
  await system.batch(
    workspaceId === '-'
      ? sql`update tenants set delete_after = null where id = ${tenantId} and state = 'deleted'`
      : sql`update workspaces set delete_after = null where id = ${workspaceId} and state = 'deleted'`,
  )
}
