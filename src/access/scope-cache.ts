/** Caches of this process for scopes: they expire after a few seconds, and are invalidated at once on this node only. */

import type { TenantId, WorkspaceRef } from '../core/tenant.ts'
import { sql } from '../infra/postgres/sql.ts'
import { cacheKey, type Sized } from '../infra/ttl-cache.ts'
import { internalsOf } from './internals.ts'
import type { AdminScope, Scope, WorkspaceScope } from './scope.ts'

/** The cached result of `load` in this workspace, loaded at most a few seconds ago. */
export async function cached<T>(
  scope: WorkspaceScope,
  key: string,
  load: () => Promise<Sized<T>>,
): Promise<T> {
  return (await internalsOf(scope).services.cache.load(cacheKey(scope.ref, key), load)).value as T
}

/** Drops what is cached in a workspace under the key. */
export function invalidate(scope: Scope, ref: WorkspaceRef, key: string): void {
  internalsOf(scope).services.cache.drop(cacheKey(ref, key))
}

export function invalidateKey(scope: AdminScope, id: string): void {
  internalsOf(scope).services.keys.forget((row) => row.id === id)
}

/** Drops a hosted MCP server, which an operation has changed. */
export function invalidateMcpServer(scope: WorkspaceScope, id: string): void {
  internalsOf(scope).services.publishedServers.forget((server) => server?.id === id)
}

/** Drops the states of a tenant and its workspaces, its keys and its MCP servers. */
export function invalidateState(scope: AdminScope, tenantId: TenantId): void {
  const { keys, tenantStates, publishedServers } = internalsOf(scope).services
  keys.forget((row) => row.tenant_id === tenantId)
  publishedServers.forget((server) => server?.ref.tenantId === tenantId)
  tenantStates.forget(tenantId)
}

/** Cache key of the quotas that a workspace has. */
export const LIMITED_QUOTAS = 'limited'
const NAME_BYTES = 64

/** Cached, so that unlimited workspaces skip the quota query. Other nodes see a new limit after `INFRA_LIMITS.settingsCacheMs`. */
export async function hasQuota(scope: WorkspaceScope, quota: string): Promise<boolean> {
  const limited = await cached(scope, LIMITED_QUOTAS, async () => {
    const rows = await scope.rows<{ name: string }>(sql`select name from tenon.limited() as name`)
    return { value: new Set(rows.map(({ name }) => name)), bytes: rows.length * NAME_BYTES }
  })
  return limited.has(quota)
}
