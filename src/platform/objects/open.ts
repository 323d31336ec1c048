/** The objects of a workspace, with its ledger: what a scope lends. */

import { isLimited } from '../limited.ts'
import type { Parts } from '../parts.ts'
import type { Mandate } from '../pg/database.ts'
import { sql } from '../pg/sql.ts'
import type { WorkspaceScope } from '../scope.ts'
import { type Measure, ObjectLedger } from './ledger.ts'
import { type Storage, WorkspaceObjects } from './workspace.ts'

/** @param mandate the scope's own, so that the ledger sees what the scope sees */
export function openObjects(scope: WorkspaceScope, parts: Parts, mandate: Mandate): WorkspaceObjects {
  const { workspaceId } = scope.ref
  const find = () =>
    scope.row<Storage>(
      sql`select bucket, access_key_id, sealed from storage_identities where workspace_id = ${workspaceId}`,
    )
  const ledgerOf = (measure: Measure) =>
    new ObjectLedger(parts.database, mandate, measure, () => isLimited(scope, 'object_bytes'))
  return new WorkspaceObjects(scope.ref, parts.objectClients, find, ledgerOf)
}
