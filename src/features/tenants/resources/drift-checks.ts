/** Looks from time to time how the resources of each tenant and workspace differ, repairs them, and tells what has changed by an event. */

import type { AdminScope } from '../../../access/scope.ts'
import { type TenantId, type TenantRef, targetOf, type WorkspaceId } from '../../../core/tenant.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import type { BackgroundTask } from '../../background/background-task.ts'
import { TENANT_LIMITS } from '../limits.ts'
import type { PurgeServices } from '../purge/leftovers.ts'
import { repairDrift } from './drift.ts'

interface DueRow {
  readonly tenant_id: TenantId
  readonly workspace_id: WorkspaceId | '-'
}

const { driftPollMs, driftCheckMs, driftChecksAtOnce } = TENANT_LIMITS

/** It finds and serves by itself, since a tenant's own resources belong to no workspace in which an item could run. */
export const driftChecks = ({ openTenant, log }: PurgeServices): BackgroundTask<never> => ({
  name: 'drift',
  pollMs: driftPollMs,
  atOnce: 1,
  find: async (system) => {
    const due = await system.rows<DueRow>(DUE)
    // Beside each other, so that one whose servers are slow does not keep others from their look.
    await Promise.all(
      due.map(({ tenant_id: tenantId, workspace_id: workspaceId }) => {
        const ref: TenantRef = { tenantId, workspaceId }
        const check = checkDrift(openTenant(tenantId), ref)
        return check.catch((err: unknown) =>
          log.warn({ err, ref }, 'resources of other systems not compared'),
        )
      }),
    )
    return []
  },
  run: async () => {},
})

const DUE = sql`
  (select id as tenant_id, '-' as workspace_id, drift_due_at from tenants
    where drift_due_at <= now() and state in ('active', 'suspended') order by drift_due_at limit ${driftChecksAtOnce})
  union all
  (select tenant_id, id, drift_due_at from workspaces
    where drift_due_at <= now() and state in ('active', 'suspended') order by drift_due_at limit ${driftChecksAtOnce})
  order by drift_due_at limit ${driftChecksAtOnce}`

/** The next look is due before this one begins, so that one that fails does not keep others from theirs. */
async function checkDrift(scope: AdminScope, ref: TenantRef): Promise<void> {
  const id = targetOf(ref)
  const next = sql`drift_due_at = now() + make_interval(secs => ${driftCheckMs / 1_000}::double precision)`
  await scope.batch(
    sql`update tenants set ${next} where id = ${id}`,
    sql`update workspaces set ${next} where id = ${id}`,
  )
  const { differences, unread } = await repairDrift(scope, ref)
  // What could not be read is no news about the rest.
  if (unread.length > 0) return
  const found = JSON.stringify(differences)
  await scope.batch(
    sql`update tenants set drift = ${found}::json where id = ${id} and state <> 'deleted' and drift::text <> ${found}`,
    sql`update workspaces set drift = ${found}::json where id = ${id} and state <> 'deleted' and drift::text <> ${found}`,
  )
}
