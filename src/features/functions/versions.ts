/** Versions of functions, made by deployment and immutable: lists and reads them, activates one, and drops old ones. */

import Type, { type Static } from 'typebox'
import { effectOnce } from '../../access/effect-once.ts'
import { adminOperation, Input, Time } from '../../access/operation-builders.ts'
import { component, exampleOf } from '../../core/components/component.ts'
import { EXAMPLE_DIGEST, EXAMPLE_ID, EXAMPLE_TIME } from '../../core/components/examples.ts'
import { PageInput, PageOf, pageBounds, pageFrom } from '../../core/page.ts'
import { DEVELOPERS, VIEWERS } from '../../core/policy.ts'
import { notFound, Problem } from '../../core/problem.ts'
import { type Sql, sql } from '../../infra/postgres/sql.ts'
import { findRow } from '../operation-helpers.ts'
import { VersionNumber } from '../version-aliases.ts'
import { requireShareOfCode } from './check-config.ts'
import { FunctionRef, functionMissing, functionNamed } from './function-ref.ts'
import {
  Constants,
  type ConstantsRow,
  FUNCTION_COLUMNS,
  FunctionRecord,
  findFunctionId,
  lockFunction,
  withConstants,
} from './functions.ts'
import { FUNCTION_LIMITS } from './limits.ts'

const FunctionVersion = component(
  'FunctionVersion',
  Type.Object({
    function_id: Type.String(),
    version: Type.Integer({ minimum: 1 }),
    sha256: Type.String({ description: 'SHA-256 of the source.' }),
    size: Type.Integer({ description: 'Size of the source in bytes.' }),
    active: Type.Boolean({
      description: 'True if this is the active version, which is invoked by its name alone.',
    }),
    created_by: Type.String(),
    created_at: Time,
  }),
  {
    function_id: EXAMPLE_ID.function,
    version: 3,
    sha256: EXAMPLE_DIGEST,
    size: 1_204,
    active: true,
    created_by: EXAMPLE_ID.account,
    created_at: EXAMPLE_TIME.created,
  },
)
type FunctionVersion = Static<typeof FunctionVersion>

const VersionDetails = component(
  'FunctionVersionWithSource',
  Type.Interface([FunctionVersion], { ...Constants, source: Type.String() }),
  { ...exampleOf(FunctionVersion), source: 'export default ({ hours }) => ({ euros: hours * 20 })' },
)

const COLUMNS = sql`v.function_id, v.version, v.sha256, octet_length(v.source) as size,
  v.version = f.active_version as active, v.created_by, v.created_at`
const JOINED = sql`function_versions v join functions f on f.tenant_id = v.tenant_id
  and f.workspace_id = v.workspace_id and f.id = v.function_id`
const VERSIONS = '/v1/functions/{id}/versions'

export const listFunctionVersions = adminOperation({
  name: 'function_version.list',
  summary: 'List the stored versions of a function, newest first',
  roles: VIEWERS,
  input: Input({ ...PageInput, id: FunctionRef }),
  output: PageOf(FunctionVersion),
  http: { method: 'GET', path: VERSIONS },
  run: async (scope, input) => {
    const id = await findFunctionId(scope, input.id)
    const { after, limit } = pageBounds(input)
    if (!/^[0-9]{0,9}$/.test(after)) throw new Problem('cursor_invalid')
    const rows = await scope.rows<FunctionVersion>(sql`
      select ${COLUMNS} from ${JOINED}
      where v.function_id = ${id} and (${after} = '' or v.version < ${Number(after || 0)})
      order by v.version desc limit ${limit}`)
    return pageFrom(input, rows, ({ version }) => version)
  },
})

export const getFunctionVersion = adminOperation({
  name: 'function_version.get',
  summary: 'Read a version of a function with its source',
  roles: VIEWERS,
  input: Input({ id: FunctionRef, version: VersionNumber }),
  output: VersionDetails,
  http: { method: 'GET', path: `${VERSIONS}/{version}` },
  run: async (scope, { id: asked, version }) => {
    const id = await findFunctionId(scope, asked)
    const statement = sql`select ${COLUMNS}, v.tool, v.input_schema, v.output_schema, v.source from ${JOINED}
      where v.function_id = ${id} and v.version = ${version}`
    return withConstants(
      await findRow<ConstantsRow & FunctionVersion & { source: string }>(
        scope,
        'function version',
        statement,
      ),
    )
  },
})

export const activateFunctionVersion = adminOperation({
  name: 'function_version.activate',
  summary: 'Activate a version of a function, such as an earlier one; the next deployment activates its own',
  roles: DEVELOPERS,
  input: Input({ id: FunctionRef, version: VersionNumber }),
  output: FunctionRecord,
  http: { method: 'POST', path: `${VERSIONS}/{version}/activate`, body: '*' },
  run: async (scope, { id, version }) => {
    await requireShareOfCode(scope, functionNamed(id))
    const statement = sql`
      with f as (
        update functions f set active_version = v.version, updated_at = now() from function_versions v
        where v.tenant_id = f.tenant_id and v.workspace_id = f.workspace_id and v.function_id = f.id
          and v.version = ${version} and ${functionNamed(id)}
        returning f.*, v.sha256
      )
      select ${FUNCTION_COLUMNS} from f join lateral (select f.sha256) v on true`
    return effectOnce(scope, async (inside) => {
      const [[found] = [], [activated] = []] = await inside.batch(lockFunction(functionNamed(id)), statement)
      if (found === undefined) throw functionMissing(inside, id)
      if (activated === undefined) throw notFound('function version')
      return activated as unknown as FunctionRecord
    })
  },
})

/**
 * Deletes the versions of a function beyond those that are kept. A version stays while it is active, an alias or a version of
 * an MCP server names it, or a run of it has not ended.
 * @param target a condition on the function `f`
 */
export function dropOldVersions(target: Sql): Sql {
  const { countMax, bytesMax } = FUNCTION_LIMITS.versions
  return sql`
    with f as (select f.* from functions f where ${target}), old as (
      select version from (
        select v.version, count(*) over newest as kept, sum(v.bytes) over newest as kept_bytes
        from function_versions v join f on f.tenant_id = v.tenant_id and f.workspace_id = v.workspace_id
          and f.id = v.function_id
        window newest as (order by v.version desc)
      ) v where kept > ${countMax} or kept_bytes > ${bytesMax}
    ), called as (
      select unnest(tenon.versions_in_tools(f.tenant_id, f.workspace_id, f.id)) as version from f
      where exists (select from old)
    )
    delete from function_versions v using f
    where v.tenant_id = f.tenant_id and v.workspace_id = f.workspace_id and v.function_id = f.id
      and v.version in (select version from old) and v.version <> f.active_version
      and v.version not in (select version from called)
      and not exists (select from function_aliases a where a.tenant_id = f.tenant_id
        and a.workspace_id = f.workspace_id and a.function_id = f.id
        and a.versions @> jsonb_build_array(jsonb_build_object('version', v.version)))
      and not exists (select from function_runs r where r.tenant_id = f.tenant_id and r.workspace_id = f.workspace_id
        and r.function_id = f.id and r.version = v.version and r.ended_at is null)`
}
