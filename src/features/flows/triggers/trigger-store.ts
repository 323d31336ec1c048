/** Stores the triggers of a version and synchronises their state outside the database, such as Temporal Schedules. */

import type { FlowIR } from '../../../../flows-dsl/ir.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { workflowsOf } from '../../../access/scope-services.ts'
import type { FlowRegistration } from '../../../core/execution.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import { changeRegistered } from '../../triggers/registration.ts'
import { eventTriggers } from './events.ts'
import { scheduleTriggers } from './schedules.ts'
import type { DeclaredTrigger, Trigger, TriggerKind } from './trigger.ts'
import { webhookTriggers } from './webhooks.ts'

/** Columns of `flow_triggers t` joined with its flow `f`. */
export const TRIGGER_COLUMNS = sql`t.id, t.flow_id, f.name as flow_name, t.kind, t.key, t.spec, t.version, t.paused,
  t.note, t.created_at, t.updated_at`
export const TRIGGERS = sql`flow_triggers t join flows f
  on f.tenant_id = t.tenant_id and f.workspace_id = t.workspace_id and f.id = t.flow_id`

/** The triggers of a flow, ordered by id. */
function readTriggers(scope: WorkspaceScope, flowId: string): Promise<Trigger[]> {
  return scope.rows<Trigger>(
    sql`select ${TRIGGER_COLUMNS} from ${TRIGGERS} where t.flow_id = ${flowId} order by t.id`,
  )
}

/** The triggers that a compiled flow declares, without duplicates. */
export function declaredTriggers(ir: FlowIR): (DeclaredTrigger & Pick<TriggerKind, 'kind'>)[] {
  const all = TRIGGER_KINDS.flatMap(({ kind, declared: of }) => of(ir).map((one) => ({ kind, ...one })))
  return all.filter(({ key }, index) => all.findIndex((one) => one.key === key) === index)
}

/**
 * Statements for the transaction that publishes a version, after the one that inserts it. A trigger with the same key keeps
 * its id and its pause across versions.
 */
export function replaceTriggers(scope: WorkspaceScope, flowId: string, version: number, ir: FlowIR): Sql[] {
  const wanted = JSON.stringify(declaredTriggers(ir).map((one) => ({ id: scope.newId('trg'), ...one })))
  return [
    sql`delete from flow_triggers where flow_id = ${flowId}
      and key not in (select d ->> 'key' from jsonb_array_elements(${wanted}::jsonb) as d)`,
    sql`insert into flow_triggers (id, flow_id, kind, key, spec, version)
      select d ->> 'id', ${flowId}, d ->> 'kind', d ->> 'key', d -> 'spec', ${version}
      from jsonb_array_elements(${wanted}::jsonb) as d
      on conflict (tenant_id, workspace_id, flow_id, key)
        do update set spec = excluded.spec, version = excluded.version, updated_at = now()`,
  ]
}

/** A statement for the transaction that deletes a flow, after the one that marks it as deleted. */
export const deleteTriggers = (flowId: string): Sql =>
  sql`delete from flow_triggers
    where flow_id = ${flowId} and exists (select from flows where id = ${flowId} and deleted_at is not null)`

const TRIGGER_KINDS: readonly TriggerKind[] = [scheduleTriggers, webhookTriggers, eventTriggers]

/**
 * Changes the triggers of a flow, then their external state.
 * @param declares the triggers that the change adds
 * @throws Problem `dependency_unavailable` without Temporal: then nothing was changed
 */
export async function changeTriggers<T>(
  scope: WorkspaceScope,
  flowId: string,
  declares: readonly Pick<Trigger, 'kind'>[],
  change: () => Promise<T>,
): Promise<T> {
  const before = await readTriggers(scope, flowId)
  if (![...before, ...declares].some(({ kind }) => externalOf(kind) !== undefined)) return change()
  const input = { flow_id: flowId, before: before.map(({ id, kind }) => ({ id, kind })) }
  const registration = {
    workflows: workflowsOf(scope),
    uuid: scope.uuid(),
    subject: flowId,
    input,
    summary: 'Triggers of a flow are registered',
    sync: () => syncTriggers(scope, input),
    defer: (error: unknown) => scope.logError(error, 'trigger registration deferred'),
  }
  return changeRegistered(registration, change)
}

/**
 * Synchronises external state with the rows, and repeats if they changed meanwhile, so that the last of several concurrent
 * calls has seen the last change. Idempotent.
 */
export async function syncTriggers(
  scope: WorkspaceScope,
  { flow_id, before }: FlowRegistration,
): Promise<void> {
  const known = new Map(before.map(({ id, kind }) => [id, kind]))
  let done = ''
  for (;;) {
    const rows = await readTriggers(scope, flow_id)
    const seen = JSON.stringify(rows)
    if (seen === done) return
    for (const [id, kind] of known) {
      if (!rows.some((row) => row.id === id)) await externalOf(kind)?.unregister(scope, { id, flow_id })
    }
    for (const row of rows) {
      await externalOf(row.kind)?.register(scope, row)
      known.set(row.id, row.kind)
    }
    done = seen
  }
}

function externalOf(kind: Trigger['kind']) {
  return TRIGGER_KINDS.find((one) => one.kind === kind)?.external
}
