/** Functions: deploy immutable versions of a source, configure, read, list, delete, invoke. */

import { createHash } from 'node:crypto'
import Type, { type Static } from 'typebox'
import { adminOperation, Id, Input, Ref, Time, workspaceOperation } from '../../access/operation-builders.ts'
import type { AdminScope, WorkspaceScope } from '../../access/scope.ts'
import { workflowsOf } from '../../access/scope-services.ts'
import { uuidOf } from '../../core/ids.ts'
import { checkJson } from '../../core/json.ts'
import { LIMITS } from '../../core/limits.ts'
import { PageInput, PageOf } from '../../core/page.ts'
import { ADMINS, DATA_ROLES } from '../../core/policy.ts'
import { notFound, Problem } from '../../core/problem.ts'
import { boundedMs, Duration, durationMs } from '../../core/units.ts'
import { type FunctionRunInput, type Json, QUEUES, type SecretNames } from '../../core/work.ts'
import { violated } from '../../infra/postgres/errors.ts'
import { type Sql, sql } from '../../infra/postgres/sql.ts'
import { creates, findRow, listPage } from '../operation-helpers.ts'
import { consumeQuota } from '../quotas/quotas-api.ts'
import { ACTIVE, inactiveProblem } from '../tenants/tenants.ts'
import { inThread } from '../threads/run-in-thread.ts'
import { FunctionTool } from './exported-tool.ts'
import { compileFunction, type Fault } from './sandbox/compile.ts'

const { functionTimeoutMs: timeout, functionMemoryMb: memory } = LIMITS

const FunctionName = Type.String({
  pattern: '^[a-z][a-z0-9-]{0,62}$',
  description: 'Lower-case letters, digits and hyphens, at most 63; unique in the workspace.',
})

const Config = Type.Object({
  timeout: Duration(
    `Until it is ended; at most ${timeout.max / 1_000}s, ${timeout.default / 1_000}s where it was never set.`,
  ),
  memory_mb: Type.Integer({
    minimum: memory.min,
    maximum: memory.max,
    description: `Megabytes that its process may hold; ${memory.default} where it was never set.`,
  }),
  anon: Type.Boolean({ description: 'Whether anon keys may invoke it; false where it was never set.' }),
  user: Type.Boolean({ description: 'Whether users may invoke it; false where it was never set.' }),
})
type Config = Static<typeof Config>
/** Named members are set; the others stay. */
const ConfigChange = Type.Partial(Config, { additionalProperties: false })

const DEFAULTS: Config = {
  timeout: `${timeout.default / 1_000}s`,
  memory_mb: memory.default,
  anon: false,
  user: false,
}

/** @throws Problem `validation_failed` for a time limit out of bounds */
function checkConfig({ timeout: text }: { timeout?: string }, pointer: string): void {
  const field = { in: 'body', name: 'timeout', pointer } as const
  if (text !== undefined) boundedMs(field, text, { minMs: 1_000, maxMs: timeout.max })
}

export const FunctionRecord = Type.Object({
  id: Id('fn'),
  tenant_id: Id('ten'),
  workspace_id: Id('ws'),
  name: Type.String(),
  version: Type.Integer({ minimum: 1, description: 'The version that is invoked.' }),
  sha256: Type.String({ description: 'Of the source.' }),
  config: Config,
  created_by: Type.String(),
  created_at: Time,
  updated_at: Time,
})
export type FunctionRecord = Static<typeof FunctionRecord>

const WithTool = Type.Interface([FunctionRecord], { tool: Type.Optional(FunctionTool) })

/** A row of a version; `tool` is null if the module exports none. */
type VersionRow = FunctionRecord & { readonly tool: FunctionTool | null }

const withTool = <T extends VersionRow>({ tool, ...record }: T) => ({ ...record, ...(tool && { tool }) })

const COLUMNS = sql`f.id, f.tenant_id, f.workspace_id, f.name, f.active_version as version, v.sha256,
  ${JSON.stringify(DEFAULTS)}::jsonb || f.config as config, f.created_by, f.created_at, f.updated_at`
