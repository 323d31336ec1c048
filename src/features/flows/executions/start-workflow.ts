/** Starts the workflow of an execution that has a row, and tells one that waits for its concurrency slot that it holds it. */

import type { WorkspaceScope } from '../../../access/scope.ts'
import { lastingSecrets, workflowsOf } from '../../../access/scope-services.ts'
import type { ExecutionInput, ExecutionTrigger, SlotGeneration } from '../../../core/execution.ts'
import { uuidOf } from '../../../core/ids.ts'
import { readTrace } from '../../../core/trace.ts'
import { type Json, QUEUES, workflowTypeOf } from '../../../core/work.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { inTrace } from '../../../infra/trace-context.ts'
import { decryptSecret, handlesFor } from '../secrets.ts'
import { withStreamOffsets } from '../subscriptions/subscriptions.ts'

/** Ciphertexts by name, in hex; null if the workspace has none of them. */
export type SealedSecrets = Readonly<Record<string, string>> | null

/** Columns `secrets` and `sealed` of a row `selected` whose column `named` has the names of its secrets. */
export const SEALED = sql`to_json(named) as secrets, (select json_object_agg(name, encode(sealed, 'hex')) from flow_secrets
  where name = any(selected.named)) as sealed`

interface PendingRow {
  readonly id: string
  readonly workflow_id: string
  readonly secrets: readonly string[]
  readonly sealed: SealedSecrets
  readonly flow: ExecutionInput['flow']
  readonly ir: string
  readonly input: Json
  readonly started_by: string
  readonly trigger: ExecutionTrigger
  readonly correlation_key: string | null
  /** That it was created in. */
  readonly trace?: string | null
  /** The workflow's input as it was when the execution was queued for a slot. */
  readonly run: Omit<ExecutionInput, 'ir' | 'input'> | null
}

/** Starts the workflow; has no effect if it exists. @throws Problem `dependency_unavailable` */
export async function startWorkflow(scope: WorkspaceScope, execution: ExecutionInput): Promise<void> {
  const { execution_id: id, flow } = execution
  await workflowsOf(scope).start({
    definition: 'flowExecution',
    type: workflowTypeOf(flow.name),
    queue: QUEUES.flows,
    subject: flow.id,
    uuid: uuidOf(id),
    input: execution,
    summary: `Flow ${flow.name} v${flow.version}`,
    attributes: {
      FlowId: flow.id,
      FlowName: flow.name,
      FlowVersion: String(flow.version),
      ExecutionId: id,
      ...(execution.trigger !== undefined && { TriggerKind: execution.trigger.kind }),
      ...(execution.correlation_key !== undefined && { CorrelationKey: execution.correlation_key }),
    },
  })
}

/** Starts an execution that has not started and may start, and tells one that has that it holds its slot. Idempotent. */
export async function startOrNotify(scope: WorkspaceScope, id: string): Promise<true> {
  if (!(await startPending(scope, id))) await notifySlot(scope, id)
  return true
}

/** @returns true if the execution had not started */
async function startPending(scope: WorkspaceScope, id: string): Promise<boolean> {
  const row = await scope.row<PendingRow>(sql`
    with selected as (select e.id, e.workflow_id, v.secrets as named, jsonb_build_object('id', f.id, 'name', f.name, 'version', e.version) as flow, v.ir,
      e.input, e.started_by, e.correlation_key, e.trace, s.start as run,
      jsonb_strip_nulls(jsonb_build_object('kind', e.trigger_kind, 'id', e.trigger_id,
        'chain_depth', e.chain_depth)) as trigger
    from executions e join flows f on f.id = e.flow_id
      join flow_versions v on v.flow_id = e.flow_id and v.version = e.version
      left join run_slots s on s.run_id = e.id
    where e.id = ${id} and e.status = 'pending' and e.ended_at is null and s.state is distinct from 'queued')
    select selected.*, ${SEALED} from selected`)
  if (row === undefined) return false
  const execution = await withStreamOffsets(scope, await executionInput(scope, row))
  await inTrace(readTrace(row.trace), () => startWorkflow(scope, execution))
  // A cancellation that came before the workflow existed is delivered now.
  const cancelRequested = sql`select e.id from executions e left join run_slots s on s.run_id = e.id
    where e.id = ${id} and (e.cancel_requested or s.cancel_requested)`
  if ((await scope.row(cancelRequested)) !== undefined) await workflowsOf(scope).cancel(row.workflow_id)
  return true
}

/** Signals an execution that got its slot back and has not acknowledged it. */
async function notifySlot(scope: WorkspaceScope, id: string): Promise<void> {
  const row = await scope.row<{ workflow_id: string; generation: number }>(sql`
    select e.workflow_id, s.generation from run_slots s join executions e on e.id = s.run_id
    where s.run_id = ${id} and s.notify_pending and e.ended_at is null`)
  if (row === undefined) return
  const value: SlotGeneration = { execution_id: id, generation: row.generation }
  await workflowsOf(scope).signal(row.workflow_id, { name: 'slotGranted', value })
}

/** The input of the workflow, from the row of its execution. */
export async function executionInput(scope: WorkspaceScope, row: PendingRow): Promise<ExecutionInput> {
  const { id, flow, started_by, trigger, correlation_key, run } = row
  const rest = run ?? {
    execution_id: id,
    flow,
    started_by,
    trigger,
    ...(row.secrets.length > 0 && { secrets: await secretHandles(scope, row) }),
    ...(correlation_key !== null && { correlation_key }),
  }
  return { ...rest, ir: JSON.parse(row.ir), input: row.input }
}

/** Handles by name. A secret that was deleted has one too; calls that use it fail. */
async function secretHandles(
  scope: WorkspaceScope,
  { workflow_id, secrets, sealed }: PendingRow,
): Promise<{ [name: string]: Json }> {
  const derive = await lastingSecrets(scope)
  const handles = secrets.map((name) => {
    const hex = sealed?.[name]
    const value = hex === undefined ? undefined : decryptSecret(scope, name, hex)
    return [name, handlesFor(derive, workflow_id, name, value)]
  })
  return Object.fromEntries(handles)
}

/** Cancels the workflow of an execution that has not ended. */
export async function cancelExecution(scope: WorkspaceScope, id: string): Promise<void> {
  const row = await scope.row<{ workflow_id: string }>(
    sql`select workflow_id from executions where id = ${id} and ended_at is null`,
  )
  if (row !== undefined) await workflowsOf(scope).cancel(row.workflow_id)
}
