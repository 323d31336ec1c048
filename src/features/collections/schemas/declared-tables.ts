/** Changes the row of a declaration together with its table, in the transaction of the caller. */

import { privilege } from '../../../access/privileges.ts'
import type { AdminScope } from '../../../access/scope.ts'
import { hasDocumentStore } from '../../../access/scope-services.ts'
import { notFound, Problem } from '../../../core/problem.ts'
import type { TenantRef, WorkspaceRef } from '../../../core/tenant.ts'
import type { Statements } from '../../../infra/postgres/database.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import { requireDisjoint } from '../constraints/conflicting.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import {
  addExclusions,
  adoptDocuments,
  changeCollectionTable,
  createCollectionTable,
  exclusionsWithout,
  type FieldChange,
  isNewIndex,
  keysWithout,
  restoreForeignKeys,
  returnDocuments,
  tableName,
} from '../postgres/collection-table.ts'
import { addChecks, dropChecks } from '../postgres/table-constraints.ts'
import { dropCollectionTable } from '../postgres/whole-table.ts'
import { lockTargets, requireResolved } from '../references/foreign-keys.ts'
import { checkReferences } from '../references/reference.ts'
import { type Index, refOf, type Schema } from './api-types.ts'
import type { BuiltDeclaration } from './build-declaration.ts'
import { highestNumber } from './columns.ts'
import { DECLARATION, type DeclarationRow, toDeclaration } from './declaration-cache.ts'

const openTables = privilege('collections.tables')
const openDocuments = privilege('collections.emptiness')

/** The row of a declaration that is changed. */
export interface DeclaredRow extends DeclarationRow, Pick<Schema, 'tenant_id' | 'workspace_id' | 'revision'> {
  readonly last_column: number
  readonly last_index: number
}

/** Columns of `schemas`, as a {@link DeclaredRow}. */
export const DECLARED_ROW = sql`${DECLARATION}, tenant_id, workspace_id, revision, last_column, last_index`

/** Excludes writers of undeclared documents, who find the declaration afterwards (`tenon.refuse_declared`). */
export const lockCollection = ({
  tenant_id,
  workspace_id,
  collection,
}: Pick<Schema, 'tenant_id' | 'workspace_id' | 'collection'>): Sql =>
  sql`select pg_advisory_xact_lock(tenon.collection_lock(${tenant_id}, ${workspace_id}, ${collection}))`

interface CreateOptions {
  /** True if its foreign keys and checks are added later. */
  readonly isRestored?: boolean
  /** True if the documents that the collection has are moved into the table, which then has neither columns nor constraints. */
  readonly adopts?: boolean
}

/**
 * Creates the table of a declaration whose row the transaction has inserted.
 * @returns false if the collection has documents that were written undeclared
 */
export async function createDeclaredTable(
  transaction: AdminScope,
  schema: Schema,
  built: BuiltDeclaration,
  { isRestored = false, adopts = false }: CreateOptions = {},
): Promise<boolean> {
  const { columns, indexes, conditions, references, exclusions } = built
  const ref = refOf(schema)
  const referring = { workspaceId: ref.workspaceId, collection: schema.collection, relation: schema.id }
  const foreignKeys = isRestored ? [] : await lockTargets(transaction, { ...referring, references, columns })
  const [, documents = []] = await openDocuments(transaction, ref).batch(
    lockCollection(schema),
    sql`select from documents where collection = ${schema.collection} limit 1`,
  )
  if (documents.length > 0 && !adopts) return false
  const checks = isRestored ? [] : built.declared.checks
  const declared = { ...built.declared, checks }
  const table = { id: schema.id, relation: schema.id, columns, indexes, conditions, foreignKeys }
  const constraints = { checks, exclusions, declared }
  const tables = openTables(transaction, ref)
  await createCollectionTable(tables, ref, { ...table, ...constraints })
  if (documents.length > 0) await adoptDocuments(tables, table, schema.collection)
  return true
}

/**
 * Makes a collection undeclared again that was declared with its documents, if its declaration has not changed since.
 * @returns false if it has, or was deleted
 */
export async function releaseDocuments(transaction: AdminScope, id: string): Promise<boolean> {
  const row = await transaction.row<DeclaredRow>(
    sql`select ${DECLARATION}, tenant_id, workspace_id from schemas where id = ${id} and revision = 0 for update`,
  )
  if (row === undefined) return false
  const tables = openTables(transaction, refOf(row))
  await tables.batch(lockCollection(row), sql`lock table ${tableName(row)} in access exclusive mode`)
  await returnDocuments(tables, row, row.collection)
  return true
}

/** The number of documents that a collection has without a declaration, up to one more than `max`. */
export async function countUndeclared(
  scope: AdminScope,
  ref: WorkspaceRef,
  { collection, max }: { readonly collection: string; readonly max: number },
): Promise<number> {
  const row = await openDocuments(scope, ref).row<{ n: number }>(sql`
    select count(*)::integer as n from (select from documents where collection = ${collection} limit ${max + 1}) found`)
  return row?.n ?? 0
}

