/** Retries and removes tenants and workspaces whose creation waits for a server or has failed. */

import { isDeepStrictEqual } from 'node:util'
import { adminOperation, Input, Ref, Wait } from '../../access/operation-builders.ts'
import type { AdminScope } from '../../access/scope.ts'
import { OPERATORS, TENANT_ADMINS } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import { type TenantId, type TenantRef, targetOf, type WorkspaceId } from '../../core/tenant.ts'
import { type Sql, sql, textArray } from '../../infra/postgres/sql.ts'
import { isOfImport } from './discarded-imports.ts'
import { findJob, Job } from './jobs.ts'
import { NOT_STARTED, type Plan, provision } from './provisioning.ts'
import type { Noun } from './suspension.ts'
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
  run: (scope, { id, wait }) => startJob(scope, () => findUnfinishedTenant(scope, id), retry, wait),
})

export const retryWorkspace = adminOperation({
  name: 'workspace.retry',
  summary: 'Retry the creation of a workspace that has failed',
  roles: TENANT_ADMINS,
  input: Input({ id: Ref('workspace'), wait: Wait }),
  output: Job,
  http: asJob('POST', '/v1/workspaces/{id}/retry'),
  run: (scope, { id, wait }) => startJob(scope, () => findUnfinishedWorkspace(scope, id), retry, wait),
})

/** Deletes one whose creation waits or has failed, at once: it was never in use, and its slug is free. */
export const removeUnfinished = (
  scope: AdminScope,
  noun: Noun,
  { id, operationId, waitS }: { readonly id: string; readonly operationId: string; readonly waitS?: number },
): Promise<Job> => {
  const find = () => (noun === 'tenant' ? findUnfinishedTenant : findUnfinishedWorkspace)(scope, id)
  return startJob(scope, find, remove, waitS, operationId)
}

interface Unfinished {
  readonly kind: 'tenant' | 'workspace'
  readonly ref: TenantRef
  readonly state: string
  readonly creation: Plan
  readonly removal: Plan
  /** Changes the state, and the slug with it, if the state is still one of these. */
  readonly change: (to: string, slug: string, from: readonly string[]) => Sql
  readonly slug: string
}

async function findUnfinishedTenant(scope: AdminScope, id: string): Promise<Unfinished> {
  const { state, slug } = await findTenant(scope, id)
  return {
    kind: 'tenant',
    ref: { tenantId: id as TenantId, workspaceId: '-' },
    ...{ state, slug, creation: 'tenant', removal: 'tenant_removal' },
    change: (to, newSlug, from) => sql`
      update tenants set state = ${to}, slug = ${newSlug}, updated_at = now()
      where id = ${id} and state = any(${textArray(from)}::text[]) and delete_after is null`,
  }
}

async function findUnfinishedWorkspace(scope: AdminScope, id: string): Promise<Unfinished> {
  const { tenant_id, state, slug, bucket } = await findWorkspace(scope, id)
  return {
    kind: 'workspace',
    ref: { tenantId: tenant_id as TenantId, workspaceId: id as WorkspaceId },
    ...{ state, slug, removal: 'workspace_removal' },
    creation: bucket === null ? 'bare_workspace' : 'workspace',
    change: (to, newSlug, from) => sql`
      update workspaces set state = ${to}, slug = ${newSlug}, updated_at = now()
      where id = ${id} and state = any(${textArray(from)}::text[]) and delete_after is null`,
  }
}

/** Plans a retry or a removal of an unfinished tenant or workspace. @throws Problem `state_conflict` if its state forbids it */
type Planner = (found: Unfinished) => { readonly name: Plan; readonly change: Sql; readonly undo: Sql }

/** The states in which a creation can be retried. */
const UNFINISHED: readonly string[] = ['provisioning', 'provisioning_failed']

const retry: Planner = ({ kind, slug, state, creation, change }) => {
  if (!UNFINISHED.includes(state))
    throw new Problem('state_conflict', {
      detail: `The ${kind} is ${state}. Only a creation that waits or has failed can be retried.`,
    })
  return {
    name: creation,
    change: change('provisioning', slug, ['provisioning_failed']),
    // Of what another job does, nothing is undone.
    undo: change('provisioning_failed', slug, state === 'provisioning_failed' ? ['provisioning'] : []),
  }
}

const remove: Planner = ({ kind, ref, slug, state, removal, change }) => {
  if (!REMOVABLE.includes(state))
    throw new Problem('state_conflict', {
      detail: `The ${kind} is ${state}. It can be deleted at once only while its creation waits or has failed.`,
    })
  return {
    name: removal,
    change: change('deleting', targetOf(ref), REMOVABLE),
    undo: change('provisioning_failed', slug, state === 'deleting' ? [] : ['deleting']),
  }
}

/** A removal that has failed is begun again; two at once do the same. */
export const REMOVABLE: readonly string[] = ['provisioning', 'provisioning_failed', 'deleting']

/**
 * Starts the job of a plan. Of steps that another job does already, each is done once, since steps are idempotent.
 * @param find reads the record; a request that is repeated after its job has ended is answered without, since it may be gone
 */
async function startJob(
  scope: AdminScope,
  find: () => Promise<Unfinished>,
  plan: Planner,
  waitS = 0,
  operationId: string = scope.newId('op'),
): Promise<Job> {
  const earlier = await findJob(scope, operationId)
  if (earlier !== undefined && isEnded(earlier)) return earlier
  const found = await find()
  if (plan === retry) await requireUndone(scope, found)
  const { operation, ended } = await provision(scope, {
    ...plan(found),
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
  const open = await scope.row(sql`
    select from operations where target = ${targetOf(ref)} and type = ${`${kind}.create`} and finished_at is null`)
  if (open !== undefined)
    throw new Problem('state_conflict', {
      detail: `The creation of the ${kind} has failed and is being undone. Retry it when its operation has ended.`,
    })
}
