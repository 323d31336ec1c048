/** Functions: their records, and the operations that read, configure and delete them. */

import Type, { type Static } from 'typebox'
import { adminOperation, Id, Input, Ref, Time } from '../../access/operation-builders.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { PageInput, PageOf } from '../../core/page.ts'
import { ADMINS } from '../../core/policy.ts'
import { notFound, Problem } from '../../core/problem.ts'
import { violated } from '../../infra/postgres/errors.ts'
import { type Sql, sql } from '../../infra/postgres/sql.ts'
import { findRow, listPage } from '../operation-helpers.ts'
import { ConfigChange, checkConfig, DEFAULTS, FunctionConfig } from './config.ts'
import { FunctionTool } from './exported-tool.ts'
import { writeTriggers } from './triggers/trigger-store.ts'

const FunctionRecord = Type.Object({
  id: Id('fn'),
  tenant_id: Id('ten'),
  workspace_id: Id('ws'),
  name: Type.String(),
  version: Type.Integer({ minimum: 1, description: 'The version that is invoked.' }),
  sha256: Type.String({ description: 'Of the source.' }),
  config: FunctionConfig,
  created_by: Type.String(),
  created_at: Time,
  updated_at: Time,
})
export type FunctionRecord = Static<typeof FunctionRecord>

export const FunctionWithTool = Type.Interface([FunctionRecord], { tool: Type.Optional(FunctionTool) })

/** A row of a version; `tool` is null if the module exports none. */
export type VersionRow = FunctionRecord & { readonly tool: FunctionTool | null }

export const withTool = <T extends VersionRow>({ tool, ...record }: T) => ({
  ...record,
  ...(tool && { tool }),
})

export const FUNCTION_COLUMNS = sql`f.id, f.tenant_id, f.workspace_id, f.name, f.active_version as version, v.sha256,
  ${JSON.stringify(DEFAULTS)}::jsonb || f.config as config, f.created_by, f.created_at, f.updated_at`
const JOIN_VERSION = sql`join function_versions v on v.tenant_id = f.tenant_id
  and v.workspace_id = f.workspace_id and v.function_id = f.id and v.version = f.active_version`
const VERSIONED = sql`functions f ${JOIN_VERSION}`
/** By id, or by name if the credential is of one workspace, since names are unique in a workspace. */
export const functionNamed = (id: string): Sql =>
  sql`(f.id = ${id} or (f.name = ${id} and tenon.workspace() is not null))`
export const FunctionRef = Ref('function, or its name where the credential names a workspace')

export const getFunction = adminOperation({
  name: 'function.get',
  summary: 'Read a function and the source of its version',
  roles: ADMINS,
  input: Input({ id: FunctionRef }),
  output: Type.Interface([FunctionWithTool], { source: Type.String() }),
  http: { method: 'GET', path: '/v1/functions/{id}' },
  run: async (scope, { id }) => {
    const statement = sql`select ${FUNCTION_COLUMNS}, v.tool, v.source from ${VERSIONED} where ${functionNamed(id)}`
    return withTool(await findRow<VersionRow & { source: string }>(scope, 'function', statement))
  },
})

export const listFunctions = adminOperation({
  name: 'function.list',
  summary: 'List functions',
  roles: ADMINS,
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
  summary: 'Set the named members of a function’s configuration, for runs that start from now on',
  roles: ADMINS,
  input: Input({ id: FunctionRef, ...ConfigChange.properties }),
  output: FunctionRecord,
  http: { method: 'PUT', path: '/v1/functions/{id}/config', body: '*' },
  run: async (scope, { id, ...change }) => {
    checkConfig(change, '')
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
    if (configured === undefined) throw notFound('function')
    return configured as unknown as FunctionRecord
  },
})

export const deleteFunction = adminOperation({
  name: 'function.delete',
  summary: 'Delete a function with all its versions; runs that have begun go on',
  roles: ADMINS,
  input: Input({ id: FunctionRef }),
  output: Type.Object({ id: Type.String(), deleted: Type.Literal(true) }),
  http: { method: 'DELETE', path: '/v1/functions/{id}' },
  run: async (scope, { id }) => {
    const statements = [
      sql`delete from function_versions v using functions f where v.tenant_id = f.tenant_id
        and v.workspace_id = f.workspace_id and v.function_id = f.id and ${functionNamed(id)}`,
      sql`delete from functions f where ${functionNamed(id)} returning id`,
    ]
    // The rows of its triggers are deleted with it.
    const remove = () => scope.batch(...statements)
    const target = { is: functionNamed(id) }
    const removed = writeTriggers(scope, target, { schedule: null }, remove)
    const [, [deleted] = []] = await removed.catch((error: unknown) => {
      if (violated(error) === undefined) throw error
      throw new Problem('conflict', { detail: 'A version of it was deployed at the same time.' })
    })
    if (deleted === undefined) throw notFound('function')
    return { id: String(deleted['id']), deleted: true as const }
  },
})

/** The code of a version, for the activity that runs it. */
export async function compiledVersion(
  scope: WorkspaceScope,
  functionId: string,
  version: number,
): Promise<string | undefined> {
  const row = await scope.row<{ compiled: string }>(
    sql`select compiled from function_versions where function_id = ${functionId} and version = ${version}`,
  )
  return row?.compiled
}
