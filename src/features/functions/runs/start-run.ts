/** Starts runs of functions: writes the record, then starts the workflow. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { workflowsOf } from '../../../access/scope-services.ts'
import { uuidOf } from '../../../core/ids.ts'
import { LIMITS } from '../../../core/limits.ts'
import { isPublicRole } from '../../../core/policy.ts'
import { notFound, Problem } from '../../../core/problem.ts'
import { durationMs } from '../../../core/units.ts'
import {
  type FunctionCaller,
  type FunctionRunInput,
  type FunctionTrigger,
  type Json,
  QUEUES,
  type SecretNames,
} from '../../../core/work.ts'
import { violated } from '../../../infra/postgres/errors.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import { consumeQuota } from '../../quotas/quotas-api.ts'
import { shareOf } from '../../version-aliases.ts'
import { checkInputEarly, isCheckedEarly } from '../check-run.ts'
import type { FunctionConfig } from '../config.ts'
import { DEFAULTS } from '../config.ts'
import { callerOf } from './run.ts'

export interface RunRequest {
  /** Id or name of the function, or `name@alias`. */
  readonly id: string
  /** By default the active version, or that of the alias. */
  readonly version?: number
  readonly alias?: string
  readonly kind?: 'call' | 'fetch'
  readonly input: Json
  /** Members of the second argument of the code. */
  readonly context?: Json
  readonly trigger: FunctionTrigger
  /** True if nobody waits: the record keeps input and result, and a failed run is a dead letter. */
  readonly isAsync: boolean
  /** Secrets of a calling execution, whose handles the input has. */
  readonly secrets?: SecretNames
  /** By default the actor of the scope. */
  readonly caller?: FunctionCaller
  /** The id of the run, if it derives from its trigger: repeated starts are one run. */
  readonly runId?: string
}

export interface StartedRun {
  readonly runId: string
  readonly workflowId: string
  /** How long a caller waits at most for the result. */
  readonly waitMs: number
}

interface Invocable {
  readonly id: string
  readonly name: string
  readonly version: number
  readonly config: Partial<FunctionConfig>
  readonly input_schema: Readonly<Record<string, unknown>> | null
}

/**
 * Idempotent for the same `runId`.
 * @throws Problem `not_found`, `validation_failed` if the input does not fit the schema of the version, `quota_exceeded`,
 *   `state_conflict` if runs that start one another are too deep, `dependency_unavailable`
 */
export async function startRun(scope: WorkspaceScope, request: RunRequest): Promise<StartedRun> {
  const trigger = { ...request.trigger, ...deeper(scope, request.trigger) }
  const runId = request.runId ?? scope.newId('run')
  await consumeQuota(scope, 'invocations_per_day')
  const invoked = await createRecord(scope, runId, request, trigger)
  const run = runInput(scope, runId, invoked, request, trigger)
  const timeoutMs = workflowTimeoutMs(run)
  const workflowId = await workflowsOf(scope).start({
    type: 'functionRun',
    queue: QUEUES.flows,
    subject: invoked.id,
    uuid: uuidOf(runId),
    input: run,
    summary: `Function ${invoked.name} v${run.function.version}`,
    attributes: { FlowId: invoked.id, FlowVersion: String(run.function.version), TriggerKind: trigger.kind },
    timeoutMs,
  })
  return { runId, workflowId, waitMs: timeoutMs + LIMITS.functionHeartbeatMs / 2 }
}

/** The chain depth of a run that another run, an execution or an event has started. @throws Problem `state_conflict` */
function deeper({ actor }: WorkspaceScope, given: FunctionTrigger): { readonly chain_depth?: number } {
  const before = given.chain_depth ?? actor.chainDepth
  if (before === undefined && given.kind !== 'function') return {}
  const depth = (before ?? 0) + 1
  if (depth <= LIMITS.chainDepthMax) return { chain_depth: depth }
  throw new Problem('state_conflict', {
    detail: `${LIMITS.chainDepthMax} runs have started one another, which is the maximum.`,
  })
}

const PUBLIC_NOUNS: Readonly<Record<string, string>> = {
  anon: 'function that an anon key may invoke',
  user: 'function that a user may invoke',
}

/**
 * Selects the version and writes the record, in one round trip unless the input has to be checked in between. Anon keys and
 * users find only functions that allow them; row-level security decides.
 */
