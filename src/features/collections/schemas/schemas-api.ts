/** Operations on schemas: collections declared with a store, a JSON Schema and what anon keys may do. */

import Type, { type Static } from 'typebox'
import { effectOnce } from '../../../access/effect-once.ts'
import { adminOperation, Input, Ref, Wait } from '../../../access/operation-builders.ts'
import type { AdminScope } from '../../../access/scope.ts'
import { hasDocumentStore } from '../../../access/scope-services.ts'
import { PageInput, PageOf } from '../../../core/page.ts'
import { ADMINS, DEVELOPERS, VIEWERS } from '../../../core/policy.ts'
import { Problem } from '../../../core/problem.ts'
import type { WorkspaceRef } from '../../../core/tenant.ts'
import { undefinedOnDeadlock, violated } from '../../../infra/postgres/errors.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import { retryContended } from '../../../infra/retry.ts'
import { findRow, listPage } from '../../operation-helpers.ts'
import { ACTIVE, findInactiveReason } from '../../tenants/active.ts'
import { Job } from '../../tenants/jobs.ts'
import { CollectionName } from '../document.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import { hasDocuments } from '../mongo/documents.ts'
import { referencesOf } from '../references/reference.ts'
import { requireRightToWiden } from '../rules/access.ts'
import { Changeable, COLUMNS, JsonSchema, refOf, Schema, Store } from './api-types.ts'
import { buildDeclaration } from './build-declaration.ts'
import { changeSchema, forget, withWarnings } from './change-schema.ts'
import { createDeclaredTable, dropDeclaredTable } from './declared-tables.ts'
import { readOutcome, startBuilding } from './index-build.ts'

const NewDeclaration = Input({
  workspace_id: Ref('workspace'),
  collection: CollectionName,
  store: Store,
  schema: JsonSchema,
  ...Changeable,
})

export const createSchema = adminOperation({
  name: 'schema.create',
  summary: 'Declare a collection',
  roles: DEVELOPERS,
  input: NewDeclaration,
  output: Schema,
  http: {
    method: 'POST',
    path: '/v1/schemas',
    body: '*',
    status: () => 201,
    location: ({ id }) => `/v1/schemas/${id}`,
  },
  run: (scope, input) => declareCollection(scope, input),
})

interface Declaring {
  /** A condition on the workspace. Default: it is active. */
  readonly where?: Sql
  /** Default: a new one. */
  readonly id?: string
  /** True while an archive is imported: what its references lead to comes later, and then their foreign keys and checks (`addLateConstraints`). */
  readonly isRestored?: boolean
}

/** Creates a declaration with its table. @throws Problem as `schema.create` does; `conflict` if the id is taken */
export async function declareCollection(
  scope: AdminScope,
  input: Static<typeof NewDeclaration>,
  { where = ACTIVE, id = scope.newId('sch'), isRestored = false }: Declaring = {},
): Promise<Schema> {
  const { mode = 'enforce', access = {}, indexes: requested = [], unique = [] } = input
  const { checks = [], exclude = [] } = input
  const references = referencesOf(input.references ?? [])
  requireRightToWiden(scope, undefined, access)
  const built = await buildDeclaration(scope, {
    ...{ store: input.store, schema: input.schema, mode, access },
    ...{ indexes: requested, unique, references, checks, exclude, hasDocumentStore: hasDocumentStore(scope) },
    ...{ workspaceId: input.workspace_id, collection: input.collection, isRestored },
  })
  const { schema, columns, indexes, exclusions } = built
  await checkUnoccupied(scope, input)
  const insert = sql`
    insert into schemas (id, tenant_id, workspace_id, collection, store, schema, mode, columns, access, indexes, relations, checks,
      exclusions)
    select ${id}, w.tenant_id, w.id, ${input.collection}, ${input.store},
      ${JSON.stringify(schema)}::jsonb, ${mode}, ${JSON.stringify(columns)}::jsonb,
      ${JSON.stringify(access)}::jsonb, ${JSON.stringify(indexes)}::jsonb, ${JSON.stringify(references)}::jsonb,
      ${JSON.stringify(checks)}::jsonb, ${JSON.stringify(exclusions)}::jsonb
    from workspaces w where w.id = ${input.workspace_id} and ${where}
      and (select count(*) from schemas s where s.workspace_id = w.id) < ${COLLECTION_LIMITS.schemasMax}
    returning ${COLUMNS}`
  const created = await effectOnce(scope, async (inside) => {
    const row = await inside.row<Schema>(insert).catch((error: unknown) => {
      throw creationProblem(error, input.collection)
    })
    if (row === undefined) throw await notCreated(inside, input.workspace_id)
    if (!(await createDeclaredTable(inside, row, built, isRestored))) throw occupied(input.collection)
    return withWarnings(row, built)
  })
  forget(scope, created, references)
  return created
}

