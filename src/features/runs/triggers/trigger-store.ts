/** Stores the triggers that a target declares, and keeps their Temporal Schedules in step with them. */

import type { AdminScope, WorkspaceScope } from '../../../access/scope.ts'
import { tenantWorkflowsOf, workflowsOf } from '../../../access/scope-services.ts'
import type { RegistrationInput, StreamOffsets, TriggerKind } from '../../../core/execution.ts'
import { uuidOf } from '../../../core/ids.ts'
import type { WorkspaceRef } from '../../../core/tenant.ts'
import { QUEUES } from '../../../core/work.ts'
import { type Sql, sql, textArray } from '../../../infra/postgres/sql.ts'
import type { TenantWorkflows } from '../../../infra/temporal/temporal.ts'
import { eventsIn, lastIdsIn } from '../../events/events.ts'
import { type ScheduleRow, toTemporalSchedule } from './schedules.ts'
import type { DeclaredTrigger, TargetKind } from './trigger.ts'

/** A workspace whose triggers are declared, with the rights of the caller who declares them. */
export interface TriggerPlace {
  readonly scope: AdminScope | WorkspaceScope
  readonly ref: WorkspaceRef
  readonly workflows: TenantWorkflows
  /** The ends of the event streams. @throws Problem `dependency_unavailable` */
  readonly streamEnds: () => Promise<StreamOffsets>
}

export const placeOf = (scope: WorkspaceScope): TriggerPlace => ({
  scope,
  ref: scope.ref,
  workflows: workflowsOf(scope),
  streamEnds: () => eventsIn(scope).lastIds(),
})

/** A workspace that an admin reaches. @throws Problem `not_found` */
export const placeIn = (scope: AdminScope, ref: WorkspaceRef): TriggerPlace => ({
  scope,
  ref,
  workflows: tenantWorkflowsOf(scope, ref),
  streamEnds: () => lastIdsIn(scope, ref),
})

/** All triggers of some kinds that a target declares. */
export interface Declaration {
  readonly of: TargetKind
  /** The id of the target before the change. */
  readonly id: string
  /** Selects `tenant_id, workspace_id, id, version` of the target after the change; no row if it is gone. */
  readonly target: Sql
  /** Triggers of other kinds do not change. */
  readonly kinds: readonly TriggerKind[]
  /** With different keys. */
  readonly triggers: readonly DeclaredTrigger[]
}

/** Triggers `t` with their targets `w`, for `from … where`. */
const ofTarget = ({ of, target }: Declaration): Sql => sql`triggers t join (${target}) w
  on w.tenant_id = t.tenant_id and w.workspace_id = t.workspace_id and w.id = t.target_id
  where t.target_kind = ${of.kind}`

/**
 * Statements for the transaction that changes a target, after the one that does. A trigger with the same key keeps its id, its
 * pause and its counts. A new event trigger gets events from now on; an existing one goes on after the last that it has handled,
 * and a changed one forgets events that wait for others.
 * @throws Problem `dependency_unavailable` if events fire one of them and the streams are unavailable
 */
export async function declareTriggers(place: TriggerPlace, declaration: Declaration): Promise<Sql[]> {
  const { of, target, kinds, triggers } = declaration
  const wanted = JSON.stringify(triggers.map((one) => ({ id: place.scope.newId('trg'), ...one })))
  const declared = sql`jsonb_to_recordset(${wanted}::jsonb) as declared (id text, kind text, key text, spec jsonb, paused boolean)`
  const ends = triggers.some(({ kind }) => kind === 'event') ? await place.streamEnds() : undefined
  return [
    ...(ends === undefined ? [] : [resetOffsets(declaration, declared, ends)]),
    sql`delete from triggers d using ${ofTarget(declaration)}
      and d.tenant_id = t.tenant_id and d.workspace_id = t.workspace_id and d.id = t.id
      and t.kind = any(${textArray([...kinds])}::text[]) and t.key not in (select declared.key from ${declared})`,
    sql`insert into triggers (tenant_id, workspace_id, id, target_kind, target_id, kind, key, spec, version, paused)
      select w.tenant_id, w.workspace_id, declared.id, ${of.kind}, w.id, declared.kind, declared.key, declared.spec, w.version,
        coalesce(declared.paused, false)
      from (${target}) w cross join ${declared}
      on conflict (tenant_id, workspace_id, target_kind, target_id, key) do update set
        spec = excluded.spec, version = excluded.version, revision = triggers.revision + 1, updated_at = now()
        where (triggers.spec, triggers.version) is distinct from (excluded.spec, excluded.version)`,
    sql`insert into trigger_states (tenant_id, workspace_id, trigger_id, events_offset, changes_offset)
      select t.tenant_id, t.workspace_id, t.id, case t.kind when 'event' then ${ends?.events ?? null}::text end,
        case t.kind when 'event' then ${ends?.changes ?? null}::text end
      from ${ofTarget(declaration)} on conflict do nothing`,
  ]
}

