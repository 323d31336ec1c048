/** Resolves the tenant and workspace that a person or a machine with a role is assigned to. */

import type { AdminScope } from '../../access/scope.ts'
import type { Role } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import { sql } from '../../infra/postgres/sql.ts'
import { fieldProblem, findRow } from '../operation-helpers.ts'
import { findInactiveReason, requireActiveTenant } from '../tenants/active.ts'

interface AssignmentInput {
  readonly tenant_id?: string
  readonly workspace_id?: string
}

export interface Assignment {
  readonly tenantId: string | null
  readonly workspaceId: string | null
}

/**
 * The tenant and workspace of a new holder of a role; by default the caller's tenant. Row-level security checks it again.
 * @throws Problem `validation_failed` if the role needs other fields than those given; `forbidden` if it is above the
 *   caller's; `not_found` outside the caller's reach; `tenant_suspended`, `workspace_suspended`, `state_conflict`
 */
export async function resolveAssignment(
  scope: AdminScope,
  role: Role,
  named: AssignmentInput,
): Promise<Assignment> {
  if (role === 'operator') {
    rejectNamed(role, named, ['tenant_id', 'workspace_id'])
    if (scope.actor.role !== 'operator') throw above(role)
    return { tenantId: null, workspaceId: null }
  }
  if (role === 'tenant_admin') {
    rejectNamed(role, named, ['workspace_id'])
    if (scope.actor.role === 'workspace_admin') throw above(role)
    return { tenantId: await requireTenant(scope, named.tenant_id, role), workspaceId: null }
  }
  const isOfTenant = (role === 'developer' || role === 'viewer') && scope.workspaceId === undefined
  if (named.workspace_id === undefined && isOfTenant)
    return { tenantId: await requireTenant(scope, named.tenant_id, role), workspaceId: null }
  if (named.workspace_id === undefined) throw missing('workspace_id', role)
  return requireWorkspace(scope, named.workspace_id, named.tenant_id)
}

/**
 * The tenant and workspace of a client without a role: as the caller names them, within the caller's reach.
 * @throws Problem as {@link resolveAssignment}
 */
export async function resolveNamedAssignment(scope: AdminScope, named: AssignmentInput): Promise<Assignment> {
  if (named.workspace_id !== undefined) return requireWorkspace(scope, named.workspace_id, named.tenant_id)
  if (scope.actor.role === 'workspace_admin') throw missing('workspace_id', scope.actor.role)
  if (scope.tenantId === undefined && named.tenant_id === undefined)
    return { tenantId: null, workspaceId: null }
  return { tenantId: await requireTenant(scope, named.tenant_id, scope.actor.role), workspaceId: null }
}

async function requireTenant(scope: AdminScope, named: string | undefined, role: Role): Promise<string> {
  const id = named ?? scope.tenantId
  if (id === undefined) throw missing('tenant_id', role)
  await requireActiveTenant(scope, id)
  return id
}

async function requireWorkspace(
  scope: AdminScope,
  id: string,
  tenantId: string | undefined,
): Promise<Assignment> {
  const row = await findRow<Assignment>(
    scope,
    'workspace',
    sql`select tenant_id as "tenantId", id as "workspaceId" from workspaces
      where id = ${id} and tenant_id = coalesce(${tenantId ?? null}, tenant_id)`,
  )
  const inactive = await findInactiveReason(scope, id)
  if (inactive !== undefined) throw inactive
  return row
}

function rejectNamed(role: Role, named: AssignmentInput, names: readonly (keyof AssignmentInput)[]): void {
  const excess = names.find((name) => named[name] !== undefined)
  if (excess !== undefined) throw fieldProblem(excess, `The role ${role} does not accept this field.`)
}

const missing = (name: keyof AssignmentInput, role: Role) =>
  fieldProblem(name, `The role ${role} needs this field.`)

const above = (role: Role) =>
  new Problem('forbidden', { detail: `You cannot grant the role ${role}: it is higher than your own.` })
