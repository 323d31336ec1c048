/** Starts executions, whatever triggers them: validates the input, writes the row, acquires a slot, starts the workflow. */

import { newBudget } from '../../../../flows-dsl/budget.ts'
import { FlowError } from '../../../../flows-dsl/errors.ts'
import type { Concurrency, FlowIR } from '../../../../flows-dsl/ir.ts'
import { type SchemaError, schemaErrors } from '../../../../flows-dsl/json-schema/validate.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { workflowsOf } from '../../../access/scope-services.ts'
import type { ExecutionInput, ExecutionReuse, ExecutionTrigger, Subflow } from '../../../core/execution.ts'
import { uuidOf } from '../../../core/ids.ts'
import { checkJson, checkStorable } from '../../../core/json.ts'
import { causesOf } from '../../../core/policy.ts'
import { notFound, Problem } from '../../../core/problem.ts'
import { withoutHandles } from '../../../core/secret-handle.ts'
import { runBehind, type WorkspaceRef, workflowId } from '../../../core/tenant.ts'
import type { Json } from '../../../core/work.ts'
import { violated } from '../../../infra/postgres/errors.ts'
import { type Sql, sql, textArray } from '../../../infra/postgres/sql.ts'
import { unavailable } from '../../../infra/unavailable.ts'
import { SHARED_LIMITS } from '../../limits.ts'
import { nextChainDepth } from '../../operation-helpers.ts'
import { releaseSlot, startAdmitted } from '../../runs/slots.ts'
import { shareOf } from '../../version-aliases.ts'
import { findFlow } from '../definitions.ts'
import { FLOW_LIMITS } from '../limits.ts'
import { withStreamOffsets } from '../subscriptions/subscriptions.ts'
import { acquireSlot, EXECUTION, type SlotResult } from './concurrency.ts'
import {
  cancelExecution,
  executionInput,
  SEALED,
  type SealedSecrets,
  startWorkflow,
} from './start-workflow.ts'

/** An execution to be started. */
export interface ExecutionStart {
  /** The execution's id; a second start with the same id has no effect. */
  readonly id: string
  readonly input: unknown
  /** The subject that starts it, or on whose behalf it is started. */
  readonly by: string
  readonly trigger: ExecutionTrigger
  /** The other subjects behind it; by default those behind the scope. */
  readonly causes?: readonly string[] | undefined
  /** An alias of the flow that selects the version. */
  readonly alias?: string | undefined
  /** A key of the caller's own, such as an order or a customer. */
  readonly correlationKey?: string | undefined
  /** The execution that it repeats. */
  readonly rerunOf?: string | undefined
  /** Results that it reuses of that one. */
  readonly reuse?: ExecutionReuse | undefined
}

/** A start with all subjects behind it, in its workspace. */
interface AdmittedStart extends ExecutionStart {
  readonly causes: readonly string[]
  readonly ref: WorkspaceRef
  /** The execution whose step starts it. */
  readonly parent?: string | undefined
}

/** An execution whose row is written. */
export interface Admitted {
  readonly workflowId: string
  readonly execution: ExecutionInput
  /** False if it is queued for a slot, has started, or has ended. */
  readonly shouldStart: boolean
}

/** The error of an execution whose start Temporal rejected. A second attempt of the same request starts it. */
const NOT_STARTED = { title: 'The execution could not be started', detail: 'Temporal did not accept it.' }
/** A condition on the columns of an execution: Temporal rejected its start. */
const WAS_REJECTED = sql`(status = 'faulted' and coalesce(error = ${NOT_STARTED}::jsonb, false))`

/**
 * Starts a published version of a flow, by default the newest. Idempotent by the id of the execution. Without an answer of
 * Temporal the execution stays `pending`, and the reconciler starts it or finds it running.
 * @param flow its id or its name
 * @returns the id of the workflow
 * @throws Problem `not_found`, `state_conflict` if nothing is published or if executions that start one another are too deep,
 *   `dependency_unavailable` for a rerun without an answer of Temporal, `rate_limited` if too many starts wait for Temporal
 */
export async function startFlow(
  scope: WorkspaceScope,
  flow: string,
  version: number | undefined,
  asked: ExecutionStart,
): Promise<string> {
  const reservation = workflowsOf(scope).reserveStart()
  return startReserved(scope, flow, version, asked).finally(reservation.end)
}

