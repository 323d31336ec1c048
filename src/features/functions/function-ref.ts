/** Resolves the names by which operations refer to a function. */

import { Ref } from '../../access/operation-builders.ts'
import type { AdminScope } from '../../access/scope.ts'
import { notFound, Problem } from '../../core/problem.ts'
import { type Sql, sql } from '../../infra/postgres/sql.ts'

/** By id, or by name if the credential is of one workspace, since names are unique in a workspace. */
export const functionNamed = (id: string): Sql =>
  sql`(f.id = ${id} or (f.name = ${id} and tenon.workspace() is not null))`
export const FunctionRef = Ref('function, or its name where the credential names a workspace')

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

/** `not_found`, which tells an admin of several workspaces who named the function by its name to use the id. */
export function functionMissing({ workspaceId }: AdminScope, id: string): Problem {
  if (workspaceId !== undefined || id.startsWith('fn_')) return notFound('function')
  return new Problem('not_found', {
    detail:
      'Operators and admins of a tenant name a function by its id, `fn_…`: names are unique in a workspace.',
    hint: '`tenon fn list` shows the ids of a workspace.',
  })
}
