/** Aliases of a function: they select a version, or several by weight, for calls of `name@alias`. */

import Type, { type Static } from 'typebox'
import { adminOperation, DeletedName, Id, Input, Time } from '../../access/operation-builders.ts'
import { component } from '../../core/components/component.ts'
import { EXAMPLE_ID, EXAMPLE_TIME } from '../../core/components/examples.ts'
import { PageInput, PageOf } from '../../core/page.ts'
import { DEVELOPERS, VIEWERS } from '../../core/policy.ts'
import { notFound } from '../../core/problem.ts'
import { sql } from '../../infra/postgres/sql.ts'
import { findRow, listPage } from '../operation-helpers.ts'
import { AliasName, AliasTarget, Weighted, weightedOf } from '../version-aliases.ts'
import { requireShareOfCode } from './check-config.ts'
import { FunctionRef } from './function-ref.ts'
import { findFunctionId, lockFunction } from './functions.ts'

const FunctionAlias = component(
  'FunctionAlias',
  Type.Object({
    tenant_id: Id('ten'),
    workspace_id: Id('ws'),
    function_id: Type.String(),
    name: Type.String(),
    versions: Type.Array(Weighted),
    updated_by: Type.String(),
    created_at: Time,
    updated_at: Time,
  }),
  {
    tenant_id: EXAMPLE_ID.tenant,
    workspace_id: EXAMPLE_ID.workspace,
    function_id: EXAMPLE_ID.function,
    name: 'production',
    versions: [{ version: 3, weight: 1 }],
    updated_by: EXAMPLE_ID.account,
    created_at: EXAMPLE_TIME.created,
    updated_at: EXAMPLE_TIME.updated,
  },
)
type FunctionAlias = Static<typeof FunctionAlias>

const COLUMNS = sql`a.tenant_id, a.workspace_id, a.function_id, a.name, a.versions, a.updated_by, a.created_at, a.updated_at`
const ALIASES = '/v1/functions/{id}/aliases'
const Target = { id: FunctionRef, name: AliasName }

export const listFunctionAliases = adminOperation({
  name: 'function_alias.list',
  summary: 'List the aliases of a function',
  roles: VIEWERS,
  input: Input({ ...PageInput, id: FunctionRef }),
  output: PageOf(FunctionAlias),
  http: { method: 'GET', path: ALIASES },
  run: async (scope, input) => {
    const id = await findFunctionId(scope, input.id)
    const aliases = sql`select ${COLUMNS} from function_aliases a where a.function_id = ${id}`
    return listPage<FunctionAlias>(scope, input, aliases, 'name')
  },
})

export const getFunctionAlias = adminOperation({
  name: 'function_alias.get',
  summary: 'Read an alias of a function',
  roles: VIEWERS,
  input: Input(Target),
  output: FunctionAlias,
  http: { method: 'GET', path: `${ALIASES}/{name}` },
  run: async (scope, { id: asked, name }) => {
    const id = await findFunctionId(scope, asked)
    const alias = sql`select ${COLUMNS} from function_aliases a where a.function_id = ${id} and a.name = ${name}`
    return findRow<FunctionAlias>(scope, 'function alias', alias)
  },
})

export const setFunctionAlias = adminOperation({
  name: 'function_alias.set',
  summary:
    'Set an alias to a version of a function, or to several by weight; runs that have started keep their version',
  roles: DEVELOPERS,
  input: Input({ ...Target, ...AliasTarget }),
  output: FunctionAlias,
  http: { method: 'PUT', path: `${ALIASES}/{name}`, body: '*' },
  run: async (scope, { id: asked, name, version, versions }) => {
    const meant = JSON.stringify(weightedOf(version, versions))
    const id = await findFunctionId(scope, asked)
    await requireShareOfCode(scope, sql`f.id = ${id}`)
    const statement = sql`
      insert into function_aliases as a (tenant_id, workspace_id, function_id, name, versions, updated_by)
      select f.tenant_id, f.workspace_id, f.id, ${name}, ${meant}::jsonb, ${scope.actor.subject} from functions f
      where f.id = ${id} and not exists (select from jsonb_to_recordset(${meant}::jsonb) as m (version integer)
        where not exists (select from function_versions v where v.tenant_id = f.tenant_id
          and v.workspace_id = f.workspace_id and v.function_id = f.id and v.version = m.version))
      on conflict (tenant_id, workspace_id, function_id, name) do update
        set versions = excluded.versions, updated_by = excluded.updated_by, updated_at = now()
      returning ${COLUMNS}`
    const [, [alias] = []] = await scope.batch(lockFunction(sql`f.id = ${id}`), statement)
    if (alias === undefined) throw notFound('function version')
    return alias as unknown as FunctionAlias
  },
})

export const deleteFunctionAlias = adminOperation({
  name: 'function_alias.delete',
  summary: 'Delete an alias of a function; its versions are kept',
  roles: DEVELOPERS,
  input: Input(Target),
  output: DeletedName,
  http: { method: 'DELETE', path: `${ALIASES}/{name}` },
  run: async (scope, { id: asked, name }) => {
    const id = await findFunctionId(scope, asked)
    const removed = sql`delete from function_aliases a where a.function_id = ${id} and a.name = ${name} returning a.name`
    await findRow(scope, 'function alias', removed)
    return { name, deleted: true as const }
  },
})
