/** The routes of a workspace's host names in Caddy, if the installation has one. */

import type { AdminScope } from '../../../access/scope.ts'
import { caddyOf } from '../../../access/scope-services.ts'
import type { TenantRef } from '../../../core/tenant.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import type { CountedResource } from './resource.ts'

export const HOST_ROUTES: CountedResource = {
  name: 'host_routes',
  of: 'workspace',
  isConfigured: (scope) => caddyOf(scope) !== undefined,
  apply: async (scope, ref) => caddyOf(scope)?.set(ref, () => provedHosts(scope, ref)),
  plan: async (scope, ref) => {
    const found = (await caddyOf(scope)?.compare(ref, await provedHosts(scope, ref))) ?? []
    return found.map(({ host, kind }) => ({
      ...{ resource: 'host_routes', name: host, kind, detail: DETAILS[kind], isRepaired: true },
    }))
  },
  count: async (scope, ref) => (await caddyOf(scope)?.count(ref)) ?? 0,
  remove: async (scope, ref) => caddyOf(scope)?.set(ref, async () => []),
}

const DETAILS = {
  missing: 'Caddy has no route for the host name, so requests for it do not arrive.',
  altered: "Caddy's route for the host name was changed by hand.",
  left_over: 'Caddy has a route for a host name that the workspace does not have.',
} as const

async function provedHosts(scope: AdminScope, { workspaceId }: TenantRef): Promise<string[]> {
  const rows = await scope.rows<{ host: string }>(
    sql`select host from hosts where workspace_id = ${workspaceId} and verified_at is not null order by host`,
  )
  return rows.map(({ host }) => host)
}
