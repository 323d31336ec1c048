/** Tenants: created by operators through a provisioning workflow. */

import Type, { type Static } from 'typebox'
import { PageInput, PageOf, pageBounds, pageFrom } from '../core/page.ts'
import { OPERATORS, TENANT_ADMINS } from '../core/policy.ts'
import { notFound, Problem } from '../core/problem.ts'
import { violated } from '../platform/pg/errors.ts'
import { sql } from '../platform/pg/sql.ts'
import type { AdminScope } from '../platform/scope.ts'
import { Id, Input, Name, OptionalTime, onStructure, Ref, Slug, Time, Wait } from './kinds.ts'
import { OperationRecord } from './operations.ts'
import { NEVER_BEGAN, provision } from './provisioning.ts'

export const State = Type.Union(
  ['provisioning', 'active', 'suspended', 'deleting', 'deleted', 'provisioning_failed'].map((s) =>
    Type.Literal(s),
  ),
)

/** Why and since when a tenant or a workspace is suspended; nulls while it is not. */
export const Suspension = {
  suspended_at: OptionalTime,
  suspended_by: Type.Union([Type.Literal('operator'), Type.Literal('tenant_admin'), Type.Null()]),
  suspended_reason: Type.Union([Type.String(), Type.Null()]),
}

export const Tenant = Type.Object({
  id: Id('ten'),
  name: Type.String(),
  slug: Type.String(),
  state: State,
  ...Suspension,
  created_at: Time,
  updated_at: Time,
})
export type Tenant = Static<typeof Tenant>

const COLUMNS = sql`id, name, slug, state, suspended_at, suspended_by, suspended_reason, created_at, updated_at`

/** @throws Problem `not_found` */
export async function findTenant(scope: AdminScope, id: string): Promise<Tenant> {
  const tenant = await scope.row<Tenant>(sql`select ${COLUMNS} from tenants where id = ${id}`)
  if (tenant === undefined) throw notFound('tenant')
  return tenant
}

export const createTenant = onStructure({
  name: 'tenant.create',
  summary: 'Create a tenant',
  roles: OPERATORS,
  input: Input({ name: Name, slug: Slug, wait: Wait }),
  output: Type.Union([Tenant, OperationRecord]),
  http: {
    method: 'POST',
    path: '/v1/tenants',
    body: '*',
    headers: { wait: 'prefer' },
    status: (output) => ('type' in output ? 202 : 201),
    location: (output) => ('type' in output ? `/v1/operations/${output.id}` : `/v1/tenants/${output.id}`),
  },
  run: async (scope, { name, slug, wait = 0 }) => {
    const tenantId = scope.newId('ten')
    const insert = sql`
      insert into tenants (id, name, slug, state) values (${tenantId}, ${name}, ${slug}, 'provisioning')
      on conflict (id) do update set slug = excluded.slug, state = excluded.state, updated_at = now()
        where tenants.${NEVER_BEGAN}`
    const ref = { tenantId, workspaceId: '-' } as const
    const made = await provision(scope, { name: 'tenant', ref, insert, waitS: wait }).catch(
      (error: unknown) => {
        if (violated(error) !== 'tenants_slug_key') throw error
        throw new Problem('conflict', { detail: `There is a tenant with the slug ${slug} already.` })
      },
    )
    return made.ended ? findTenant(scope, tenantId) : made.operation
  },
})

export const getTenant = onStructure({
  name: 'tenant.get',
  summary: 'Read a tenant',
  roles: TENANT_ADMINS,
  input: Input({ id: Ref('tenant') }),
  output: Tenant,
  http: { method: 'GET', path: '/v1/tenants/{id}' },
  run: (scope, { id }) => findTenant(scope, id),
})

export const listTenants = onStructure({
  name: 'tenant.list',
  summary: 'List tenants; a tenant admin sees its own',
  roles: TENANT_ADMINS,
  input: Input(PageInput),
  output: PageOf(Tenant),
  http: { method: 'GET', path: '/v1/tenants' },
  run: async (scope, input) => {
    const { after, limit } = pageBounds(input)
    return pageFrom(
      input,
      await scope.rows<Tenant>(
        sql`select ${COLUMNS} from tenants where id > ${after} order by id limit ${limit}`,
      ),
    )
  },
})
