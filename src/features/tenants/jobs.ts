/** Long-running jobs (`/v1/operations`): their records, and the provisioning of tenants and workspaces in steps. */

import Type, { type Static } from 'typebox'
import { adminOperation, Id, Input, OptionalTime, Ref, Time } from '../../access/operation-builders.ts'
import type { AdminScope } from '../../access/scope.ts'
import { bucketsOf, tenantWorkflowsOf } from '../../access/scope-services.ts'
import { PageInput, PageOf } from '../../core/page.ts'
import { TENANT_ADMINS } from '../../core/policy.ts'
import { notFound, Problem } from '../../core/problem.ts'
import { isTenantId, type TenantId, type TenantRef } from '../../core/tenant.ts'
import { type ProvisionInput, QUEUES } from '../../core/work.ts'
import { type Sql, sql } from '../../infra/postgres/sql.ts'
import { bodyProblem, findRow, listPage } from '../operation-helpers.ts'

const OperationStep = Type.Object({
  name: Type.String(),
  state: Type.Union(['running', 'succeeded', 'failed'].map((state) => Type.Literal(state))),
  detail: Type.Optional(Type.String()),
})

export const Job = Type.Object({
  id: Id('op'),
  tenant_id: Id('ten'),
  type: Type.String(),
  target: Type.String(),
  state: Type.Union(
    ['queued', 'running', 'succeeded', 'failed', 'cancelled'].map((state) => Type.Literal(state)),
  ),
  steps: Type.Array(OperationStep),
  error: Type.Unknown(),
  created_at: Time,
  finished_at: OptionalTime,
})
export type Job = Static<typeof Job>

/** Of the table `operations`, as a {@link Job}. */
export const JOB_COLUMNS = sql`id, tenant_id, type, target, state, steps, error, created_at, finished_at`

export const getOperation = adminOperation({
  name: 'operation.get',
  summary: 'Read an operation and its steps',
  roles: TENANT_ADMINS,
  input: Input({ id: Ref('operation') }),
  output: Job,
  http: { method: 'GET', path: '/v1/operations/{id}' },
  run: (scope, { id }) =>
    findRow<Job>(scope, 'operation', sql`select ${JOB_COLUMNS} from operations where id = ${id}`),
})

export const listOperations = adminOperation({
  name: 'operation.list',
  summary: 'List operations',
  roles: TENANT_ADMINS,
  input: Input(PageInput),
  output: PageOf(Job),
  http: { method: 'GET', path: '/v1/operations' },
  run: (scope, input) => listPage<Job>(scope, input, sql`select ${JOB_COLUMNS} from operations`),
})

/** Steps by what is provisioned. Steps are idempotent: each may run again after a crash. */
const PLANS = {
  tenant: ['activate_tenant'],
  workspace: ['bucket', 'activate_workspace'],
  bare_workspace: ['activate_workspace'],
} as const
type Plan = keyof typeof PLANS
type StepName = (typeof PLANS)[Plan][number]

type Step = (scope: AdminScope, ref: TenantRef) => Promise<void>

const STEPS: Readonly<Record<StepName, Step>> = {
  activate_tenant: async (scope, { tenantId }) => {
    await scope.batch(sql`
      update tenants set state = 'active', updated_at = now() where id = ${tenantId} and state = 'provisioning'`)
  },
  /** The store has the bucket before the workspace may address it. */
  bucket: async (scope, { tenantId, workspaceId }) => {
    const { bucket } = await findRow<{ bucket: string | null }>(
      scope,
      'workspace',
      sql`select bucket from workspaces where id = ${workspaceId}`,
    )
    if (bucket === null) throw new Problem('bucket_required')
    await bucketsOf(scope).make(bucket, workspaceId)
    await scope.batch(sql`
      insert into buckets (tenant_id, workspace_id, name) values (${tenantId}, ${workspaceId}, ${bucket})
      on conflict do nothing`)
  },
  activate_workspace: async (scope, ref) => {
    await scope.batch(sql`
      update workspaces set state = 'active', updated_at = now()
      where id = ${ref.workspaceId} and state = 'provisioning'`)
  },
}

/** The error of a job that never began: a second attempt of the same request resumes it. */
const NOT_STARTED = { code: 'dependency_unavailable', detail: 'Temporal did not accept the job.' }

/** For an insert of an existing id: it replaces only a record whose job never began. */
export const START_FAILED = sql`state = 'provisioning_failed'
  and exists (select from operations o where o.target = excluded.id and o.state = 'queued')`