const JOIN_VERSION = sql`join function_versions v on v.tenant_id = f.tenant_id
  and v.workspace_id = f.workspace_id and v.function_id = f.id and v.version = f.active_version`
const VERSIONED = sql`functions f ${JOIN_VERSION}`
/** By id, or by name if the credential is of one workspace, since names are unique in a workspace. */
const named = (id: string): Sql => sql`(f.id = ${id} or (f.name = ${id} and tenon.workspace() is not null))`
const FunctionRef = Ref('function, or its name where the credential names a workspace')

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
  output: WithTool,
  http: creates('/v1/functions'),
  run: async (scope, { workspace_id, name, source, config = {} }) => {
    checkConfig(config, '/config/timeout')
    const { code, tool } = await compile(scope, source)
    const sha256 = createHash('sha256').update(source).digest('hex')
    const change = JSON.stringify(config)
    const { subject } = scope.actor
    const deployed = await scope.row<VersionRow>(sql`
      with deployed as (
        insert into functions (id, tenant_id, workspace_id, name, active_version, latest_version, config, created_by)
        select ${scope.newId('fn')}, tenant_id, id, ${name}, 1, 1, ${change}::jsonb, ${subject}
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
      select ${COLUMNS}, v.tool from deployed f, v`)
    if (deployed === undefined) throw await inactiveProblem(scope, workspace_id)
    return withTool(deployed)
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

export const getFunction = adminOperation({
  name: 'function.get',
  summary: 'Read a function and the source of its version',
  roles: ADMINS,
  input: Input({ id: FunctionRef }),
  output: Type.Interface([WithTool], { source: Type.String() }),
  http: { method: 'GET', path: '/v1/functions/{id}' },
  run: async (scope, { id }) => {
    const statement = sql`select ${COLUMNS}, v.tool, v.source from ${VERSIONED} where ${named(id)}`
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
      sql`select ${COLUMNS} from ${VERSIONED} where ${workspace_id}::text is null or f.workspace_id = ${workspace_id}`,
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
    checkConfig(change, '/timeout')
    const statement = sql`
      with f as (
        update functions f set config = config || ${JSON.stringify(change)}::jsonb, updated_at = now()
        where ${named(id)} returning *
      )
      select ${COLUMNS} from f ${JOIN_VERSION}`
    return findRow<FunctionRecord>(scope, 'function', statement)
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
        and v.workspace_id = f.workspace_id and v.function_id = f.id and ${named(id)}`,
      sql`delete from functions f where ${named(id)} returning id`,
    ]
    const [, [deleted] = []] = await scope.batch(...statements).catch((error: unknown) => {
      if (violated(error) === undefined) throw error
      throw new Problem('conflict', { detail: 'A version of it was deployed at the same time.' })
    })
    if (deleted === undefined) throw notFound('function')
    return { id: String(deleted['id']), deleted: true as const }
  },
})

interface InvocableFunction {
  readonly id: string
  readonly name: string
  readonly version: number
  readonly timeout: string
  readonly memory_mb: number
}

const invokeInput = {
  id: Ref('function, or its name'),
  input: Type.Optional(
    Type.Unknown({ description: 'What the function is called with; an empty object where absent.' }),
  ),
}

const invokeOutput = Type.Object({
  run_id: Id('run'),
  result: Type.Unknown({ description: 'What the function returned.' }),
})

export const invokeFunction = workspaceOperation({
  name: 'function.invoke',
  summary: 'Invoke a function and wait for its result',
  roles: DATA_ROLES,
  input: Input(invokeInput),
  output: invokeOutput,
  http: {
    method: 'POST',
    path: '/v1/functions/{id}/invoke',
    body: 'input',
    replyBody: 'result',
    replyHeaders: { run_id: 'x-run-id' },
  },
  run: (scope, invocation) => invoke(scope, invocation),
})

/** `function.invoke` for a flow whose input has handles of secrets, which the sandbox replaces by their values. */
export const invokeLending = (secrets: SecretNames): typeof invokeFunction => ({
  ...invokeFunction,
  run: (scope, invocation) => invoke(scope, invocation, secrets),
})

/** `function.invoke` of a fixed version, for MCP tools: a redeployed function does not change what is published. */
export const invokeVersion = workspaceOperation({
  ...invokeFunction,
  input: Input({
    ...invokeInput,
    version: Type.Integer({ minimum: 1 }),
    context: Type.Optional(Type.Object({}, { additionalProperties: true })),
  }),
  output: invokeOutput,
  run: (scope, invocation) => invoke(scope, invocation),
})

interface Invocation {
  readonly id: string
  readonly input?: unknown
  /** The second argument of the function. */
  readonly context?: object
  /** By default the active version. */
  readonly version?: number
}

async function invoke(
  scope: WorkspaceScope,
  { id, input = {}, version, context }: Invocation,
  secrets?: SecretNames,
): Promise<{ run_id: string; result: unknown }> {
  checkJson('input', input, LIMITS.functionInputBytesMax)
  const active = await findInvocable(scope, id)
  const invoked = { ...active, version: version ?? active.version }
  await consumeQuota(scope, 'invocations_per_day')
  const run_id = scope.newId('run')
  try {
    const lent = {
      input: input as Json,
      ...(secrets && { secrets }),
      ...(context && { context: context as Json }),
    }
    return { run_id, result: await runOnce(scope, invoked, run_id, lent) }
  } catch (error) {
    throw error instanceof Problem ? forCaller(error, scope, run_id) : error
  }
}

const PUBLIC_NOUNS: Readonly<Record<string, string>> = {
  anon: 'function that an anon key may invoke',
  user: 'function that a user may invoke',
}

/** Anon keys and users find only functions that allow them; row-level security decides. */
function findInvocable(scope: WorkspaceScope, id: string): Promise<InvocableFunction> {
  const noun = PUBLIC_NOUNS[scope.actor.role] ?? 'function'
  return findRow<InvocableFunction>(
    scope,
    noun,
    sql`
    select id, name, active_version as version,
      coalesce(config ->> 'timeout', ${DEFAULTS.timeout}) as timeout,
      coalesce(config -> 'memory_mb', to_jsonb(${DEFAULTS.memory_mb}::integer)) as memory_mb
    from functions where id = ${id} or name = ${id}`,
  )
}

/** A second call for the same run, such as a retried activity, waits for the first. */
async function runOnce(
  scope: WorkspaceScope,
  invoked: InvocableFunction,
  runId: string,
  values: Pick<FunctionRunInput, 'input' | 'secrets' | 'context'>,
): Promise<unknown> {
  const { id, name, version, timeout, memory_mb } = invoked
  const timeout_ms = durationMs(timeout)
  const run: FunctionRunInput = { function: { id, name, version }, ...values, timeout_ms, memory_mb }
  const timeoutMs = LIMITS.functionQueueMs + timeout_ms + 2 * LIMITS.functionHeartbeatMs
  const workflowId = await workflowsOf(scope).start({
    type: 'functionRun',
    queue: QUEUES.flows,
    subject: id,
    uuid: uuidOf(runId),
    input: run,
    summary: `Function ${name} v${version}`,
    attributes: { FlowId: id, FlowVersion: String(version) },
    timeoutMs,
  })
  return workflowsOf(scope).result(workflowId, timeoutMs + LIMITS.functionHeartbeatMs / 2)
}

/** Hides the output and the location of the failure from anon keys and users. */
function forCaller(problem: Problem, scope: WorkspaceScope, runId: string): Problem {
  const { code, detail, members } = problem
  const isPublic = PUBLIC_NOUNS[scope.actor.role] !== undefined
  return new Problem(code, {
    ...(detail !== undefined && { detail }),
    members: { ...(!isPublic && members), run_id: runId },
    headers: { 'x-run-id': runId },
    cause: problem.cause,
  })
}

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
