/** Changes names and slugs of tenants and workspaces, and the environment of a workspace. */

import Type from 'typebox'
import { effectOnce } from '../../access/effect-once.ts'
import { adminOperation, Environment, Input, Name, Ref, Slug } from '../../access/operation-builders.ts'
import type { AdminScope } from '../../access/scope.ts'
import { OPERATORS, TENANT_ADMINS } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import { isTenantId } from '../../core/tenant.ts'
import { type Sql, sql } from '../../infra/postgres/sql.ts'
import { conflictIf } from '../operation-helpers.ts'
import { REALM } from './resources/realm.ts'
import { findTenant, findWorkspace, Tenant, Workspace } from './tenants.ts'

const Names = { name: Type.Optional(Name), slug: Type.Optional(Slug) }
type Names = { readonly name?: string; readonly slug?: string }

interface Change<Output> {
  readonly noun: 'tenant' | 'workspace'
  readonly id: string
  readonly slug: string | undefined
  /** Returns a row if the record is in a state in which it may be changed. */
  readonly statement: Sql
  readonly find: (inside: AdminScope, id: string) => Promise<Output>
}

/** Changes a record in one transaction. @throws Problem `not_found`, `conflict` for a slug that is taken, `state_conflict` */
function change<Output extends { readonly state: string }>(
  scope: AdminScope,
  { noun, id, slug, statement, find }: Change<Output>,
): Promise<Output> {
  const taken = `There is a ${noun} with the slug ${slug} already.`
  return effectOnce(scope, async (inside) => {
    const changed = await inside.row(statement)
    const record = await find(inside, id)
    if (changed === undefined)
      throw new Problem('state_conflict', {
        detail: `The ${noun} cannot be changed, because its state is ${record.state}.`,
      })
    return record
  }).catch(conflictIf({ tenants_slug_key: taken, workspaces_tenant_id_slug_key: taken }))
}

const named = ({ name, slug }: Names): Sql =>
  sql`name = coalesce(${name ?? null}, name), slug = coalesce(${slug ?? null}, slug), updated_at = now()`

const changeable = (id: string): Sql =>
  sql`where id = ${id} and state in ('active', 'suspended') returning id`

export const updateTenant = adminOperation({
  name: 'tenant.update',
  summary: 'Update the name or the slug of a tenant; absent members do not change',
  roles: OPERATORS,
  input: Input({ id: Ref('tenant'), ...Names }),
  output: Tenant,
  http: { method: 'PATCH', path: '/v1/tenants/{id}', body: '*' },
  run: async (scope, { id, ...names }) => {
    const statement = sql`update tenants set ${named(names)} ${changeable(id)}`
    const { slug } = names
    const renamed = await change(scope, { noun: 'tenant', id, slug, statement, find: findTenant })
    await renameElsewhere(scope, id)
    return renamed
  },
})

/** What shows a tenant's name in another system. The record has its new name whatever happens here: the next look at the drift repairs it. */
async function renameElsewhere(scope: AdminScope, id: string): Promise<void> {
  if (!isTenantId(id)) return
  const renaming = REALM.apply(scope, { tenantId: id, workspaceId: '-' })
  await renaming.catch((error: unknown) => scope.logError(error, 'tenant not renamed in its realm'))
}

export const updateWorkspace = adminOperation({
  name: 'workspace.update',
  summary: 'Update the name, the slug or the environment of a workspace; absent members do not change',
  roles: TENANT_ADMINS,
  input: Input({ id: Ref('workspace'), ...Names, environment: Type.Optional(Environment) }),
  output: Workspace,
  http: { method: 'PATCH', path: '/v1/workspaces/{id}', body: '*' },
  auditDetail: (_updated, { environment }) => ({ ...(environment !== undefined && { environment }) }),
  run: (scope, { id, environment = null, ...names }) => {
    const statement = sql`
      update workspaces set ${named(names)}, environment = coalesce(${environment}, environment) ${changeable(id)}`
    const { slug } = names
    return change(scope, { noun: 'workspace', id, slug, statement, find: findWorkspace })
  },
})
