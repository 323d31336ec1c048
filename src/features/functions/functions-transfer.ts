/** Reads and stores all functions of a workspace for archives, with their versions. The code is compiled anew. */

import Type, { type Static } from 'typebox'
import type { AdminScope, WorkspaceScope } from '../../access/scope.ts'
import type { WorkspaceRef } from '../../core/tenant.ts'
import { violated } from '../../infra/postgres/errors.ts'
import { type Sql, sql } from '../../infra/postgres/sql.ts'
import { allRows, findRow } from '../operation-helpers.ts'
import type { DeclaredTrigger } from '../runs/triggers/trigger.ts'
import { AliasLine, VersionNumber } from '../version-aliases.ts'
import { checkConfig } from './check-config.ts'
import { ConfigChange } from './config.ts'
import { CODE_COLUMNS, checkSizes, codeValues, compile, FunctionName } from './deploy.ts'
import { FUNCTION_LIMITS } from './limits.ts'
import { writeTriggers } from './triggers/write-triggers.ts'

const PAGE = 200
const Id = Type.String({ pattern: '^fn_[0-9a-hjkmnp-tv-z]{26}$' })

/** A function in an archive. */
export const FunctionLine = Type.Object(
  {
    id: Id,
    name: FunctionName,
    active_version: VersionNumber,
    latest_version: VersionNumber,
    config: ConfigChange,
    aliases: Type.Array(AliasLine),
  },
  { additionalProperties: false },
)
export type FunctionLine = Static<typeof FunctionLine>

/** A version of a function in an archive. */
export const FunctionVersionLine = Type.Object(
  {
    function_id: Id,
    version: VersionNumber,
    source: Type.String({ minLength: 1 }),
    source_map: Type.Union([Type.String({ minLength: 1 }), Type.Null()]),
  },
  { additionalProperties: false },
)
export type FunctionVersionLine = Static<typeof FunctionVersionLine>

/** In the order of their ids. @param structure scope with the rights of an admin */
export const allFunctions = (structure: WorkspaceScope): AsyncGenerator<FunctionLine> =>
  allRows(
    PAGE,
    (after) =>
      structure.rows<FunctionLine>(sql`
        select id, name, active_version, latest_version, config, (
          select coalesce(jsonb_agg(jsonb_build_object('name', a.name, 'versions', a.versions) order by a.name), '[]')
          from function_aliases a where a.function_id = f.id) as aliases
        from functions f where id > ${after} order by id limit ${PAGE}`),
    ({ id }) => id,
  )

/**
 * The versions of a function that are kept ({@link dropOldVersions}), oldest first, but not those that only a run keeps. Each is read
 * by itself, since it may be large.
 */
export async function* allFunctionVersions(
  structure: WorkspaceScope,
  functionId: string,
): AsyncGenerator<FunctionVersionLine> {
  const kept = await structure.rows<{ version: number }>(sql`
    select v.version from function_versions v join functions f on f.tenant_id = v.tenant_id
      and f.workspace_id = v.workspace_id and f.id = v.function_id
    where f.id = ${functionId} and (v.version = f.active_version
      or v.version in (select n.version from function_versions n where n.function_id = ${functionId}
        order by n.version desc limit ${FUNCTION_LIMITS.versions.countMax})
      or v.version = any(tenon.versions_in_tools(f.tenant_id, f.workspace_id, f.id))
      or exists (select from function_aliases a where a.function_id = f.id
        and a.versions @> jsonb_build_array(jsonb_build_object('version', v.version))))
    order by v.version`)
  for (const { version } of kept) {
    const found = await structure.row<FunctionVersionLine>(sql`
      select function_id, version, source, source_map from function_versions
      where function_id = ${functionId} and version = ${version}`)
    if (found !== undefined) yield found
  }
}

/** A function of an archive, and the ids that it may have here. */
interface Restoring {
  readonly ref: WorkspaceRef
  /** The id of one whose own is taken in this installation. */
  readonly newIdOf: (id: string) => string
  readonly declaredAs: (trigger: DeclaredTrigger) => DeclaredTrigger
}

const isRestored = ({ ref, newIdOf }: Pick<Restoring, 'ref' | 'newIdOf'>, id: string): Sql =>
  sql`f.workspace_id = ${ref.workspaceId} and f.id in (${id}, ${newIdOf(id)})`

/**
 * Stores a function of an archive without its versions, in a workspace that is being made. It may be repeated.
 * @throws Problem `validation_failed` for its configuration, `quota_exceeded`, `dependency_unavailable`
 */
export async function restoreFunction(
  scope: AdminScope,
  { id, name, config, active_version, latest_version, aliases }: FunctionLine,
  restoring: Restoring,
): Promise<void> {
  const { ref, newIdOf, declaredAs } = restoring
  if ((await scope.row(sql`select from functions f where ${isRestored(restoring, id)}`)) !== undefined) return
  const is = sql`f.workspace_id = ${ref.workspaceId} and f.name = ${name}`
  await checkConfig(scope, config, { pointer: '/config', target: is })
  const { subject } = scope.actor
  const insertAs = (own: string) => {
    const statements = [
      sql`insert into functions (id, tenant_id, workspace_id, name, active_version, latest_version, config, created_by)
        select ${own}, tenant_id, id, ${name}, ${active_version}, ${latest_version}, ${JSON.stringify(config)}::jsonb, ${subject}
        from workspaces where id = ${ref.workspaceId} and state = 'provisioning'`,
      sql`insert into function_aliases (tenant_id, workspace_id, function_id, name, versions, updated_by)
        select ${ref.tenantId}, ${ref.workspaceId}, ${own}, a.name, a.versions, ${subject}
        from jsonb_to_recordset(${JSON.stringify(aliases)}::jsonb) as a (name text, versions jsonb)`,
    ]
    const target = { is, created: { id: own, workspaceId: ref.workspaceId } }
    return writeTriggers(scope, target, config, (more) => scope.batch(...statements, ...more), { declaredAs })
  }
  await insertAs(id).catch((error: unknown) => {
    if (violated(error) !== 'functions_id_idx') throw error
    return insertAs(newIdOf(id))
  })
}

/**
 * Stores a version of a function that was restored. It may be repeated.
 * @throws Problem `function_invalid`, `validation_failed`, `not_found` if the archive has no such function
 */
export async function restoreFunctionVersion(
  scope: AdminScope,
  { function_id, version, source, source_map }: FunctionVersionLine,
  restoring: Pick<Restoring, 'ref' | 'newIdOf'>,
): Promise<void> {
  const { id, is_there } = await findRow<{ id: string; is_there: boolean }>(
    scope,
    'function',
    sql`select f.id, exists (select from function_versions v where v.tenant_id = f.tenant_id
        and v.workspace_id = f.workspace_id and v.function_id = f.id and v.version = ${version}) as is_there
      from functions f where ${isRestored(restoring, function_id)}`,
  )
  if (is_there) return
  const deployment = { source, ...(source_map !== null && { source_map }) }
  checkSizes(deployment)
  const code = await compile(scope, deployment)
  const { tenantId, workspaceId } = restoring.ref
  await scope.batch(sql`
    insert into function_versions (${CODE_COLUMNS})
    values (${tenantId}, ${workspaceId}, ${id}, ${version}, ${codeValues(source, code)}, ${scope.actor.subject})
    on conflict do nothing`)
}