/** Changes table and row, which the transaction has locked. The revision in the name tells writers that their declaration is old. */
export async function changeDeclaredTable(
  transaction: AdminScope,
  row: DeclaredRow,
  changed: BuiltDeclaration & Pick<DeclaredRow, 'mode' | 'access'>,
  fields: FieldChange,
): Promise<void> {
  const { columns, references } = changed
  const revision = row.revision + 1
  const ref = refOf(row)
  const { workspaceId } = ref
  const { relation, collection } = row
  const keysOf = (of: Pick<BuiltDeclaration, 'references' | 'columns'>) =>
    lockTargets(transaction, { workspaceId, collection, relation, ...of })
  const before = { ...row, foreignKeys: await keysOf({ ...row, references: row.relations }) }
  const foreignKeys = await keysOf({ references, columns })
  await requireFewToSearch(openDocuments(transaction, ref), row, changed.indexes)
  const tables = openTables(transaction, ref)
  const after = { ...changed, id: row.id, ref, relation: `${row.id}_${revision}`, foreignKeys }
  const indexesAfter = await changeCollectionTable(tables, before, after, fields)
  const exclusions = exclusionsWithout(after, before)
  await requireDisjoint(openDocuments(transaction, ref), after, { ...changed, exclusions })
  await tables.batch(...addExclusions(after, exclusions, changed.declared))
  const keys = keysWithout({ foreignKeys }, before)
  await requireResolved(transaction, ref, {
    relation: after.relation,
    keys: keys.map((key) => (key.relation === relation ? { ...key, relation: after.relation } : key)),
  })
  await updateRow(tables, row, { ...changed, indexes: indexesAfter, revision })
}

/** @throws Problem `state_conflict` if the words of too many documents would be computed, while all others wait for the table */
async function requireFewToSearch(
  documents: Statements,
  before: DeclaredRow,
  indexes: readonly Index[],
): Promise<void> {
  if (!indexes.some((index) => index.kind === 'text' && isNewIndex(before, index))) return
  const limit = COLLECTION_LIMITS.searchDocumentsMax
  const [[counted] = []] = await documents.batch(
    sql`select count(*) as n from (select from ${tableName(before)} limit ${limit + 1}) found`,
  )
  if (Number(counted?.['n']) <= limit) return
  throw new Problem('state_conflict', {
    detail: `The collection has more than ${limit} documents: others would wait too long for the words of all of them.`,
    hint: 'Declare another collection with the search, and import the documents there.',
  })
}

async function updateRow(
  tables: Statements,
  row: DeclaredRow,
  {
    revision,
    ...changed
  }: Omit<BuiltDeclaration, 'declared'> & Pick<DeclaredRow, 'mode' | 'access' | 'revision'>,
): Promise<void> {
  const { mode, columns, indexes } = changed
  const json = (
    name: 'schema' | 'columns' | 'access' | 'indexes' | 'references' | 'checks' | 'exclusions' | 'ttl',
  ) => sql`${JSON.stringify(changed[name])}::jsonb`
  const lastColumn = highestNumber(
    row.last_column,
    [...row.columns, ...columns].map(({ column }) => column),
  )
  const lastIndex = highestNumber(
    row.last_index,
    [...row.indexes, ...indexes].map(({ name }) => name),
  )
  await tables.batch(sql`
    update schemas set schema = ${json('schema')}, mode = ${mode}, columns = ${json('columns')}, access = ${json('access')},
        indexes = ${json('indexes')}, relations = ${json('references')}, checks = ${json('checks')},
        exclusions = ${json('exclusions')}, ttl = nullif(${json('ttl')}, 'null'),
        expiry_due_at = case when ${changed.ttl !== null}::boolean then coalesce(expiry_due_at, now()) end, revision = ${revision}, updated_at = now(), last_column = ${lastColumn},
        last_index = ${lastIndex}
      where id = ${row.id}`)
}

/**
 * Adds the foreign keys and checks of all declarations of a workspace that was restored: its documents may break a check that is younger
 * than they are. It may be repeated.
 * @throws Problem `schema_incompatible` if a document refers to one that is not there; `validation_failed` or `not_supported` for a reference
 *   that could not be declared
 */
export async function addLateConstraints(
  scope: AdminScope,
  { tenantId, workspaceId }: WorkspaceRef,
): Promise<void> {
  const referring = await scope.rows<DeclaredRow>(sql`
    select ${DECLARATION}, tenant_id, workspace_id from schemas where workspace_id = ${workspaceId} and (relations <> '[]' or checks <> '[]')`)
  for (const row of referring) {
    await checkReferences(scope, row.relations, {
      ...row,
      workspaceId,
      hasDocumentStore: hasDocumentStore(scope),
    })
    await scope.transaction(async (transaction) => {
      const keys = await lockTargets(transaction, { ...row, workspaceId, references: row.relations })
      const table = tableName(row)
      await openTables(transaction, refOf(row)).batch(
        ...restoreForeignKeys(row, keys),
        ...dropChecks(table, row.checks.length),
        ...addChecks(table, toDeclaration(row)),
      )
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
