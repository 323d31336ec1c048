/** Caches of this process for scopes: a few seconds of what workspaces have, invalidated at once on this node and by time on the others. */

import type { TenantId, WorkspaceRef } from '../core/tenant.ts'
import { sql } from './pg/sql.ts'
import { type AdminScope, lentTo, type WorkspaceScope } from './scope.ts'
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

/** The key under which it is remembered. */
export const LIMITED = 'limited'
const NAME_BYTES = 64

/** Asked once in a few seconds, so other nodes heed a limit that was not there before after `LIMITS.memoMs`. */
export async function isLimited(scope: WorkspaceScope, quota: string): Promise<boolean> {
  const limited = await memo(scope, LIMITED, async () => {
    const rows = await scope.rows<{ name: string }>(sql`select name from tenon.limited() as name`)
    return { value: new Set(rows.map(({ name }) => name)), bytes: rows.length * NAME_BYTES }
  })
  return limited.has(quota)
}
