/** Starts runs of functions: writes the record, then starts the workflow. */

import { privilege } from '../../../access/privileges.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { workflowsOf } from '../../../access/scope-services.ts'
import { callersOf, isPublicRole } from '../../../core/policy.ts'
import { notFound, Problem } from '../../../core/problem.ts'
import type { FunctionRunInput, FunctionTrigger } from '../../../core/work.ts'
import { violated } from '../../../infra/postgres/errors.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import { retryTransient } from '../../../infra/retry.ts'
import type { StartReservation } from '../../../infra/temporal/call-limiter.ts'
import { SHARED_LIMITS } from '../../limits.ts'
import { nextChainDepth } from '../../operation-helpers.ts'
import { consumption } from '../../quotas/quotas-api.ts'
import { callerOf } from '../../runs/caller.ts'
import {
  type AdmittedRow,
  awaitSlot,
  type QueuedRun,
  queueRun,
  releaseSlot,
  startAdmitted,
} from '../../runs/slots.ts'
import { shareOf } from '../../version-aliases.ts'
import { checkInputEarly, isCheckedEarly } from '../check-run.ts'
import { FUNCTION_LIMITS } from '../limits.ts'
import { FUNCTION_RUN } from './record-run.ts'
import type { RunRequest } from './run.ts'
import { type Invocable, runInput, startWorkflow, waitMs, workflowOf } from './run-workflow.ts'

/** Callers of functions may not write records of runs themselves. */
const asRunOwner = privilege('functions.start')

export interface StartedRun {
  readonly runId: string
  readonly workflowId: string
  /** How long a caller waits at most for the result. */
  readonly waitMs: number
}

interface Checked extends Invocable {
  readonly input_schema: Readonly<Record<string, unknown>> | null
}

/**
 * Idempotent for the same `runId`. A run of a function with `concurrency` waits for a slot: here if its caller waits, else in
 * the queue of the function.
 * @throws Problem `not_found`, `validation_failed` if the input does not fit the schema of the version, `quota_exceeded`,
 *   `function_busy`, `state_conflict` if runs that start one another are too deep, `dependency_unavailable`, `rate_limited` if too
 *   many starts wait for Temporal
 */
export async function startRun(scope: WorkspaceScope, request: RunRequest): Promise<StartedRun> {
  const reservation = workflowsOf(scope).reserveStart()
  return startReserved(scope, request, reservation).finally(reservation.end)
}

async function startReserved(
  scope: WorkspaceScope,
  request: RunRequest,
  reservation: StartReservation,
): Promise<StartedRun> {
  const trigger = { ...request.trigger, ...chainDepthOf(scope, request.trigger) }
  const runId = request.runId ?? scope.newId('run')
  const invoked = await createRecord(scope, runId, request, trigger)
  const run = runInput(scope, runId, invoked, request, trigger)
  const started = { runId, workflowId: workflowOf(scope, run), waitMs: waitMs(run) }
  const { concurrency = null } = invoked.config
  if (concurrency !== null) {
    await startInSlot(scope, run, { runId, ownerId: invoked.id }, reservation)
    return started
  }
  if (request.isAsync) await startWorkflow(scope, run)
  else
    await startSurely(scope, run).catch((error: unknown) => {
      throw unconfirmed(error, runId)
    })
  return started
}

/** A loaded server takes longer than the deadline of one call. Starts of one run are one start, and its caller waits anyway. */
const startSurely = (scope: WorkspaceScope, run: FunctionRunInput) =>
  retryTransient(FUNCTION_LIMITS.startRetryMs, () => startWorkflow(scope, run), undefined, START_PAUSE_MS)

/** The bound of requests to Temporal, which all starts of the process share, paces them further. */
const START_PAUSE_MS = { min: 50, max: 5_000 }

/** Only its caller can find out what became of the run. */
function unconfirmed(error: unknown, runId: string): unknown {
  if (!(error instanceof Problem) || error.code !== 'dependency_unavailable') return error
  const detail = `Temporal has not confirmed the start of the run ${runId}: the function may run, or have run.`
  const hint = 'Read the run, or check what the function does, before you repeat the call.'
  return new Problem(error.code, {
    detail,
    hint,
    members: { run_id: runId, may_have_arrived: true },
    cause: error,
  })
}

