/** The triggers of a flow as rows: read, and brought to what a version declares. */

import type { FlowIR } from '../../../../flows-dsl/ir.ts'
import { type Sql, sql } from '../../../platform/pg/sql.ts'
import type { WorkspaceScope } from '../../../platform/scope.ts'
import { DECLARABLE } from './kinds.ts'
import type { Declared, Trigger, TriggerKind } from './trigger.ts'

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
  const all = DECLARABLE.flatMap(({ kind, declared: of }) => of(ir).map((one) => ({ kind, ...one })))
  return all.filter(({ key }, index) => all.findIndex((one) => one.key === key) === index)
}

/**
 * Statements for the transaction that publishes a version, after the one that makes it: what is new comes, what has the
 * same key stays itself, paused or not, what is gone goes.
 */
export function reconciled(scope: WorkspaceScope, flowId: string, version: number, ir: FlowIR): Sql[] {
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
export const removed = (flowId: string, unless: Sql): Sql =>
  sql`delete from flow_triggers where flow_id = ${flowId} and not ${unless}`
