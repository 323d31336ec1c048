/** Declares collections: the row of a declaration and its table; of one that has documents, they move into the table first. */

import Type, { type Static } from 'typebox'
import { effectOnce } from '../../../access/effect-once.ts'
import { Ref } from '../../../access/operation-builders.ts'
import type { AdminScope } from '../../../access/scope.ts'
import { hasDocumentStore } from '../../../access/scope-services.ts'
import { Problem } from '../../../core/problem.ts'
import type { WorkspaceRef } from '../../../core/tenant.ts'
import { undefinedOnDeadlock, violated } from '../../../infra/postgres/errors.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import { retryContended } from '../../../infra/retry.ts'
import { ACTIVE, findInactiveReason } from '../../tenants/active.ts'
import { CollectionName } from '../document.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { hasDocuments } from '../mongo/documents.ts'
import { referencesOf } from '../references/reference.ts'
import { requireRightToWiden } from '../rules/access.ts'
import { Changeable, COLUMNS, JsonSchema, type Schema, Store } from './api-types.ts'
import { buildDeclaration, type DeclarationRequest } from './build-declaration.ts'
import { type Changed, changeSchema, forget, withWarnings } from './change-schema.ts'
import { countUndeclared, createDeclaredTable, releaseDocuments } from './declared-tables.ts'
import { ExistingDocumentsScan, validateExisting } from './existing-documents.ts'

/** The fields of a new declaration. */
export const NEW_DECLARATION = {
  workspace_id: Ref('workspace'),
  collection: CollectionName,
  store: Store,
  schema: JsonSchema,
  ...Changeable,
}
const NewDeclaration = Type.Object(NEW_DECLARATION)
export type NewDeclaration = Static<typeof NewDeclaration>

/** With the defaults of absent members. */
export const requestOf = (scope: AdminScope, input: NewDeclaration): DeclarationRequest => {
  const {
    mode = 'enforce',
    access = {},
    indexes = [],
    unique = [],
    trigram = [],
    search = null,
    arrays = [],
    geo = null,
    checks = [],
    exclude = [],
    ttl = null,
  } = input
  const inMongo = hasDocumentStore(scope) && input.store === 'document'
  return {
    ...{
      store: input.store,
      schema: input.schema,
      mode,
      access,
      indexes,
      unique,
      trigram,
      search,
      arrays,
      geo,
      checks,
      exclude,
      ttl,
    },
    ...{
      references: referencesOf(input.references ?? [], inMongo),
      hasDocumentStore: hasDocumentStore(scope),
    },
    ...{ workspaceId: input.workspace_id, collection: input.collection },
  }
}

/**
 * Declares a collection that may have documents. Those in MongoDB stay there. Those in PostgreSQL move into a table under a declaration without a
 * schema, in one transaction, for which their writers wait; then it is changed to the wanted one, beside readers and writers. If that
 * is refused, they move back.
 * @throws Problem `schema_incompatible` with documents that do not fit; `state_conflict` if there are too many
 */
export async function declareOrAdopt(
  scope: AdminScope,
  input: NewDeclaration,
  { isPart = false }: Pick<Declaring, 'isPart'> = {},
): Promise<Changed> {
  const id = scope.newId('sch')
  requireRightToWiden(scope, undefined, input.access ?? {})
  const ref = await findWorkspace(scope, input)
  // An earlier attempt of the request may have moved them.
  const isMoved = (await scope.row(sql`select from schemas where id = ${id}`)) !== undefined
  if (!isMoved && (ref === undefined || !(await hasUndeclared(scope, ref, input.collection)))) {
    if (ref !== undefined) await validateInMongo(scope, ref, input)
    return { schema: await declareContended(scope, input, { id, isPart }) }
  }
  if (!isMoved && ref !== undefined) await adopt(scope, ref, input, id)
  const { workspace_id, ...declaration } = input
  try {
    return await changeSchema(scope, id, { mode: 'enforce', ...declaration })
  } catch (error) {
    await moveBack(scope, ref, id).catch((cause: unknown) =>
      scope.logError(cause, 'documents of a refused declaration not moved back'),
    )
    throw error
  }
}

