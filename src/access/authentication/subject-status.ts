/** Checks per request that the subject, client and grant of a token are still active, also for hosted MCP servers. */

import { errors } from 'jose'
import { idPattern } from '../../core/ids.ts'
import { Problem } from '../../core/problem.ts'
import { OPERATOR_CLIENT } from '../../infra/crypto/secrets.ts'
import { TtlCache } from '../../infra/ttl-cache.ts'
import { type AccountsStore, generationId } from '../issuer/accounts-store.ts'
import type { EmbeddedIssuer, HostedClaims } from '../issuer/embedded-issuer.ts'
import type { IssuedToken, IssuerState } from '../issuer/issuer-state.ts'
import type { OAuthClients } from '../issuer/oauth-clients-store.ts'
import type { McpServerRegistry, PublishedServer } from './mcp-server-registry.ts'

const ACCOUNT_ID = new RegExp(idPattern('acct'))
const CLIENT_ID = new RegExp(idPattern('client'))

/** What a verified token says of itself and its holder. */
export interface SubjectToken extends IssuedToken {
  readonly sub: string
  readonly clientId?: string
  readonly credential?: string
}

export class SubjectStatus {
  readonly #people: AccountsStore
  readonly #clients: OAuthClients
  readonly #state: IssuerState
  /** Ids of generations; null where the account is not there. */
  readonly #known = new TtlCache<string | null>()

  constructor(people: AccountsStore, clients: OAuthClients, state: IssuerState) {
    this.#people = people
    this.#clients = clients
    this.#state = state
  }

  /** Returns whether the token was not revoked, nor the grant that it was issued under. */
  isLive(token: IssuedToken): Promise<boolean> {
    return this.#state.isLive(token)
  }

  /** Returns whether a token for the REST API still counts: it ends with its grant, its holder and its client. */
  async isTokenActive(token: SubjectToken): Promise<boolean> {
    const { sub, clientId = sub, credential } = token
    const checks = [this.isLive(token), this.isActive(sub, credential)]
    if (clientId !== sub) checks.push(this.isActive(clientId))
    return (await Promise.all(checks)).every(Boolean)
  }

  /**
   * @param subject of a token of the embedded issuer, or its client; asked anew after a few seconds
   * @param credential which of a machine's secrets it was given for, or in which generation of an account
   */
  async isActive(subject: string, credential?: string): Promise<boolean> {
    if (CLIENT_ID.test(subject)) return this.#clients.exists(subject, credential)
    if (!ACCOUNT_ID.test(subject)) return true
    const generation = await this.#generationOf(subject)
    return generation !== null && (credential === undefined || credential === generation)
  }

  /** This node learns at once that an account has another generation; others do within a few seconds. */
  forget(account: string): void {
    this.#known.drop(account)
  }

  #generationOf(account: string): Promise<string | null> {
    return this.#known.load(account, async () => {
      const generation = await this.#people.generationOf(account)
      return generation === undefined ? null : generationId(generation)
    })
  }

  /** Whether the client is one through which people act, and the subject is such a person. */
  async isPersonActive(clientId: string, subject: string, credential?: string): Promise<boolean> {
    if (!CLIENT_ID.test(clientId) || !ACCOUNT_ID.test(subject)) return false
    return (await this.isActive(clientId)) && this.isActive(subject, credential)
  }
}

/** A verified caller of one server. Made here and by nobody else. */
export interface McpPrincipal {
  readonly subject: string
  readonly server: PublishedServer
  readonly scopes: ReadonlySet<string>
  /** The version whose tools the scopes were granted for: what was added to them later is not granted. */
  readonly consentedVersion: number
}

export class McpClients {
  readonly #hosted: McpServerRegistry
  readonly #identity: () => Promise<EmbeddedIssuer>

  readonly #holders: SubjectStatus

  constructor(hosted: McpServerRegistry, identity: () => Promise<EmbeddedIssuer>, holders: SubjectStatus) {
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
  async admit(claims: HostedClaims, server: PublishedServer): Promise<McpPrincipal> {
    const { tenantId, workspaceId } = server.ref
    const { version } = claims
    const same =
      claims.tenantId === tenantId && claims.workspaceId === workspaceId && claims.serverId === server.id
    if (!same || typeof version !== 'number' || !(await this.#isClaimantActive(claims, server)))
      throw new Problem('token_invalid')
    return { subject: claims.sub, server, scopes: claims.scopes, consentedVersion: version }
  }

  /** A token outlives its client and its person by no more than the few seconds that they are remembered. */
  async #isClaimantActive(claims: HostedClaims, server: PublishedServer): Promise<boolean> {
    const { sub, clientId, credential } = claims
    if (!(await this.#holders.isLive(claims))) return false
    if (clientId === OPERATOR_CLIENT) return true
    if (sub !== clientId && (await this.#holders.isPersonActive(clientId, sub, credential))) return true
    return (await this.#hosted.client(clientId))?.serverId === server.id
  }
}
