/** Starts runs of functions: writes the record, then starts the workflow. */

import { asRunKeeper } from '../../../access/access.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { workflowsOf } from '../../../access/scope-services.ts'
import { uuidOf } from '../../../core/ids.ts'
import { LIMITS } from '../../../core/limits.ts'
import { Problem } from '../../../core/problem.ts'
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
import { sql } from '../../../infra/postgres/sql.ts'
import { findRow } from '../../operation-helpers.ts'
import { consumeQuota } from '../../quotas/quotas-api.ts'
import type { FunctionConfig } from '../config.ts'
import { DEFAULTS } from '../config.ts'
import { callerOf } from './run.ts'
import { admitQueued, awaitSlot } from './slots.ts'

export interface RunRequest {
  /** Id or name of the function. */
  readonly id: string
  /** By default the active version. */
  readonly version?: number
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
}

/**
 * Idempotent for the same `runId`. A run of a function with `concurrency` waits for a slot: here if its caller waits, else in
 * the queue of the function.
 * @throws Problem `not_found`, `quota_exceeded`, `function_busy`, `state_conflict` if runs that start one another are too deep,
 *   `dependency_unavailable`
 */
export async function startRun(scope: WorkspaceScope, request: RunRequest): Promise<StartedRun> {
  const trigger = { ...request.trigger, ...deeper(scope, request.trigger) }
  const runId = request.runId ?? scope.newId('run')
  await consumeQuota(scope, 'invocations_per_day')
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

interface RecordedRow extends Invocable {
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

/** Anon keys and users find only functions that allow them; row-level security decides. */
function createRecord(
  scope: WorkspaceScope,
  runId: string,
  { id, version, input, isAsync, context, caller = callerOf(scope) }: RunRequest,
  trigger: FunctionTrigger,
): Promise<Invocable> {
  const stored = (value: unknown) => (isAsync && value !== undefined ? JSON.stringify(value) : null)
  return findRow<Invocable>(
    scope,
    PUBLIC_NOUNS[scope.actor.role] ?? 'function',
    sql`
    with f as (
      select id, name, coalesce(${version ?? null}::integer, active_version) as version, config
      from functions where id = ${id} or name = ${id}
    ), r as (
      insert into function_runs (id, function_id, version, trigger, started_by, is_async, slot, input, caller, context)
      select ${runId}, id, version, ${JSON.stringify(trigger)}::jsonb, ${scope.actor.subject}, ${isAsync},
        case when config ->> 'concurrency' is not null then 'awaited' end,
        ${stored(input)}::json, ${stored(caller)}::json, ${stored(context)}::json
      from f on conflict do nothing
    )
    select id, name, version, config from f`,
  )
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
function workflowTimeoutMs({ timeout_ms, attempts_max, is_async }: FunctionRunInput): number {
  const queueMs = is_async ? LIMITS.functionAsyncQueueMs : LIMITS.functionQueueMs
  const attemptMs = queueMs + timeout_ms + 2 * LIMITS.functionHeartbeatMs
  return attempts_max * (attemptMs + LIMITS.functionRetry.maxMs)
}