async function createRecord(
  scope: WorkspaceScope,
  runId: string,
  request: RunRequest,
  trigger: FunctionTrigger,
): Promise<Invocable> {
  const { input, isAsync } = request
  const { id, version } = selectVersion(scope, runId, request)
  const isChecked = isCheckedEarly({ ...request, trigger })
  const columns = sql`${runId}, id, version, ${JSON.stringify(trigger)}::jsonb, ${scope.actor.subject}, ${isAsync}::boolean,
    ${isAsync ? JSON.stringify(input) : null}::json`
  const insert = sql`insert into function_runs (id, function_id, version, trigger, started_by, is_async, input)`
  const invoked = await scope.row<Invocable>(sql`
    with f as (
      select f.id, f.name, f.config, v.version, v.input_schema from functions f join function_versions v
        on v.tenant_id = f.tenant_id and v.workspace_id = f.workspace_id and v.function_id = f.id
          and v.version = ${version}
      where f.id = ${id} or f.name = ${id}
    ), r as (
      ${insert} select ${columns} from f where input_schema is null or not ${isChecked}::boolean on conflict do nothing
    )
    select id, name, version, config, input_schema from f`)
  if (invoked === undefined) throw await whatIsMissing(scope, id, request)
  if (invoked.input_schema === null || !isChecked) return invoked
  checkInputEarly(invoked.input_schema, input)
  const checked = sql`(select ${invoked.id}::text as id, ${invoked.version}::integer as version) f`
  await scope.rows(sql`${insert} select ${columns} from ${checked} on conflict do nothing`).catch((error) => {
    throw violated(error) === undefined ? error : notFound('function')
  })
  return invoked
}

/**
 * @returns id or name of the function, and the number of the version of the function `f`
 * @throws Problem `validation_failed` for both a version and an alias; `forbidden` for a version that the public names
 */
function selectVersion(
  scope: WorkspaceScope,
  runId: string,
  request: RunRequest,
): { id: string; version: Sql } {
  const { id, alias } = aliasOf(request)
  const { version } = request
  if (version !== undefined && alias !== undefined)
    throw new Problem('validation_failed', { detail: 'Name either a version or an alias.' })
  if (alias !== undefined) {
    const selected = sql`(select tenon.alias_version(a.versions, ${shareOf(runId)}) from function_aliases a
      where a.tenant_id = f.tenant_id and a.workspace_id = f.workspace_id and a.function_id = f.id and a.name = ${alias})`
    return { id, version: selected }
  }
  // An admin may have left a version since it is not safe.
  if (version !== undefined && isPublicRole(scope.actor.role))
    throw new Problem('forbidden', { detail: 'Anon keys and users call the active version, or an alias.' })
  return { id, version: sql`coalesce(${version ?? null}::integer, f.active_version)` }
}

/** Names of functions have no `@`. */
function aliasOf({ id: asked, alias }: RunRequest): { id: string; alias: string | undefined } {
  const [id = '', named] = asked.split('@', 2)
  if (named !== undefined && alias !== undefined)
    throw new Problem('validation_failed', { detail: 'Name one alias.' })
  return { id, alias: named ?? alias }
}

async function whatIsMissing(scope: WorkspaceScope, id: string, request: RunRequest): Promise<Problem> {
  const found = await scope.row(sql`select id from functions where id = ${id} or name = ${id}`)
  if (found === undefined) return notFound(PUBLIC_NOUNS[scope.actor.role] ?? 'function')
  return notFound(aliasOf(request).alias === undefined ? 'function version' : 'function alias')
}

function runInput(
  scope: WorkspaceScope,
  run_id: string,
  { id, name, version, config }: Invocable,
  { kind = 'call', input, context, secrets, isAsync, caller = callerOf(scope) }: RunRequest,
  trigger: FunctionTrigger,
): FunctionRunInput {
  const { timeout, memory_mb, retries, idempotent } = { ...DEFAULTS, ...config }
  const timeoutMs = durationMs(timeout)
  return {
    run_id,
    function: { id, name, version },
    kind,
    input,
    caller,
    trigger,
    timeout_ms: isAsync ? timeoutMs : Math.min(timeoutMs, LIMITS.functionTimeoutMs.syncMax),
    memory_mb,
    is_async: isAsync,
    attempts_max: isAsync && idempotent ? retries + 1 : 1,
    ...(context !== undefined && { context }),
    ...(secrets !== undefined && { secrets }),
  }
}

/** The workflow ends a run that waited for a slot, ran and was repeated as long as it may; this is for a workflow that fails to. */
function workflowTimeoutMs({ timeout_ms, attempts_max }: FunctionRunInput): number {
  const attemptMs = LIMITS.functionQueueMs + timeout_ms + 2 * LIMITS.functionHeartbeatMs
  return attempts_max * (attemptMs + LIMITS.functionRetry.maxMs)
}