async function startReserved(
  scope: WorkspaceScope,
  flow: string,
  version: number | undefined,
  asked: ExecutionStart,
): Promise<string> {
  const start = { ...asked, trigger: { ...chainDepthOf(scope), ...asked.trigger } }
  checkJson('input', start.input, FLOW_LIMITS.inputBytesMax)
  checkStorable('input', start.input)
  const which = sql`(f.id = ${flow} or f.name = ${flow}) and v.version = ${selectVersion(version, start)}`
  const admitted =
    (await admitExecution(scope, which, start)) ?? (await throwNotFound(scope, flow, version, start.alias))
  if (admitted.shouldStart) await startOrFail(scope, admitted)
  return admitted.workflowId
}

/**
 * The chain depth of an execution that a run, another execution or a tool starts by a request. A trigger that has read the
 * depth of an event has its own.
 * @throws Problem `state_conflict` if it is too deep
 */
function chainDepthOf({ actor: { chainDepth } }: WorkspaceScope): Pick<ExecutionTrigger, 'chain_depth'> {
  if (chainDepth === undefined) return {}
  const detail = `${SHARED_LIMITS.chainDepthMax} executions have started one another, which is the maximum.`
  return { chain_depth: nextChainDepth(chainDepth, detail) }
}

/** The number of the selected version of the flow `f`. */
function selectVersion(version: number | undefined, { alias, id }: ExecutionStart): Sql {
  if (alias === undefined) return sql`coalesce(${version ?? null}::integer, f.latest_version)`
  return sql`(select tenon.alias_version(a.versions, ${shareOf(id)}) from flow_aliases a
    where a.flow_id = f.id and a.name = ${alias})`
}

/** A condition: an execution with that id exists, and its workflow was started. */
export const hasStarted = (id: string): Sql =>
  sql`exists (select from executions where id = ${id} and status <> 'pending' and not ${WAS_REJECTED})`

/** @throws Problem the reason why there is nothing to start */
async function throwNotFound(
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
  /** The input has to be validated. */
  readonly is_checked: boolean
  readonly expected_duration_ms: number | null
  readonly secrets: readonly string[]
  readonly sealed: SealedSecrets
  readonly workflow_id: string
  /** True for a second attempt of a request: the execution exists, and has started or ended. */
  readonly is_old: boolean
}

/**
 * Writes the execution's row and reads its compiled flow in one round trip: the newest of the versions that match, or the
 * version of an execution that exists. If the flow validates its input or limits concurrency, a second round trip writes the
 * row, with its slot.
 * @param which a condition on the flow `f` and its version `v`
 * @returns undefined if no version matches
 * @throws Problem `not_found` if the flow was deleted in between, `quota_exceeded`, `concurrency_limited`, `input_invalid`,
 *   `validation_failed` if the input yields no concurrency key
 */
export async function admitExecution(
  scope: WorkspaceScope,
  which: Sql,
  asked: ExecutionStart,
): Promise<Admitted | undefined> {
  // A handle of a secret means nothing in another execution.
  const causes = (asked.causes ?? causesOf(scope.actor)).filter((subject) => subject !== asked.by)
  const parent = executionBehind(scope)
  const start = { ...asked, input: withoutHandles(asked.input as Json), causes, ref: scope.ref, parent }
  const { id, trigger } = start
  // A caller waits for the answer. Events, schedules and webhooks start an execution that fails and shows its error.
  const isInteractive = trigger.kind === 'manual' || trigger.kind === 'rerun'
  const prefix = workflowId(scope.ref, '', '').slice(0, -1)
  const columns = sql`f.id as flow_id, f.name as flow_name, v.version, v.ir, v.concurrency, v.secrets as named,
    v.checks_input and ${isInteractive}::boolean as is_checked, v.expected_duration_ms,
    ${prefix}::text || f.id || ':' || ${uuidOf(id)}::text as workflow_id`
  const joined = sql`flows f join flow_versions v
    on v.tenant_id = f.tenant_id and v.workspace_id = f.workspace_id and v.flow_id = f.id`
  const admission = sql`
    with known as (
      select flow_id, version, status <> 'pending' and not ${WAS_REJECTED} as is_old
      from executions where id = ${id}
    ), selected as (
      select ${columns}, is_old from known k join ${joined} on f.id = k.flow_id and v.version = k.version
      union all
      (select ${columns}, false from ${joined}
        where not exists (select from known) and f.deleted_at is null and ${which} order by v.version desc limit 1)
    ), admitted as (
      ${insertExecution(start, sql`select workflow_id, flow_id, version, expected_duration_ms from selected where concurrency is null and not is_checked`)}
    )
    select selected.*, ${SEALED} from selected`
  const [[row] = []] = (await scope.batchShared('writing', admission).catch(rethrowDeleted)) as unknown as [
    AdmittedRow[]?,
  ]
  if (row === undefined) return undefined
  const admitted = {
    workflowId: row.workflow_id,
    execution: await withStreamOffsets(scope, await workflowInput(scope, row, start)),
    shouldStart: !row.is_old,
  }
  if (row.is_old) return admitted
  if (row.is_checked) validateInput(admitted.execution.ir as FlowIR, admitted.execution.input)
  if (row.concurrency !== null)
    return { ...admitted, shouldStart: await acquire(scope, row, row.concurrency, admitted.execution, start) }
  if (row.is_checked)
    await scope.batchShared('writing', insertExecution(start, selectedVersion(row))).catch(rethrowDeleted)
  return admitted
}

