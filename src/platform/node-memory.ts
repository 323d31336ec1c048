/** What this node remembers for a few seconds, and how it is made to forget at once; other nodes forget within that time. */

import type { TenantId, WorkspaceRef } from '../core/tenant.ts'
import { lentTo } from './lent.ts'
import type { AdminScope, WorkspaceScope } from './scope.ts'
import { memoKey, type Sized } from './ttl-cache.ts'

/** The result of `load` within the last few seconds, in any scope of this workspace on this node, or now. */
export async function memo<T>(scope: WorkspaceScope, key: string, load: () => Promise<Sized<T>>): Promise<T> {
  return (await lentTo(scope).parts.memo.load(memoKey(scope.ref, key), load)).value as T
}

export function forget(scope: WorkspaceScope, key: string): void {
  lentTo(scope).parts.memo.drop(memoKey(scope.ref, key))
}

/** Forgets what scopes of a workspace remember under the key. */
export function forgetIn(scope: AdminScope, ref: WorkspaceRef, key: string): void {
  lentTo(scope).parts.memo.drop(memoKey(ref, key))
}

export function forgetKey(scope: AdminScope, id: string): void {
  lentTo(scope).parts.keys.forget((row) => row.id === id)
}

/** Forgets how a tenant and its workspaces stand. */
export function forgetStanding(scope: AdminScope, tenantId: TenantId): void {
  const { keys, tenantStates } = lentTo(scope).parts
  keys.forget((row) => row.tenant_id === tenantId)
  tenantStates.forget(tenantId)
}
