/** Writes the triggers of functions in the transaction of their configuration. */

import type { AdminScope } from '../../../access/scope.ts'
import type { TenantId, WorkspaceId } from '../../../core/tenant.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import type { DeclaredTrigger } from '../../runs/triggers/trigger.ts'
import {
  changeTriggers,
  type Declaration,
  declareTriggers,
  deleteTriggers,
  placeIn,
} from '../../runs/triggers/trigger-store.ts'
import { type DeclaredTriggers, declaredTriggers, FUNCTION } from './function-triggers.ts'

/** A function that is configured or deleted. */
export interface Target {
  /** A condition on `functions f` that one function fulfils. */
  readonly is: Sql
  /** The id and the workspace of the function that is created, if there is none. */
  readonly created?: { readonly id: string; readonly workspaceId: string }
}

/**
 * Writes a configuration and its triggers in one transaction, then brings the schedule to Temporal.
 * @param write runs the transaction: the statement that changes the function, then the given ones
 * @param options `declaredAs` changes what the configuration declares
 * @throws Problem `dependency_unavailable` without Temporal or Valkey, if they are needed: then nothing was changed
 */
export async function writeTriggers<T>(
  scope: AdminScope,
  target: Target,
  change: DeclaredTriggers,
  write: (statements: Sql[]) => Promise<T>,
  {
    declaredAs = (trigger) => trigger,
  }: { readonly declaredAs?: (trigger: DeclaredTrigger) => DeclaredTrigger } = {},
): Promise<T> {
  const { kinds, triggers } = declaredTriggers(change)
  const declared = { kinds, triggers: triggers.map(declaredAs) }
  const found = declared.kinds.length === 0 ? undefined : await findPlace(scope, target)
  // The write finds out why there is none.
  if (found === undefined) return write([])
  const place = placeIn(scope, found.ref)
  const declaration = declarationOf(found.id, target.is, declared)
  const statements = await declareTriggers(place, declaration)
  return changeTriggers(place, declaration, () => write(statements))
}

/**
 * Deletes a function with its triggers in one transaction, then its schedule in Temporal.
 * @param remove runs the transaction: the statements that delete the function, then the given ones
 * @throws Problem `dependency_unavailable` without Temporal, if it is needed: then nothing was changed
 */
export async function removeTriggers<T>(
  scope: AdminScope,
  is: Sql,
  remove: (statements: Sql[]) => Promise<T>,
): Promise<T> {
  const found = await findPlace(scope, { is })
  if (found === undefined) return remove([])
  const place = placeIn(scope, found.ref)
  const { tenantId, workspaceId } = found.ref
  const isGone = sql`not exists (select from functions f where f.tenant_id = ${tenantId}
    and f.workspace_id = ${workspaceId} and f.id = ${found.id})`
  const declaration = declarationOf(found.id, is, { kinds: ['schedule', 'event'], triggers: [] })
  return changeTriggers(place, declaration, () => remove([deleteTriggers(place, FUNCTION, found.id, isGone)]))
}

const declarationOf = (
  id: string,
  is: Sql,
  declared: Pick<Declaration, 'kinds' | 'triggers'>,
): Declaration => ({
  of: FUNCTION,
  id,
  target: sql`select f.tenant_id, f.workspace_id, f.id, null::integer as version from functions f where ${is}`,
  ...declared,
})

/** The workspace in which the function is, or will be created. */
async function findPlace(scope: AdminScope, { is, created }: Target) {
  const statement =
    created === undefined
      ? sql`select f.id, f.tenant_id, f.workspace_id from functions f where ${is}`
      : sql`select coalesce(f.id, ${created.id}) as id, w.tenant_id, w.id as workspace_id
          from workspaces w left join functions f on f.tenant_id = w.tenant_id and f.workspace_id = w.id and ${is}
          where w.id = ${created.workspaceId}`
  const row = await scope.row<{ id: string; tenant_id: TenantId; workspace_id: WorkspaceId }>(statement)
  return row && { id: row.id, ref: { tenantId: row.tenant_id, workspaceId: row.workspace_id } }
}