/** The version that was read, for the second round trip. */
const selectedVersion = ({
  workflow_id,
  flow_id,
  version,
  expected_duration_ms,
}: AdmittedRow) => sql`select ${workflow_id}::text as workflow_id, ${flow_id}::text as flow_id,
  ${version}::integer as version, ${expected_duration_ms}::bigint as expected_duration_ms`

/** The row of an execution. @param selected `workflow_id, flow_id, version, expected_duration_ms` */
function insertExecution(start: AdmittedStart, selected: Sql): Sql {
  const { id, input, by, trigger, correlationKey, rerunOf } = start
  return sql`insert into executions (id, workflow_id, flow_id, version, status, input, started_by, caused_by,
      trigger_kind, trigger_id, chain_depth, correlation_key, rerun_of, overdue_at)
    select ${id}, c.workflow_id, c.flow_id, c.version, 'pending', ${JSON.stringify(input)}::jsonb, ${by}, ${causesBehind(start)},
      ${trigger.kind}, ${trigger.id ?? null}, coalesce(${trigger.chain_depth ?? null}::smallint, nullif(current_setting('tenon.chain_depth', true), '')::smallint), ${correlationKey ?? null},
      ${rerunOf ?? inheritedRerun(start)}, now() + c.expected_duration_ms * interval '1 millisecond'
    from (${selected}) c
    on conflict (tenant_id, workspace_id, id) do update set status = 'pending', error = null, ended_at = null
      where executions.status = 'faulted' and executions.error = ${NOT_STARTED}::jsonb`
}

/** The execution that acts in a scope. */
function executionBehind({ actor }: WorkspaceScope): string | undefined {
  const behind = runBehind(actor.subject)
  return behind?.kind === 'flow' ? behind.id : undefined
}

/** What a step of a rerun starts has data of the repeated execution, so it is no more its starter's own than the rerun is. */
const inheritedRerun = ({ parent }: AdmittedStart): Sql =>
  parent === undefined ? sql`null::text` : sql`(select p.rerun_of from executions p where p.id = ${parent})`

/** The causes of an execution, and those of the executions among them and its starter, and of the one that it repeats, in SQL. */
function causesBehind({ by, causes, rerunOf, ref }: AdmittedStart): Sql {
  const runs: { id: string; ref: WorkspaceRef }[] = [by, ...causes].flatMap(
    (subject) => runBehind(subject) ?? [],
  )
  if (rerunOf !== undefined) runs.push({ id: rerunOf, ref })
  if (runs.length === 0) return sql`${textArray(causes)}::text[]`
  return sql`tenon.causes_with(${textArray(causes)}::text[], ${textArray(runs.map(({ id }) => id))}::text[],
    ${textArray(runs.map((run) => run.ref.workspaceId))}::text[])`
}

/** Writes an execution together with its slot, or queues it. @returns true if it may start */
async function acquire(
  scope: WorkspaceScope,
  row: AdmittedRow,
  concurrency: Concurrency,
  execution: ExecutionInput,
  start: AdmittedStart,
): Promise<boolean> {
  const isChild = start.trigger.kind === 'flow'
  const results = await scope
    .batch(insertExecution(start, selectedVersion(row)), ...acquireSlot(concurrency, execution, isChild))
    .catch(rethrowDeleted)
  const [slot] = (results.at(-1) ?? []) as unknown as SlotResult[]
  await Promise.all((slot?.to_cancel ?? []).map((running) => cancelRequested(scope, running)))
  return slot?.state === 'admitted'
}

/** Delivers a cancellation that the slot of the execution records. The reconciler repeats it if this fails. */
async function cancelRequested(scope: WorkspaceScope, id: string): Promise<void> {
  try {
    await cancelExecution(scope, id)
  } catch (error) {
    scope.logError(error, 'cancellation for a concurrency slot failed')
  }
}

/** Turns the violation of a foreign key into `not_found`: the flow was deleted after its version was read. */
function rethrowDeleted(error: unknown): never {
  throw violated(error) === undefined ? error : notFound('flow')
}

