/** The proofs of host names in DNS, which stay there as long as a workspace has the name. */

import { dnsOf } from '../../../access/scope-services.ts'
import { PROOF_LABEL } from '../../../infra/host-name.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import type { Comparable, Difference } from './resource.ts'

export const HOST_PROOFS: Comparable = {
  name: 'host_proof',
  of: 'workspace',
  plan: async (scope, { workspaceId }) => {
    const hosts = await scope.rows<{ host: string; proof: string }>(sql`
      select host, proof from hosts where workspace_id = ${workspaceId} and verified_at is not null order by host`)
    const found: Difference[] = []
    for (const { host, proof } of hosts) {
      const records = await dnsOf(scope).texts(`${PROOF_LABEL}.${host}`)
      if (!records.includes(proof)) found.push(missing(host))
    }
    return found
  },
  /** Only the owner of the domain can publish a proof. */
  apply: async () => {},
}

const missing = (host: string): Difference => ({
  ...{ resource: 'host_proof', name: host, kind: 'missing', isRepaired: false },
  detail:
    'DNS has no proof of the host name any more. The workspace keeps the name until another workspace proves it, or it is deleted. Publish the record again, or delete the name.',
})
