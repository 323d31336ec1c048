/** Host names that workspaces have proved, cached: a request for such a name is served for its workspace alone. */

import { Problem } from '../core/problem.ts'
import type { TenantId, WorkspaceId, WorkspaceRef } from '../core/tenant.ts'
import { type Config, publicUrl } from '../infra/config.ts'
import { isWithin, nameOfHost } from '../infra/host-name.ts'
import type { Database } from '../infra/postgres/database.ts'
import { violated } from '../infra/postgres/errors.ts'
import { sql } from '../infra/postgres/sql.ts'
import { SystemScope } from '../infra/postgres/system-scope.ts'
import { TtlCache } from '../infra/ttl-cache.ts'

interface Claim {
  readonly tenantId: TenantId
  readonly workspaceId: WorkspaceId
  readonly proof: string
  readonly isVerified: boolean
}

export class HostNames {
  readonly #system: SystemScope
  /** By name; null if no workspace has proved it. */
  readonly #known = new TtlCache<WorkspaceRef | null>()
  /** Names of the platform; those below them are its own, too. */
  readonly #own: readonly string[]

  constructor(
    database: Database,
    config: Pick<
      Config,
      'TENON_PUBLIC_URL' | 'TENON_HOST' | 'TENON_PORT' | 'TENON_S3_HOST' | 'TENON_MCP_HOSTS'
    >,
  ) {
    this.#system = new SystemScope('host-names', database)
    const { hostname } = new URL(publicUrl(config))
    const own = [hostname, config.TENON_S3_HOST ?? '', ...config.TENON_MCP_HOSTS.split(',')]
    this.#own = own.map(nameOfHost).filter((name) => name !== '')
  }

  /** True for names of the platform, which no workspace can have. */
  isOwn(name: string): boolean {
    return this.#own.some((own) => isWithin(name, own))
  }

  /** What is cached: null if no workspace has proved the name; undefined if that is to be looked up. */
  known(name: string): WorkspaceRef | null | undefined {
    return this.#known.get(name)
  }

  /** The workspace that has proved the name, or null; cached for `INFRA_LIMITS.credentialCacheMs`. */
  find(name: string): Promise<WorkspaceRef | null> {
    return this.#known.load(name, async () => {
      const row = await this.#system.row<WorkspaceRef>(sql`
        select tenant_id as "tenantId", workspace_id as "workspaceId" from hosts
        where host = ${name} and verified_at is not null`)
      return row ?? null
    })
  }

  /** Drops what this process has cached about a name; others look it up again after some seconds. */
  forget(name: string): void {
    this.#known.drop(name)
  }

  /**
   * Gives the name to a workspace whose proof is among the records. Another workspace that had it loses it, unless its own proof is there, too.
   * @param records texts at the name of the proof, as DNS has them now
   * @returns the workspace that has lost it, if one has
   * @throws Problem `state_conflict` without the proof of the workspace, `conflict` with that of the one that has the name
   */
  async verify(
    { workspaceId }: WorkspaceRef,
    host: string,
    records: readonly string[],
  ): Promise<WorkspaceRef | undefined> {
    const claims = await this.#system.rows<Claim>(sql`
      select tenant_id as "tenantId", workspace_id as "workspaceId", proof, verified_at is not null as "isVerified" from hosts
      where host = ${host} and (workspace_id = ${workspaceId} or verified_at is not null)`)
    const own = claims.find((claim) => claim.workspaceId === workspaceId)
    if (own === undefined || !records.includes(own.proof)) throw unproven(host, records.length)
    const holder = claims.find((claim) => claim.isVerified && claim !== own)
    if (holder !== undefined && records.includes(holder.proof)) throw held(host)
    const isClaimOf = ({ workspaceId: id, proof }: Claim) =>
      sql`host = ${host} and workspace_id = ${id} and proof = ${proof}`
    await this.#system
      .batch(
        sql`update hosts set verified_at = null where ${isClaimOf(holder ?? own)} and workspace_id <> ${workspaceId}`,
        sql`update hosts set verified_at = coalesce(verified_at, now()) where ${isClaimOf(own)}`,
      )
      .catch((error: unknown) => {
        // Another workspace has proved it at the same time.
        throw violated(error) === 'hosts_verified' ? held(host) : error
      })
    this.forget(host)
    return holder
  }
}

const unproven = (host: string, records: number): Problem =>
  new Problem('state_conflict', {
    detail: `DNS has no proof for ${host}: ${records === 0 ? 'there is no TXT record' : `none of the ${records} TXT records has the value of \`record\``}. Add the record that the name shows as \`record\`, wait until DNS answers with it, and verify again.`,
  })

const held = (host: string): Problem =>
  new Problem('conflict', {
    detail: `Another workspace has the name ${host}, and DNS still has its proof. Remove that TXT record, or delete the name there, and verify again.`,
  })
