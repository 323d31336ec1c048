/** Hands what an unfinished import has made to the purge, which removes whatever there is. */

import type { AdminScope } from '../../access/scope.ts'
import { type TenantRef, targetOf, workflowId } from '../../core/tenant.ts'
import { sql, textArray } from '../../infra/postgres/sql.ts'

/** The operation of an import that has made, or makes, the workspace `id`. */
const importOf = (id: string) =>
  sql`select from operations i where i.target = ${id} and i.type = 'workspace.import'`

/** True if the workspace was made by an import, whether it has ended or not. */
export const isOfImport = async (scope: AdminScope, ref: TenantRef): Promise<boolean> =>
  (await scope.row(importOf(targetOf(ref)))) !== undefined

/**
 * Deletes the workspace of an unfinished import: its purge begins at once (due-jobs.ts), and its slug is free. It was never
 * in use, so it has no state to be restored to.
 * @param from the states that it may be in
 * @returns true if a purge follows, as the operation of that id
 */
export async function discardImport(
  scope: AdminScope,
  ref: TenantRef,
  { operationId, from }: { readonly operationId: string; readonly from: readonly string[] },
): Promise<boolean> {
  const id = targetOf(ref)
  const purge = workflowId({ tenantId: ref.tenantId, workspaceId: '-' }, 'workspace-provision', scope.uuid())
  const begun = await scope.rows(sql`
    with discarded as (
      update workspaces set state = 'deleting', deleted_by = 'tenant_admin', state_before = null, delete_after = now(),
        slug = id, state_seq = state_seq + 1, updated_at = now()
      where id = ${id} and state = any(${textArray(from)}::text[]) and delete_after is null
        and exists (${importOf(id)})
      returning id, tenant_id)
    insert into operations (id, tenant_id, type, target, workflow_id, state)
    select ${operationId}, tenant_id, 'workspace.delete', id, ${purge}, 'queued' from discarded
    returning id`)
  return begun.length > 0
}
