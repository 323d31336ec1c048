/** Drops, empties and renames whole collections, each in one transaction of PostgreSQL. */

import { effectOnce } from '../../../access/effect-once.ts'
import { privilege } from '../../../access/privileges.ts'
import type { AdminScope } from '../../../access/scope.ts'
import { invalidate } from '../../../access/scope-cache.ts'
import { hasDocumentStore } from '../../../access/scope-services.ts'
import { notFound, Problem } from '../../../core/problem.ts'
import type { WorkspaceRef } from '../../../core/tenant.ts'
import { undefinedOnDeadlock } from '../../../infra/postgres/errors.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import { retryContended } from '../../../infra/retry.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { documentsOf, hasDocuments } from '../mongo/documents.ts'
import { tableName } from '../postgres/collection-table.ts'
import { dropFilledTable, emptyTable, renameTable, replacePolicies } from '../postgres/whole-table.ts'
import { type Reference, referringKey } from '../references/reference.ts'
import type { Access } from '../rules/access.ts'
import { rowConditions } from '../rules/rule-policy.ts'
import { cacheKey, type DeclarationRow, toDeclaration } from '../schemas/declaration-cache.ts'
import { DECLARED_ROW, type DeclaredRow, lockCollection } from '../schemas/declared-tables.ts'
import { announce, refuseUsed } from './collection-users.ts'

const openTables = privilege('collections.whole_tables')
const openDocuments = privilege('collections.whole_documents')

/** A collection of a workspace that the caller administers. */
export interface Target {
  readonly ref: WorkspaceRef
  readonly name: string
}

/** The collection as the transaction has locked it; `declared` is undefined if it exists only because it has documents. */
interface Locked extends Target {
  readonly transaction: AdminScope
  readonly declared: DeclaredRow | undefined
}

/** Deletes all documents, the declaration and its indexes. */
export function dropCollection(scope: AdminScope, target: Target) {
  const { ref, name } = target
  return changeWhole(scope, target, [name], async (locked) => {
    const { transaction, declared } = locked
    await refuseUsed(transaction, ref, name, USED_BY_NAME)
    if (declared !== undefined) await dropFilledTable(openTables(transaction, ref), declared)
    else if (!isInMongo(locked)) await deleteUndeclared(locked)
    await announce(transaction, ref, { verb: 'dropped', name })
    if (isInMongo(locked)) await deleteInMongo(locked)
    return { name, dropped: true as const }
  })
}

/** Deletes all documents. A collection without a declaration is gone then. */
export function truncateCollection(scope: AdminScope, target: Target) {
  const { ref, name } = target
  return changeWhole(scope, target, [name], async (locked) => {
    const { transaction, declared } = locked
    await refuseUsed(transaction, ref, name, declared === undefined ? UNDER_WAY : ['reference', ...UNDER_WAY])
    if (declared !== undefined) {
      const [tables, next] = [openTables(transaction, ref), nextOf(declared)]
      await emptyTable(tables, declared, next.relation)
      await tables.batch(sql`
        update schemas set revision = ${next.revision}, updated_at = now() where id = ${declared.id}`)
    } else if (!isInMongo(locked)) await deleteUndeclared(locked)
    await announce(transaction, ref, { verb: 'truncated', name })
    if (isInMongo(locked)) await deleteInMongo(locked)
    return { name, truncated: true as const }
  })
}

/** Gives the collection another name. References and lookups of declarations follow. */
export function renameCollection(scope: AdminScope, target: Target, to: string) {
  const { ref, name } = target
  return changeWhole(scope, target, [name, to], async (locked) => {
    const { transaction, declared } = locked
    await refuseUsed(transaction, ref, name, ['function', 'flow', 'mcp_server', ...UNDER_WAY])
    await refuseInMongo(locked)
    await refuseTaken(locked, to)
    if (declared === undefined) await renameUndeclared(locked, to)
    else await renameDeclared(locked, declared, to)
    await announce(transaction, ref, { verb: 'renamed', name: to, before: name })
    return { name: to, renamed_from: name }
  })
}

