/** The proofs of a workspace's host names in DNS, and their routes in Caddy, if the installation has one. */

import type { AdminScope } from '../../../access/scope.ts'
import { caddyOf, dnsOf } from '../../../access/scope-services.ts'
import type { TenantRef } from '../../../core/tenant.ts'
import { PROOF_LABEL } from '../../../infra/host-name.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import type { Comparable, CountedResource, Difference } from './resource.ts'

/** They stay in DNS as long as the workspace has the names. */
export const HOST_PROOFS: Comparable = {
  name: 'host_proof',
  of: 'workspace',
  plan: async (scope, { workspaceId }) => {
    const hosts = await scope.rows<{ host: string; proof: string }>(sql`
      select host, proof from hosts where workspace_id = ${workspaceId} and verified_at is not null order by host`)
    // All at once: the servers of a tenant's domains may be slow, and others wait for their own look.
    const found = await Promise.all(
      hosts.map(async ({ host, proof }) => {
        const records = await dnsOf(scope).texts(`${PROOF_LABEL}.${host}`)
        return records.includes(proof) ? [] : [missing(host)]
      }),
    )
    return found.flat()
  },
  /** Only the owner of the domain can publish a proof. */
  apply: async () => {},
}

const missing = (host: string): Difference => ({
  ...{ resource: 'host_proof', name: host, kind: 'missing', isRepaired: false },
  detail:
    'DNS has no proof of the host name any more. The workspace keeps the name until another workspace proves it, or it is deleted. Publish the record again, or delete the name.',
})

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
