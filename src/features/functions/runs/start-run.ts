/** Starts runs of functions: writes the record, then starts the workflow. */

import { asRunKeeper } from '../../../access/access.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { workflowsOf } from '../../../access/scope-services.ts'
import { uuidOf } from '../../../core/ids.ts'
import { LIMITS } from '../../../core/limits.ts'
import { isPublicRole } from '../../../core/policy.ts'
import { notFound, Problem } from '../../../core/problem.ts'
import { workflowId } from '../../../core/tenant.ts'
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
import { consumption } from '../../quotas/quotas-api.ts'
import { shareOf } from '../../version-aliases.ts'
import { checkInputEarly, isCheckedEarly } from '../check-run.ts'
import type { FunctionConfig } from '../config.ts'
import { DEFAULTS } from '../config.ts'
import { callerOf } from './run.ts'
import { admitQueued, awaitSlot } from './slots.ts'

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
 * Idempotent for the same `runId`. A run of a function with `concurrency` waits for a slot: here if its caller waits, else in
 * the queue of the function.
 * @throws Problem `not_found`, `validation_failed` if the input does not fit the schema of the version, `quota_exceeded`,
 *   `function_busy`, `state_conflict` if runs that start one another are too deep, `dependency_unavailable`
 */
export async function startRun(scope: WorkspaceScope, request: RunRequest): Promise<StartedRun> {
  const trigger = { ...request.trigger, ...deeper(scope, request.trigger) }
  const runId = request.runId ?? scope.newId('run')
  const invoked = await createRecord(scope, runId, request, trigger)
  const run = runInput(scope, runId, invoked, request, trigger)
  const started = { runId, workflowId: workflowOf(scope, run), waitMs: waitMs(run) }
  if (isLimited(invoked)) {
    const admin = asRunKeeper(scope)
    if (request.isAsync) {
      await startQueued(admin, invoked.id)
      return started
    }
    await awaitSlot(admin, invoked.id, runId)
  }
  await startWorkflow(scope, run)
  return started
}

const isLimited = ({ config }: Invocable): boolean => (config.concurrency ?? null) !== null

const workflowOf = ({ ref }: WorkspaceScope, run: FunctionRunInput): string =>
  workflowId(ref, run.function.id, uuidOf(run.run_id))

const waitMs = (run: FunctionRunInput): number => workflowTimeoutMs(run) + LIMITS.functionHeartbeatMs / 2

/** Starts the asynchronous runs that get a slot now. The scope is an admin's. A run that cannot be started keeps its slot. */
export async function startQueued(scope: WorkspaceScope, functionId: string): Promise<void> {
  for (const id of await admitQueued(scope, functionId)) await startRecorded(scope, id)
}

interface RecordedRow extends Omit<Invocable, 'input_schema'> {
  readonly trigger: FunctionTrigger
  readonly input: Json
  readonly context: Json | null
  readonly caller: FunctionCaller
}

/** Starts an asynchronous run by its record, unless it has ended. Idempotent. The scope is an admin's. */
export async function startRecorded(scope: WorkspaceScope, runId: string): Promise<void> {
  const row = await scope.row<RecordedRow>(sql`
    select f.id, f.name, r.version, f.config, r.trigger, r.input, r.context, r.caller
    from function_runs r join functions f on f.id = r.function_id
    where r.id = ${runId} and r.is_async and r.ended_at is null`)
  if (row === undefined) return
  const { trigger, input, context, caller, ...invoked } = row
  const request = { id: row.id, input, trigger, caller, isAsync: true, ...(context !== null && { context }) }
  await startWorkflow(scope, runInput(scope, runId, invoked, request, trigger))
}

async function startWorkflow(scope: WorkspaceScope, run: FunctionRunInput): Promise<void> {
  const { id, name, version } = run.function
  await workflowsOf(scope).start({
    type: 'functionRun',
    queue: QUEUES.flows,
    subject: id,
    uuid: uuidOf(run.run_id),
    input: run,
    summary: `Function ${name} v${version}`,
    attributes: { FlowId: id, FlowVersion: String(version), TriggerKind: run.trigger.kind },
    timeoutMs: workflowTimeoutMs(run),
  })
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
  const { input, isAsync, context, caller = callerOf(scope) } = request
  const stored = (value: unknown) => (isAsync && value !== undefined ? JSON.stringify(value) : null)
  const { id, version } = selectVersion(scope, runId, request)
  const counted = await consumption(scope, 'invocations_per_day')
  const isChecked = isCheckedEarly({ ...request, trigger })
  const columns = sql`${runId}, id, version, ${JSON.stringify(trigger)}::jsonb, ${scope.actor.subject}, ${isAsync}::boolean,
    case when config ->> 'concurrency' is not null then 'awaited' end,
    ${stored(input)}::json, ${stored(caller)}::json, ${stored(context)}::json`
  const insert = sql`insert into function_runs (id, function_id, version, trigger, started_by, is_async, slot, input, caller, context)`
  const invoked = await scope.row<Invocable>(sql`
    with f as (
      select f.id, f.name, f.config, v.version, v.input_schema from functions f join function_versions v
        on v.tenant_id = f.tenant_id and v.workspace_id = f.workspace_id and v.function_id = f.id
          and v.version = ${version}
      where f.id = ${id} or f.name = ${id}
    ), r as (
      ${insert} select ${columns} from (
        select *, ${counted} from f where input_schema is null or not ${isChecked}::boolean
      ) f on conflict do nothing
    )
    select id, name, version, config, input_schema from f`)
  if (invoked === undefined) throw await whatIsMissing(scope, id, request)
  if (invoked.input_schema === null || !isChecked) return invoked
  checkInputEarly(invoked.input_schema, input)
  const checked = sql`(select ${invoked.id}::text as id, ${invoked.version}::integer as version,
    ${JSON.stringify(invoked.config)}::jsonb as config, ${counted}) f`
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
  { id, name, version, config }: Omit<Invocable, 'input_schema'>,
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
function workflowTimeoutMs({ timeout_ms, attempts_max, is_async }: FunctionRunInput): number {
  const queueMs = is_async ? LIMITS.functionAsyncQueueMs : LIMITS.functionQueueMs
  const attemptMs = queueMs + timeout_ms + 2 * LIMITS.functionHeartbeatMs
  return attempts_max * (attemptMs + LIMITS.functionRetry.maxMs)
}
