/** Changes the row of a declaration together with its table, in the transaction of the caller. */

import { privilege } from '../../../access/privileges.ts'
import type { AdminScope } from '../../../access/scope.ts'
import { hasDocumentStore } from '../../../access/scope-services.ts'
import { notFound, Problem } from '../../../core/problem.ts'
import type { TenantRef, WorkspaceRef } from '../../../core/tenant.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import {
  changeCollectionTable,
  createCollectionTable,
  dropCollectionTable,
  keysWithout,
  restoreForeignKeys,
  tableName,
} from '../postgres/collection-table.ts'
import { lockTargets, requireResolved } from '../references/foreign-keys.ts'
import { checkReferences } from '../references/reference.ts'
import { refOf, type Schema } from './api-types.ts'
import type { BuiltDeclaration } from './build-declaration.ts'
import { highestNumber } from './columns.ts'
import { DECLARATION, type DeclarationRow } from './declaration-cache.ts'

const openTables = privilege('collections.tables')
const openDocuments = privilege('collections.emptiness')

/** The row of a declaration that is changed. */
export interface DeclaredRow extends DeclarationRow, Pick<Schema, 'tenant_id' | 'workspace_id' | 'revision'> {
  readonly last_column: number
  readonly last_index: number
}

/** Excludes writers of undeclared documents, who find the declaration afterwards (`tenon.refuse_declared`). */
const lockCollection = ({
  tenant_id,
  workspace_id,
  collection,
}: Pick<Schema, 'tenant_id' | 'workspace_id' | 'collection'>): Sql =>
  sql`select pg_advisory_xact_lock(tenon.collection_lock(${tenant_id}, ${workspace_id}, ${collection}))`

/**
 * Creates the table of a declaration whose row the transaction has inserted.
 * @param isRestored true if its foreign keys are added later
 * @returns false if the collection has documents that were written undeclared
 */
export async function createDeclaredTable(
  transaction: AdminScope,
  schema: Schema,
  { columns, indexes, conditions, references }: BuiltDeclaration,
  isRestored: boolean,
): Promise<boolean> {
  const ref = refOf(schema)
  const referring = { workspaceId: ref.workspaceId, collection: schema.collection, relation: schema.id }
  const foreignKeys = isRestored ? [] : await lockTargets(transaction, { ...referring, references, columns })
  const [, documents = []] = await openDocuments(transaction, ref).batch(
    lockCollection(schema),
    sql`select from documents where collection = ${schema.collection} limit 1`,
  )
  if (documents.length > 0) return false
  const table = { id: schema.id, relation: schema.id, columns, indexes, conditions, foreignKeys }
  await createCollectionTable(openTables(transaction, ref), ref, table)
  return true
}

/** Changes table and row, which the transaction has locked. The revision in the name tells writers that their declaration is old. */
export async function changeDeclaredTable(
  transaction: AdminScope,
  row: DeclaredRow,
  {
    schema,
    mode,
    access,
    columns,
    indexes,
    conditions,
    references,
  }: BuiltDeclaration & Pick<DeclaredRow, 'mode' | 'access'>,
): Promise<void> {
  const revision = row.revision + 1
  const ref = refOf(row)
  const { workspaceId } = ref
  const { relation, collection } = row
  const keysOf = (of: Pick<BuiltDeclaration, 'references' | 'columns'>) =>
    lockTargets(transaction, { workspaceId, collection, relation, ...of })
  const before = { ...row, foreignKeys: await keysOf({ ...row, references: row.relations }) }
  const foreignKeys = await keysOf({ references, columns })
  const tables = openTables(transaction, ref)
  const after = { id: row.id, relation: `${row.id}_${revision}`, columns, indexes, conditions, foreignKeys }
  const indexesAfter = await changeCollectionTable(tables, before, after)
  const keys = keysWithout({ foreignKeys }, before)
  await requireResolved(transaction, ref, {
    relation: after.relation,
    keys: keys.map((key) => (key.relation === relation ? { ...key, relation: after.relation } : key)),
  })
  const lastColumn = highestNumber(
    row.last_column,
    [...row.columns, ...columns].map(({ column }) => column),
  )
  const lastIndex = highestNumber(
    row.last_index,
    [...row.indexes, ...indexes].map(({ name }) => name),
  )
  await tables.batch(sql`
    update schemas set schema = ${JSON.stringify(schema)}::jsonb, mode = ${mode}, columns = ${JSON.stringify(columns)}::jsonb,
        access = ${JSON.stringify(access)}::jsonb, indexes = ${JSON.stringify(indexesAfter)}::jsonb, revision = ${revision},
        relations = ${JSON.stringify(references)}::jsonb, updated_at = now(), last_column = ${lastColumn}, last_index = ${lastIndex}
      where id = ${row.id}`)
}

