/** The organization of a tenant in a realm of Keycloak, if the installation has one. The embedded issuer needs nothing for a tenant. */

import type { AdminScope } from '../../../access/scope.ts'
import { organizationsOf } from '../../../access/scope-services.ts'
import type { TenantRef } from '../../../core/tenant.ts'
import type { TenantOrganization } from '../../../infra/keycloak.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import { findRow } from '../../operation-helpers.ts'
import type { CountedResource } from './resource.ts'

export const REALM: CountedResource = {
  name: 'realm',
  of: 'tenant',
  isConfigured: (scope) => organizationsOf(scope) !== undefined,
  apply: async (scope, ref) => organizationsOf(scope)?.set(await readTenant(scope, ref)),
  plan: async (scope, ref) => {
    const state = await organizationsOf(scope)?.compare(await readTenant(scope, ref))
    if (state === undefined || state === 'own') return []
    const isRepaired = state !== 'foreign'
    return [{ resource: 'realm', name: ref.tenantId, kind: state, detail: DETAILS[state], isRepaired }]
  },
  count: async (scope, { tenantId }) => (await organizationsOf(scope)?.count(tenantId)) ?? 0,
  remove: async (scope, { tenantId }) => organizationsOf(scope)?.remove(tenantId),
}

const DETAILS = {
  missing: 'Keycloak has no organization for the tenant. One that is made again has no members.',
  altered: 'The organization of the tenant in Keycloak has another name or description, or is disabled.',
  foreign:
    'Keycloak has an organization with the id of the tenant as its alias and without the attribute tenant_id, so the platform does not touch it. Add the attribute, or remove the organization.',
} as const

const readTenant = (scope: AdminScope, { tenantId }: TenantRef): Promise<TenantOrganization> =>
  findRow(scope, 'tenant', sql`select id as "tenantId", name, slug from tenants where id = ${tenantId}`)
