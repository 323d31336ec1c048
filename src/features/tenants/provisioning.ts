/** Creates and purges tenants and workspaces in named steps, which wait while a server is away. */

import type { AdminScope } from '../../access/scope.ts'
import { tenantWorkflowsOf } from '../../access/scope-services.ts'
import { notFound, Problem } from '../../core/problem.ts'
import { type TenantRef, targetOf } from '../../core/tenant.ts'
import { isLongStep, type ProvisionInput, QUEUES, type StepFailure } from '../../core/work.ts'
import { type Sql, sql } from '../../infra/postgres/sql.ts'
import { isUnavailable, retryTransient } from '../../infra/retry.ts'
import { ARCHIVE_STEP, EXPORT, IMPORT, IMPORT_UNDO, TENANT_IMPORT } from '../archives/steps.ts'
import { findRow } from '../operation-helpers.ts'
import { USER_ANONYMIZATION, USER_REMOVAL, USER_REMOVAL_STEP } from '../people/removal-steps.ts'
import { activateImported } from './imported-workspaces.ts'
import { JOB_COLUMNS, type Job, jobWorkflowId, kindOf, type OperationStep } from './jobs.ts'
import { TENANT_LIMITS } from './limits.ts'
import { PURGE_STEP, PURGE_STEPS, type PurgeJob } from './purge/steps.ts'
import { BUCKET } from './resources/bucket.ts'
import { HOST_ROUTES } from './resources/host-resources.ts'
import { REALM } from './resources/realm.ts'
import type { CountedResource } from './resources/resource.ts'

const PURGE = ['begin_purge', 'end_of_creation', ...PURGE_STEPS, 'finish_purge'] as const

/** Steps by what is to be done. Steps are idempotent: each may run again after a crash. */
export const PLANS = {
  tenant: ['realm', 'activate_tenant'],
  workspace: ['bucket', 'host_routes', 'activate_workspace'],
  bare_workspace: ['host_routes', 'activate_workspace'],
  /** Of a tenant or a workspace, whether it was ever in use or not. */
  purge: PURGE,
  user_removal: USER_REMOVAL,
  user_anonymization: USER_ANONYMIZATION,
  export: EXPORT,
  import: IMPORT,
  import_bare: IMPORT.filter((step) => step !== 'bucket'),
  tenant_import: TENANT_IMPORT,
} as const
export type Plan = keyof typeof PLANS
type UndoName = 'remove_bucket' | 'remove_realm' | 'remove_host_routes'
type StepName = (typeof PLANS)[Plan][number] | UndoName | keyof typeof ARCHIVE_STEP

/** Throws a problem that is not final to be tried again later. True if it has more to do. */
type Step = (scope: AdminScope, ref: TenantRef, job: PurgeJob & StepAttempt) => Promise<unknown>

const STEPS: Readonly<Record<StepName, Step>> = {
  ...PURGE_STEP,
  ...USER_REMOVAL_STEP,
  ...ARCHIVE_STEP,
  activate_tenant: activate,
  activate_import: async (scope, ref) => {
    await scope.batch(...activateImported(ref.tenantId))
    await requireActive(scope, ref)
  },
  bucket: BUCKET.apply,
  activate_workspace: activate,
  /** A creation that is under way notices at its next attempt that it is not wanted: {@link requireWanted}. */
  end_of_creation: async (scope, ref) => {
    const { tenantId } = ref
    const creations = await scope.rows<{ workflow_id: string }>(sql`
      select workflow_id from operations
      where tenant_id = ${tenantId} and (type like '%.create' or type in ('workspace.import', 'tenant.import')) and finished_at is null
        and (${ref.workspaceId} = '-' or target = ${ref.workspaceId})`)
    const work = tenantWorkflowsOf(scope, { tenantId, workspaceId: '-' })
    for (const { workflow_id } of creations)
      if (!(await work.ended(workflow_id, TENANT_LIMITS.creationEndMs)))
        throw new Problem('dependency_unavailable', { detail: 'The creation is still under way.' })
  },
  remove_bucket: BUCKET.remove,
  realm: REALM.apply,
  remove_realm: REALM.remove,
  host_routes: HOST_ROUTES.apply,
  remove_host_routes: HOST_ROUTES.remove,
}

/** @throws Problem `state_conflict` if the creation has failed and is undone: another job wanted the same at the same time */
async function activate(scope: AdminScope, ref: TenantRef): Promise<void> {
  await changeCreation(scope, ref, 'active')
  await requireActive(scope, ref)
}

async function requireActive(scope: AdminScope, ref: TenantRef): Promise<void> {
  if (!(await hasBecomeActive(scope, ref)))
    throw new Problem('state_conflict', {
      detail: `Another creation of this ${kindOf(ref)} has failed, and is undone.`,
    })
}

