/** Looks from time to time how the resources of each tenant and workspace differ, repairs them, and tells what has changed by an event. */

import type { AdminScope } from '../../../access/scope.ts'
import { type TenantId, type TenantRef, targetOf, type WorkspaceId } from '../../../core/tenant.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import type { BackgroundTask } from '../../background/background-task.ts'
import { type TenantServices, tenantTask } from '../../background/tenant-task.ts'
import { TENANT_LIMITS } from '../limits.ts'
import { repairDrift } from './drift.ts'

interface DueRow {
  readonly tenant_id: TenantId
  readonly workspace_id: WorkspaceId | '-'
}

const { driftPollMs, driftCheckMs, driftChecksAtOnce } = TENANT_LIMITS

export const driftChecks = (services: TenantServices): BackgroundTask<never> =>
  tenantTask<DueRow>(services, {
    name: 'drift',
    pollMs: driftPollMs,
    atOnce: driftChecksAtOnce,
    due: sql`
      (select id as tenant_id, '-' as workspace_id, drift_due_at from tenants
        where drift_due_at <= now() and state in ('active', 'suspended') order by drift_due_at limit ${driftChecksAtOnce})
      union all
      (select tenant_id, id, drift_due_at from workspaces
        where drift_due_at <= now() and state in ('active', 'suspended') order by drift_due_at limit ${driftChecksAtOnce})
      order by drift_due_at limit ${driftChecksAtOnce}`,
    serve: checkDrift,
    failure: 'resources of other systems not compared',
  })

/** The next look is due before this one begins, so that one that fails does not keep others from theirs. */
async function checkDrift(
  scope: AdminScope,
  { tenant_id: tenantId, workspace_id: workspaceId }: DueRow,
): Promise<void> {
  const ref: TenantRef = { tenantId, workspaceId }
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
