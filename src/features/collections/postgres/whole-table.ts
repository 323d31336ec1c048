/** Drops, empties and renames the table of a declaration, which the transaction has locked, as the role that owns it. */

import type { WorkspaceRef } from '../../../core/tenant.ts'
import type { Statements } from '../../../infra/postgres/database.ts'
import { Sql, sql } from '../../../infra/postgres/sql.ts'
import { regclass, type TableDeclaration, tableName, unlimitedQuotas } from './collection-table.ts'
import { dropPolicies, type RowConditions, setPolicies } from './table-policies.ts'

type Table = Pick<TableDeclaration, 'id' | 'relation'>

/** Shows the owner of the table its rows, which are then taken off the quotas: no trigger counts what is not deleted row by row. */
async function giveBackQuotas(tables: Statements, declared: Table): Promise<void> {
  const name = tableName(declared)
  const bytes = sql`tenon.total_bytes(tenon.tenant(), tenon.workspace(), ${regclass(declared)})`
  await unlimitedQuotas(tables)
  await tables.batch(
    sql`alter table ${name} no force row level security`,
    sql`update quotas set used = used - ${bytes} where name = 'document_bytes'`,
    sql`update quotas set used = used - (select count(*) from ${name}) where name = 'documents'`,
  )
}

/** Drops the table of a declaration, which the caller has locked, with the foreign keys that lead to it, and deletes the row. */
export async function dropCollectionTable(tables: Statements, declared: Table): Promise<void> {
  await tables.batch(
    sql`delete from quota_sources where relation = ${regclass(declared)}`,
    sql`drop table ${tableName(declared)} cascade`,
    sql`delete from schemas where id = ${declared.id}`,
  )
}

/** Drops the table with its documents, and deletes the row of the declaration. */
export async function dropFilledTable(tables: Statements, declared: Table): Promise<void> {
  await giveBackQuotas(tables, declared)
  await dropCollectionTable(tables, declared)
}

/** Deletes all documents at once. The table gets another name: who reads the documents of an earlier moment finds no table, rather than none of them. */
export async function emptyTable(tables: Statements, declared: Table, relation: string): Promise<void> {
  const name = tableName(declared)
  await giveBackQuotas(tables, declared)
  await tables.batch(
    sql`truncate table ${name}`,
    sql`alter table ${name} force row level security`,
    renameTable(declared, relation),
  )
}

/** A new name tells writers that their declaration is old. */
export const renameTable = (declared: Table, relation: string): Sql =>
  sql`alter table ${tableName(declared)} rename to ${Sql.identifier(relation)}`

/** The statements that state the rules anew, in which the lookups have the name of the collection. */
export const replacePolicies = (
  declared: Pick<TableDeclaration, 'relation' | 'columns'>,
  { ref, conditions }: { readonly ref: WorkspaceRef; readonly conditions: RowConditions },
): Sql[] => {
  const name = tableName(declared)
  return [...dropPolicies(name), ...setPolicies(name, { ref, columns: declared.columns, conditions })]
}