/** The workflow's input as its row would give it, with the results that a rerun reuses. */
async function workflowInput(
  scope: WorkspaceScope,
  row: AdmittedRow,
  start: ExecutionStart,
): Promise<ExecutionInput> {
  const { id, input, by, trigger, correlationKey, reuse } = start
  const flow = { id: row.flow_id, name: row.flow_name, version: row.version }
  const asked = { id, input: input as Json, started_by: by, trigger, correlation_key: correlationKey ?? null }
  const execution = await executionInput(scope, { ...row, ...asked, flow, run: null })
  return reuse === undefined ? execution : { ...execution, reuse }
}

/**
 * Starts the workflow. If Temporal rejects it, ends the execution, releases its slot and starts the next. If the answer is
 * missing, the workflow may run: the execution stays `pending` for the reconciler.
 * @throws Problem the rejection; `dependency_unavailable` for a rerun without an answer
 */
async function startOrFail(scope: WorkspaceScope, { execution }: Admitted): Promise<void> {
  const { execution_id: id } = execution
  try {
    await startWorkflow(scope, execution)
  } catch (error) {
    if (!isAnswerMissing(error)) {
      const failed = sql`update executions set status = 'faulted', error = ${NOT_STARTED}::jsonb, ended_at = now()
        where id = ${id} and status = 'pending'`
      const release = sql`select next.id from executions e cross join lateral (${releaseSlot(id)}) next
        where e.id = ${id} and ${WAS_REJECTED}`
      const [, next = []] = await scope.batch(failed, release)
      await startAdmitted(scope, EXECUTION, next)
      throw error
    }
    // The row has no results to reuse, so the reconciler finds a rerun that runs, but starts none without a slot.
    if (execution.trigger?.kind === 'rerun') {
      const detail = `Temporal does not answer. \`GET …/executions/${id}\` shows in some seconds whether the rerun has started.`
      throw unavailable('temporal', error, detail)
    }
    scope.logError(error, 'start of an execution unconfirmed')
  }
}

/** True unless the error shows that the workflow was not started. An overloaded server may have started it before. */
function isAnswerMissing(error: unknown): boolean {
  return error instanceof Problem && (error.status >= 500 || error.status === 429)
}

/**
 * Validates the input against `input.schema`, as the execution does first. A check that takes too many steps on this shared
 * thread is left to the execution.
 * @throws Problem `input_invalid`, with the pointer of each error into the request
 */
function validateInput({ input }: FlowIR, given: Json): void {
  const errors = input?.schema === undefined ? [] : inputErrors(input.schema, given)
  if (errors.length === 0) return
  const [first, second] = errors
  throw new Problem('input_invalid', {
    detail:
      second === undefined
        ? `${first?.pointer || 'The input'} ${first?.message}.`
        : `The input does not match the schema at ${errors.length} locations.`,
    errors: errors.map(({ pointer, message: detail }) => ({
      in: 'body',
      name: 'input',
      pointer: `/input${pointer}`,
      detail,
    })),
  })
}

function inputErrors(schema: Json, given: Json): readonly SchemaError[] {
  try {
    return schemaErrors(schema, given, { ...newBudget(), steps: SHARED_LIMITS.inputCheckStepsMax })
  } catch (error) {
    if (error instanceof FlowError) return []
    throw error
  }
}

/**
 * Starts an execution for another one: a flow of the same workspace, by name and version. Idempotent: the id is seeded from
 * the call.
 * @param asked `{namespace, name, version, input, started_by?}`; `version` is that of the document, or `latest`
 * @throws Problem `not_found` if the workspace has no such flow, or has not published that version
 */
export async function startSubflow(scope: WorkspaceScope, asked: { [name: string]: Json }): Promise<Subflow> {
  const { namespace, name, version, input = {}, started_by } = asked
  const id = scope.newId('run')
  const by = typeof started_by === 'string' ? started_by : scope.actor.subject
  // The execution that runs this activity.
  const parent = runBehind(scope.actor.subject)?.id
  if (parent === undefined) throw new TypeError('a subflow must be started by an execution')
  const which = sql`v.document_name = ${String(name)} and v.namespace = ${String(namespace)}
    and (${String(version)} = 'latest' or v.document_version = ${String(version)})`
  const admitted = await admitExecution(scope, which, {
    id,
    input,
    by,
    trigger: { kind: 'flow', id: parent },
  })
  if (admitted === undefined) {
    const detail = `The workspace has no published flow ${namespace}/${name} in version ${version}.`
    throw new Problem('not_found', { detail })
  }
  return { workflow_id: admitted.workflowId, input: admitted.execution }
}