/**
 * Adds the foreign keys of all declarations of a workspace that was restored. It may be repeated.
 * @throws Problem `schema_incompatible` if a document refers to one that is not there; `validation_failed` or `not_supported` for a reference
 *   that could not be declared
 */
export async function addForeignKeys(
  scope: AdminScope,
  { tenantId, workspaceId }: WorkspaceRef,
): Promise<void> {
  const referring = await scope.rows<DeclaredRow>(sql`
    select ${DECLARATION}, tenant_id, workspace_id from schemas where workspace_id = ${workspaceId} and relations <> '[]'`)
  for (const row of referring) {
    await checkReferences(scope, row.relations, {
      ...row,
      workspaceId,
      hasDocumentStore: hasDocumentStore(scope),
    })
    await scope.transaction(async (transaction) => {
      const keys = await lockTargets(transaction, { ...row, workspaceId, references: row.relations })
      await openTables(transaction, refOf(row)).batch(...restoreForeignKeys(row, keys))
      await requireResolved(transaction, refOf(row), { relation: row.relation, keys })
    }, tenantId)
  }
}

/** Deletes the declarations of a tenant or a workspace that is purged, with their tables and all that is in them. */
export async function dropDeclaredTables(
  scope: AdminScope,
  { tenantId, workspaceId }: TenantRef,
): Promise<void> {
  const declared = await scope.rows<DeclaredRow>(sql`
    select ${DECLARATION}, tenant_id, workspace_id from schemas
    where tenant_id = ${tenantId} and (${workspaceId} = '-' or workspace_id = ${workspaceId})`)
  for (const row of declared)
    await scope.transaction((inside) => dropCollectionTable(openTables(inside, refOf(row)), row), tenantId)
}

/**
 * Deletes a declaration with its table.
 * @returns false if the collection has documents
 * @throws Problem `not_found` if another request has deleted it meanwhile
 */
export async function dropDeclaredTable(transaction: AdminScope, id: string): Promise<boolean> {
  const row = await transaction.row<DeclaredRow>(
    sql`select ${DECLARATION}, tenant_id, workspace_id from schemas where id = ${id} for update`,
  )
  if (row === undefined) throw notFound('schema')
  const tables = openTables(transaction, refOf(row))
  await tables.batch(lockCollection(row), sql`lock table ${tableName(row)} in access exclusive mode`)
  await refuseReferenced(transaction, row)
  const documents = openDocuments(transaction, refOf(row))
  if ((await documents.row(sql`select from ${tableName(row)} limit 1`)) !== undefined) return false
  await dropCollectionTable(tables, row)
  return true
}

/** @throws Problem `state_conflict` if other declarations refer to the collection */
async function refuseReferenced(
  transaction: AdminScope,
  { id, workspace_id, collection }: DeclaredRow,
): Promise<void> {
  const referring = await transaction.rows<{ collection: string }>(sql`
    select collection from schemas where workspace_id = ${workspace_id} and id <> ${id}
      and relations @> ${JSON.stringify([{ collection }])}::jsonb order by collection limit 20`)
  if (referring.length === 0) return
  const names = referring.map((one) => one.collection).join(', ')
  throw new Problem('state_conflict', {
    detail: `Other collections refer to ${collection}: ${names}.`,
    hint: 'Remove their references first: `"references": []` in their declarations.',
  })
}
