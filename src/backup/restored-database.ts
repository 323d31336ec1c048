/** Changes a recovered database before anybody uses it: what must not go on after a restore is ended, paused or purged again. */

import type { Client } from 'pg'
import { v7 as uuid } from 'uuid'
import { typeId } from '../core/ids.ts'
import { type TenantRef, workflowId } from '../core/tenant.ts'
import type { Tombstone } from './manifests.ts'

/** Statements that need no input. All of them are one transaction. */
const STATEMENTS = [
  // People sign in again. What was revoked stays revoked.
  `delete from issuer_state where model <> 'RevokedToken'`,
  `delete from sessions`,
  // The store does not have their parts: the sweeper removes them.
  `update object_uploads set expires_at = now() where expires_at > now()`,
  `update resumable_uploads set expires_at = now() where ended_at is null and expires_at > now()`,
  // They are compared with Temporal when a worker starts.
  `update executions set due_at = now() where ended_at is null`,
  `update function_runs set due_at = now() where ended_at is null`,
  // Until `tenon restore finish`.
  `update triggers set paused = true, paused_by_restore = true, updated_at = now(),
     note = 'Paused by a restore of the installation, until an operator finishes it.' where not paused`,
  `update triggers set is_unregistered = true where kind = 'schedule'`,
]

/** @returns how many tenants and workspaces will be purged again */
export async function settleDatabase(
  database: Client,
  { to, tombstones }: { to: string; tombstones: readonly Tombstone[] },
): Promise<number> {
  await database.query('begin')
  await database.query(
    `update public.tenon_installation set restored_to = $1, restored_at = now(), restore_finished_at = null`,
    [to],
  )
  for (const statement of STATEMENTS) await database.query(statement)
  let purged = 0
  for (const tombstone of tombstones) if (await purgeAgain(database, tombstone)) purged += 1
  await database.query('commit')
  return purged
}

/** @returns false if it does not exist, or is being purged already */
async function purgeAgain(database: Client, { tenant_id, workspace_id }: Tombstone): Promise<boolean> {
  const [table, id, kind] =
    workspace_id === null ? ['tenants', tenant_id, 'tenant'] : ['workspaces', workspace_id, 'workspace']
  const { rowCount } = await database.query(
    `update ${table} set state = 'deleting', deleted_by = 'operator', delete_after = now(), state_seq = state_seq + 1, updated_at = now(),
       state_before = case when state in ('active', 'suspended') then state else state_before end
     where id = $1 and state <> 'deleted' and purged_from is null`,
    [id],
  )
  if (rowCount === 0) return false
  const ref = { tenantId: tenant_id, workspaceId: '-' } as TenantRef
  // One of a deletion that had not come to its purge is there already.
  await database.query(
    `insert into operations (id, tenant_id, type, target, workflow_id, state)
     select $1, $2, $3, $4, $5, 'queued'
     where not exists (select from operations where target = $4 and type = $3 and finished_at is null)`,
    [typeId('op', uuid()), tenant_id, `${kind}.delete`, id, workflowId(ref, `${kind}-provision`, uuid())],
  )
  return true
}

/**
 * Lets the triggers go on that {@link settleDatabase} has paused. What was due meanwhile is not made up for.
 * @returns the time that the installation was restored to, and how many triggers go on; undefined if no restore is to be finished
 */
export async function finishRestore(database: Client): Promise<{ to: string; resumed: number } | undefined> {
  await database.query('begin')
  const { rows } = await database.query<{ to: string }>(
    `update public.tenon_installation set restore_finished_at = now()
     where restored_at is not null and restore_finished_at is null
     returning to_char(restored_to at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as to`,
  )
  const { rowCount } = await database.query(
    `update triggers set paused = false, paused_by_restore = false, note = null, resumed_at = now(), updated_at = now(),
       is_unregistered = (kind = 'schedule') where paused_by_restore`,
  )
  await database.query('commit')
  return rows[0] && { to: rows[0].to, resumed: rowCount ?? 0 }
}
