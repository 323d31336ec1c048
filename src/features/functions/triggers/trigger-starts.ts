/** Starts runs of functions for schedules and events: one for each due time, and one for each event. */

import type { JsonObject } from '../../../../flows-dsl/ir.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import type { FunctionTriggerInput, ScheduledRun } from '../../../core/execution.ts'
import type { Json } from '../../../core/work.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import {
  chainDepth,
  derivedRunId,
  eventIdentity,
  eventTime,
  wasDueBeforeResumption,
} from '../../triggers/starts.ts'
import { FUNCTION_LIMITS } from '../limits.ts'
import { callerWithoutRights } from '../runs/run.ts'
import { startRun } from '../runs/start-run.ts'
import type { ScheduleSpec } from './declared.ts'

/** How subjects of triggers begin. */
export const TRIGGER_SUBJECT = 'trigger:'
export const triggerSubject = (triggerId: string): string => `${TRIGGER_SUBJECT}${triggerId}`

/**
 * Starts the run of a due schedule. Idempotent: its id derives from the trigger and the due time.
 * @returns `skipped` if the schedule is gone or was due during a suspension
 * @throws Problem as `startRun` does; for a suspended workspace, the scope has thrown before
 */
export async function startScheduledRun(
  scope: WorkspaceScope,
  { trigger_id, function_id, due_at }: FunctionTriggerInput,
): Promise<ScheduledRun> {
  const id =
    due_at === undefined ? scope.newId('run') : derivedRunId(Date.parse(due_at), [trigger_id, due_at])
  const due = await scope.row<{ spec: ScheduleSpec; begun: boolean; deployers: string[] }>(sql`
    select t.spec, ${hasBegun(id)} as begun, ${DEPLOYERS} as deployers
    from function_triggers t join functions f on f.id = t.function_id
    where t.id = ${trigger_id} and t.function_id = ${function_id} and t.kind = 'schedule'`)
  if (due === undefined) return { skipped: 'The function no longer has this schedule.' }
  if (await wasDueBeforeResumption(scope, due_at))
    return { skipped: 'It was due before the workspace was resumed.' }
  if (!due.begun) {
    const input = (due.spec.input ?? {}) as Json
    const trigger = { kind: 'schedule', id: trigger_id } as const
    const caller = callerWithoutRights(triggerSubject(trigger_id), due.deployers)
    await startRun(scope, { id: function_id, input, trigger, isAsync: true, caller, runId: id })
  }
  await scope.batch(sql`
    update function_trigger_states set started = started + 1, last_run_id = ${id}, last_run_at = now()
    where trigger_id = ${trigger_id} and last_run_id is distinct from ${id}`)
  return { run_id: id }
}

/** An event, and the trigger with the spec that has matched it. */
export interface EventStart {
  readonly triggerId: string
  readonly functionId: string
  readonly revision: number
  readonly event: JsonObject
  /** The subjects behind the event. */
  readonly causes: readonly string[]
}

/**
 * Starts the run of an event, with the event as its input. Idempotent: its id derives from the function and the event.
 * @returns the id of the run; `full` if too many runs are in flight; `stale` if the trigger is gone or has another spec
 * @throws Problem as `startRun` does
 */
export async function startEventRun(
  scope: WorkspaceScope,
  { triggerId, functionId, revision, event, causes }: EventStart,
): Promise<`run_${string}` | 'full' | 'stale'> {
  const id = derivedRunId(eventTime(event), [functionId, eventIdentity(event)])
  const { inFlightMax, inFlightFactor } = FUNCTION_LIMITS.triggers
  const row = await scope.row<{ free: number; begun: boolean; deployers: string[] }>(sql`
    select ${hasBegun(id)} as begun, ${DEPLOYERS} as deployers, (
      least(${inFlightMax}::integer, ${inFlightFactor}::integer * (f.config ->> 'concurrency')::integer) - (
        select count(*) from function_runs r where r.function_id = f.id and r.ended_at is null
          and r.trigger ->> 'kind' = 'event' and r.id <> ${id}))::integer as free
    from function_triggers t join functions f on f.id = t.function_id
    where t.id = ${triggerId} and t.revision = ${revision}`)
  if (row === undefined) return 'stale'
  if (row.begun) return id
  if (row.free < 1) return 'full'
  const trigger = { kind: 'event', id: triggerId, chain_depth: chainDepth([event]) } as const
  const caller = callerWithoutRights(triggerSubject(triggerId), [...row.deployers, ...causes])
  await startRun(scope, { id: functionId, input: event as Json, trigger, isAsync: true, caller, runId: id })
  return id
}

/** The people who deployed the active version of the function `f`, and so decided what its trigger starts. */
const DEPLOYERS = sql`(select to_json(tenon.people_behind(array[v.created_by], v.created_at)) from function_versions v
  where v.tenant_id = f.tenant_id and v.workspace_id = f.workspace_id and v.function_id = f.id and v.version = f.active_version)`

/** True for a run that need not be started again. One that is queued may lack its workflow, after a crash. */
const hasBegun = (runId: string): Sql =>
  sql`exists (select from function_runs where id = ${runId} and status <> 'queued')`
