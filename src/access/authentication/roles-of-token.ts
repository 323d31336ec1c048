/** Reads from the claims of a token which roles it has within its tenant and workspace, and whether it may see payloads. */

import { type KeyKind, PAYLOAD_READER, type Principal, type Role, VIEWERS } from '../../core/policy.ts'
import type { TenantId, WorkspaceId } from '../../core/tenant.ts'
import type { Claims } from './claims.ts'

/** The tenant and workspace that a token names. */
export interface Bounds {
  readonly tenantId?: TenantId
  readonly workspaceId?: WorkspaceId
}

/** All but operators need a tenant, a workspace admin also a workspace. */
function hasBounds(role: Role, bounds: Bounds): boolean {
  if (role === 'operator') return true
  return bounds.tenantId !== undefined && (role !== 'workspace_admin' || bounds.workspaceId !== undefined)
}

/** The role `user` excludes all others, so that no rule is bypassed by a second role of the same person. */
export function rolesOf(
  { sub, roles, user, dataToken }: Claims,
  bounds: Bounds,
): Pick<Principal, 'roles' | 'user' | 'seesPayloads'> {
  if (dataToken !== undefined) return { roles: keyRoles(['service'], bounds) }
  if (roles.includes('user') || user !== undefined) {
    const isBound = bounds.tenantId !== undefined && bounds.workspaceId !== undefined
    return isBound && user !== undefined && roles.includes('user')
      ? { roles: ['user'], user: { id: sub, ...user } }
      : { roles: [] }
  }
  const structural = VIEWERS.filter((role) => roles.includes(role) && hasBounds(role, bounds))
  const held = [...structural, ...keyRoles(roles, bounds, structural.length > 0)]
  const seesPayloads = roles.includes(PAYLOAD_READER) && held.some((role) => role !== 'anon')
  return { roles: held, ...(seesPayloads && { seesPayloads }) }
}

/**
 * A token with a tenant and a workspace has the role of a key: `service` if it says so, else `anon`, unless it is one of an admin: what
 * admins do with data, they do with a data token.
 */
function keyRoles(roles: readonly string[], bounds: Bounds, isAdmin = false): KeyKind[] {
  if (bounds.tenantId === undefined || bounds.workspaceId === undefined) return []
  if (roles.includes('service')) return ['service']
  return isAdmin ? [] : ['anon']
}
