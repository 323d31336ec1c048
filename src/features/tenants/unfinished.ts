/** Retries and deletes tenants and workspaces whose creation waits for a server or has failed. */

import { isDeepStrictEqual } from 'node:util'
import { adminOperation, Input, Ref, Wait } from '../../access/operation-builders.ts'
import type { AdminScope } from '../../access/scope.ts'
import { OPERATORS, TENANT_ADMINS } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import type { TenantId, TenantRef, WorkspaceId } from '../../core/tenant.ts'
import { type Sql, sql, textArray } from '../../infra/postgres/sql.ts'
import { JOB_COLUMNS, Job } from './jobs.ts'
import { NOT_STARTED, type Plan, provision, targetOf } from './provisioning.ts'
import { findTenant, findWorkspace } from './tenants.ts'

/** 202 with the job, which has ended by then if `Prefer: wait` was long enough. */
const asJob = (method: 'POST' | 'DELETE', path: string) => ({
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
  run: async (scope, { id, wait }) =>
    retry(scope, async () => unfinishedTenant(await findTenant(scope, id)), wait),
})

export const retryWorkspace = adminOperation({
  name: 'workspace.retry',
  summary: 'Retry the creation of a workspace that has failed',
  roles: TENANT_ADMINS,
  input: Input({ id: Ref('workspace'), wait: Wait }),
  output: Job,
  http: asJob('POST', '/v1/workspaces/{id}/retry'),
  run: async (scope, { id, wait }) =>
    retry(scope, async () => unfinishedWorkspace(await findWorkspace(scope, id)), wait),
})

export const deleteTenant = adminOperation({
  name: 'tenant.delete',
  summary: 'Delete a tenant whose creation waits or has failed; its slug is free at once',
  roles: OPERATORS,
  input: Input({ id: Ref('tenant'), wait: Wait }),
  output: Job,
  http: asJob('DELETE', '/v1/tenants/{id}'),
  run: async (scope, { id, wait }) =>
    remove(scope, async () => unfinishedTenant(await findTenant(scope, id)), wait),
})

export const deleteWorkspace = adminOperation({
  name: 'workspace.delete',
  summary: 'Delete a workspace whose creation waits or has failed; its slug is free at once',
  roles: TENANT_ADMINS,
  input: Input({ id: Ref('workspace'), wait: Wait }),
  output: Job,
  http: asJob('DELETE', '/v1/workspaces/{id}'),
  run: async (scope, { id, wait }) =>
    remove(scope, async () => unfinishedWorkspace(await findWorkspace(scope, id)), wait),
})

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

const unfinishedTenant = ({ id, state, slug }: { id: string; state: string; slug: string }): Unfinished => ({
  kind: 'tenant',
  ref: { tenantId: id as TenantId, workspaceId: '-' },
  ...{ state, slug, creation: 'tenant', removal: 'tenant_removal' },
  change: (to, newSlug, from) => sql`
    update tenants set state = ${to}, slug = ${newSlug}, updated_at = now() where id = ${id} and state = any(${textArray(from)}::text[])`,
})

const unfinishedWorkspace = (found: {
  id: string
  tenant_id: string
  state: string
  slug: string
  bucket: string | null
}): Unfinished => ({
  kind: 'workspace',
  ref: { tenantId: found.tenant_id as TenantId, workspaceId: found.id as WorkspaceId },
  ...{ state: found.state, slug: found.slug, removal: 'workspace_removal' },
  creation: found.bucket === null ? 'bare_workspace' : 'workspace',
  change: (to, newSlug, from) => sql`
    update workspaces set state = ${to}, slug = ${newSlug}, updated_at = now()
    where id = ${found.id} and state = any(${textArray(from)}::text[])`,
})

/** @param find reads the record; a request that is repeated after its job has ended is answered without, since it may be gone */
async function retry(scope: AdminScope, find: () => Promise<Unfinished>, waitS = 0): Promise<Job> {
  const operationId = scope.newId('op')
  const earlier = await findJob(scope, operationId)
  if (earlier !== undefined && isEnded(earlier)) return earlier
  const found = await find()
  const { kind, ref, slug, state, change } = found
  if (state !== 'provisioning_failed' && state !== 'provisioning')
    throw new Problem('state_conflict', {
      detail: `The ${kind} is ${state}. Only a creation that waits or has failed can be retried.`,
    })
  return begin(scope, {
    ...{ name: found.creation, ref, waitS, operationId },
    change: change('provisioning', slug, ['provisioning_failed']),
    // Of what another job does, nothing is undone.
    undo: change('provisioning_failed', slug, state === 'provisioning_failed' ? ['provisioning'] : []),
  })
}

/** @param find as in {@link retry} */
async function remove(scope: AdminScope, find: () => Promise<Unfinished>, waitS = 0): Promise<Job> {
  const operationId = scope.newId('op')
  const earlier = await findJob(scope, operationId)
  if (earlier !== undefined && isEnded(earlier)) return earlier
  const found = await find()
  const { kind, ref, slug, state, change } = found
  if (!REMOVABLE.includes(state))
    throw new Problem('state_conflict', {
      detail: `The ${kind} is ${state}. Only one whose creation waits or has failed can be deleted. Suspend it instead.`,
    })
  return begin(scope, {
    ...{ name: found.removal, ref, waitS, operationId },
    change: change('deleting', targetOf(ref), REMOVABLE),
    undo: change('provisioning_failed', slug, state === 'deleting' ? [] : ['deleting']),
  })
}

/** A removal that has failed is begun again; two at once do the same. */
const REMOVABLE: readonly string[] = ['provisioning', 'provisioning_failed', 'deleting']

/** Of steps that another job does already, each is done once: steps are idempotent. */
async function begin(scope: AdminScope, plan: Parameters<typeof provision>[1]): Promise<Job> {
  const { operation, ended } = await provision(scope, plan)
  return (ended ? await findJob(scope, operation.id) : undefined) ?? operation
}

const isEnded = ({ state, error }: Job): boolean =>
  state !== 'queued' && state !== 'running' && !isDeepStrictEqual(error, NOT_STARTED)

const findJob = (scope: AdminScope, id: string): Promise<Job | undefined> =>
  scope.row<Job>(sql`select ${JOB_COLUMNS} from operations where id = ${id}`)
