/** Reads all declarations of a workspace for archives, in the form in which they are requested. */

import type { AdminScope, WorkspaceScope } from '../../../access/scope.ts'
import type { WorkspaceRef } from '../../../core/tenant.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { allRows } from '../../operation-helpers.ts'
import { type DeclaredExclusion, requestedExclusions } from '../constraints/constraint.ts'
import { type Index, requestedOf, type Schema } from './api-types.ts'

type Row = Pick<
  Schema,
  'id' | 'collection' | 'store' | 'schema' | 'mode' | 'access' | 'references' | 'checks' | 'ttl'
> & {
  readonly exclusions: readonly DeclaredExclusion[]
  readonly indexes: readonly Index[]
}

const PAGE = 100

const REQUESTED = sql`id, collection, store, schema, mode, access, indexes, relations as "references", checks, exclusions, ttl`

const requestedFrom = ({ indexes, exclusions, ...declared }: Row) => ({
  ...declared,
  ...requestedOf(indexes, declared),
  exclude: requestedExclusions(exclusions),
})

/** In the order of their ids. @param structure scope with the rights of an admin */
export async function* allDeclarations(structure: WorkspaceScope) {
  const read = (after: string) =>
    structure.rows<Row>(sql`select ${REQUESTED} from schemas where id > ${after} order by id limit ${PAGE}`)
  for await (const row of allRows(PAGE, read, ({ id }) => id)) yield requestedFrom(row)
}

/** All declarations of a workspace in the order of their names, without their ids. */
export async function readDeclarations(scope: AdminScope, { workspaceId }: WorkspaceRef) {
  const rows = await scope.rows<Row>(
    sql`select ${REQUESTED} from schemas where workspace_id = ${workspaceId} order by collection`,
  )
  return rows.map(({ id: _, ...row }) => requestedFrom(row as Row))
}

export const isDeclared = async (
  scope: AdminScope,
  { workspaceId }: WorkspaceRef,
  collection: string,
): Promise<boolean> =>
  (await scope.row(
    sql`select from schemas where workspace_id = ${workspaceId} and collection = ${collection}`,
  )) !== undefined
