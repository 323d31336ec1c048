/** Deploys functions: compiles a source and stores it as the next immutable version. */

import { createHash } from 'node:crypto'
import Type from 'typebox'
import { adminOperation, Input, Ref } from '../../access/operation-builders.ts'
import type { AdminScope } from '../../access/scope.ts'
import { LIMITS } from '../../core/limits.ts'
import { ADMINS } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import { sql } from '../../infra/postgres/sql.ts'
import { creates } from '../operation-helpers.ts'
import { ACTIVE, inactiveProblem } from '../tenants/tenants.ts'
import { inThread } from '../threads/run-in-thread.ts'
import { ConfigChange, checkConfig } from './config.ts'
import { FUNCTION_COLUMNS, FunctionWithTool, type VersionRow, withTool } from './functions.ts'
import { compileFunction, type Fault } from './sandbox/compile.ts'
import { writeTriggers } from './triggers/trigger-store.ts'

const FunctionName = Type.String({
  pattern: '^[a-z][a-z0-9-]{0,62}$',
  description: 'Lower-case letters, digits and hyphens, at most 63; unique in the workspace.',
})

export const createFunction = adminOperation({
  name: 'function.create',
  summary: 'Deploy a function; a name that is there gets its next version',
  roles: ADMINS,
  input: Input({
    workspace_id: Ref('workspace'),
    name: FunctionName,
    source: Type.String({
      minLength: 1,
      maxLength: LIMITS.functionSourceBytesMax,
      description: 'TypeScript or JavaScript: one module, whose default export is called with the input.',
    }),
    config: Type.Optional(ConfigChange),
  }),
  output: FunctionWithTool,
  http: creates('/v1/functions'),
  run: async (scope, { workspace_id, name, source, config = {} }) => {
    checkConfig(config, '/config')
    const { code, tool } = await compile(scope, source)
    const sha256 = createHash('sha256').update(source).digest('hex')
    const change = JSON.stringify(config)
    const { subject } = scope.actor
    const id = scope.newId('fn')
    const statement = sql`
      with deployed as (
        insert into functions (id, tenant_id, workspace_id, name, active_version, latest_version, config, created_by)
        select ${id}, tenant_id, id, ${name}, 1, 1, ${change}::jsonb, ${subject}
        from workspaces where id = ${workspace_id} and ${ACTIVE}
        on conflict (tenant_id, workspace_id, name) do update set
          active_version = functions.latest_version + 1, latest_version = functions.latest_version + 1,
          config = functions.config || excluded.config, updated_at = now()
        returning *
      ), v as (
        insert into function_versions
          (tenant_id, workspace_id, function_id, version, source, compiled, sha256, tool, created_by)
        select tenant_id, workspace_id, id, active_version, ${source}, ${code}, ${sha256}, ${tool}::jsonb, ${subject}
        from deployed returning sha256, tool
      )
      select ${FUNCTION_COLUMNS}, v.tool from deployed f, v`
    const is = sql`f.workspace_id = ${workspace_id} and f.name = ${name}`
    const target = { is, created: { id, workspaceId: workspace_id } }
    const [[deployed] = []] = await writeTriggers(scope, target, config, (more) =>
      scope.batch(statement, ...more),
    )
    if (deployed === undefined) throw await inactiveProblem(scope, workspace_id)
    return withTool(deployed as unknown as VersionRow)
  },
})

/**
 * The compiled source, and the JSON of the tool that it exports.
 * @throws Problem `function_invalid` with the errors of either, `overloaded`
 */
async function compile(scope: AdminScope, source: string): Promise<{ code: string; tool: string | null }> {
  const compiled = await compileFunction(source, scope.tenantId ?? scope.actor.subject)
  if (compiled.faults !== undefined) throw functionInvalid(compiled.faults)
  const { code, exportsTool } = compiled
  if (!exportsTool) return { code, tool: null }
  const ran = await inThread(scope, 'exportedTool', code, LIMITS.functionTool.cpuMs)
  const tooCostly = { message: 'It takes too long to read its export `tool`.', line: 1, column: 1 }
  const { tool, faults } = 'value' in ran ? ran.value : { faults: [tooCostly] }
  if (faults.length > 0) throw functionInvalid(faults)
  return { code, tool: tool === undefined ? null : JSON.stringify(tool) }
}

/** A problem with all errors as members; its detail is the first. */
function functionInvalid(faults: readonly Fault[]): Problem {
  const [first] = faults
  const more = faults.length > 1 ? ` (and ${faults.length - 1} more)` : ''
  const detail = first && `${first.line}:${first.column} ${first.message}${more}`
  return new Problem('function_invalid', { ...(detail && { detail }), members: { faults } })
}
