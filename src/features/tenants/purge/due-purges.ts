/** Starts the purges whose time has come, and removes what ended ones have left. */

import type { AdminScope } from '../../../access/scope.ts'
import { type TenantId, type TenantRef, targetOf, type WorkspaceId } from '../../../core/tenant.ts'
import type { Log } from '../../../infra/log.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import type { SystemScope } from '../../../infra/postgres/system-scope.ts'
import type { BackgroundTask } from '../../background/background-task.ts'
import { TENANT_LIMITS } from '../limits.ts'
import { startJobWorkflow } from '../provisioning.ts'
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
  readonly operation_id: string
  readonly workflow_id: string
  readonly type: string
}

const AT_ONCE = 20

/** It finds and starts by itself, since a tenant that is purged has no workspace in which an item could run. */
export const duePurges = ({ openTenant, log }: PurgeServices): BackgroundTask<never> => ({
  name: 'purges',
  pollMs: TENANT_LIMITS.purgePollMs,
  atOnce: 1,
  find: async (system) => {
    for (const row of await system.rows<DueRow>(DUE)) {
      const start = startPurge(openTenant(row.tenant_id), row)
      await start.catch((err: unknown) => log.warn({ err, ...row }, 'purge not started'))
    }
    for (const ref of await leftovers(system)) {
      const removal = removeLeftovers(system, openTenant(ref.tenantId), ref)
      await removal.catch((err: unknown) => log.warn({ err, ref }, 'leftovers of a purge not removed'))
    }
    return []
  },
  run: async () => {},
})

/** Processes use states, keys and subjects for a while after they have read them. */
const KNOWN_BY_ALL = sql`now() - ${`${TENANT_LIMITS.knownByAllMs} milliseconds`}::interval`

/**
 * A purge that has begun is not queued any more: Temporal resumes it. Until all processes know of the deletion, none begins; nor does
 * one of a workspace whose tenant is purged itself, or held by an operator.
 */
const DUE = sql`
  with due as (
    select w.tenant_id, w.id as workspace_id, w.id as target from workspaces w join tenants t on t.id = w.tenant_id
      where w.state = 'deleting' and w.delete_after <= now() and w.updated_at <= ${KNOWN_BY_ALL}
        and t.suspended_by is distinct from 'operator' and t.purged_from is null
    union all
    select t.id, '-', t.id from tenants t
      where t.state = 'deleting' and t.delete_after <= now() and t.updated_at <= ${KNOWN_BY_ALL}
  )
  select d.tenant_id, d.workspace_id, o.id as operation_id, o.workflow_id, o.type
  from due d join operations o on o.tenant_id = d.tenant_id and o.target = d.target
  where o.type like '%.delete' and o.state = 'queued' limit ${AT_ONCE}`

async function startPurge(scope: AdminScope, row: DueRow): Promise<void> {
  const { tenant_id: tenantId, workspace_id: workspaceId, operation_id: operationId, type } = row
  const ref: TenantRef = { tenantId, workspaceId }
  const uuid = row.workflow_id.split(':').at(-1) ?? ''
  await startJobWorkflow(scope, { operationId, ref, plan: 'purge', type, uuid, target: targetOf(ref) })
}

async function leftovers(system: SystemScope): Promise<TenantRef[]> {
  const rows = await system.rows<Pick<DueRow, 'tenant_id' | 'workspace_id'>>(sql`
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
