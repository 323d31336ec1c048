/** Builds indexes of a collection with documents: a job, and a durable workflow with a step for each index. */

import type { AdminScope, WorkspaceScope } from '../../../access/scope.ts'
import { tenantWorkflowsOf } from '../../../access/scope-services.ts'
import { notFound, Problem } from '../../../core/problem.ts'
import type { WorkspaceRef } from '../../../core/tenant.ts'
import { type IndexBuildInput, QUEUES, type WorkFailure } from '../../../core/work.ts'
import type { Builder } from '../../../infra/postgres/index-builder.ts'
import { commas, sql } from '../../../infra/postgres/sql.ts'
import { JOB_COLUMNS, type Job } from '../../tenants/jobs.ts'
import { createIndexOnline, keyColumns, tableName } from '../postgres/collection-table.ts'
import { conditionOf } from '../postgres/table-constraints.ts'
import { COLUMNS, type Index, type Schema } from './api-types.ts'
import { DECLARATION, type Declaration, type DeclarationRow, toDeclaration } from './declaration-cache.ts'

/** A job that is yet to be started. */
export interface IndexBuild {
  readonly input: IndexBuildInput
  readonly uuid: string
}

export const buildingOf = <I extends Pick<Index, 'state'>>({ indexes }: { readonly indexes: readonly I[] }) =>
  indexes.filter(({ state }) => state === 'building')

/** Records the job in the transaction of the change that needs it. */
export async function recordBuilding(
  scope: AdminScope,
  ref: WorkspaceRef,
  schema: Schema,
): Promise<IndexBuild> {
  const { tenantId, workspaceId } = ref
  const uuid = scope.uuid()
  const indexes = buildingOf(schema).map(({ name }) => name)
  const input = { operation_id: scope.newId('op'), schema_id: schema.id, target: ref, indexes }
  await scope.batch(sql`
    insert into operations (id, tenant_id, workspace_id, type, target, workflow_id, state)
    values (${input.operation_id}, ${tenantId}, ${workspaceId}, 'index.build', ${schema.id},
      ${`${tenantId}:${workspaceId}:${schema.id}:${uuid}`}, 'queued')`)
  return { input, uuid }
}

/** Starts the workflow, once, and waits for its end at most `waitS` seconds. */
export async function startBuilding(
  scope: AdminScope,
  { input, uuid }: IndexBuild,
  waitS: number,
): Promise<void> {
  const work = tenantWorkflowsOf(scope, input.target)
  const workflow = await work.start({
    ...{ definition: 'indexBuild', queue: QUEUES.provisioning, subject: input.schema_id, uuid, input },
    summary: `Build ${input.indexes.join(', ')} of ${input.schema_id}`,
  })
  if (waitS > 0) await work.ended(workflow, waitS * 1_000)
}

/** Starts the recorded job again, in case a process died between recording and starting it. @returns its id */
export async function resumeBuilding(
  scope: AdminScope,
  ref: WorkspaceRef,
  schemaId: string,
  indexes: readonly string[],
): Promise<string | undefined> {
  const row = await scope.row<{ id: string; workflow_id: string }>(sql`
    select id, workflow_id from operations
    where target = ${schemaId} and type = 'index.build' and state in ('queued', 'running') order by id desc limit 1`)
  if (row === undefined) return undefined
  const uuid = row.workflow_id.split(':').at(-1) ?? ''
  const input = { operation_id: row.id, schema_id: schemaId, target: ref, indexes }
  await startBuilding(scope, { input, uuid }, 0)
  return row.id
}

/** Starts a recorded job whose process died before. @throws Problem `not_found` if nothing is to be built any more */
export async function startRecordedBuilding(
  scope: AdminScope,
  {
    operationId,
    schemaId,
    uuid,
  }: { readonly operationId: string; readonly schemaId: string; readonly uuid: string },
): Promise<void> {
  const row = await scope.row<WorkspaceRef & Pick<Schema, 'indexes'>>(sql`
    select tenant_id as "tenantId", workspace_id as "workspaceId", indexes from schemas where id = ${schemaId}`)
  const indexes = row === undefined ? [] : buildingOf(row).map(({ name }) => name)
  if (row === undefined || indexes.length === 0) throw notFound('index')
  const target = { tenantId: row.tenantId, workspaceId: row.workspaceId }
  await startBuilding(
    scope,
    { input: { operation_id: operationId, schema_id: schemaId, target, indexes }, uuid },
    0,
  )
}

/** The job until it has succeeded, then the declaration. */
export async function readOutcome(scope: AdminScope, { input }: IndexBuild): Promise<Job | Schema> {
  const [[operation] = [], [schema] = []] = await scope.batch(
    sql`select ${JOB_COLUMNS} from operations where id = ${input.operation_id}`,
    sql`select ${COLUMNS} from schemas where id = ${input.schema_id}`,
  )
  if (operation === undefined || schema === undefined) throw notFound('schema')
  return operation['state'] === 'succeeded' ? (schema as unknown as Schema) : (operation as unknown as Job)
}