/** Changes the state of one that is being created. */
async function changeCreation(scope: AdminScope, ref: TenantRef, state: string): Promise<void> {
  const target = targetOf(ref)
  await scope.batch(
    sql`update tenants set state = ${state}, updated_at = now() where id = ${target} and state = 'provisioning'`,
    sql`update workspaces set state = ${state}, updated_at = now() where id = ${target} and state = 'provisioning'`,
  )
}

/** True once a creation was completed, whatever has become of the tenant or workspace since. */
async function hasBecomeActive(scope: AdminScope, ref: TenantRef): Promise<boolean> {
  const [target, became] = [
    targetOf(ref),
    sql`(state in ('active', 'suspended') or (state = 'deleting' and state_before is not null))`,
  ]
  const row = await scope.row(
    kindOf(ref) === 'tenant'
      ? sql`select from tenants where id = ${target} and ${became}`
      : sql`select from workspaces where id = ${target} and ${became}`,
  )
  return row !== undefined
}

/** What undoes a step of a creation that fails, in reverse. The others have no effect that outlives the failure. */
export const UNDO: Readonly<Partial<Record<StepName, UndoName>>> = {
  bucket: 'remove_bucket',
  host_routes: 'remove_host_routes',
  realm: 'remove_realm',
}

/** The steps of systems that an installation may not have: then its plans have none of them. */
export const OPTIONAL: Readonly<Partial<Record<StepName, CountedResource>>> = {
  host_routes: HOST_ROUTES,
  realm: REALM,
}

/** The steps of a plan in this installation. */
const stepsOf = (scope: AdminScope, plan: Plan): StepName[] =>
  PLANS[plan].filter((step) => OPTIONAL[step]?.isConfigured(scope) ?? true)

/** The undoing steps of a plan by the steps that they undo; empty for a removal. */
const undoOf = (steps: readonly StepName[]): Readonly<Record<string, string>> =>
  steps.includes('verify_archive')
    ? IMPORT_UNDO
    : Object.fromEntries(steps.flatMap((step) => (UNDO[step] === undefined ? [] : [[step, UNDO[step]]])))

/** The error of a job that never began: a second attempt of the same request resumes it. */
export const NOT_STARTED = { code: 'dependency_unavailable', detail: 'Temporal did not accept the job.' }

/** For an insert of an existing id: it replaces only a record whose job never began. */
export const START_FAILED = sql`state = 'deleted'
  and exists (select from operations o where o.target = excluded.id and o.state = 'queued')`

/** Starts the workflow of a job; once, however often it is called. */
export async function startJobWorkflow(
  scope: AdminScope,
  job: {
    readonly operationId: string
    readonly ref: TenantRef
    readonly plan: Plan
    readonly type: string
    readonly uuid: string
    readonly target: string
  },
): Promise<void> {
  const { operationId: operation_id, ref, plan, type, uuid, target } = job
  const kind = kindOf(ref)
  const steps = stepsOf(scope, plan)
  const input: ProvisionInput = { operation_id, kind, target: ref, steps, undo: undoOf(steps) }
  await tenantWorkflowsOf(scope, { tenantId: ref.tenantId, workspaceId: '-' }).start({
    ...{ definition: 'provision', queue: QUEUES.provisioning, subject: `${kind}-provision`, uuid, input },
    summary: `${type} ${target}`,
  })
}

/**
 * Writes a change of the record and its job in one transaction, starts the workflow, and waits for it at most `waitS` seconds.
 * With the ids of an earlier attempt, it continues that one.
 * @param plan.subject of a job about something inside the workspace, which Temporal is not told if it is hidden @param plan.result what its steps begin with @param plan.expiresMs until what it makes for download is removed @param plan.change of the record @param plan.undo restores it if the workflow cannot be started
 * @returns the job; `ended`: it ended in that time
 * @throws the error of the change (a taken slug); Problem `dependency_unavailable` if the workflow cannot be started
 */
