/** Executions: each one durable workflow; what is read of it comes from our own projection. */

import Type, { type Static } from 'typebox'
import { uuidOf } from '../../core/ids.ts'
import { checkJson } from '../../core/json.ts'
import { LIMITS } from '../../core/limits.ts'
import { PageInput, PageOf, pageBounds, pageFrom } from '../../core/page.ts'
import { ADMINS } from '../../core/policy.ts'
import { notFound, Problem } from '../../core/problem.ts'
import { workflowId } from '../../core/tenant.ts'
import { violated } from '../../platform/pg/errors.ts'
import { type Sql, sql } from '../../platform/pg/sql.ts'
import type { WorkspaceScope } from '../../platform/scope.ts'
import { QUEUES } from '../../platform/temporal.ts'
import { Id, Input, inWorkspace, OptionalTime, Ref, Time, Wait } from '../kinds.ts'
import { FLOWS, findFlow, Ws } from './definitions.ts'

const Step = Type.Object({
  seq: Type.Integer(),
  name: Type.String(),
  kind: Type.String(),
  pointer: Type.String(),
  iteration: Type.Integer(),
  summary: Type.String(),
  status: Type.Union(['running', 'completed', 'faulted', 'skipped', 'cancelled'].map((s) => Type.Literal(s))),
  error: Type.Unknown(),
  started_at: Type.String(),
  ended_at: Type.Union([Type.String(), Type.Null()]),
})

export const Execution = Type.Object({
  id: Id('run'),
  workflow_id: Type.String(),
  flow_id: Type.String(),
  version: Type.Integer(),
  status: Type.Union(
    ['pending', 'running', 'waiting', 'suspended', 'cancelled', 'faulted', 'completed'].map((s) =>
      Type.Literal(s),
    ),
  ),
  input: Type.Unknown(),
  output: Type.Unknown(),
  error: Type.Unknown(),
  started_by: Type.String(),
  started_at: Time,
  ended_at: OptionalTime,
  steps: Type.Optional(Type.Array(Step)),
  temporal_url: Type.Optional(Type.String()),
})
export type Execution = Static<typeof Execution>

const COLUMNS = sql`id, workflow_id, flow_id, version,
  case when held and ended_at is null then 'suspended' else status end as status, input, output, error, started_by, started_at, ended_at`

export const startExecution = inWorkspace({
  name: 'execution.create',
  summary: 'Start an execution of a published version',
  roles: ADMINS,
  stability: 'preview',
  input: Input({
    ws: Ws,
    flow: Ref('flow, or its name'),
    input: Type.Optional(Type.Unknown()),
    version: Type.Optional(Type.Integer({ minimum: 1, maximum: 2147483647 })),
    wait: Wait,
  }),
  output: Execution,
  http: {
    method: 'POST',
    path: `${FLOWS}/definitions/{flow}/executions`,
    body: '*',
    headers: { wait: 'prefer' },
    status: () => 201,
  },
  run: async (scope, { flow, input = {}, version, wait = 0 }) => {
    checkJson('input', input, LIMITS.runInputBytesMax)
    const id = scope.newId('run')
    const run = await admit(scope, { id, flow, input, version: version ?? null })
    await startRun(scope, id, run, input)
    if (wait > 0) await scope.runs.ended(run.workflow_id, wait * 1_000)
    return readExecution(scope, id)
  },
})

interface Admitted {
  readonly flow_id: string
  readonly flow_name: string
  readonly version: number
  readonly ir: string
  readonly workflow_id: string
}

/** The fault of what never began: a second attempt of the same request takes it up again. */
const NOT_STARTED = { title: 'The run could not be started', detail: 'Temporal did not take it.' }

/** Writes the execution's row and reads what it is to run, in one round trip. */
async function admit(
  scope: WorkspaceScope,
  start: { id: string; flow: string; input: unknown; version: number | null },
): Promise<Admitted> {
  const which = sql`(f.id = ${start.flow} or f.name = ${start.flow})
    and v.version = coalesce(${start.version}::integer, f.latest_version)`
  const row = await admitted(scope, { id: start.id, input: start.input, by: scope.actor.subject }, which)
  if (row !== undefined) return row
  await findFlow(scope, start.flow)
  if (start.version !== null) throw notFound('flow version')
  throw new Problem('state_conflict', { detail: 'The flow has no published version yet.' })
}

/**
 * Admits an execution of the newest version that is meant.
 * @param which a condition on the flow `f` and its version `v`
 * @returns undefined where there is none
 * @throws Problem `not_found` where it was deleted in between
 */
