/** Hands what an unfinished import has made to the purge, which removes whatever there is. */

import type { AdminScope } from '../../access/scope.ts'
import { type TenantRef, targetOf, workflowId } from '../../core/tenant.ts'
import { sql, textArray } from '../../infra/postgres/sql.ts'

/** The operation of an import that has made, or makes, it; and, of a workspace, that of its tenant, unless it has succeeded. */
const importOf = (ref: TenantRef) => sql`
  select from operations i
  where (i.target = ${targetOf(ref)} and i.type in ('workspace.import', 'tenant.import'))
    or (i.target = ${ref.tenantId} and i.type = 'tenant.import' and i.state <> 'succeeded')`

/** True if it was made by an import, whether that has ended or not. */
export const isOfImport = async (scope: AdminScope, ref: TenantRef): Promise<boolean> =>
  (await scope.row(importOf(ref))) !== undefined

/**
 * Deletes the tenant or the workspace of an unfinished import: its purge begins at once (due-jobs.ts), and its slug is free. It was never
 * in use, so it has no state to be restored to.
 * @param from the states that it may be in
 * @returns true if a purge follows, as the operation of that id
 */
export async function discardImport(
  scope: AdminScope,
  ref: TenantRef,
  { operationId, from }: { readonly operationId: string; readonly from: readonly string[] },
): Promise<boolean> {
  const { tenantId, workspaceId } = ref
  const noun = workspaceId === '-' ? 'tenant' : 'workspace'
  const purge = workflowId({ tenantId, workspaceId: '-' }, `${noun}-provision`, scope.uuid())
  const change = sql`state = 'deleting', state_before = null, delete_after = now(), slug = id, state_seq = state_seq + 1,
    updated_at = now()`
  const isUnfinished = sql`id = ${targetOf(ref)} and state = any(${textArray(from)}::text[]) and delete_after is null
    and exists (${importOf(ref)})`
  const discard =
    workspaceId === '-'
      ? sql`update tenants set ${change}, deleted_by = 'operator' where ${isUnfinished} returning id`
      : sql`update workspaces set ${change}, deleted_by = 'tenant_admin' where ${isUnfinished} returning id`
  const begun = await scope.rows(sql`
    with discarded as (${discard})
    insert into operations (id, tenant_id, type, target, workflow_id, state)
    select ${operationId}, ${tenantId}, ${`${noun}.delete`}, id, ${purge}, 'queued' from discarded
    returning id`)
  return begun.length > 0
}
