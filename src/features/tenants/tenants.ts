/** Tenants and their workspaces: create, read, list, and check that they are active. */

import Type, { type Static } from 'typebox'
import {
  adminOperation,
  ENVIRONMENT_DEFAULT,
  Environment,
  Id,
  Input,
  Name,
  OptionalTime,
  Ref,
  Slug,
  Time,
  Wait,
} from '../../access/operation-builders.ts'
import type { AdminScope } from '../../access/scope.ts'
import { component } from '../../core/components/component.ts'
import { EXAMPLE_ID, EXAMPLE_TIME } from '../../core/components/examples.ts'
import { BUCKET_PATTERN, PAYLOAD_BUCKET } from '../../core/object-key.ts'
import { PageInput, PageOf } from '../../core/page.ts'
import { OPERATORS, TENANT_ADMINS, VIEWERS } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import { sql } from '../../infra/postgres/sql.ts'
import { conflictIf, findRow, listPage } from '../operation-helpers.ts'
import { requireActiveTenant } from './active.ts'
import { Job, resolveTenant } from './jobs.ts'
import { provision, START_FAILED } from './provisioning.ts'

const State = Type.Union(
  ['provisioning', 'active', 'suspended', 'deleting', 'deleted', 'provisioning_failed'].map((s) =>
    Type.Literal(s),
  ),
)

/** Its deletion and its suspension; nulls without them. */
const Suspension = {
  delete_after: Type.Union([Time, Type.Null()], {
    description: 'Time of the purge, of one that is being deleted. Until then it can be restored.',
  }),
  suspended_at: OptionalTime,
  suspended_by: Type.Union([Type.Literal('operator'), Type.Literal('tenant_admin'), Type.Null()]),
  suspended_reason: Type.Union([Type.String(), Type.Null()]),
}

export const Tenant = component(
  'Tenant',
  Type.Object({
    id: Id('ten'),
    name: Type.String(),
    slug: Type.String(),
    state: State,
    ...Suspension,
    created_at: Time,
    updated_at: Time,
  }),
  {
    id: EXAMPLE_ID.tenant,
    name: 'Riverside Tennis Club',
    slug: 'riverside',
    state: 'active',
    delete_after: null,
    suspended_at: null,
    suspended_by: null,
    suspended_reason: null,
    created_at: EXAMPLE_TIME.created,
    updated_at: EXAMPLE_TIME.updated,
  },
)
export type Tenant = Static<typeof Tenant>

const COLUMNS = sql`id, name, slug, state, delete_after, suspended_at, suspended_by, suspended_reason, created_at, updated_at`

/** @throws Problem `not_found` */
export const findTenant = (scope: AdminScope, id: string) =>
  findRow<Tenant>(
    scope,
    'tenant',
    sql`select ${COLUMNS} from tenants where id = ${id} and state <> 'deleted'`,
  )

/** Of a tenant or workspace whose creation never began. Its slug is free again. */
const discardTenant = (id: string) =>
  sql`update tenants set state = 'deleted', slug = id, updated_at = now() where id = ${id} and state = 'provisioning'`
const discardWorkspace = (id: string) => sql`
  update workspaces set state = 'deleted', slug = id, bucket = null, updated_at = now()
  where id = ${id} and state = 'provisioning'`

/** `POST` of a record that a job makes: 201 with the record if the job ends in time, else 202 with the job. */
const provisioned = (path: string) => ({
  method: 'POST' as const,
  path,
  body: '*',
  headers: { wait: 'prefer' as const },
  status: (output: object) => ('type' in output ? 202 : 201),
  location: (output: { readonly id: string }) => `${'type' in output ? '/v1/operations' : path}/${output.id}`,
})

export const createTenant = adminOperation({
  name: 'tenant.create',
  summary: 'Create a tenant',
  roles: OPERATORS,
  input: Input({ name: Name, slug: Slug, wait: Wait }),
  output: Type.Union([Tenant, Job]),
  http: provisioned('/v1/tenants'),
  run: async (scope, { name, slug, wait = 0 }) => {
    const tenantId = scope.newId('ten')
    const change = sql`
      insert into tenants (id, name, slug, state) values (${tenantId}, ${name}, ${slug}, 'provisioning')
      on conflict (id) do update set slug = excluded.slug, state = excluded.state, updated_at = now()
        where tenants.${START_FAILED}`
    const ref = { tenantId, workspaceId: '-' } as const
    const made = await provision(scope, {
      name: 'tenant',
      ref,
      change,
      undo: discardTenant(tenantId),
      waitS: wait,
    }).catch(
      conflictIf({
        tenants_slug_key: `There is a tenant with the slug ${slug} already. If its creation failed, retry or delete it.`,
      }),
    )
    return made.ended ? findTenant(scope, tenantId) : made.operation
  },
})

export const getTenant = adminOperation({
  name: 'tenant.get',
  summary: 'Read a tenant',
  roles: TENANT_ADMINS,
  input: Input({ id: Ref('tenant') }),
  output: Tenant,
  http: { method: 'GET', path: '/v1/tenants/{id}' },
  run: (scope, { id }) => findTenant(scope, id),
})

