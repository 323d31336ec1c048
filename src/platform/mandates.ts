/** Which mask a role puts on, and for how long a statement of it may run. */

import { LIMITS } from '../core/limits.ts'
import type { Actor } from '../core/policy.ts'
import type { TenantId } from '../core/tenant.ts'
import type { Mandate } from './pg/mandate.ts'

/** What an admin's credential names: nothing, of an operator. */
export interface AdminBounds {
  readonly tenantId?: TenantId | undefined
  readonly workspaceId?: string | undefined
}

const MASKS = {
  operator: 'tenon_operator',
  tenant_admin: 'tenon_admin',
  workspace_admin: 'tenon_admin',
  service: 'tenon_service',
  anon: 'tenon_anon',
} as const

export function mandateOf(actor: Actor, tenant: string, workspace: string): Mandate {
  const timeouts = LIMITS.statementTimeoutMs
  const statementTimeoutMs = actor.role === 'anon' ? timeouts.anon : timeouts.service
  const { hops } = actor
  return {
    mask: MASKS[actor.role],
    tenant,
    workspace,
    statementTimeoutMs,
    ...(hops !== undefined && { hops }),
  }
}
