/** Invoking a function: one durable workflow, waited for; its result is the reply. */

import Type from 'typebox'
import { durationMs } from '../../core/duration.ts'
import { uuidOf } from '../../core/ids.ts'
import { checkJson } from '../../core/json.ts'
import { LIMITS } from '../../core/limits.ts'
import { READERS } from '../../core/policy.ts'
import { notFound, Problem } from '../../core/problem.ts'
import { type FunctionRunInput, type Json, type LentSecrets, QUEUES } from '../../core/work.ts'
import { runsOf } from '../../platform/capabilities.ts'
import { sql } from '../../platform/pg/sql.ts'
import type { WorkspaceScope } from '../../platform/scope.ts'
import { Id, Input, inWorkspace, Ref } from '../kinds.ts'
import { consumeQuota } from '../quotas/operations.ts'
import { DEFAULTS } from './functions.ts'

interface Invoked {
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

export const invokeFunction = inWorkspace({
  name: 'function.invoke',
  summary: 'Invoke a function and wait for its result',
  roles: READERS,
  input: Input(invokeInput),
  output: invokeOutput,
  http: {
    method: 'POST',
    path: '/v1/functions/{id}/invoke',
    body: 'input',
    replyBody: 'result',
    replyHeaders: { run_id: 'x-run-id' },
  },
  run: (scope, asked) => invoke(scope, asked),
})

/** The same for a run of a flow, with handles of its secrets in the input: they become values where the code runs. */
export const invokeLending = (secrets: LentSecrets): typeof invokeFunction => ({
  ...invokeFunction,
  run: (scope, asked) => invoke(scope, asked, secrets),
})

/** The same with a fixed version, for tools of MCP servers: a redeployed function does not change what is published. */
export const invokeVersion = inWorkspace({
  ...invokeFunction,
  input: Input({ ...invokeInput, version: Type.Integer({ minimum: 1 }) }),
  output: invokeOutput,
  run: (scope, asked) => invoke(scope, asked),
})

interface Asked {
  readonly id: string
  readonly input?: unknown
  /** The active one where absent. */
  readonly version?: number
}

async function invoke(
  scope: WorkspaceScope,
  { id, input = {}, version }: Asked,
  secrets?: LentSecrets,
): Promise<{ run_id: string; result: unknown }> {
  checkJson('input', input, LIMITS.functionInputBytesMax)
  const active = await find(scope, id)
  const invoked = { ...active, version: version ?? active.version }
  await consumeQuota(scope, 'invocations_per_day')
  const run_id = scope.newId('run')
  try {
    const lent = { input: input as Json, ...(secrets && { secrets }) }
    return { run_id, result: await runOnce(scope, invoked, run_id, lent) }
  } catch (error) {
    throw error instanceof Problem ? forCaller(error, scope, run_id) : error
  }
}

/** An anon key sees only the functions that say so; row-level security decides. */
async function find(scope: WorkspaceScope, id: string): Promise<Invoked> {
  const found = await scope.row<Invoked>(sql`
    select id, name, active_version as version,
      coalesce(config ->> 'timeout', ${DEFAULTS.timeout}) as timeout,
      coalesce(config -> 'memory_mb', to_jsonb(${DEFAULTS.memory_mb}::integer)) as memory_mb
    from functions where id = ${id} or name = ${id}`)
  if (found !== undefined) return found
  throw notFound(scope.actor.role === 'anon' ? 'function that an anon key may invoke' : 'function')
}

/** Asked again for the same run, as by a retried activity, it waits for the run that is there. */
async function runOnce(
  scope: WorkspaceScope,
  invoked: Invoked,
  runId: string,
  given: Pick<FunctionRunInput, 'input' | 'secrets'>,
): Promise<unknown> {
  const { id, name, version, timeout, memory_mb } = invoked
  const timeout_ms = durationMs(timeout)
  const run: FunctionRunInput = { function: { id, name, version }, ...given, timeout_ms, memory_mb }
  const timeoutMs = LIMITS.functionQueueMs + timeout_ms + 2 * LIMITS.functionHeartbeatMs
  const workflowId = await runsOf(scope).start({
    type: 'functionRun',
    queue: QUEUES.flows,
    subject: id,
    uuid: uuidOf(runId),
    input: run,
    summary: `Function ${name} v${version}`,
    attributes: { FlowId: id, FlowVersion: String(version) },
    timeoutMs,
  })
  return runsOf(scope).result(workflowId, timeoutMs + LIMITS.functionHeartbeatMs / 2)
}

/** The run's id helps everybody; what the function printed, and where it failed, is its owner's alone. */
function forCaller(problem: Problem, scope: WorkspaceScope, runId: string): Problem {
  const { code, detail, members } = problem
  return new Problem(code, {
    ...(detail !== undefined && { detail }),
    members: { ...(scope.actor.role !== 'anon' && members), run_id: runId },
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
