/** Retries the creation of tenants and workspaces that waits for a server or has failed. */

import { isDeepStrictEqual } from 'node:util'
import { adminOperation, Input, Ref, Wait } from '../../access/operation-builders.ts'
import type { AdminScope } from '../../access/scope.ts'
import { OPERATORS, TENANT_ADMINS } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import { type TenantId, type TenantRef, targetOf, type WorkspaceId } from '../../core/tenant.ts'
import { type Sql, sql, textArray } from '../../infra/postgres/sql.ts'
import { findJob, Job } from './jobs.ts'
import { endCutOffJobs, NOT_STARTED, type Plan, provision } from './provisioning.ts'
import { findTenant, findWorkspace } from './tenants.ts'

/** 202 with the job, which has ended by then if `Prefer: wait` was long enough. */
export const asJob = (method: 'POST' | 'DELETE', path: string) => ({
  method,
  path,
  headers: { wait: 'prefer' as const },
  status: () => 202,
  location: ({ id }: { readonly id: string }) => `/v1/operations/${id}`,
})

export const retryTenant = adminOperation({
  name: 'tenant.retry',
  summary: 'Retry the creation of a tenant that has failed',
  roles: OPERATORS,
  input: Input({ id: Ref('tenant'), wait: Wait }),
  output: Job,
  http: asJob('POST', '/v1/tenants/{id}/retry'),
  run: (scope, { id, wait }) => startRetry(scope, () => findUnfinishedTenant(scope, id), wait),
})

export const retryWorkspace = adminOperation({
  name: 'workspace.retry',
  summary: 'Retry the creation of a workspace that has failed',
  roles: TENANT_ADMINS,
  input: Input({ id: Ref('workspace'), wait: Wait }),
  output: Job,
  http: asJob('POST', '/v1/workspaces/{id}/retry'),
  run: (scope, { id, wait }) => startRetry(scope, () => findUnfinishedWorkspace(scope, id), wait),
})

interface Unfinished {
  readonly kind: 'tenant' | 'workspace'
  readonly ref: TenantRef
  readonly state: string
  readonly creation: Plan
  /** Changes the state, if it is still one of these. */
  readonly change: (to: string, from: readonly string[]) => Sql
}

async function findUnfinishedTenant(scope: AdminScope, id: string): Promise<Unfinished> {
  const { state } = await findTenant(scope, id)
  return {
    kind: 'tenant',
    ref: { tenantId: id as TenantId, workspaceId: '-' },
    ...{ state, creation: 'tenant' },
    change: (to, from) => sql`
      update tenants set state = ${to}, updated_at = now()
      where id = ${id} and state = any(${textArray(from)}::text[]) and delete_after is null`,
  }
}

async function findUnfinishedWorkspace(scope: AdminScope, id: string): Promise<Unfinished> {
  const { tenant_id, state, bucket } = await findWorkspace(scope, id)
  return {
    kind: 'workspace',
    ref: { tenantId: tenant_id as TenantId, workspaceId: id as WorkspaceId },
    state,
    creation: bucket === null ? 'bare_workspace' : 'workspace',
    change: (to, from) => sql`
      update workspaces set state = ${to}, updated_at = now()
      where id = ${id} and state = any(${textArray(from)}::text[]) and delete_after is null`,
  }
}

/** The states in which a creation can be retried. */
const UNFINISHED: readonly string[] = ['provisioning', 'provisioning_failed']

/** @throws Problem `state_conflict` if the state forbids it */
function planRetry({ kind, state, creation, change }: Unfinished) {
  if (!UNFINISHED.includes(state))
    throw new Problem('state_conflict', {
      detail: `The ${kind} is ${state}. Only a creation that waits or has failed can be retried.`,
    })
  return {
    name: creation,
    change: change('provisioning', ['provisioning_failed']),
    // Of what another job does, nothing is undone.
    undo: change('provisioning_failed', state === 'provisioning_failed' ? ['provisioning'] : []),
  }
}

/**
 * Starts the job. Of steps that another job does already, each is done once, since steps are idempotent.
 * @param find reads the record; a request that is repeated after its job has ended is answered without, since it may be gone
 */
async function startRetry(scope: AdminScope, find: () => Promise<Unfinished>, waitS = 0): Promise<Job> {
  const operationId = scope.newId('op')
  const earlier = await findJob(scope, operationId)
  if (earlier !== undefined && isEnded(earlier)) return earlier
  const found = await find()
  await requireUndone(scope, found)
  const { operation, ended } = await provision(scope, {
    ...planRetry(found),
    ...{ ref: found.ref, waitS, operationId },
  })
  return (ended ? await findJob(scope, operation.id) : undefined) ?? operation
}

/** True unless the job goes on, or never began: then the same request begins it. */
export const isEnded = (job: Job): boolean =>
  job.state !== 'queued' && job.state !== 'running' && !isNotStarted(job)

/** True if the job never began. */
export const isNotStarted = ({ error }: Job): boolean => isDeepStrictEqual(error, NOT_STARTED)

/**
 * @throws Problem `state_conflict` while an earlier creation, which has failed, is being undone: it would undo the new one; and for
 *   what an import makes, which the steps of a creation would make active although half of it is missing
 */
async function requireUndone(scope: AdminScope, { kind, ref, state }: Unfinished): Promise<void> {
  if (UNFINISHED.includes(state) && (await isOfImport(scope, ref)))
    throw new Problem('state_conflict', {
      detail: `The ${kind} is made by an import, which cannot be retried. Delete it, and import the archive again.`,
    })
  if (state !== 'provisioning_failed') return
  await endCutOffJobs(scope, ref, `${kind}.create`)
  const open = await scope.row(sql`
    select from operations where target = ${targetOf(ref)} and type = ${`${kind}.create`} and finished_at is null`)
  if (open !== undefined)
    throw new Problem('state_conflict', {
      detail: `The creation of the ${kind} has failed and is being undone. Retry it when its operation has ended.`,
    })
}

/**
 * True if it was made by an import, whether that has ended or not, or by that of its tenant, unless it has succeeded: their operations
 * are kept as long as something is unfinished.
 */
const isOfImport = async (scope: AdminScope, ref: TenantRef): Promise<boolean> =>
  (await scope.row(sql`
    select from operations i
    where (i.target = ${targetOf(ref)} and i.type in ('workspace.import', 'tenant.import'))
      or (i.target = ${ref.tenantId} and i.type = 'tenant.import' and i.state <> 'succeeded')`)) !== undefined