/**
 * True if the collection has documents in PostgreSQL, and is to have some there: what was stored before MongoDB was configured stays.
 * @throws Problem `state_conflict` if they are too many to be moved
 */
async function hasUndeclared(scope: AdminScope, ref: WorkspaceRef, collection: string): Promise<boolean> {
  if (hasDocumentStore(scope)) return false
  const max = COLLECTION_LIMITS.adoptedDocumentsMax
  const count = await countUndeclared(scope, ref, { collection, max })
  if (count > max) throw tooManyDocuments(collection)
  return count > 0
}

/**
 * Validates documents in MongoDB, which stay where they are: filters and rules find what they need in each. Nothing there stops those who
 * write meanwhile, as when a schema is changed.
 * @throws Problem `schema_incompatible` with documents that do not fit
 */
async function validateInMongo(scope: AdminScope, ref: WorkspaceRef, input: NewDeclaration): Promise<void> {
  if (input.store !== 'document' || !(await hasDocuments(scope, ref, input.collection))) return
  const request = requestOf(scope, input)
  const { prepared } = await buildDeclaration(scope, request)
  if (request.mode !== 'enforce') return
  await validateExisting(scope, ref, new ExistingDocumentsScan({ undeclared: input.collection }, prepared))
}

/** Moves the documents into the table of a declaration without a schema, if they fit the wanted one. */
async function adopt(
  scope: AdminScope,
  ref: WorkspaceRef,
  { workspace_id, collection, store, ...wanted }: NewDeclaration,
  id: string,
): Promise<void> {
  const request = requestOf(scope, { workspace_id, collection, store, ...wanted })
  const { prepared } = await buildDeclaration(scope, request)
  const scan = new ExistingDocumentsScan({ undeclared: collection }, prepared)
  if (request.mode === 'enforce') await validateExisting(scope, ref, scan)
  const bare = { workspace_id, collection, store, schema: {}, mode: 'off' } as const
  await declareContended(scope, bare, { id, adopts: true })
}

/** Documents of the collection may be written, and quotas be set, meanwhile: PostgreSQL ends one of two that wait for each other. */
const declareContended = (scope: AdminScope, input: NewDeclaration, how: Declaring) =>
  retryContended('Others use the collection at the same time.', () =>
    declareCollection(scope, input, how).catch(undefinedOnDeadlock),
  )

async function moveBack(scope: AdminScope, ref: WorkspaceRef | undefined, id: string): Promise<void> {
  const row = await scope.row<{ collection: string } & WorkspaceRef>(sql`
    select collection, tenant_id as "tenantId", workspace_id as "workspaceId" from schemas where id = ${id}`)
  if (row === undefined || ref === undefined) return
  await scope.transaction((inside) => releaseDocuments(inside, id), ref.tenantId)
  forget(scope, { tenant_id: row.tenantId, workspace_id: row.workspaceId, collection: row.collection }, [])
}

const tooManyDocuments = (collection: string) =>
  new Problem('state_conflict', {
    detail: `The collection ${collection} has more than ${COLLECTION_LIMITS.adoptedDocumentsMax} documents that were written before it was declared.`,
    hint: 'Declare another name, and move the documents by an export and an import.',
  })

interface Declaring {
  /** A condition on the workspace. Default: it is active. */
  readonly where?: Sql
  /** Default: a new one. */
  readonly id?: string
  /** True while an archive is imported: what its references lead to comes later, and then their foreign keys and checks (`addLateConstraints`). */
  readonly isRestored?: boolean
  /** True if the documents that the collection has move into the table. */
  readonly adopts?: boolean
  /** True if the request does more than this, so that its output is another one. */
  readonly isPart?: boolean
}

