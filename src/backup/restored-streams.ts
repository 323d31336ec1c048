/** Begins all event streams anew: those that a restore did not bring back, so that subscribers learn of the gap. */

import type { Client } from 'pg'
import type { TenantId, WorkspaceId } from '../core/tenant.ts'
import { connectToValkey, type ValkeyAddress } from '../infra/valkey/connect.ts'
import { forgetBefore } from '../infra/valkey/stream-log.ts'
import { changesOf, eventsOf } from '../infra/valkey/streams.ts'

/** @returns how many streams there are */
export async function restartStreams(database: Client, at: ValkeyAddress): Promise<number> {
  const { rows } = await database.query<{ tenantId: TenantId; workspaceId: WorkspaceId | null }>(
    `select id as "tenantId", null as "workspaceId" from tenants union all select tenant_id, id from workspaces`,
  )
  const redis = connectToValkey(at, {})
  try {
    const nowMs = Date.now()
    for (const { tenantId, workspaceId } of rows) {
      const key = workspaceId === null ? eventsOf(tenantId) : changesOf({ tenantId, workspaceId })
      await forgetBefore(redis, key, nowMs)
    }
  } finally {
    redis.disconnect()
  }
  return rows.length
}
