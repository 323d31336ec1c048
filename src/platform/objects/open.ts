/** The objects of a workspace, with its ledger. */

import type { PlatformServices } from '../internals.ts'
import { isLimited } from '../node-memory.ts'
import type { SessionContext } from '../pg/batch.ts'
import { sql } from '../pg/sql.ts'
import type { WorkspaceScope } from '../scope.ts'
import { type Measure, ObjectLedger } from './ledger.ts'
import { type Storage, WorkspaceObjects } from './workspace.ts'

/** @param context the scope's own, so that the ledger sees what the scope sees */
export function openObjects(
  scope: WorkspaceScope,
  parts: Pick<PlatformServices, 'database' | 'objectClients'>,
  context: SessionContext,
): WorkspaceObjects {
  const { workspaceId } = scope.ref
  const find = async () => {
    const [storage] = await scope.rows<Storage>(
      sql`select bucket, access_key_id, sealed from storage_identities where workspace_id = ${workspaceId}`,
    )
    return storage
  }
  const ledgerOf = (measure: Measure) =>
    new ObjectLedger(parts.database, context, measure, () => isLimited(scope, 'object_bytes'))
  return new WorkspaceObjects(scope.ref, parts.objectClients, find, ledgerOf)
}