const UNDER_WAY = ['bulk_change', 'index_build'] as const
const USED_BY_NAME = ['reference', 'lookup', 'function', 'flow', 'mcp_server', ...UNDER_WAY] as const

/**
 * Changes a whole collection, once for all repetitions of its request. The transaction locks out the writers of the collection.
 * @param names of the collections that the change is about
 * @throws Problem `not_found`; `overloaded` if others use it for long
 */
async function changeWhole<T>(
  scope: AdminScope,
  target: Target,
  names: readonly string[],
  change: (locked: Locked) => Promise<T>,
): Promise<T> {
  const { ref, name } = target
  const affected = new Set(names)
  const attempt = async (transaction: AdminScope) => {
    const declared = await lock(transaction, target, names)
    for (const one of declared?.relations ?? []) affected.add(one.collection)
    for (const one of await referringTo(transaction, target)) affected.add(one.collection)
    return change({ ...target, transaction, declared })
  }
  const made = await retryContended(`Others use the collection ${name} at the same time.`, () =>
    effectOnce(scope, attempt).catch(undefinedOnDeadlock),
  )
  // All processes read anew the declarations that have or had the name in them.
  for (const one of affected)
    for (const key of [cacheKey(one), referringKey(one)]) invalidate(scope, ref, key)
  return made
}

/** Excludes all who write or declare the collections, and locks row and table of the declaration. */
async function lock(
  transaction: AdminScope,
  { ref, name }: Target,
  names: readonly string[],
): Promise<DeclaredRow | undefined> {
  const { tenantId: tenant_id, workspaceId: workspace_id } = ref
  const tables = openTables(transaction, ref)
  const locks = [...names].sort().map((collection) => lockCollection({ tenant_id, workspace_id, collection }))
  await tables.batch(...locks)
  const row = await transaction.row<DeclaredRow>(sql`
    select ${DECLARED_ROW} from schemas
    where workspace_id = ${workspace_id} and collection = ${name} for update`)
  if (row !== undefined) await tables.batch(lockTable(row))
  return row
}

const lockTable = (row: Pick<DeclaredRow, 'relation'>): Sql =>
  sql`lock table ${tableName(row)} in access exclusive mode`

/** Documents that PostgreSQL stored before MongoDB was configured are not shown, and stay. */
const isInMongo = ({ transaction, declared }: Locked): boolean =>
  hasDocumentStore(transaction) && declared?.store !== 'relational'

/** The name is part of the identity of a document there. @throws Problem `not_supported` if there are any */
async function refuseInMongo(locked: Locked): Promise<void> {
  if (!isInMongo(locked)) return
  const { transaction, ref, name, declared } = locked
  if (await hasDocuments(transaction, ref, name))
    throw new Problem('not_supported', {
      detail: `Documents of ${name} are in MongoDB, which does not rename a collection that has documents.`,
      hint: 'Export them, and import them under the new name.',
    })
  if (declared === undefined) throw notFound('collection')
}

/**
 * Deletes the documents in MongoDB. No transaction takes that back, so it comes last; sent again, the request deletes the rest.
 * @throws Problem `not_found` if there are none and the collection is not declared; `state_conflict` if they are too many
 */
async function deleteInMongo({ transaction, ref, name, declared }: Locked): Promise<void> {
  const documents = documentsOf(openDocuments(transaction, ref))
  const max = COLLECTION_LIMITS.wholeDocumentsMax
  if ((await documents?.findNth(name, '', max + 1)) !== undefined)
    throw tooMany(name, `has more than ${max} documents in MongoDB`)
  const deleted = (await documents?.deleteCollection(name)) ?? 0
  if (deleted === 0 && declared === undefined) throw notFound('collection')
}

const tooMany = (name: string, what: string) =>
  new Problem('state_conflict', {
    detail: `The collection ${name} ${what}.`,
    hint: 'Delete documents with `delete-many` until there are fewer.',
  })

