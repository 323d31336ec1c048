/** The triggers of a flow as rows: read, and brought to what a version declares. */

import type { FlowIR } from '../../../../flows-dsl/ir.ts'
import type { RegistrationInput } from '../../../core/trigger.ts'
import { QUEUES } from '../../../core/work.ts'
import { runsOf } from '../../../platform/capabilities.ts'
import { type Sql, sql } from '../../../platform/pg/sql.ts'
import type { WorkspaceScope } from '../../../platform/scope.ts'
import { events } from './events.ts'
import { schedules } from './schedules.ts'
import type { Declared, Trigger, TriggerKind } from './trigger.ts'
import { webhooks } from './webhooks.ts'

/** Of `flow_triggers t` joined with its flow `f`. */
export const TRIGGER_COLUMNS = sql`t.id, t.flow_id, f.name as flow_name, t.kind, t.key, t.spec, t.version, t.paused,
  t.note, t.created_at, t.updated_at`
export const TRIGGERS = sql`flow_triggers t join flows f
  on f.tenant_id = t.tenant_id and f.workspace_id = t.workspace_id and f.id = t.flow_id`

/** The triggers of a flow, in the order of their ids. */
export function triggersOf(scope: WorkspaceScope, flowId: string): Promise<Trigger[]> {
  return scope.rows<Trigger>(
    sql`select ${TRIGGER_COLUMNS} from ${TRIGGERS} where t.flow_id = ${flowId} order by t.id`,
  )
}

/** What a compiled flow declares; what it declares twice counts once. */
export function declared(ir: FlowIR): (Declared & Pick<TriggerKind, 'kind'>)[] {
  const all = TRIGGER_KINDS.flatMap(({ kind, declared: of }) => of(ir).map((one) => ({ kind, ...one })))
  return all.filter(({ key }, index) => all.findIndex((one) => one.key === key) === index)
}

/**
 * Statements for the transaction that publishes a version, after the one that makes it: what is new comes, what has the
 * same key stays itself, paused or not, what is gone goes.
 */
export function replaceTriggers(scope: WorkspaceScope, flowId: string, version: number, ir: FlowIR): Sql[] {
  const wanted = JSON.stringify(declared(ir).map((one) => ({ id: scope.newId('trg'), ...one })))
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

/** For the transaction that deletes a flow. @param unless a condition under which it stays */
export const deleteTriggers = (flowId: string, unless: Sql): Sql =>
  sql`delete from flow_triggers where flow_id = ${flowId} and not ${unless}`

export const TRIGGER_KINDS: readonly TriggerKind[] = [schedules, webhooks, events]

/** Long enough for the change to be written; until then a crash leaves the outside as it was. */
const REPAIR_AFTER_MS = 10_000

/**
 * Changes the triggers of a flow, and then the outside. The workflow that will look after the latter is started first:
 * whoever is killed anywhere in between leaves it to that.
 * @param isNeeded whether there is anything outside before or after the change
 * @throws Problem `dependency_unavailable` without Temporal: then nothing was changed
 */
export async function changeTriggers<T>(
  scope: WorkspaceScope,
  flowId: string,
  isNeeded: (before: readonly Trigger[]) => boolean,
  change: () => Promise<T>,
): Promise<T> {
  const before = await triggersOf(scope, flowId)
  if (!isNeeded(before)) return change()
  const input = { flow_id: flowId, before: before.map(({ id, kind }) => ({ id, kind })) }
  await startRepair(scope, input)
  const result = await change()
  // What was changed stays so; the workflow does what could not be done here.
  await syncTriggers(scope, input).catch((error: unknown) =>
    scope.report(error, 'triggers are registered later'),
  )
  return result
}

/** Whether triggers of these kinds have anything outside the database. */
export const hasExternalState = (triggers: readonly Pick<Trigger, 'kind'>[]): boolean =>
  triggers.some(({ kind }) => outsideOf(kind) !== undefined)

async function startRepair(scope: WorkspaceScope, input: RegistrationInput): Promise<void> {
  await runsOf(scope).start({
    type: 'registration',
    queue: QUEUES.provisioning,
    subject: input.flow_id,
    uuid: scope.uuid(),
    input,
    summary: 'Triggers of a flow are registered',
    attributes: { FlowId: input.flow_id },
    delayMs: REPAIR_AFTER_MS,
  })
}

/**
 * Brings what is outside to what the rows say. Where they have changed meanwhile, once more: of several at once, the last
 * to end has seen the last change. Idempotent.
 */
export async function syncTriggers(
  scope: WorkspaceScope,
  { flow_id, before }: RegistrationInput,
): Promise<void> {
  const known = new Map(before.map(({ id, kind }) => [id, kind]))
  let done = ''
  for (;;) {
    const rows = await triggersOf(scope, flow_id)
    const seen = JSON.stringify(rows)
    if (seen === done) return
    for (const [id, kind] of known) {
      if (!rows.some((row) => row.id === id)) await outsideOf(kind)?.unregister(scope, { id, flow_id })
    }
    for (const row of rows) {
      await outsideOf(row.kind)?.register(scope, row)
      known.set(row.id, row.kind)
    }
    done = seen
  }
}

function outsideOf(kind: Trigger['kind']) {
  return TRIGGER_KINDS.find((one) => one.kind === kind)?.outside
}