/** Creates a declaration with its table. @throws Problem as `schema.create` does; `conflict` if the id is taken */
export async function declareCollection(
  scope: AdminScope,
  input: NewDeclaration,
  {
    where = ACTIVE,
    id = scope.newId('sch'),
    isRestored = false,
    adopts = false,
    isPart = adopts,
  }: Declaring = {},
): Promise<Schema> {
  const request = { ...requestOf(scope, input), isRestored }
  const { mode, access, references, checks, ttl } = request
  requireRightToWiden(scope, undefined, access)
  const built = await buildDeclaration(scope, request)
  const { schema, columns, indexes, exclusions } = built
  const ref = await findWorkspace(scope, input)
  const insert = sql`
    insert into schemas (id, tenant_id, workspace_id, collection, store, schema, mode, columns, access, indexes, relations, checks,
      exclusions, ttl, expiry_due_at)
    select ${id}, w.tenant_id, w.id, ${input.collection}, ${input.store},
      ${JSON.stringify(schema)}::jsonb, ${mode}, ${JSON.stringify(columns)}::jsonb,
      ${JSON.stringify(access)}::jsonb, ${JSON.stringify(indexes)}::jsonb, ${JSON.stringify(references)}::jsonb,
      ${JSON.stringify(checks)}::jsonb, ${JSON.stringify(exclusions)}::jsonb,
      ${ttl && JSON.stringify(ttl)}::jsonb, case when ${ttl !== null}::boolean then now() end
    from workspaces w where w.id = ${input.workspace_id} and ${where}
      and (select count(*) from schemas s where s.workspace_id = w.id) < ${COLLECTION_LIMITS.schemasMax}
    returning ${COLUMNS}`
  const create = async (inside: AdminScope) => {
    const row = await inside.row<Schema>(insert).catch((error: unknown) => {
      throw creationProblem(error, input.collection)
    })
    if (row === undefined) throw await notCreated(inside, input.workspace_id)
    if (!(await createDeclaredTable(inside, row, built, { isRestored, adopts })))
      throw occupied(input.collection)
    return withWarnings(row, built)
  }
  // The claim of a part ends later, that of the whole.
  const created = await (isPart ? scope.transaction(create, ref?.tenantId) : effectOnce(scope, create))
  forget(scope, created, references)
  return created
}

function creationProblem(error: unknown, collection: string): unknown {
  const constraint = violated(error)
  if (constraint === undefined) return error
  if (constraint === 'schemas_pkey') return new Problem('conflict', { detail: 'The id is taken.' })
  return new Problem('conflict', { detail: `The collection ${collection} is declared already.` })
}

const occupied = (collection: string, hint = 'Send the request again.') =>
  new Problem('state_conflict', {
    detail: `The collection ${collection} has documents that were written before it was declared.`,
    hint,
  })

/**
 * @returns the workspace of the declaration; undefined if the admin reaches none of that id
 * @throws Problem `state_conflict` if it has documents in MongoDB, and is to have others in PostgreSQL
 */
async function findWorkspace(
  scope: AdminScope,
  { workspace_id, collection, store }: Pick<NewDeclaration, 'workspace_id' | 'collection' | 'store'>,
): Promise<WorkspaceRef | undefined> {
  const row = await scope.row<WorkspaceRef>(sql`
    select tenant_id as "tenantId", id as "workspaceId" from workspaces where id = ${workspace_id}`)
  if (row !== undefined && store === 'relational' && (await hasDocuments(scope, row, collection)))
    throw occupied(
      collection,
      'Declare it with "store": "document": documents in MongoDB stay where they are. Or declare another name, or delete them first.',
    )
  return row
}

async function notCreated(scope: AdminScope, workspaceId: string): Promise<Problem> {
  const inactive = await findInactiveReason(scope, workspaceId)
  if (inactive !== undefined) return inactive
  const limit = COLLECTION_LIMITS.schemasMax
  const detail = `The workspace has ${limit} declared collections, which is the maximum.`
  return new Problem('quota_exceeded', { detail, members: { quota: 'schemas', limit, used: limit } })
}