/** The declarations whose references or lookups name the collection, itself among them. */
const referringTo = (transaction: AdminScope, { ref, name }: Target): Promise<DeclaredRow[]> =>
  transaction.rows<DeclaredRow>(sql`
    select ${DECLARED_ROW} from schemas
    where workspace_id = ${ref.workspaceId} and (relations @> ${JSON.stringify([{ collection: name }])}::jsonb
      or exists (select from jsonb_each(access -> 'lookups') l where l.value ->> 'collection' = ${name}))
    order by id for update`)

/** Deletes the documents of a collection that is not declared. @throws Problem `not_found`; `state_conflict` if they are too many */
async function deleteUndeclared(locked: Locked): Promise<void> {
  const documents = await requireFew(locked)
  await documents.batch(sql`delete from documents where collection = ${locked.name}`)
}

async function renameUndeclared(locked: Locked, to: string): Promise<void> {
  const documents = await requireFew(locked)
  await documents.batch(sql`update documents set collection = ${to} where collection = ${locked.name}`)
}

async function requireFew({ transaction, ref, name }: Locked) {
  const documents = openDocuments(transaction, ref)
  const max = COLLECTION_LIMITS.wholeDocumentsMax
  const row = await documents.row<{ n: number }>(sql`
    select count(*)::integer as n from (select from documents where collection = ${name} limit ${max + 1}) found`)
  const n = row?.n ?? 0
  if (n === 0) throw notFound('collection')
  if (n > max) throw tooMany(name, `is not declared, and has more than ${max} documents`)
  return documents
}

/** @throws Problem `conflict` if the new name is that of another collection */
async function refuseTaken({ transaction, ref }: Locked, to: string): Promise<void> {
  const taken =
    (await transaction.row(
      sql`select from schemas where workspace_id = ${ref.workspaceId} and collection = ${to}`,
    )) ??
    (await openDocuments(transaction, ref).row(sql`select from documents where collection = ${to} limit 1`))
  if (taken !== undefined || (await hasDocuments(transaction, ref, to)))
    throw new Problem('conflict', { detail: `The collection ${to} exists already.` })
}

/** Renames the row and whatever names it in other declarations. Each of their tables gets a new name, so that no process goes on with an old declaration. */
async function renameDeclared(locked: Locked, declared: DeclaredRow, to: string): Promise<void> {
  const { transaction, ref, name } = locked
  const tables = openTables(transaction, ref)
  const others = (await referringTo(transaction, locked)).filter(({ id }) => id !== declared.id)
  for (const row of [declared, ...others]) {
    const { relation, revision } = nextOf(row)
    const renamed = renamedIn(row, name, to)
    const { collection, relations, access } = renamed
    if (row !== declared) await tables.batch(lockTable(row))
    await tables.batch(
      ...(row === declared
        ? replacePolicies(row, { ref, conditions: rowConditions(toDeclaration(renamed)) })
        : []),
      renameTable(row, relation),
      sql`update schemas set collection = ${collection}, relations = ${JSON.stringify(relations)}::jsonb,
        access = ${JSON.stringify(access)}::jsonb, revision = ${revision}, updated_at = now() where id = ${row.id}`,
    )
  }
}

/** Revision and table of a declaration after a change. */
function nextOf({ id, revision }: Pick<DeclaredRow, 'id' | 'revision'>) {
  return { revision: revision + 1, relation: `${id}_${revision + 1}` }
}

/** A declaration with the new name of a collection in the place of the former one. */
function renamedIn<R extends Pick<DeclarationRow, 'collection' | 'relations' | 'access'>>(
  row: R,
  from: string,
  to: string,
): R {
  const renamed = <T extends { readonly collection: string }>(one: T): T =>
    one.collection === from ? { ...one, collection: to } : one
  const { lookups, ...access } = row.access
  const relations: Reference[] = row.relations.map(renamed)
  const changed: Access =
    lookups === undefined
      ? access
      : {
          ...access,
          lookups: Object.fromEntries(Object.entries(lookups).map(([name, one]) => [name, renamed(one)])),
        }
  return { ...renamed(row), relations, access: changed }
}