/**
 * Writes the record and its job in one transaction, starts the workflow, and waits for it at most `waitS` seconds.
 * With the ids of an earlier attempt, it continues that one.
 * @returns the job; `ended`: it ended in that time
 * @throws the error of the insert (a taken slug); Problem `dependency_unavailable` if the workflow cannot be started: then
 *   the record is marked as failed
 */
export async function provision(
  scope: AdminScope,
  plan: { name: Plan; ref: TenantRef; insert: Sql; waitS: number },
): Promise<{ operation: Job; ended: boolean }> {
  const { name, ref } = plan
  const kind = name === 'tenant' ? 'tenant' : 'workspace'
  const input: ProvisionInput = { operation_id: scope.newId('op'), kind, target: ref, steps: PLANS[name] }
  const start = { subject: `${kind}-provision`, uuid: scope.uuid() }
  const target = kind === 'tenant' ? ref.tenantId : ref.workspaceId
  const workflow = `${ref.tenantId}:-:${start.subject}:${start.uuid}`
  const [, , [operation] = []] = await scope.batch(
    sql`update operations set state = 'queued', error = null, finished_at = null
      where id = ${input.operation_id} and error = ${NOT_STARTED}::jsonb`,
    plan.insert,
    sql`insert into operations (id, tenant_id, type, target, workflow_id, state)
      values (${input.operation_id}, ${ref.tenantId}, ${`${kind}.create`}, ${target}, ${workflow}, 'queued')
      on conflict (id) do update set id = excluded.id
      returning ${JOB_COLUMNS}`,
  )
  const work = tenantWorkflowsOf(scope, { tenantId: ref.tenantId, workspaceId: '-' })
  try {
    const summary = `Provision ${kind} ${target}`
    await work.start({ definition: 'provision', queue: QUEUES.provisioning, ...start, input, summary })
  } catch (error) {
    await failProvisioning(scope, input, NOT_STARTED.detail)
    throw error
  }
  const ended = plan.waitS > 0 && (await work.ended(workflow, plan.waitS * 1_000))
  return { operation: operation as Job, ended }
}

/** Runs one step and records it on the job; the last step ends the job. */
export async function provisionStep(scope: AdminScope, input: ProvisionInput, name: string): Promise<void> {
  const step = Object.hasOwn(STEPS, name) ? STEPS[name as StepName] : undefined
  if (step === undefined) throw notFound('provisioning step')
  await record(scope, input, name, 'running')
  await step(scope, input.target)
  await record(scope, input, name, 'succeeded')
}

/** Ends the job and its record as failed. A new create with the same slug starts again. */
export async function failProvisioning(
  scope: AdminScope,
  input: ProvisionInput,
  detail: string,
): Promise<void> {
  const error = JSON.stringify({ ...NOT_STARTED, detail })
  const { tenantId, workspaceId } = input.target
  const record =
    input.kind === 'tenant'
      ? sql`update tenants set state = 'provisioning_failed', updated_at = now(), slug = ${tenantId} where id = ${tenantId}`
      : sql`update workspaces set state = 'provisioning_failed', updated_at = now(), slug = ${workspaceId},
          bucket = null where id = ${workspaceId}`
  await scope.batch(
    record,
    sql`update operations set state = 'failed', error = ${error}, finished_at = now() where id = ${input.operation_id}`,
  )
}

async function record(scope: AdminScope, input: ProvisionInput, name: string, state: string): Promise<void> {
  const last = state === 'succeeded' && name === input.steps.at(-1)
  const step = JSON.stringify([{ name, state }])
  await scope.batch(sql`
    update operations set
      state = ${last ? 'succeeded' : 'running'},
      finished_at = case when ${last}::boolean then now() end,
      steps = coalesce((select jsonb_agg(s) from jsonb_array_elements(steps) s where s->>'name' <> ${name}), '[]')
        || ${step}::jsonb
    where id = ${input.operation_id} and state in ('queued', 'running')`)
}

/** The tenant of an admin's request: its own, or the one that an operator names. @throws Problem `not_found` for another */
export function resolveTenant(scope: AdminScope, named: string | undefined): TenantId {
  if (scope.tenantId !== undefined) {
    if (named !== undefined && named !== scope.tenantId) throw notFound('tenant')
    return scope.tenantId
  }
  if (named === undefined)
    throw bodyProblem('/tenant_id', 'is required of an operator', 'tenant_id is required of an operator.')
  if (!isTenantId(named)) throw notFound('tenant')
  return named
}