/**
 * Queues a run for a slot. The process that gives it one starts it, unless its caller waits: then it is started here.
 * @throws Problem `function_busy` after `functionQueueMs`; then the record is deleted, since nothing was run
 */
async function startInSlot(
  scope: WorkspaceScope,
  run: FunctionRunInput,
  queued: QueuedRun,
  reservation: StartReservation,
): Promise<void> {
  const admin = asRunOwner(scope)
  const wait = run.is_async ? {} : { waitMs: FUNCTION_LIMITS.queueMs }
  const hasSlot = await queueRun(admin, FUNCTION_RUN, { ...queued, ...wait })
  if (run.is_async) return
  const awaitTurn = () => awaitSlot(admin, FUNCTION_RUN, run.run_id)
  if (!hasSlot && !(await reservation.yieldWhile(awaitTurn))) {
    await deleteQueuedRun(admin, run.run_id)
    const detail = `No run of the function ended within ${FUNCTION_LIMITS.queueMs / 1_000} s. Nothing was run.`
    throw new Problem('function_busy', { detail })
  }
  await startSurely(scope, run).catch(async (error: unknown) => {
    await deleteQueuedRun(admin, run.run_id).catch((cause: unknown) =>
      admin.logError(cause, 'slot of a function run not passed on'),
    )
    throw error
  })
}

/**
 * Passes on the slot of a run that was not started, and deletes its record, so that a call with the same id may follow. A workflow that
 * has started nevertheless finds no record, and runs nothing.
 */
async function deleteQueuedRun(admin: WorkspaceScope, runId: string): Promise<void> {
  const [admitted = []] = await admin.batch(
    sql`select next.id from function_runs r cross join lateral (${releaseSlot(runId)}) next where r.id = ${runId} and r.status = 'queued'`,
    sql`delete from function_runs where id = ${runId} and status = 'queued'`,
  )
  await startAdmitted(admin, FUNCTION_RUN, admitted as readonly AdmittedRow[])
}

/** The chain depth of a run that another run, an execution or an event has started. @throws Problem `state_conflict` */
function chainDepthOf({ actor }: WorkspaceScope, given: FunctionTrigger): { readonly chain_depth?: number } {
  const before = given.chain_depth ?? actor.chainDepth
  if (before === undefined && given.kind !== 'function') return {}
  const detail = `${SHARED_LIMITS.chainDepthMax} runs have started one another, which is the maximum.`
  return { chain_depth: nextChainDepth(before ?? 0, detail) }
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
): Promise<Checked> {
  const { input, isAsync, context, caller = callerOf(scope) } = request
  const stored = (value: unknown) => (isAsync && value !== undefined ? JSON.stringify(value) : null)
  const { id, version } = selectVersion(scope, runId, request)
  const counted = await consumption(scope, 'invocations_per_day')
  const isChecked = isCheckedEarly({ ...request, trigger })
  const columns = sql`${runId}, id, version, ${JSON.stringify(trigger)}::jsonb, ${scope.actor.subject}, ${isAsync}::boolean,
    ${stored(input)}::json, ${stored(caller)}::json, ${stored(context)}::json`
  const insert = sql`insert into function_runs (id, function_id, version, trigger, started_by, is_async, input, caller, context)`
  const invoked = await scope.row<Checked>(sql`
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
  if (invoked === undefined) throw await notFoundProblem(scope, id, request)
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
    throw new Problem('forbidden', {
      detail: `${callersOf(scope.actor)} may call the active version, or an alias, and no other version.`,
    })
  return { id, version: sql`coalesce(${version ?? null}::integer, f.active_version)` }
}

/** Names of functions have no `@`. */
function aliasOf({ id: asked, alias }: RunRequest): { id: string; alias: string | undefined } {
  const [id = '', named] = asked.split('@', 2)
  if (named !== undefined && alias !== undefined)
    throw new Problem('validation_failed', { detail: 'Name one alias.' })
  return { id, alias: named ?? alias }
}

async function notFoundProblem(scope: WorkspaceScope, id: string, request: RunRequest): Promise<Problem> {
  const found = await scope.row(sql`select id from functions where id = ${id} or name = ${id}`)
  if (found === undefined) return notFound(PUBLIC_NOUNS[scope.actor.role] ?? 'function')
  return notFound(aliasOf(request).alias === undefined ? 'function version' : 'function alias')
}
