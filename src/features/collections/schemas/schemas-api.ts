/** Operations on schemas: collections declared with a store, a JSON Schema and what anon keys may do. */

import Type from 'typebox'
import { adminOperation, Deleted, Input, Ref, Wait } from '../../../access/operation-builders.ts'
import type { AdminScope } from '../../../access/scope.ts'
import { PageInput, PageOf } from '../../../core/page.ts'
import { ADMINS, DEVELOPERS, VIEWERS } from '../../../core/policy.ts'
import { Problem } from '../../../core/problem.ts'
import { undefinedOnDeadlock } from '../../../infra/postgres/errors.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { retryContended } from '../../../infra/retry.ts'
import { findRow, listPage } from '../../operation-helpers.ts'
import { Job } from '../../tenants/jobs.ts'
import { CollectionName } from '../document.ts'
import { hasDocuments } from '../mongo/documents.ts'
import { Changeable, COLUMNS, FieldChanges, JsonSchema, refOf, Schema, Store } from './api-types.ts'
import { type Changed, changeSchema, forget, withWarnings } from './change-schema.ts'
import { declareOrAdopt, NEW_DECLARATION } from './declare-collection.ts'
import { dropDeclaredTable } from './declared-tables.ts'
import { readOutcome, startBuilding } from './index-build.ts'

export const createSchema = adminOperation({
  name: 'schema.create',
  summary: 'Declare a collection, which may have documents',
  roles: DEVELOPERS,
  input: Input({ ...NEW_DECLARATION, wait: Wait }),
  output: Type.Union([Schema, Job]),
  http: {
    method: 'POST',
    path: '/v1/schemas',
    body: '*',
    headers: { wait: 'prefer' },
    status: (output) => ('type' in output ? 202 : 201),
    also: [202],
    location: (output) => ('type' in output ? `/v1/operations/${output.id}` : `/v1/schemas/${output.id}`),
  },
  run: async (scope, { wait = 0, ...input }) => {
    return build(scope, await declareOrAdopt(scope, input), wait)
  },
})

/** Builds the indexes of a declaration, if documents have to be read for them. @returns the job, or the declaration with its warnings once it has succeeded */
async function build(scope: AdminScope, { schema, building }: Changed, waitS: number): Promise<Job | Schema> {
  if (building === undefined) return schema
  await startBuilding(scope, building, waitS)
  const outcome = await readOutcome(scope, building)
  return 'type' in outcome ? outcome : withWarnings(outcome, { warnings: schema.warnings ?? [] })
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
  output: Deleted,
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
    ...FieldChanges,
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
    return build(scope, await changeSchema(scope, id, change), wait)
  },
})
