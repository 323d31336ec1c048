/** Stores the triggers of functions with their configuration, and keeps their schedules in Temporal. */

import { parseCron } from '../../../../flows-dsl/compile/cron.ts'
import type { AdminScope, WorkspaceScope } from '../../../access/scope.ts'
import { tenantWorkflowsOf, workflowsOf } from '../../../access/scope-services.ts'
import type { FunctionTriggerInput } from '../../../core/execution.ts'
import { uuidOf } from '../../../core/ids.ts'
import type { TenantId, WorkspaceId, WorkspaceRef } from '../../../core/tenant.ts'
import { QUEUES } from '../../../core/work.ts'
import type { Statements } from '../../../infra/postgres/database.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import type { Scheduled } from '../../../infra/temporal/schedules.ts'
import type { TenantWorkflows } from '../../../infra/temporal/temporal.ts'
import { lastIdsIn } from '../../events/events.ts'
import { changeRegistered } from '../../triggers/registration.ts'
import { CATCH_UP_MS, cronTiming } from '../../triggers/schedule-timing.ts'
import { type DeclaredTriggers, eventSpec, type ScheduleSpec } from './declared.ts'

/** A function that is configured or deleted. */
export interface Target {
  /** A condition on `functions f` that one function fulfils. */
  readonly is: Sql
  /** The id and the workspace of the function that is created, if there is none. */
  readonly created?: { readonly id: string; readonly workspaceId: string }
}

/**
 * Writes a configuration and its triggers in one transaction, then brings the schedule to Temporal; a crash in between is
 * repaired (triggers/registration.ts).
 * @param change what is written; `schedule: null` for a deletion
 * @param write runs the transaction: the statement that changes the function, then the given ones
 * @throws Problem `dependency_unavailable` without Temporal or Valkey, if they are needed: then nothing was changed
 */
export async function writeTriggers<T>(
  scope: AdminScope,
  target: Target,
  change: DeclaredTriggers,
  write: (statements: Sql[]) => Promise<T>,
): Promise<T> {
  const { schedule, triggers } = change
  if (schedule === undefined && triggers === undefined) return write([])
  const place = await scope.row<Place>(placeOf(target))
  // The write finds out why.
  if (place === undefined) return write([])
  const ref = { tenantId: place.tenant_id, workspaceId: place.workspace_id }
  const statements = [
    ...scheduleStatements(scope, target.is, schedule),
    ...(await eventStatements(scope, ref, target.is, triggers)),
  ]
  if (schedule === undefined || (schedule === null && !place.is_scheduled)) return write(statements)
  const workflows = tenantWorkflowsOf(scope, ref)
  const registration = {
    workflows,
    uuid: scope.uuid(),
    subject: place.id,
    input: { function_id: place.id },
    summary: 'The schedule of a function is registered',
    sync: async () => {
      // Another request may have created the function meanwhile, under another id.
      const now = await scope.row<{ id: string }>(sql`select f.id from functions f where ${target.is}`)
      await syncRow({ scope, ref, workflows }, now?.id ?? place.id)
    },
    defer: (error: unknown) => scope.logError(error, 'function schedule registration deferred'),
  }
  return changeRegistered(registration, () => write(statements))
}

interface Place {
  readonly id: string
  readonly tenant_id: TenantId
  readonly workspace_id: WorkspaceId
  readonly is_scheduled: boolean
}

/** Selects the tenant and the workspace in which the function is, or will be created. */
function placeOf({ is, created }: Target): Sql {
  const scheduled = sql`exists (select from function_triggers t where t.tenant_id = f.tenant_id
    and t.workspace_id = f.workspace_id and t.function_id = f.id and t.kind = 'schedule') as is_scheduled`
  if (created === undefined)
    return sql`select f.id, f.tenant_id, f.workspace_id, ${scheduled} from functions f where ${is}`
  return sql`
    select coalesce(f.id, ${created.id}) as id, w.tenant_id, w.id as workspace_id, ${scheduled}
    from workspaces w left join functions f on f.tenant_id = w.tenant_id and f.workspace_id = w.id and ${is}
    where w.id = ${created.workspaceId}`
}

function scheduleStatements(scope: AdminScope, is: Sql, schedule: DeclaredTriggers['schedule']): Sql[] {
  if (schedule === undefined) return []
  if (schedule === null) return [deletion(is, 'schedule')]
  return insertions(scope, is, 'schedule', schedule)
}

