/** Functions: their records, and the operations that read, configure and delete them. */

import Type, { type Static } from 'typebox'
import { adminOperation, Deleted, Id, Input, Ref, Time } from '../../access/operation-builders.ts'
import type { AdminScope, WorkspaceScope } from '../../access/scope.ts'
import { component, exampleOf } from '../../core/components/component.ts'
import { EXAMPLE_DIGEST, EXAMPLE_ID, EXAMPLE_TIME } from '../../core/components/examples.ts'
import { PageInput, PageOf } from '../../core/page.ts'
import { ADMINS, DEVELOPERS, VIEWERS } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import { violated } from '../../infra/postgres/errors.ts'
import { type Sql, sql } from '../../infra/postgres/sql.ts'
import { listPage } from '../operation-helpers.ts'
import {
  ConfigWarnings,
  checkConfig,
  missingSecrets,
  requireRightToOpen,
  requireShareOfCode,
} from './check-config.ts'
import { ConfigChange, DEFAULTS, FunctionConfig } from './config.ts'
import { type FunctionConstants, FunctionTool } from './exported-constants.ts'
import { FunctionRef, findFunction, findFunctionRow, functionMissing, functionNamed } from './function-ref.ts'
import { FUNCTION_LIMITS } from './limits.ts'
import { setSlotsAfterChange } from './runs/start-recorded.ts'
import type { Maps } from './source-map.ts'
import { removeTriggers, writeTriggers } from './triggers/write-triggers.ts'

export const FunctionRecord = component(
  'Function',
  Type.Object({
    id: Id('fn'),
    tenant_id: Id('ten'),
    workspace_id: Id('ws'),
    name: Type.String(),
    version: Type.Integer({ minimum: 1, description: 'Number of the active version.' }),
    sha256: Type.String({ description: 'SHA-256 of the source.' }),
    config: FunctionConfig,
    created_by: Type.String(),
    created_at: Time,
    updated_at: Time,
  }),
  {
    id: EXAMPLE_ID.function,
    tenant_id: EXAMPLE_ID.tenant,
    workspace_id: EXAMPLE_ID.workspace,
    name: 'price',
    version: 3,
    sha256: EXAMPLE_DIGEST,
    config: exampleOf(FunctionConfig),
    created_by: EXAMPLE_ID.account,
    created_at: EXAMPLE_TIME.created,
    updated_at: EXAMPLE_TIME.updated,
  },
)
export type FunctionRecord = Static<typeof FunctionRecord>

const Schema = Type.Record(Type.String(), Type.Unknown(), {
  description: 'JSON Schema 2020-12 that the module exports; absent if it exports none.',
})
/** The constants that a version exports. */
export const Constants = {
  tool: Type.Optional(FunctionTool),
  input_schema: Type.Optional(Schema),
  output_schema: Type.Optional(Schema),
}
export const FunctionDetails = component('FunctionDetails', Type.Interface([FunctionRecord], Constants), {
  ...exampleOf(FunctionRecord),
  input_schema: { type: 'object', properties: { hours: { type: 'number' } } },
  output_schema: { type: 'object', properties: { euros: { type: 'number' } } },
})

/** Members are null if the module does not export them. */
export type ConstantsRow = { readonly [Name in keyof typeof Constants]: FunctionConstants[Name] | null }
export type VersionRow = FunctionRecord & ConstantsRow

/** A row without the constants that are null. */
export const withConstants = <T extends ConstantsRow>({
  tool,
  input_schema,
  output_schema,
  ...record
}: T) => ({
  ...record,
  ...(tool && { tool }),
  ...(input_schema && { input_schema }),
  ...(output_schema && { output_schema }),
})

export const FUNCTION_COLUMNS = sql`f.id, f.tenant_id, f.workspace_id, f.name, f.active_version as version, v.sha256,
  ${JSON.stringify(DEFAULTS)}::jsonb || f.config as config, f.created_by, f.created_at, f.updated_at`
const JOIN_VERSION = sql`join function_versions v on v.tenant_id = f.tenant_id
  and v.workspace_id = f.workspace_id and v.function_id = f.id and v.version = f.active_version`
const VERSIONED = sql`functions f ${JOIN_VERSION}`

/**
 * The first statement of a transaction that names a version of the function: a deployment, which drops old versions, changes the
 * row of the function before. The next statement sees which versions it has left.
 * @param target a condition on the function `f`
 */
export const lockFunction = (target: Sql): Sql =>
  sql`select f.id from functions f where ${target} for no key update`

/** @throws Problem `not_found` */
export async function findFunctionId(scope: AdminScope, id: string): Promise<string> {
  return (await findFunction(scope, id)).id
}