export interface IndexBuildContext {
  readonly admin: AdminScope
  /** The same workspace with the rights of a service key, which reads the conflicting documents. */
  readonly workspace: WorkspaceScope
  readonly builder: Builder | undefined
}

/**
 * Builds one index and records it; idempotent.
 * @throws Problem `unique_violation` with some documents of equal values; `not_found` if the index is not declared any more; as
 *   {@link Builder.build} does
 */
export async function buildIndex(
  { admin, workspace, builder }: IndexBuildContext,
  input: IndexBuildInput,
  name: string,
): Promise<void> {
  await recordStep(admin, input, name, { state: 'running' })
  if (builder === undefined) throw withoutBuilder()
  const found = await findIndex(admin, input.schema_id, name)
  if (found === undefined) throw new Problem('not_found', { detail: 'This index is no longer declared.' })
  const statement = createIndexOnline(found.declared, found.index)
  const built = await builder.build(workspace.ref, { schemaId: input.schema_id, name }, statement)
  if (!built) throw await duplicates(workspace, input.schema_id, name)
  await recordStep(admin, input, name, { state: 'succeeded' })
}

/** Records that an index could not be built, and removes its remains. */
export async function indexFailed(
  { admin, workspace, builder }: IndexBuildContext,
  input: IndexBuildInput,
  name: string,
  failure: WorkFailure,
): Promise<void> {
  await builder?.clear(workspace.ref, { schemaId: input.schema_id, name })
  await recordStep(admin, input, name, { state: 'failed', failure })
}

/** Records step and index together. The last step ends the job, which has failed if any step has. */
async function recordStep(
  scope: AdminScope,
  input: IndexBuildInput,
  name: string,
  { state, failure }: { state: 'running' | 'succeeded' | 'failed'; failure?: WorkFailure },
): Promise<void> {
  const last = state !== 'running' && name === input.indexes.at(-1)
  const step = JSON.stringify([{ name, state, ...(failure && { detail: failure.detail }) }])
  const error = failure === undefined ? null : JSON.stringify(failure)
  const index = JSON.stringify(
    failure === undefined ? { state: 'ready' } : { state: 'failed', reason: failure.detail },
  )
  await scope.batch(
    sql`update operations set
        state = case when not ${last}::boolean then 'running'
          when ${error}::text is not null or error is not null then 'failed' else 'succeeded' end,
        error = coalesce(${error}::jsonb, error),
        finished_at = case when ${last}::boolean then now() end,
        steps = coalesce((select jsonb_agg(s) from jsonb_array_elements(steps) s where s->>'name' <> ${name}), '[]')
          || ${step}::jsonb
      where id = ${input.operation_id} and state in ('queued', 'running')`,
    sql`update schemas set indexes = (
        select jsonb_agg(case when i->>'name' = ${name} then i || ${index}::jsonb else i end order by n)
        from jsonb_array_elements(indexes) with ordinality as e (i, n))
      where id = ${input.schema_id} and ${state !== 'running'}::boolean
        and indexes @> jsonb_build_array(jsonb_build_object('name', ${name}::text))`,
  )
}

const withoutBuilder = () =>
  new Problem('not_supported', {
    detail:
      'This installation builds no indexes of collections with documents: its worker has no DATABASE_BUILDER_URL.',
  })

async function findIndex(
  scope: Pick<AdminScope, 'row'>,
  schemaId: string,
  name: string,
): Promise<{ readonly index: Index; readonly declared: Declaration } | undefined> {
  const row = await scope.row<DeclarationRow>(sql`select ${DECLARATION} from schemas where id = ${schemaId}`)
  const index = row?.indexes.find((one) => one.name === name)
  return row === undefined || index === undefined ? undefined : { index, declared: toDeclaration(row) }
}

/** Finds some documents with equal values in the fields of a unique index, in groups. */
async function duplicates(scope: WorkspaceScope, schemaId: string, name: string): Promise<Problem> {
  const found = await findIndex(scope, schemaId, name)
  if (found === undefined) return notFound('index')
  const { index, declared } = found
  const columns = keyColumns(index)
  const condition = index.where === undefined ? sql`true` : conditionOf(index.where, declared)
  const isCompared = columns.reduce((all, column) => sql`${all} and ${column} is not null`, condition)
  const groups = await scope.rows<{ ids: string[] }>(sql`
    select (array_agg(id::text order by id))[1:5] as ids from ${tableName(declared)}
    where ${isCompared} group by ${commas(columns)} having count(*) > 1 order by min(id::text) limit 5`)
  const fields = index.fields.join(', ')
  return new Problem('unique_violation', {
    detail:
      `Documents have the same ${fields}: ${groups.map(({ ids }) => ids.join(' and ')).join('; ')}.`.slice(
        0,
        1_000,
      ),
    members: { fields: index.fields, duplicates: groups.map(({ ids }) => ids) },
  })
}
