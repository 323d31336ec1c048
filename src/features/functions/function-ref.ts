/** Resolves the names by which operations refer to a function. */

import { Ref } from '../../access/operation-builders.ts'
import { type Sql, sql } from '../../infra/postgres/sql.ts'

/** By id, or by name if the credential is of one workspace, since names are unique in a workspace. */
export const functionNamed = (id: string): Sql =>
  sql`(f.id = ${id} or (f.name = ${id} and tenon.workspace() is not null))`
export const FunctionRef = Ref('function, or its name where the credential names a workspace')
