/** How the workflow of an execution is started that has a row: by who asked for it, or by who has freed its place. */

import { uuidOf } from '../../core/ids.ts'
import type { FlowRunInput, PlaceTurn, RunTrigger } from '../../core/run.ts'
import { type Json, QUEUES } from '../../core/work.ts'
import { workflowsOf } from '../../platform/capabilities.ts'
import { sql } from '../../platform/pg/sql.ts'
import type { WorkspaceScope } from '../../platform/scope.ts'
import { opened, shownAs } from './secret-values.ts'

/** By name, in hex; nothing where none is there. */
export type SealedSecrets = Readonly<Record<string, string>> | null

/** The secrets of a row `chosen` that has their names as `named`. */
export const SEALED = sql`to_json(named) as secrets, (select json_object_agg(name, encode(sealed, 'hex')) from flow_secrets
  where name = any(chosen.named)) as sealed`

interface WithSecrets {
  readonly workflow_id: string
  readonly secrets: readonly string[]
  readonly sealed: SealedSecrets
}

/** What the run has of its secrets: of one that is gone, a handle too, which its calls fail with. */
function handlesOf(
  scope: WorkspaceScope,
  { workflow_id, secrets, sealed }: WithSecrets,
): { [name: string]: Json } {
  const handles = secrets.map((name) => {
    const hex = sealed?.[name]
    const value = hex === undefined ? undefined : opened(scope, name, hex)
    return [name, shownAs(scope, workflow_id, name, value)]
  })
  return Object.fromEntries(handles)
}

/** Starts the workflow; one that is there already stays as it is. @throws Problem `dependency_unavailable` */
export async function begin(scope: WorkspaceScope, run: FlowRunInput): Promise<void> {
  const { execution_id: id, flow } = run
  await workflowsOf(scope).start({
    type: 'flowRun',
    queue: QUEUES.flows,
    subject: flow.id,
    uuid: uuidOf(id),
    input: run,
    summary: `Flow ${flow.name} v${flow.version}`,
    attributes: {
      FlowId: flow.id,
      FlowVersion: String(flow.version),
      ...(run.trigger !== undefined && { TriggerKind: run.trigger.kind }),
      ...(run.correlation_key !== undefined && { CorrelationKey: run.correlation_key }),
    },
  })
}

interface PendingRow extends WithSecrets {
  readonly id: string
  readonly flow: FlowRunInput['flow']
  readonly ir: string
  readonly input: Json
  readonly started_by: string
  readonly trigger: RunTrigger
  readonly correlation_key: string | null
  /** What it was to begin with, where it has waited for a place. */
  readonly run: Omit<FlowRunInput, 'ir' | 'input'> | null
}

/**
 * Lets executions go on that have their place, one by one: starts those that have not begun, and tells those that have. What
 * cannot be done now is done again later (mending.ts).
 * @param whom rows `{id}`, as places are given back and handed on (places.ts)
 */
export async function goOn(scope: WorkspaceScope, whom: readonly { readonly id?: unknown }[]): Promise<void> {
  for (const row of whom) {
    const id = String(row.id)
    try {
      if (!(await beginOne(scope, id))) await tell(scope, id)
    } catch (error) {
      scope.logError(error, 'an execution waits to go on')
    }
  }
}

/** @returns whether it had not begun */
async function beginOne(scope: WorkspaceScope, id: string): Promise<boolean> {
  const row = await scope.row<PendingRow>(sql`
    with chosen as (select e.id, e.workflow_id, v.secrets as named, jsonb_build_object('id', f.id, 'name', f.name, 'version', e.version) as flow, v.ir,
      e.input, e.started_by, e.correlation_key, a.run,
      jsonb_strip_nulls(jsonb_build_object('kind', e.trigger_kind, 'id', e.trigger_id, 'hops', e.hops)) as trigger
    from executions e join flows f on f.id = e.flow_id
      join flow_versions v on v.flow_id = e.flow_id and v.version = e.version
      left join admissions a on a.execution_id = e.id
    where e.id = ${id} and e.status = 'pending' and e.ended_at is null and a.state is distinct from 'queued')
    select chosen.*, ${SEALED} from chosen`)
  if (row === undefined) return false
  await begin(scope, runInput(scope, row))
  await cancelUnwanted(scope, row)
  return true
}

/** Tells one that has its place again, and has not heard of it. */
async function tell(scope: WorkspaceScope, id: string): Promise<void> {
  const row = await scope.row<{ workflow_id: string; turn: number }>(sql`
    select e.workflow_id, a.turn from admissions a join executions e on e.id = a.execution_id
    where a.execution_id = ${id} and a.unheard and e.ended_at is null`)
  if (row === undefined) return
  const value: PlaceTurn = { execution_id: id, turn: row.turn }
  await workflowsOf(scope).signal(row.workflow_id, { name: 'placed', value })
}

/** The input of a run, of what stands in its row. */
export function runInput(scope: WorkspaceScope, row: PendingRow): FlowRunInput {
  const { id, flow, started_by, trigger, correlation_key, run } = row
  const rest = run ?? {
    execution_id: id,
    flow,
    started_by,
    trigger,
    ...(row.secrets.length > 0 && { secrets: handlesOf(scope, row) }),
    ...(correlation_key !== null && { correlation_key }),
  }
  return { ...rest, ir: JSON.parse(row.ir), input: row.input }
}

/** Who wanted it to end while it was about to begin found no workflow to tell: it is told now. */
async function cancelUnwanted(scope: WorkspaceScope, { id, workflow_id }: PendingRow): Promise<void> {
  const row = await scope.row(
    sql`select execution_id from admissions where execution_id = ${id} and unwanted`,
  )
  if (row !== undefined) await workflowsOf(scope).cancel(workflow_id)
}

/** Cancels the run of an execution, if it has one. */
export async function cancelRun(scope: WorkspaceScope, id: string): Promise<void> {
  const row = await scope.row<{ workflow_id: string }>(
    sql`select workflow_id from executions where id = ${id} and ended_at is null`,
  )
  if (row !== undefined) await workflowsOf(scope).cancel(row.workflow_id)
}
