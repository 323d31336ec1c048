/** Starts the jobs that no request has started: purges whose time has come, and jobs whose process died before their workflow was started. */

import type { AdminScope } from '../../access/scope.ts'
import { notFound, Problem } from '../../core/problem.ts'
import { type TenantId, type TenantRef, targetOf, type WorkspaceId } from '../../core/tenant.ts'
import { type Sql, sql } from '../../infra/postgres/sql.ts'
import type { BackgroundTask } from '../background/background-task.ts'
import { type TenantServices, tenantTask } from '../background/tenant-task.ts'
import { startRecordedBuilding } from '../collections/schemas/index-build.ts'
import { findRow } from '../operation-helpers.ts'
import { TENANT_LIMITS } from './limits.ts'
import { endUnstartedJob, type Plan, startJobWorkflow } from './provisioning.ts'

interface DueRow {
  readonly id: string
  readonly tenant_id: TenantId
  readonly type: string
  readonly target: string
  readonly workflow_id: string
}

/** Processes use states, keys and subjects for a while after they have read them. */
const KNOWN_BY_ALL = sql`now() - ${`${TENANT_LIMITS.knownByAllMs} milliseconds`}::interval`

/**
 * The time of its purge has come, or a purge has begun: none is left half-way, even if it has failed and the clock is set back. What was never
 * active (it has no state to be restored to) no process has taken for active, so no process has to learn of its deletion.
 */
const isDue = (row: Sql): Sql =>
  sql`${row}.state = 'deleting' and (${row}.delete_after <= now() or ${row}.purged_from is not null)
    and (${row}.state_before is null or ${row}.updated_at <= ${KNOWN_BY_ALL})`

/**
 * A job that has begun is not queued any more: Temporal resumes it. Until all processes know of a deletion, no purge of
 * what was in use begins; nor does one of a workspace whose tenant is purged itself, or held by an operator. Other jobs are started by
 * the request that records them.
 */
const DUE = sql`
  with queued as (
    select id, tenant_id, type, target, workflow_id, created_at,
      type in ('tenant.delete', 'workspace.delete') as is_deletion
    from operations where finished_at is null and state = 'queued'
  ), due as (
    select w.id from workspaces w join tenants t on t.id = w.tenant_id
      where ${isDue(sql`w`)}
        and t.suspended_by is distinct from 'operator' and t.purged_from is null
    union all
    select t.id from tenants t where ${isDue(sql`t`)}
  )
  select id, tenant_id, type, target, workflow_id from queued
  where case when is_deletion then target in (select id from due)
    else created_at <= now() - ${`${TENANT_LIMITS.jobStartMs} milliseconds`}::interval end`

export const dueJobs = (services: TenantServices): BackgroundTask<never> =>
  tenantTask<DueRow>(services, {
    name: 'jobs',
    pollMs: TENANT_LIMITS.jobPollMs,
    atOnce: 20,
    due: DUE,
    serve: startOrEnd,
    failure: 'job not started',
  })

/** Starts a job now, if it is due. */
export async function startIfDue(scope: AdminScope, operationId: string): Promise<void> {
  const row = await scope.row<DueRow>(sql`select * from (${DUE}) due where id = ${operationId}`)
  if (row !== undefined) await startOrEnd(scope, row)
}

/** What can never be started, such as the removal of a user whose workspace was purged, is ended. */
async function startOrEnd(scope: AdminScope, row: DueRow): Promise<void> {
  try {
    await start(scope, row)
  } catch (error) {
    if (!(error instanceof Problem && error.isFinal)) throw error
    if (row.type.startsWith('user.')) await scope.batch(endWithoutUser(row))
    await endUnstartedJob(scope, row, error)
  }
}

/** The last step deletes the user. A database that was restored to the moment before that was recorded has nothing left to do. */
const endWithoutUser = ({ id, workflow_id }: DueRow): Sql => sql`
  update operations set state = 'succeeded', finished_at = now()
  where id = ${id} and workflow_id = ${workflow_id} and state = 'queued'
    and not exists (select from users where users.id = operations.target)`

async function start(scope: AdminScope, row: DueRow): Promise<void> {
  const { id: operationId, type, target, workflow_id } = row
  const uuid = workflow_id.split(':').at(-1) ?? ''
  if (type === 'index.build') return startRecordedBuilding(scope, { operationId, schemaId: target, uuid })
  const { plan, ref } = await readPlan(scope, row)
  // Temporal does not keep who was made anonymous.
  const shown = type === 'user.anonymize' ? targetOf(ref) : target
  await startJobWorkflow(scope, { operationId, ref, plan, type, uuid, target: shown })
}

/** @throws Problem `not_found` if what the job is about is gone */
async function readPlan(
  scope: AdminScope,
  { type, target, tenant_id: tenantId }: DueRow,
): Promise<{ plan: Plan; ref: TenantRef }> {
  const ofTenant = OF_TENANT[type]
  if (ofTenant !== undefined) return { plan: ofTenant, ref: { tenantId, workspaceId: '-' } }
  const { workspace_id: workspaceId, bucket } = await findRow<{
    workspace_id: WorkspaceId
    bucket: string | null
  }>(
    scope,
    type.startsWith('user.') ? 'user' : 'workspace',
    type.startsWith('user.')
      ? sql`select workspace_id, null as bucket from users where id = ${target}`
      : sql`select id as workspace_id, bucket from workspaces where id = ${target}`,
  )
  const plan = planOf(type, bucket !== null)
  if (plan === undefined) throw notFound('plan')
  return { plan, ref: { tenantId, workspaceId } }
}

const OF_TENANT: Readonly<Record<string, Plan>> = {
  'tenant.create': 'tenant',
  'tenant.delete': 'purge',
  'tenant.export': 'export',
  'tenant.import': 'tenant_import',
}

function planOf(type: string, hasBucket: boolean): Plan | undefined {
  if (type === 'workspace.create') return hasBucket ? 'workspace' : 'bare_workspace'
  if (type === 'workspace.import') return hasBucket ? 'import' : 'import_bare'
  if (type === 'workspace.export') return 'export'
  if (type === 'workspace.delete') return 'purge'
  if (type === 'user.delete') return 'user_removal'
  if (type === 'user.anonymize') return 'user_anonymization'
  return undefined
}
