/** Resolves the names by which operations refer to a function. */

import { Ref } from '../../access/operation-builders.ts'
import type { AdminScope } from '../../access/scope.ts'
import { notFound, Problem } from '../../core/problem.ts'
import type { WorkspaceRef } from '../../core/tenant.ts'
import { type Sql, sql } from '../../infra/postgres/sql.ts'

/** By id, or by name if the credential is of one workspace, since names are unique in a workspace. */
export const functionNamed = (id: string): Sql =>
  sql`(f.id = ${id} or (f.name = ${id} and tenon.workspace() is not null))`
export const FunctionRef = Ref('function, or its name if the credential names a workspace')

/**
 * The only row of a statement about a function.
 * @param id as the caller named the function
 * @throws Problem as {@link functionMissing}
 */
export async function findFunctionRow<T extends object>(
  scope: AdminScope,
  id: string,
  statement: Sql,
): Promise<T> {
  const row = await scope.row<T>(statement)
  if (row === undefined) throw functionMissing(scope, id)
  return row
}

/** Finds a function, and the workspace that it belongs to. @throws Problem as {@link functionMissing} */
export const findFunction = (
  scope: AdminScope,
  id: string,
): Promise<WorkspaceRef & { readonly id: string }> =>
  findFunctionRow(
    scope,
    id,
    sql`select f.id, f.tenant_id as "tenantId", f.workspace_id as "workspaceId" from functions f where ${functionNamed(id)}`,
  )

/** `not_found`, which tells an admin of several workspaces who named the function by its name to use the id. */
export function functionMissing({ workspaceId }: AdminScope, id: string): Problem {
  if (workspaceId !== undefined || id.startsWith('fn_')) return notFound('function')
  return new Problem('not_found', {
    detail:
      'Operators and admins of a tenant name a function by its id, `fn_…`: names are unique in a workspace.',
    adminHint: '`npx tenon fn list` shows the ids of a workspace.',
  })
}