/** A changed event trigger begins at the end of a stream that it has not consumed so far. */
const resetOffsets = (declaration: Declaration, declared: Sql, ends: StreamOffsets): Sql => sql`
  update trigger_states s set correlation_state = '[]',
    events_offset = case when changed.spec -> 'streams' ? 'events' then s.events_offset else ${ends.events} end,
    changes_offset = case when changed.spec -> 'streams' ? 'changes' then s.changes_offset else ${ends.changes} end
  from (select t.* from ${ofTarget(declaration)} and t.kind = 'event'
    and exists (select from ${declared} where declared.key = t.key and declared.spec <> t.spec)) changed
  where s.tenant_id = changed.tenant_id and s.workspace_id = changed.workspace_id and s.trigger_id = changed.id`

/** A statement for the transaction that deletes a target, after the one that does. @param isGone a condition: it is deleted */
export const deleteTriggers = ({ ref }: Pick<TriggerPlace, 'ref'>, of: TargetKind, id: string, isGone: Sql) =>
  sql`delete from triggers where tenant_id = ${ref.tenantId} and workspace_id = ${ref.workspaceId}
    and target_kind = ${of.kind} and target_id = ${id} and ${isGone}`

/** A statement that pauses or resumes a trigger; a repetition changes only the note. @param which a condition on `triggers` */
export const setPaused = ({ ref }: WorkspaceScope, which: Sql, paused: boolean, note: string | null): Sql =>
  sql`update triggers set paused = ${paused}, paused_by_restore = false, note = ${note}, updated_at = now(),
      resumed_at = case when paused and not ${paused}::boolean then now() else resumed_at end
    where workspace_id = ${ref.workspaceId} and ${which}`

/** Longer than a change takes. */
const REPAIR_AFTER_MS = 10_000

/**
 * Changes the triggers of a target, then their schedules in Temporal. A delayed workflow that does the latter is started first, so
 * that a crash in between loses nothing.
 * @throws Problem `dependency_unavailable` without Temporal: then nothing was changed
 */
export async function changeTriggers<T>(
  place: TriggerPlace,
  declaration: Omit<Declaration, 'triggers'> & Partial<Pick<Declaration, 'triggers'>>,
  change: () => Promise<T>,
): Promise<T> {
  const { of, id, target, kinds, triggers = [] } = declaration
  const before = await findSchedules(place, of, id)
  const isScheduled = kinds.includes('schedule') && [...before, ...triggers].some(isSchedule)
  if (!isScheduled) return change()
  const input = { target: { kind: of.kind, id }, before: before.map((schedule) => schedule.id) }
  await place.workflows.start({
    definition: 'registration',
    queue: QUEUES.provisioning,
    subject: id,
    uuid: place.scope.uuid(),
    input: input satisfies RegistrationInput,
    summary: `Schedules of a ${of.kind} are registered`,
    attributes: { FlowId: id },
    delayMs: REPAIR_AFTER_MS,
  })
  const result = await change()
  // The change is committed; if this fails, the delayed workflow repeats it.
  await syncChanged(place, of, input, target).catch((error: unknown) =>
    place.scope.logError(error, 'schedule registration deferred'),
  )
  return result
}

const isSchedule = ({ kind }: { readonly kind: TriggerKind }): boolean => kind === 'schedule'

/** Another request may have created the target meanwhile, under another id. */
async function syncChanged(
  place: TriggerPlace,
  of: TargetKind,
  input: RegistrationInput,
  target: Sql,
): Promise<void> {
  const now = await place.scope.row<{ id: string }>(sql`select w.id from (${target}) w`)
  await syncSchedules(place, of, { ...input, target: { ...input.target, id: now?.id ?? input.target.id } })
}

const findSchedules = ({ scope, ref }: TriggerPlace, of: TargetKind, targetId: string) =>
  scope.rows<ScheduleRow>(sql`
    select t.id, t.kind, t.key, t.spec, t.paused, t.note, ${of.name} as name from triggers t
    where t.tenant_id = ${ref.tenantId} and t.workspace_id = ${ref.workspaceId}
      and t.target_kind = ${of.kind} and t.target_id = ${targetId} and t.kind = 'schedule' order by t.id`)

/**
 * Brings Temporal to what the rows say, and repeats if they changed meanwhile, so that the last of several concurrent calls has
 * seen the last change. Idempotent.
 */
export async function syncSchedules(
  place: TriggerPlace,
  of: TargetKind,
  { target, before }: RegistrationInput,
): Promise<void> {
  const { schedules } = place.workflows
  const known = new Set(before)
  let done = ''
  for (;;) {
    const rows = await findSchedules(place, of, target.id)
    const read = JSON.stringify(rows)
    if (read === done) return
    for (const id of known) {
      if (!rows.some((row) => row.id === id)) await schedules.remove(target.id, uuidOf(id))
    }
    for (const row of rows) {
      await schedules.put(toTemporalSchedule(target, row))
      known.add(row.id)
    }
    done = read
  }
}