export async function provision(
  scope: AdminScope,
  plan: {
    name: Plan
    ref: TenantRef
    change: Sql
    undo: Sql
    waitS: number
    operationId?: string
    subject?: { readonly type: string; readonly target: string; readonly isHidden?: boolean }
    result?: object
    expiresMs?: number
  },
): Promise<{ operation: Job; ended: boolean }> {
  const { name, ref, operationId: operation_id = scope.newId('op') } = plan
  const { type, target } = plan.subject ?? {
    type: `${kindOf(ref)}.create`,
    target: targetOf(ref),
  }
  const uuid = scope.uuid()
  const workflow = jobWorkflowId(ref, uuid)
  const [, , [operation] = []] = await scope.batch(
    sql`update operations set state = 'queued', error = null, finished_at = null
      where id = ${operation_id} and error = ${NOT_STARTED}::jsonb`,
    plan.change,
    sql`insert into operations (id, tenant_id, workspace_id, type, target, workflow_id, state, result, expires_at)
      values (${operation_id}, ${ref.tenantId}, ${target === targetOf(ref) ? null : ref.workspaceId}, ${type}, ${target}, ${workflow}, 'queued', ${plan.result ?? null}::jsonb,
        now() + ${plan.expiresMs ?? null}::float8 * interval '1 millisecond')
      on conflict (id) do update set workflow_id = excluded.workflow_id,
        result = coalesce(excluded.result, operations.result)
      returning ${JOB_COLUMNS}`,
  )
  const work = tenantWorkflowsOf(scope, { tenantId: ref.tenantId, workspaceId: '-' })
  try {
    const shown = plan.subject?.isHidden === true ? targetOf(ref) : target
    await startJobWorkflow(scope, { operationId: operation_id, ref, plan: name, type, uuid, target: shown })
  } catch (error) {
    const job = { id: operation_id, workflowId: workflow }
    const undo = () => scope.batch(plan.undo, endAsFailed(job, NOT_STARTED))
    // The caller learns why the workflow was not started, also if this fails; then `POST …/retry` begins the job again.
    await retryTransient(TENANT_LIMITS.undoMs, undo).catch((cause: unknown) =>
      scope.logError(cause, 'change of a job that was not started is not undone'),
    )
    throw error
  }
  const ended = plan.waitS > 0 && (await work.ended(workflow, plan.waitS * 1_000))
  return { operation: operation as Job, ended }
}

/**
 * Runs one step and records it on the job; the last step ends the job.
 * @returns true if the step has more to do
 * @throws the problem of the step, after it was recorded as the reason why the step waits, if it is to be tried again
 */
export function provisionStep(
  scope: AdminScope,
  input: ProvisionInput,
  name: string,
  attempt: StepAttempt,
): Promise<boolean> {
  const run = () => attemptStep(scope, input, name, attempt)
  if (!isLongStep(name)) return run()
  const waitMs = input.step_wait_ms ?? TENANT_LIMITS.provisioningStepMs
  return retryTransient(
    waitMs,
    run,
    (error) => isUnavailable(error) && !attempt.signal.aborted,
    ARCHIVE_DELAYS,
  )
}

/**
 * Within one attempt of its activity, a step that reads or writes a whole archive waits for servers that are away, as long as other
 * steps do: the number of its attempts is bounded, for an archive that ends the worker.
 */
const ARCHIVE_DELAYS = { min: 500, max: 30_000 }

interface StepAttempt {
  /** 1 for the first. */
  readonly attempt: number
  readonly workflowId: string
  /** Aborts when the attempt is given up. */
  readonly signal: AbortSignal
}

async function attemptStep(
  scope: AdminScope,
  input: ProvisionInput,
  name: string,
  attempt: StepAttempt,
): Promise<boolean> {
  const { attempt: attempts } = attempt
  const step = Object.hasOwn(STEPS, name) ? STEPS[name as StepName] : undefined
  if (step === undefined) throw notFound('provisioning step')
  const job = { id: input.operation_id, workflowId: attempt.workflowId }
  if (!Object.values(input.undo ?? {}).includes(name)) await requireWanted(scope, input, job)
  else if (await isInUse(scope, input.target)) return false
  const record = (done: OperationStep) => recordProgress(scope, input, job, done)
  if (attempts === 1) await record({ name, state: 'running' })
  try {
    const hasMore = await step(scope, input.target, { operationId: input.operation_id, ...attempt })
    if (hasMore === true) return true
  } catch (error) {
    const problem = error instanceof Problem ? error : new Problem('internal')
    const { code, message: detail } = problem
    const reason = { name, state: 'waiting' as const, code, detail, attempts }
    // Without the database the reason cannot be recorded; the step is tried again all the same.
    if (!problem.isFinal) await record(reason).catch(() => {})
    throw error
  }
  await record({ name, state: 'succeeded' })
  return false
}

/** True if another job has completed the creation meanwhile: then nothing is undone. Afterwards, none completes it. */
async function isInUse(scope: AdminScope, ref: TenantRef): Promise<boolean> {
  await changeCreation(scope, ref, 'provisioning_failed')
  return hasBecomeActive(scope, ref)
}

