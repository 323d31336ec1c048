/** Knows what a trigger begins when its time has come: the newest version, in the name of who published it. */

import type { FlowTriggerInput, Triggered } from '../../../core/run.ts'
import { sql } from '../../../platform/pg/sql.ts'
import type { WorkspaceScope } from '../../../platform/scope.ts'
import { admit } from '../start.ts'
import { specOf } from './schedules.ts'
import type { Trigger } from './trigger.ts'

export interface Due extends Pick<Trigger, 'flow_id' | 'paused' | 'spec' | 'version'> {
  readonly published_by: string
}

/** What a trigger would begin; undefined where it is gone. */
export function dueOf(scope: WorkspaceScope, triggerId: string): Promise<Due | undefined> {
  return scope.row<Due>(sql`
    select t.flow_id, t.paused, t.spec, t.version, v.created_by as published_by
    from flow_triggers t join flow_versions v on v.tenant_id = t.tenant_id and v.workspace_id = t.workspace_id
      and v.flow_id = t.flow_id and v.version = t.version
    where t.id = ${triggerId}`)
}

/**
 * Writes the execution of a schedule. Idempotent: its id is the same at each attempt of the same call.
 * @returns what is to run; `skipped` where the trigger is gone, paused by now, or kept from a time of suspension
 * @throws Problem `quota_exceeded`; Suspended has been thrown before
 */
export async function admitTrigger(scope: WorkspaceScope, input: FlowTriggerInput): Promise<Triggered> {
  const due = await dueOf(scope, input.trigger_id)
  if (due === undefined) return { skipped: 'The flow does not declare this trigger any more.' }
  if (due.paused) return { skipped: 'The schedule is paused.' }
  if (await isFromBefore(scope, input)) return { skipped: 'Its time came before the workspace was resumed.' }
  const admitted = await admit(scope, sql`f.id = ${due.flow_id} and v.version = ${due.version}`, {
    id: scope.newId('run'),
    input: {},
    by: due.published_by,
    trigger: { kind: 'schedule', id: input.trigger_id },
  })
  if (admitted === undefined) return { skipped: 'The flow is gone.' }
  if (!admitted.isToBegin) return { skipped: 'It waits for a place of its flow, and begins when it has one.' }
  const { after_ms = 0 } = specOf(due)
  return { workflow_id: admitted.workflowId, run: admitted.run, after_ms }
}

/** A start that has waited since before a resumption: nothing is made up for. */
async function isFromBefore(scope: WorkspaceScope, { due_at }: FlowTriggerInput): Promise<boolean> {
  if (due_at === undefined) return false
  const row = await scope.row(sql`
    select from workspaces w join tenants t on t.id = w.tenant_id
    where w.id = ${scope.ref.workspaceId} and greatest(w.resumed_at, t.resumed_at) > ${due_at}::timestamptz`)
  return row !== undefined
}