/** A new trigger hears events from now on; one that is there goes on after the last that it has handled. */
async function eventStatements(
  scope: AdminScope,
  ref: WorkspaceRef,
  is: Sql,
  triggers: DeclaredTriggers['triggers'],
): Promise<Sql[]> {
  if (triggers === undefined) return []
  const spec = eventSpec(triggers)
  if (spec === undefined) return [deletion(is, 'event')]
  const { events, changes } = await lastIdsIn(scope, ref)
  return [
    // A stream that it has not consumed so far is consumed from its end.
    sql`update function_trigger_states s set
        events_offset = case when t.spec -> 'streams' ? 'events' then s.events_offset else ${events} end,
        changes_offset = case when t.spec -> 'streams' ? 'changes' then s.changes_offset else ${changes} end
      from ${ofFunction(is, 'event')} and s.tenant_id = t.tenant_id and s.workspace_id = t.workspace_id
        and s.trigger_id = t.id`,
    ...insertions(scope, is, 'event', spec, { events, changes }),
  ]
}

/** The trigger of the kind, for `from … where`. */
const ofFunction = (is: Sql, kind: 'schedule' | 'event'): Sql => sql`function_triggers t join functions f
  on f.tenant_id = t.tenant_id and f.workspace_id = t.workspace_id and f.id = t.function_id
  where ${is} and t.kind = ${kind}`

const deletion = (is: Sql, kind: 'schedule' | 'event'): Sql => sql`
  delete from function_triggers d using ${ofFunction(is, kind)}
    and d.tenant_id = t.tenant_id and d.workspace_id = t.workspace_id and d.id = t.id`

function insertions(
  scope: AdminScope,
  is: Sql,
  kind: 'schedule' | 'event',
  spec: object,
  { events, changes }: { readonly events?: string; readonly changes?: string } = {},
): Sql[] {
  return [
    sql`insert into function_triggers (tenant_id, workspace_id, id, function_id, kind, spec)
      select f.tenant_id, f.workspace_id, ${scope.newId('trg')}, f.id, ${kind}, ${JSON.stringify(spec)}::jsonb
      from functions f where ${is}
      on conflict (tenant_id, workspace_id, function_id, kind) do update set
        spec = excluded.spec, revision = function_triggers.revision + 1, updated_at = now()
        where function_triggers.spec <> excluded.spec`,
    sql`insert into function_trigger_states (tenant_id, workspace_id, trigger_id, events_offset, changes_offset)
      select t.tenant_id, t.workspace_id, t.id, ${events ?? null}, ${changes ?? null}
      from ${ofFunction(is, kind)} on conflict do nothing`,
  ]
}

/** As {@link writeTriggers} does after its transaction; idempotent. */
export const syncSchedule = (scope: WorkspaceScope, functionId: string): Promise<void> =>
  syncRow({ scope, ref: scope.ref, workflows: workflowsOf(scope) }, functionId)

interface Registrar {
  readonly scope: Statements
  readonly ref: WorkspaceRef
  readonly workflows: TenantWorkflows
}

interface ScheduleRow {
  readonly id: string
  readonly spec: ScheduleSpec
  readonly name: string
}

/** Brings Temporal to what the row says, and repeats if it changed meanwhile. A function has one schedule, under its own id. */
async function syncRow({ scope, ref, workflows }: Registrar, functionId: string): Promise<void> {
  let done: string | undefined
  for (;;) {
    const row = await scope.row<ScheduleRow>(sql`
      select t.id, t.spec, f.name from ${ofFunction(
        sql`f.tenant_id = ${ref.tenantId}
        and f.workspace_id = ${ref.workspaceId} and f.id = ${functionId}`,
        'schedule',
      )}`)
    const seen = JSON.stringify(row ?? null)
    if (seen === done) return
    if (row === undefined) await workflows.schedules.remove(functionId, uuidOf(functionId))
    else await workflows.schedules.put(scheduled(functionId, row))
    done = seen
  }
}

/** A due run starts even if others go on: the function's `concurrency` bounds them. */
function scheduled(functionId: string, { id, spec, name }: ScheduleRow): Scheduled {
  const { cron, timezone } = spec
  const parsed = parseCron(cron)
  const input: FunctionTriggerInput = { trigger_id: id, function_id: functionId, patience_ms: CATCH_UP_MS }
  return {
    definition: 'functionTrigger',
    type: `${name} (schedule)`,
    queue: QUEUES.flows,
    subject: functionId,
    uuid: uuidOf(functionId),
    input,
    summary: `Schedule of function ${name}`,
    attributes: { FlowId: functionId, FlowName: name, TriggerKind: 'schedule' },
    timing: {
      ...cronTiming('cron' in parsed ? parsed.cron : cron, timezone),
      overlap: 'allow_all',
      catchUpMs: CATCH_UP_MS,
    },
    paused: false,
    note: '',
  }
}
