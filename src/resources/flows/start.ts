/** The one way in which an execution begins, whatever has asked for it: a row first, then its workflow. */

import { createHash } from 'node:crypto'
import type { Concurrency, FlowIR } from '../../../flows-dsl/ir.ts'
import { uuidOf } from '../../core/ids.ts'
import { checkJson } from '../../core/json.ts'
import { LIMITS } from '../../core/limits.ts'
import { notFound, Problem } from '../../core/problem.ts'
import type { FlowRunInput, RunReuse, RunTrigger } from '../../core/run.ts'
import { withoutHandles } from '../../core/secret-handle.ts'
import { workflowId } from '../../core/tenant.ts'
import type { Json } from '../../core/work.ts'
import { violated } from '../../platform/pg/errors.ts'
import { type Sql, sql } from '../../platform/pg/sql.ts'
import type { WorkspaceScope } from '../../platform/scope.ts'
import { begin, cancelRun, runInput, SEALED, type SealedSecrets } from './begin.ts'
import { findFlow } from './definitions.ts'
import { checkInput, isAskedFor } from './input.ts'
import { giveBack, type Taken, takePlace } from './places.ts'

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
  /** What it takes over from that one. */
  readonly reuse?: RunReuse | undefined
}

/** An execution that has a row. */
export interface Admitted {
  readonly workflowId: string
  readonly run: FlowRunInput
  /** Whether its workflow is to be started now: not where it waits for a place, has begun, or is over. */
  readonly isToBegin: boolean
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
  if (admitted.isToBegin) await beginOrGiveUp(scope, admitted)
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

/** Whether an execution has begun: there is one of that id, and its workflow was taken. */
export async function hasBegun(scope: WorkspaceScope, id: string): Promise<boolean> {
  const row = await scope.row(sql`select id from executions
    where id = ${id} and status <> 'pending' and error is distinct from ${NOT_STARTED}::jsonb`)
  return row !== undefined
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
  readonly concurrency: Concurrency | null
  /** Its input is looked at first. */
  readonly is_checked: boolean
  readonly secrets: readonly string[]
  readonly sealed: SealedSecrets
  readonly workflow_id: string
  /** Whether it was there, and has begun or is over: a second attempt of the same request. */
  readonly is_old: boolean
}

/**
 * Writes the execution's row and reads what it is to run, in one round trip: of the versions that are meant, the newest;
 * of an execution that is there, its own. Where its flow says how its input is, or bounds how many run, a second trip writes
 * it, with its place.
 * @param which a condition on the flow `f` and its version `v`
 * @returns undefined where there is none
 * @throws Problem `not_found` where it was deleted in between, `quota_exceeded`, `concurrency_limited`, `input_invalid`,
 *   `validation_failed` where the input yields no key
 */
export async function admit(scope: WorkspaceScope, which: Sql, asked: Start): Promise<Admitted | undefined> {
  // Whatever has a handle, or has seen one: in another run it stands for nothing.
  const start = { ...asked, input: withoutHandles(asked.input as Json) }
  const { id } = start
  const prefix = workflowId(scope.ref, '', '').slice(0, -1)
  const columns = sql`f.id as flow_id, f.name as flow_name, v.version, v.ir, v.concurrency, v.secrets as named,
    v.checks_input and ${isAskedFor(start.trigger)}::boolean as is_checked,
    ${prefix}::text || f.id || ':' || ${uuidOf(id)}::text as workflow_id`
  const joined = sql`flows f join flow_versions v
    on v.tenant_id = f.tenant_id and v.workspace_id = f.workspace_id and v.flow_id = f.id`
  const admission = sql`
    with known as (
      select flow_id, version, status <> 'pending' and error is distinct from ${NOT_STARTED}::jsonb as is_old
      from executions where id = ${id}
    ), chosen as (
      select ${columns}, is_old from known k join ${joined} on f.id = k.flow_id and v.version = k.version
      union all
      (select ${columns}, false from ${joined}
        where not exists (select from known) and ${which} order by v.version desc limit 1)
    ), admitted as (
      ${written(start, sql`select workflow_id, flow_id, version from chosen where concurrency is null and not is_checked`)}
    )
    select chosen.*, ${SEALED} from chosen`
  const [[row] = []] = (await scope.batchShared('writing', admission).catch(goneMeanwhile)) as unknown as [
    AdmittedRow[]?,
  ]
  if (row === undefined) return undefined
  const admitted = { workflowId: row.workflow_id, run: runOf(scope, row, start), isToBegin: !row.is_old }
  if (row.is_old) return admitted
  if (row.is_checked) checkInput(admitted.run.ir as FlowIR, admitted.run.input)
  if (row.concurrency !== null)
    return { ...admitted, isToBegin: await hasPlace(scope, row, row.concurrency, admitted.run, start) }
  if (row.is_checked) await scope.batchShared('writing', written(start, pinned(row))).catch(goneMeanwhile)
  return admitted
}

/** The version that was read, for the trip that writes. */
const pinned = ({
  workflow_id,
  flow_id,
  version,
}: AdmittedRow) => sql`select ${workflow_id}::text as workflow_id,
  ${flow_id}::text as flow_id, ${version}::integer as version`

/** The row of an execution. @param chosen `workflow_id, flow_id, version` */
function written({ id, input, by, trigger, correlationKey, rerunOf }: Start, chosen: Sql): Sql {
  return sql`insert into executions (id, workflow_id, flow_id, version, status, input, started_by,
      trigger_kind, trigger_id, hops, correlation_key, rerun_of)
    select ${id}, c.workflow_id, c.flow_id, c.version, 'pending', ${JSON.stringify(input)}::jsonb, ${by},
      ${trigger.kind}, ${trigger.id ?? null}, ${trigger.hops ?? null}::smallint, ${correlationKey ?? null},
      ${rerunOf ?? null}
    from (${chosen}) c
    on conflict (tenant_id, workspace_id, id) do update set status = 'pending', error = null, ended_at = null
      where executions.error = ${NOT_STARTED}::jsonb`
}

/** Writes an execution together with its place, or its place in the queue. @returns whether it may begin */
async function hasPlace(
  scope: WorkspaceScope,
  row: AdmittedRow,
  concurrency: Concurrency,
  run: FlowRunInput,
  start: Start,
): Promise<boolean> {
  const isChild = start.trigger.kind === 'flow'
  const [, [taken] = []] = (await scope
    .batch(written(start, pinned(row)), takePlace(concurrency, run, isChild))
    .catch(goneMeanwhile)) as unknown as [unknown, Taken[]?]
  for (const id of taken?.unwanted ?? []) await cancelRun(scope, id)
  return taken?.state === 'admitted'
}

/** The version was read and is gone: the flow was deleted in between. */
function goneMeanwhile(error: unknown): never {
  throw violated(error) === undefined ? error : notFound('flow')
}

/** As it could be read again from its row, with what it takes over from the run that it repeats. */
function runOf(scope: WorkspaceScope, row: AdmittedRow, start: Start): FlowRunInput {
  const { id, input, by, trigger, correlationKey, reuse } = start
  const flow = { id: row.flow_id, name: row.flow_name, version: row.version }
  const asked = { id, input: input as Json, started_by: by, trigger, correlation_key: correlationKey ?? null }
  const run = runInput(scope, { ...row, ...asked, flow, run: null })
  return reuse === undefined ? run : { ...run, reuse }
}

/** Starts the workflow of an execution; where Temporal does not take it, the execution is over, and its place free. */
async function beginOrGiveUp(scope: WorkspaceScope, { run }: Admitted): Promise<void> {
  const { execution_id: id } = run
  try {
    await begin(scope, run)
  } catch (error) {
    const failed = sql`update executions set status = 'faulted', error = ${NOT_STARTED}::jsonb, ended_at = now()
      where id = ${id} and status = 'pending'`
    await scope.batch(failed, giveBack(id))
    throw error
  }
}