function creationProblem(error: unknown, collection: string): unknown {
  const constraint = violated(error)
  if (constraint === undefined) return error
  if (constraint === 'schemas_pkey') return new Problem('conflict', { detail: 'The id is taken.' })
  return new Problem('conflict', { detail: `The collection ${collection} is declared already.` })
}

const occupied = (collection: string) =>
  new Problem('state_conflict', {
    detail: `The collection ${collection} has documents that were written before it was declared.`,
    hint: 'Declare another name, or delete the documents first.',
  })

/** Rejects a collection with documents in MongoDB; {@link createDeclaredTable} checks PostgreSQL alone. */
async function checkUnoccupied(
  scope: AdminScope,
  { workspace_id, collection }: { workspace_id: string; collection: string },
): Promise<void> {
  const row = await scope.row<WorkspaceRef>(sql`
    select tenant_id as "tenantId", id as "workspaceId" from workspaces where id = ${workspace_id}`)
  if (row !== undefined && (await hasDocuments(scope, row, collection))) throw occupied(collection)
}

async function notCreated(scope: AdminScope, workspaceId: string): Promise<Problem> {
  const inactive = await findInactiveReason(scope, workspaceId)
  if (inactive !== undefined) return inactive
  const limit = COLLECTION_LIMITS.schemasMax
  const detail = `The workspace has ${limit} declared collections, which is the maximum.`
  return new Problem('quota_exceeded', { detail, members: { quota: 'schemas', limit, used: limit } })
}

const findSchema = (scope: AdminScope, id: string) =>
  findRow<Schema>(scope, 'schema', sql`select ${COLUMNS} from schemas where id = ${id}`)

export const getSchema = adminOperation({
  name: 'schema.get',
  summary: 'Read the declaration of a collection',
  roles: VIEWERS,
  input: Input({ id: Ref('schema') }),
  output: Schema,
  http: { method: 'GET', path: '/v1/schemas/{id}' },
  run: (scope, { id }) => findSchema(scope, id),
})

export const listSchemas = adminOperation({
  name: 'schema.list',
  summary: 'List declared collections',
  roles: VIEWERS,
  input: Input({ ...PageInput, workspace_id: Type.Optional(Ref('workspace')) }),
  output: PageOf(Schema),
  http: { method: 'GET', path: '/v1/schemas' },
  run: (scope, { workspace_id = null, ...input }) =>
    listPage<Schema>(
      scope,
      input,
      sql`select ${COLUMNS} from schemas where ${workspace_id}::text is null or workspace_id = ${workspace_id}`,
    ),
})

export const deleteSchema = adminOperation({
  name: 'schema.delete',
  summary: 'Delete the declaration of an empty collection',
  roles: ADMINS,
  input: Input({ id: Ref('schema') }),
  output: Type.Object({ id: Type.String(), deleted: Type.Literal(true) }),
  http: { method: 'DELETE', path: '/v1/schemas/{id}' },
  run: async (scope, { id }) => {
    const schema = await findSchema(scope, id)
    if (await hasDocuments(scope, refOf(schema), schema.collection)) throw notEmpty()
    // The collections that it refers to are locked after it, which a batch may do in the other order.
    const isDropped = await retryContended('Others use the collection at the same time.', () =>
      scope
        .transaction((inside) => dropDeclaredTable(inside, id), schema.tenant_id)
        .catch(undefinedOnDeadlock),
    )
    if (!isDropped) throw notEmpty()
    forget(scope, schema, schema.references)
    return { id, deleted: true as const }
  },
})

const notEmpty = () =>
  new Problem('state_conflict', {
    detail: 'The collection has documents.',
    hint: 'Delete the documents first.',
  })

export const updateSchema = adminOperation({
  name: 'schema.update',
  summary: 'Update the declaration of a collection; absent members do not change',
  roles: DEVELOPERS,
  input: Input({
    id: Ref('schema'),
    collection: Type.Optional(CollectionName),
    store: Type.Optional(Store),
    workspace_id: Type.Optional(Ref('workspace')),
    schema: Type.Optional(JsonSchema),
    ...Changeable,
    revision: Type.Optional(
      Type.Integer({
        minimum: 0,
        description: 'Revision that the change is based on; any other current revision is a conflict.',
      }),
    ),
    wait: Wait,
  }),
  output: Type.Union([Schema, Job]),
  http: {
    method: 'PUT',
    path: '/v1/schemas/{id}',
    body: '*',
    headers: { wait: 'prefer' },
    status: (output) => ('type' in output ? 202 : 200),
    also: [202],
    location: (output) => ('type' in output ? `/v1/operations/${output.id}` : undefined),
  },
  run: async (scope, { id, wait = 0, ...change }) => {
    const { schema, building } = await changeSchema(scope, id, change)
    if (building === undefined) return schema
    await startBuilding(scope, building, wait)
    return readOutcome(scope, building)
  },
})