export const listTenants = adminOperation({
  name: 'tenant.list',
  summary: 'List tenants; a tenant admin sees only its own',
  roles: TENANT_ADMINS,
  input: Input(PageInput),
  output: PageOf(Tenant),
  http: { method: 'GET', path: '/v1/tenants' },
  run: (scope, input) =>
    listPage<Tenant>(scope, input, sql`select ${COLUMNS} from tenants where state <> 'deleted'`),
})

/** S3's rules for names of buckets, which have at most 63 bytes. */
export const Bucket = Type.String({
  pattern: BUCKET_PATTERN,
  description: 'S3 bucket name. Default: derived from the slug. `null`: no bucket, so no objects.',
})

export const Workspace = component(
  'Workspace',
  Type.Object({
    id: Id('ws'),
    tenant_id: Id('ten'),
    name: Type.String(),
    slug: Type.String(),
    bucket: Type.Union([Type.String(), Type.Null()]),
    environment: Environment,
    state: State,
    ...Suspension,
    created_at: Time,
    updated_at: Time,
  }),
  {
    id: EXAMPLE_ID.workspace,
    tenant_id: EXAMPLE_ID.tenant,
    name: 'Court bookings',
    slug: 'bookings',
    bucket: 'bookings-4z3v73kk0e00',
    environment: 'production',
    state: 'active',
    delete_after: null,
    suspended_at: null,
    suspended_by: null,
    suspended_reason: null,
    created_at: EXAMPLE_TIME.created,
    updated_at: EXAMPLE_TIME.updated,
  },
)
export type Workspace = Static<typeof Workspace>

const WORKSPACE_COLUMNS = sql`id, tenant_id, name, slug, bucket, environment, state, delete_after, suspended_at, suspended_by,
  suspended_reason, created_at, updated_at`

/** @throws Problem `not_found` */
export const findWorkspace = (scope: AdminScope, id: string) =>
  findRow<Workspace>(
    scope,
    'workspace',
    sql`select ${WORKSPACE_COLUMNS} from workspaces where id = ${id} and state <> 'deleted'`,
  )

export const createWorkspace = adminOperation({
  name: 'workspace.create',
  summary: 'Create a workspace with its bucket',
  roles: TENANT_ADMINS,
  input: Input({
    tenant_id: Type.Optional(Ref('tenant')),
    name: Name,
    slug: Slug,
    bucket: Type.Optional(Type.Union([Bucket, Type.Null()])),
    environment: Type.Optional(Environment),
    wait: Wait,
  }),
  output: Type.Union([Workspace, Job]),
  http: provisioned('/v1/workspaces'),
  // A job that makes the workspace later does not say it.
  auditDetail: (_made, { environment = ENVIRONMENT_DEFAULT }) => ({ environment }),
  run: async (scope, input) => {
    const tenantId = resolveTenant(scope, input.tenant_id)
    await requireActiveTenant(scope, tenantId)
    const workspaceId = scope.newId('ws')
    const bucket = input.bucket === undefined ? `${input.slug}-${workspaceId.slice(-12)}` : input.bucket
    if (bucket === PAYLOAD_BUCKET) throw new Problem('conflict', { detail: bucketTaken(bucket) })
    const { environment = ENVIRONMENT_DEFAULT } = input
    const change = sql`
      insert into workspaces (id, tenant_id, name, slug, bucket, environment, state)
      values (${workspaceId}, ${tenantId}, ${input.name}, ${input.slug}, ${bucket}, ${environment}, 'provisioning')
      on conflict (id) do update set
        slug = excluded.slug, bucket = excluded.bucket, state = excluded.state, updated_at = now()
        where workspaces.${START_FAILED}`
    const ref = { tenantId, workspaceId }
    const waitS = input.wait ?? 0
    const name = bucket === null ? 'bare_workspace' : 'workspace'
    const made = await provision(scope, {
      name,
      ref,
      change,
      undo: discardWorkspace(workspaceId),
      waitS,
    }).catch(
      conflictIf({
        workspaces_tenant_id_slug_key: `There is a workspace with the slug ${input.slug} already. If its creation failed, retry or delete it.`,
        workspaces_bucket_key: bucketTaken(bucket),
      }),
    )
    return made.ended ? findWorkspace(scope, workspaceId) : made.operation
  },
})

/** Bucket names are global, as in S3; slugs are unique in a tenant. */
export const bucketTaken = (bucket: string | null) => `The bucket name ${bucket} is taken.`

export const getWorkspace = adminOperation({
  name: 'workspace.get',
  summary: 'Read a workspace',
  roles: VIEWERS,
  input: Input({ id: Ref('workspace') }),
  output: Workspace,
  http: { method: 'GET', path: '/v1/workspaces/{id}' },
  run: (scope, { id }) => findWorkspace(scope, id),
})

export const listWorkspaces = adminOperation({
  name: 'workspace.list',
  summary: 'List workspaces',
  roles: VIEWERS,
  input: Input({ ...PageInput, tenant_id: Type.Optional(Ref('tenant')) }),
  output: PageOf(Workspace),
  http: { method: 'GET', path: '/v1/workspaces' },
  run: (scope, { tenant_id = null, ...input }) =>
    listPage<Workspace>(
      scope,
      input,
      sql`select ${WORKSPACE_COLUMNS} from workspaces
        where state <> 'deleted' and (${tenant_id}::text is null or tenant_id = ${tenant_id})`,
    ),
})
