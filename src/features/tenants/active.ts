/** Checks that a tenant or a workspace is active, so that something may be created in it. */

import type { AdminScope } from '../../access/scope.ts'
import { notFound, Problem } from '../../core/problem.ts'
import type { WorkspaceRef } from '../../core/tenant.ts'
import { sql } from '../../infra/postgres/sql.ts'
import { findRow } from '../operation-helpers.ts'

/** A condition on `workspaces`: nothing is created in a workspace that is inactive, or whose tenant is. */
export const ACTIVE = sql`state = 'active' and (select t.state from tenants t where t.id = tenant_id) = 'active'`

/** @throws Problem `not_found` for a workspace that is not active, or that the caller does not reach */
export const findActiveWorkspace = (scope: AdminScope, workspaceId: string): Promise<WorkspaceRef> =>
  findRow(
    scope,
    'workspace',
    sql`select w.tenant_id as "tenantId", w.id as "workspaceId" from workspaces w where w.id = ${workspaceId} and ${ACTIVE}`,
  )

/** The problem after nothing was created in a workspace, since the caller cannot see it or its state forbids it. */
export async function inactiveProblem(scope: AdminScope, workspaceId: string): Promise<Problem> {
  const why = await findInactiveReason(scope, workspaceId)
  return (
    why ??
    new Problem('state_conflict', {
      detail: 'The workspace became active during the request. Send the request again.',
    })
  )
}

/** @returns undefined if it is active by now */
export async function findInactiveReason(
  scope: AdminScope,
  workspaceId: string,
): Promise<Problem | undefined> {
  const row = await scope.row<{ state: string; tenant: string }>(sql`
    select w.state, t.state as tenant from workspaces w join tenants t on t.id = w.tenant_id
    where w.id = ${workspaceId}`)
  if (row === undefined || row.state === 'deleted') return notFound('workspace')
  if (row.tenant === 'suspended') return new Problem('tenant_suspended')
  if (row.state === 'suspended') return new Problem('workspace_suspended')
  if (row.tenant !== 'active')
    return new Problem('state_conflict', { detail: `The tenant of the workspace is ${row.tenant}.` })
  if (row.state === 'active') return undefined
  return new Problem('state_conflict', { detail: `The workspace is ${row.state}.` })
}

/** @throws Problem `not_found`, `tenant_suspended`, `state_conflict` */
export async function requireActiveTenant(scope: AdminScope, tenantId: string): Promise<void> {
  const statement = sql`select state from tenants where id = ${tenantId}`
  const tenant = await findRow<{ state: string }>(scope, 'tenant', statement)
  if (tenant.state === 'suspended') throw new Problem('tenant_suspended')
  if (tenant.state !== 'active')
    throw new Problem('state_conflict', { detail: `The tenant is ${tenant.state}.` })
}