export function admitted(
  scope: WorkspaceScope,
  start: { readonly id: string; readonly input: unknown; readonly by: string },
  which: Sql,
): Promise<Admitted | undefined> {
  const prefix = workflowId(scope.ref, '', '').slice(0, -1)
  const admission = sql`
    with chosen as (
      select f.id as flow_id, f.name as flow_name, v.version, v.ir,
        ${prefix}::text || f.id || ':' || ${uuidOf(start.id)}::text as workflow_id
      from flows f join flow_versions v
        on v.tenant_id = f.tenant_id and v.workspace_id = f.workspace_id and v.flow_id = f.id
      where ${which} order by v.version desc limit 1
    ), admitted as (
      insert into executions (id, workflow_id, flow_id, version, status, input, started_by)
      select ${start.id}, workflow_id, flow_id, version, 'pending', ${JSON.stringify(start.input)}::jsonb, ${start.by}
      from chosen
      on conflict (tenant_id, workspace_id, id) do update set status = 'pending', error = null, ended_at = null
        where executions.error = ${NOT_STARTED}::jsonb
    )
    select flow_id, flow_name, version, ir, workflow_id from chosen`
  return scope.row<Admitted>(admission).catch((error: unknown) => {
    // The version was read and is gone: the flow was deleted in between.
    throw violated(error) === undefined ? error : notFound('flow')
  })
}

async function startRun(scope: WorkspaceScope, id: string, run: Admitted, input: unknown): Promise<void> {
  const flow = { id: run.flow_id, name: run.flow_name, version: run.version }
  try {
    await scope.runs.start({
      type: 'flowRun',
      queue: QUEUES.flows,
      subject: flow.id,
      uuid: uuidOf(id),
      input: { execution_id: id, flow, ir: JSON.parse(run.ir), input, started_by: scope.actor.subject },
      summary: `Flow ${flow.name} v${flow.version}`,
      attributes: { flowId: flow.id, flowVersion: String(flow.version) },
    })
  } catch (error) {
    await scope.batch(sql`
      update executions set status = 'faulted', error = ${NOT_STARTED}::jsonb, ended_at = now()
      where id = ${id} and status = 'pending'`)
    throw error
  }
}

export const getExecution = inWorkspace({
  name: 'execution.get',
  summary: 'Read an execution and its steps',
  roles: ADMINS,
  stability: 'preview',
  input: Input({ ws: Ws, id: Ref('execution') }),
  output: Execution,
  http: { method: 'GET', path: `${FLOWS}/executions/{id}` },
  run: (scope, { id }) => readExecution(scope, id),
})

export async function readExecution(scope: WorkspaceScope, id: string): Promise<Execution> {
  const [[row] = [], steps = []] = await scope.batch(
    sql`select ${COLUMNS} from executions where id = ${id}`,
    sql`select seq, name, kind, pointer, iteration, summary, status, error, started_at, ended_at
      from execution_steps where execution_id = ${id} order by seq limit ${LIMITS.executionStepsShownMax}`,
  )
  if (row === undefined) throw notFound('execution')
  return linked(scope, { ...(row as unknown as Execution), steps: steps as unknown as Static<typeof Step>[] })
}

function linked(scope: WorkspaceScope, execution: Execution): Execution {
  const url = scope.runs.uiLink(execution.workflow_id)
  return url === undefined ? execution : { ...execution, temporal_url: url }
}

const listInput = { ...PageInput, ws: Ws }

export const listExecutions = inWorkspace({
  name: 'execution.list',
  summary: 'List the executions of a workspace, oldest first',
  roles: ADMINS,
  stability: 'preview',
  input: Input(listInput),
  output: PageOf(Execution),
  http: { method: 'GET', path: `${FLOWS}/executions` },
  run: (scope, input) => list(scope, input, sql`true`),
})

export const listFlowExecutions = inWorkspace({
  name: 'flow_execution.list',
  summary: 'List the executions of a flow, oldest first',
  roles: ADMINS,
  stability: 'preview',
  input: Input({ ...listInput, flow: Ref('flow, or its name') }),
  output: PageOf(Execution),
  http: { method: 'GET', path: `${FLOWS}/definitions/{flow}/executions` },
  run: async (scope, input) => {
    const { id } = await findFlow(scope, input.flow)
    return list(scope, input, sql`flow_id = ${id}`)
  },
})

async function list(
  scope: WorkspaceScope,
  input: { page_size?: number; page_after?: string },
  condition: Sql,
) {
  const { after, limit } = pageBounds(input)
  const rows = await scope.rows<Execution>(sql`
    select ${COLUMNS} from executions where id > ${after} and ${condition} order by id limit ${limit}`)
  return pageFrom(
    input,
    rows.map((row) => linked(scope, row)),
  )
}
