/** Stores the triggers that a version declares, and keeps what they have outside the database in line with their rows. */

import type { FlowIR } from '../../../../flows-dsl/ir.ts'
import { workflowsOf } from '../../../access/capabilities.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import type { RegistrationInput } from '../../../core/run.ts'
import { QUEUES } from '../../../core/work.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
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
function triggersOf(scope: WorkspaceScope, flowId: string): Promise<Trigger[]> {
  return scope.rows<Trigger>(
    sql`select ${TRIGGER_COLUMNS} from ${TRIGGERS} where t.flow_id = ${flowId} order by t.id`,
  )
}

/** The triggers that a compiled flow declares; one that is declared twice counts once. */
export function declared(ir: FlowIR): (Declared & Pick<TriggerKind, 'kind'>)[] {
  const all = TRIGGER_KINDS.flatMap(({ kind, declared: of }) => of(ir).map((one) => ({ kind, ...one })))
  return all.filter(({ key }, index) => all.findIndex((one) => one.key === key) === index)
}

/**
 * Statements for the transaction that publishes a version, after the one that inserts it. A trigger keeps its id and its
 * pause from version to version by its key.
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

const TRIGGER_KINDS: readonly TriggerKind[] = [schedules, webhooks, events]

/** Long enough for the change to be written. */
const REPAIR_AFTER_MS = 10_000

/**
 * Changes the triggers of a flow, then their external state. A delayed workflow that repairs the latter is started first, so
 * that a crash in between leaves nothing inconsistent.
 * @param declares the triggers that the change adds
 * @throws Problem `dependency_unavailable` without Temporal: then nothing was changed
 */
export async function changeTriggers<T>(
  scope: WorkspaceScope,
  flowId: string,
  declares: readonly Pick<Trigger, 'kind'>[],
  change: () => Promise<T>,
): Promise<T> {
  const before = await triggersOf(scope, flowId)
  if (![...before, ...declares].some(({ kind }) => externalOf(kind) !== undefined)) return change()
  const input = { flow_id: flowId, before: before.map(({ id, kind }) => ({ id, kind })) }
  await workflowsOf(scope).start({
    type: 'registration',
    queue: QUEUES.provisioning,
    subject: flowId,
    uuid: scope.uuid(),
    input,
    summary: 'Triggers of a flow are registered',
    attributes: { FlowId: flowId },
    delayMs: REPAIR_AFTER_MS,
  })
  const result = await change()
  // The change stands; the workflow repeats what failed here.
  await syncTriggers(scope, input).catch((error: unknown) =>
    scope.logError(error, 'trigger registration deferred'),
  )
  return result
}

/**
 * Brings external state in line with the rows, and again if they have changed meanwhile: of several calls at once, the last
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
  return TRIGGER_KINDS.find((one) => one.kind === kind)?.outside
}