export const getFunction = adminOperation({
  name: 'function.get',
  summary: 'Read a function and the source of its version',
  roles: VIEWERS,
  input: Input({ id: FunctionRef }),
  output: component('FunctionWithSource', Type.Interface([FunctionDetails], { source: Type.String() }), {
    ...exampleOf(FunctionDetails),
    source: 'export default ({ hours }) => ({ euros: hours * 20 })',
  }),
  http: { method: 'GET', path: '/v1/functions/{id}' },
  run: async (scope, { id }) => {
    const statement = sql`select ${FUNCTION_COLUMNS}, v.tool, v.input_schema, v.output_schema, v.source
      from ${VERSIONED} where ${functionNamed(id)}`
    return withConstants(await findFunctionRow<VersionRow & { source: string }>(scope, id, statement))
  },
})

export const listFunctions = adminOperation({
  name: 'function.list',
  summary: 'List functions',
  roles: VIEWERS,
  input: Input({ ...PageInput, workspace_id: Type.Optional(Ref('workspace')) }),
  output: PageOf(FunctionRecord),
  http: { method: 'GET', path: '/v1/functions' },
  run: (scope, { workspace_id = null, ...input }) =>
    listPage<FunctionRecord>(
      scope,
      input,
      sql`select ${FUNCTION_COLUMNS} from ${VERSIONED} where ${workspace_id}::text is null or f.workspace_id = ${workspace_id}`,
    ),
})

export const configureFunction = adminOperation({
  name: 'function.configure',
  summary:
    'Update the configuration of a function, for runs that start from now on; absent members do not change',
  roles: DEVELOPERS,
  input: Input({ id: FunctionRef, ...ConfigChange.properties }),
  output: component('ConfiguredFunction', Type.Interface([FunctionRecord], { warnings: ConfigWarnings }), {
    ...exampleOf(FunctionRecord),
    warnings: [],
  }),
  http: { method: 'PUT', path: '/v1/functions/{id}/config', body: '*' },
  run: async (scope, { id, ...change }) => {
    const place = { pointer: '', target: functionNamed(id) }
    await checkConfig(scope, change, place)
    if (change.scopes !== undefined) await requireShareOfCode(scope, place.target, change)
    await requireRightToOpen(scope, place.target, change)
    const statement = sql`
      with f as (
        update functions f set config = config || ${JSON.stringify(change)}::jsonb, updated_at = now()
        where ${functionNamed(id)} returning *
      )
      select ${FUNCTION_COLUMNS} from f ${JOIN_VERSION}`
    const target = { is: functionNamed(id) }
    const [[configured] = []] = await writeTriggers(scope, target, change, (more) =>
      scope.batch(statement, ...more),
    )
    if (configured === undefined) throw functionMissing(scope, id)
    const record = configured as unknown as FunctionRecord
    setSlotsAfterChange(scope, change, record)
    return { ...record, ...(await missingSecrets(scope, change, place)) }
  },
})

export const deleteFunction = adminOperation({
  name: 'function.delete',
  summary: 'Delete a function with all its versions; runs that have started continue',
  roles: ADMINS,
  input: Input({ id: FunctionRef }),
  output: Deleted,
  http: { method: 'DELETE', path: '/v1/functions/{id}' },
  run: async (scope, { id }) => {
    const statements = [
      sql`delete from function_versions v using functions f where v.tenant_id = f.tenant_id
        and v.workspace_id = f.workspace_id and v.function_id = f.id and ${functionNamed(id)}`,
      sql`delete from functions f where ${functionNamed(id)} returning id`,
    ]
    await deleteRuns(scope, id)
    // Its aliases, and the runs that were started meanwhile, are deleted with it.
    const removed = removeTriggers(scope, functionNamed(id), (more) => scope.batch(...statements, ...more))
    const [, [deleted] = []] = await removed.catch((error: unknown) => {
      if (violated(error) === undefined) throw error
      throw new Problem('conflict', { detail: 'A version of it was deployed at the same time.' })
    })
    if (deleted === undefined) throw functionMissing(scope, id)
    return { id: String(deleted['id']), deleted: true as const }
  },
})

/**
 * Deletes the runs of a function with their lines, each batch in a transaction of its own: all of them together may take longer
 * than one statement may. If the deletion of the function fails after it, a repeated call goes on.
 */
async function deleteRuns(scope: AdminScope, id: string): Promise<void> {
  const { runsMax: batchMax } = FUNCTION_LIMITS.retention
  let deleted: readonly object[]
  do
    deleted = await scope.rows(sql`
      delete from function_runs where ctid = any(array(
        select r.ctid from functions f join function_runs r on r.tenant_id = f.tenant_id
          and r.workspace_id = f.workspace_id and r.function_id = f.id
        where ${functionNamed(id)} order by r.id limit ${batchMax})) returning id`)
  while (deleted.length === batchMax)
}

/** The maps of a version. */
export const findMaps = (
  scope: WorkspaceScope,
  functionId: string,
  version: number,
): Promise<Maps | undefined> =>
  scope.row<Maps>(sql`select compiled_map as compiled, source_map as bundle
    from function_versions where function_id = ${functionId} and version = ${version}`)
