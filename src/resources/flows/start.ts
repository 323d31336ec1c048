/** The one way in which an execution begins, whatever has asked for it: a row first, then its workflow. */

import { createHash } from 'node:crypto'
import { uuidOf } from '../../core/ids.ts'
import { checkJson } from '../../core/json.ts'
import { LIMITS } from '../../core/limits.ts'
import { notFound, Problem } from '../../core/problem.ts'
import { workflowId } from '../../core/tenant.ts'
import type { FlowRunInput, Json, RunTrigger } from '../../core/work.ts'
import { violated } from '../../platform/pg/errors.ts'
import { type Sql, sql } from '../../platform/pg/sql.ts'
import type { WorkspaceScope } from '../../platform/scope.ts'
import { QUEUES } from '../../platform/temporal.ts'
import { findFlow } from './definitions.ts'

/** What is to run, and why. */
export interface Start {
  /** Of the execution. The same id twice is one run. */
  readonly id: string
  readonly input: unknown
  /** The subject who has asked for it, or in whose name something has. */
  readonly by: string
  readonly trigger: RunTrigger
  /** The name of the version, where it is none of these: an alias that its flow has. */
  readonly alias?: string | undefined
  /** What the caller knows it by: an order, a customer. */
  readonly correlationKey?: string | undefined
  /** The execution that it repeats. */
  readonly rerunOf?: string | undefined
}

/** An execution that has a row, and no workflow yet. */
export interface Admitted {
  readonly workflowId: string
  readonly run: FlowRunInput
}

/** The fault of what never began: a second attempt of the same request takes it up again. */
const NOT_STARTED = { title: 'The run could not be started', detail: 'Temporal did not take it.' }

/**
 * Starts a published version of a flow: the newest, where none is named. Idempotent by the id of the execution.
 * @param flow its id or its name
 * @returns the id of the workflow
 * @throws Problem `not_found`, `state_conflict` where nothing is published, `dependency_unavailable` without Temporal
 */
export async function startFlow(
  scope: WorkspaceScope,
  flow: string,
  version: number | undefined,
  start: Start,
): Promise<string> {
  checkJson('input', start.input, LIMITS.runInputBytesMax)
  const which = sql`(f.id = ${flow} or f.name = ${flow}) and v.version = ${chosen(version, start)}`
  const admitted = (await admit(scope, which, start)) ?? (await refused(scope, flow, version, start.alias))
  await startRun(scope, admitted)
  return admitted.workflowId
}

/** The number of the version of the flow `f` that is meant. */
function chosen(version: number | undefined, { alias, id }: Start): Sql {
  if (alias === undefined) return sql`coalesce(${version ?? null}::integer, f.latest_version)`
  return sql`(select tenon.alias_version(a.versions, ${shareOf(id)}) from flow_aliases a
    where a.flow_id = f.id and a.name = ${alias})`
}

/** Where an execution stands among all, by its id: the same request is of the same version at each attempt. */
function shareOf(id: string): number {
  return createHash('sha256').update(id).digest().readUIntBE(0, 6)
}

/** @throws Problem why there was nothing to start */
async function refused(
  scope: WorkspaceScope,
  flow: string,
  version: number | undefined,
  alias: string | undefined,
): Promise<never> {
  await findFlow(scope, flow)
  if (alias !== undefined) throw notFound('flow alias')
  if (version !== undefined) throw notFound('flow version')
  throw new Problem('state_conflict', { detail: 'The flow has no published version yet.' })
}

interface AdmittedRow {
  readonly flow_id: string
  readonly flow_name: string
  readonly version: number
  readonly ir: string
  readonly workflow_id: string
}

/**
 * Writes the execution's row and reads what it is to run, in one round trip: of the versions that are meant, the newest.
 * @param which a condition on the flow `f` and its version `v`
 * @returns undefined where there is none
 * @throws Problem `not_found` where it was deleted in between
 */
export async function admit(scope: WorkspaceScope, which: Sql, start: Start): Promise<Admitted | undefined> {
  const { id, input, by, trigger } = start
  const prefix = workflowId(scope.ref, '', '').slice(0, -1)
  const admission = sql`
    with chosen as (
      select f.id as flow_id, f.name as flow_name, v.version, v.ir,
        ${prefix}::text || f.id || ':' || ${uuidOf(id)}::text as workflow_id
      from flows f join flow_versions v
        on v.tenant_id = f.tenant_id and v.workspace_id = f.workspace_id and v.flow_id = f.id
      where ${which} order by v.version desc limit 1
    ), admitted as (
      insert into executions (id, workflow_id, flow_id, version, status, input, started_by,
        trigger_kind, trigger_id, correlation_key, rerun_of)
      select ${id}, workflow_id, flow_id, version, 'pending', ${JSON.stringify(input)}::jsonb, ${by},
        ${trigger.kind}, ${trigger.id ?? null}, ${start.correlationKey ?? null}, ${start.rerunOf ?? null}
      from chosen
      on conflict (tenant_id, workspace_id, id) do update set status = 'pending', error = null, ended_at = null
        where executions.error = ${NOT_STARTED}::jsonb
    )
    select flow_id, flow_name, version, ir, workflow_id from chosen`
  const row = await scope.row<AdmittedRow>(admission).catch((error: unknown) => {
    // The version was read and is gone: the flow was deleted in between.
    throw violated(error) === undefined ? error : notFound('flow')
  })
  if (row === undefined) return undefined
  const flow = { id: row.flow_id, name: row.flow_name, version: row.version }
  const run = {
    execution_id: id,
    flow,
    ir: JSON.parse(row.ir),
    input: input as Json,
    started_by: by,
    trigger,
    ...(start.correlationKey !== undefined && { correlation_key: start.correlationKey }),
  }
  return { workflowId: row.workflow_id, run }
}

/** Starts the workflow of an execution that was admitted; one that is there already stays as it is. */
async function startRun(scope: WorkspaceScope, { run }: Admitted): Promise<void> {
  const { execution_id: id, flow } = run
  try {
    await scope.runs.start({
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
  } catch (error) {
    await scope.batch(sql`
      update executions set status = 'faulted', error = ${NOT_STARTED}::jsonb, ended_at = now()
      where id = ${id} and status = 'pending'`)
    throw error
  }
}