/** @throws Problem `state_conflict`, which ends a creation whose record is being deleted, and a purge that was undone or has another workflow */
async function requireWanted(
  scope: AdminScope,
  { kind, target, steps }: ProvisionInput,
  job: JobWorkflow,
): Promise<void> {
  if (steps.includes('begin_purge')) return requireUncancelled(scope, job)
  const { states } = await findRow<{ states: readonly string[] }>(
    scope,
    kind,
    kind === 'tenant'
      ? sql`select array[state] as states from tenants where id = ${target.tenantId}`
      : sql`select array[w.state, t.state] as states from workspaces w join tenants t on t.id = w.tenant_id
          where w.id = ${target.workspaceId}`,
  )
  if (states.includes('deleting') || states.includes('deleted'))
    throw new Problem('state_conflict', { detail: `The ${kind} was deleted meanwhile.` })
}

async function requireUncancelled(scope: AdminScope, { id, workflowId }: JobWorkflow): Promise<void> {
  const row = await scope.row(sql`
    select from operations where id = ${id} and workflow_id = ${workflowId} and state in ('queued', 'running', 'succeeded')`)
  if (row === undefined)
    throw new Problem('state_conflict', {
      detail: 'The operation was ended, or continues in another workflow.',
    })
}

/** Ends a job that can never be started. */
export async function endUnstartedJob(
  scope: AdminScope,
  { id, workflow_id: workflowId }: { readonly id: string; readonly workflow_id: string },
  { code, message: detail }: Problem,
): Promise<void> {
  await scope.batch(endAsFailed({ id, workflowId }, { code, detail }))
}

/**
 * Ends the jobs of a target whose workflow was ended in Temporal, where nobody could record it: they would stay open for ever.
 * @param type of the operations @returns true if there were any
 */
export async function endCutOffJobs(scope: AdminScope, ref: TenantRef, type: string): Promise<boolean> {
  const open = await scope.rows<{ id: string; workflow_id: string }>(sql`
    select id, workflow_id from operations where target = ${targetOf(ref)} and type = ${type} and state = 'running'`)
  const work = tenantWorkflowsOf(scope, { tenantId: ref.tenantId, workspaceId: '-' })
  let hasEnded = false
  for (const { id, workflow_id: workflowId } of open) {
    if ((await work.status(workflowId)) === 'open') continue
    await scope.batch(endAsFailed({ id, workflowId }, CUT_OFF))
    hasEnded = true
  }
  return hasEnded
}

const CUT_OFF = {
  code: 'state_conflict',
  detail: 'The workflow of the operation was ended in Temporal before its last step.',
}

/**
 * Ends the job as failed, and its record, if it was being created.
 * @param failures of the step that failed, and of those that did not undo
 */
export async function failProvisioning(
  scope: AdminScope,
  { workflowId }: Pick<StepAttempt, 'workflowId'>,
  { operation_id, target }: ProvisionInput,
  failures: readonly StepFailure[],
): Promise<void> {
  const { code } = failures[0] ?? { code: 'internal' }
  const detail = failures.map(({ name, detail: why }) => `The step ${name} failed. ${why}`).join(' ')
  const error = { code, detail }
  const job = { id: operation_id, workflowId }
  await changeCreation(scope, target, 'provisioning_failed')
  await scope.batch(
    ...failures.map((failure) => recordStep(job, { ...failure, state: 'failed' })),
    endAsFailed(job, error),
  )
}

/** A job, and the workflow that works for it: once the job has another one, nothing that this one tells is recorded. */
interface JobWorkflow {
  readonly id: string
  readonly workflowId: string
}

const isOpen = ({ id, workflowId }: JobWorkflow): Sql =>
  sql`id = ${id} and workflow_id = ${workflowId} and state in ('queued', 'running')`

const endAsFailed = (job: JobWorkflow, error: object): Sql => sql`
  update operations set state = 'failed', error = ${JSON.stringify(error)}, finished_at = now() where ${isOpen(job)}`

async function recordProgress(
  scope: AdminScope,
  { steps }: ProvisionInput,
  job: JobWorkflow,
  step: OperationStep,
): Promise<void> {
  const isLast = step.state === 'succeeded' && step.name === steps.at(-1)
  await scope.batch(
    recordStep(job, step),
    sql`update operations set state = ${isLast ? 'succeeded' : 'running'},
        finished_at = case when ${isLast}::boolean then now() end
      where ${isOpen(job)}`,
  )
}

const recordStep = (job: JobWorkflow, step: OperationStep): Sql => sql`
  update operations set
    steps = coalesce((select jsonb_agg(s) from jsonb_array_elements(steps) s where s->>'name' <> ${step.name}), '[]')
      || ${JSON.stringify([step])}::jsonb
  where ${isOpen(job)}`
