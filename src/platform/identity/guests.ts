/** Who calls a hosted MCP server: a token for exactly that server becomes a guest of its workspace. */

import { errors } from 'jose'
import { Problem } from '../../core/problem.ts'
import { OPERATOR_CLIENT } from '../secrets.ts'
import type { Holders } from './holders.ts'
import type { Hosted, HostedServers } from './hosted.ts'
import type { HostedClaims, Identity } from './identity.ts'

/** A verified caller of one server. Made here and by nobody else. */
export interface Guest {
  readonly subject: string
  readonly server: Hosted
  readonly scopes: ReadonlySet<string>
  /** The version whose tools the scopes were granted for: what was added to them later is not granted. */
  readonly consentedVersion: number
}

export class Guests {
  readonly #hosted: HostedServers
  readonly #identity: () => Promise<Identity>

  readonly #holders: Holders

  constructor(hosted: HostedServers, identity: () => Promise<Identity>, holders: Holders) {
    this.#hosted = hosted
    this.#identity = identity
    this.#holders = holders
  }

  /**
   * What a token for exactly this resource says; the database is not asked.
   * @param resource the server's address as the caller spells it
   * @throws Problem `token_invalid` or `token_expired`, also for a token of another resource
   */
  async verify(token: string, resource: string): Promise<HostedClaims> {
    const identity = await this.#identity()
    return identity.verifyHosted(token, resource).catch((cause: unknown) => {
      throw new Problem(cause instanceof errors.JWTExpired ? 'token_expired' : 'token_invalid', { cause })
    })
  }

  /** @throws Problem `token_invalid` for another workspace, another server, a deleted client */
  async admit(claims: HostedClaims, server: Hosted): Promise<Guest> {
    const { tenantId, workspaceId } = server.ref
    const { version } = claims
    const same =
      claims.tenantId === tenantId && claims.workspaceId === workspaceId && claims.serverId === server.id
    if (!same || typeof version !== 'number' || !(await this.#stands(claims, server)))
      throw new Problem('token_invalid')
    return { subject: claims.sub, server, scopes: claims.scopes, consentedVersion: version }
  }

  /** A token outlives its client and its person by no more than the few seconds that they are remembered. */
  async #stands(claims: HostedClaims, server: Hosted): Promise<boolean> {
    const { sub, clientId, credential } = claims
    if (!(await this.#holders.isLive(claims))) return false
    if (clientId === OPERATOR_CLIENT) return true
    if (sub !== clientId && (await this.#holders.actsFor(clientId, sub, credential))) return true
    return (await this.#hosted.client(clientId))?.serverId === server.id
  }
}
