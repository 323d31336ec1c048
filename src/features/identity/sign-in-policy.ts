/** Sign-in policies: whether the accounts of a tenant, or those of operators, need a second factor. */

import Type, { type Static } from 'typebox'
import { effectOnce } from '../../access/effect-once.ts'
import { adminOperation, Id, Input, OptionalTime, Ref } from '../../access/operation-builders.ts'
import type { AdminScope } from '../../access/scope.ts'
import { component } from '../../core/components/component.ts'
import { EXAMPLE_ID, EXAMPLE_TIME } from '../../core/components/examples.ts'
import { TENANT_ADMINS } from '../../core/policy.ts'
import { notFound, Problem } from '../../core/problem.ts'
import { sql } from '../../infra/postgres/sql.ts'
import { issuerAdminOf } from './identity-services.ts'

const TenantId = Type.Optional(
  Type.String({
    ...Ref('tenant'),
    description:
      'Id of the tenant. Default: the tenant of a tenant admin; for an operator, the accounts of operators.',
  }),
)

const SignInPolicy = component(
  'SignInPolicy',
  Type.Object({
    tenant_id: Type.Union([Id('ten'), Type.Null()], {
      description: 'Tenant whose accounts the policy is for. `null`: the accounts of operators.',
    }),
    require_mfa: Type.Boolean({
      description:
        'True if an account may do nothing with a token that it got without a second factor. Machines have none, and are not affected.',
    }),
    updated_by: Type.Union([Type.String(), Type.Null()]),
    updated_at: OptionalTime,
  }),
  {
    tenant_id: EXAMPLE_ID.tenant,
    require_mfa: true,
    updated_by: EXAMPLE_ID.account,
    updated_at: EXAMPLE_TIME.updated,
  },
)
type SignInPolicy = Static<typeof SignInPolicy>

const PATH = '/v1/sign-in-policy'

/** @throws Problem `not_found` for a tenant that the caller does not administer */
async function resolveOwner(scope: AdminScope, named: string | undefined): Promise<string | null> {
  const id = named ?? scope.tenantId ?? null
  if (id === null) return null
  const found = await scope.row(sql`select id from tenants where id = ${id} and state <> 'deleted'`)
  if (found === undefined) throw notFound('tenant')
  return id
}

export const getSignInPolicy = adminOperation({
  name: 'sign_in_policy.get',
  summary: 'Read whether administrators of a tenant, or operators, need a second factor',
  roles: TENANT_ADMINS,
  input: Input({ tenant_id: TenantId }),
  output: SignInPolicy,
  http: { method: 'GET', path: PATH },
  run: async (scope, { tenant_id: named }) => {
    const tenant_id = await resolveOwner(scope, named)
    const policy = await scope.row<SignInPolicy>(sql`
      select tenant_id, require_mfa, updated_by, updated_at from sign_in_policies
      where tenant_id is not distinct from ${tenant_id}`)
    return policy ?? ({ tenant_id, require_mfa: false, updated_by: null, updated_at: null } as SignInPolicy)
  },
})

export const setSignInPolicy = adminOperation({
  name: 'sign_in_policy.set',
  summary:
    'Require a second factor of all administrators of a tenant, or of operators; takes effect within 5 s, also for tokens issued before',
  roles: TENANT_ADMINS,
  recentProof: true,
  input: Input({ tenant_id: TenantId, require_mfa: SignInPolicy.properties.require_mfa }),
  output: SignInPolicy,
  http: { method: 'PUT', path: PATH, body: '*' },
  run: async (scope, { tenant_id: named, require_mfa }) => {
    const tenantId = await resolveOwner(scope, named)
    if (require_mfa) refuseLockOut(scope)
    return effectOnce(scope, async (inside) => {
      const policy = await inside.row<SignInPolicy>(sql`
        insert into sign_in_policies (tenant_id, require_mfa, updated_by)
        values (${tenantId}, ${require_mfa}::boolean, ${scope.actor.subject})
        on conflict (tenant_id) do update
          set require_mfa = excluded.require_mfa, updated_by = excluded.updated_by, updated_at = now()
        returning tenant_id, require_mfa, updated_by, updated_at`)
      if (policy === undefined) throw new TypeError('the insert must return a row')
      return policy
    })
  },
})

/** A person who requires a second factor has used one. @throws Problem `state_conflict` */
function refuseLockOut(scope: AdminScope): void {
  const proof = scope.actor.credential?.claims?.proof
  if (proof === undefined || !proof.isPerson || proof.isMultiFactor) return
  const { accountUrl } = issuerAdminOf(scope)
  throw new Problem('state_conflict', {
    detail: 'You have signed in without a second factor, and would lock yourself out.',
    hint: `Add a second factor at ${accountUrl}, sign in again with it, and repeat the request.`,
  })
}
