/** Verifies the tokens of clients of hosted MCP servers, and admits them to one server. */

import { decodeJwt, errors } from 'jose'
import { Problem } from '../../core/problem.ts'
import { expandScopes, isUmbrella } from '../../core/tool-access.ts'
import { OPERATOR_CLIENT } from '../../infra/crypto/secrets.ts'
import type { HostedClaims, HostedTokenIssuer } from './claims.ts'
import type { McpServerRegistry, PublishedServer } from './mcp-server-registry.ts'
import type { SubjectStatus } from './subject-status.ts'

/** A verified caller of one server; created here only. */
export interface McpPrincipal {
  readonly subject: string
  readonly clientId: string
  /** The id of its token. */
  readonly tokenId: string
  readonly grantId: string | undefined
  /** A person stands behind the client, and may give it further scopes. */
  readonly isPerson: boolean
  readonly server: PublishedServer
  /** Of tools; those that an umbrella of the token stood for when it was granted are among them. */
  readonly scopes: ReadonlySet<string>
  /** As the token names them. */
  readonly namedScopes: ReadonlySet<string>
  /** The scopes that the client may request; null: all of the server. */
  readonly grantable: readonly string[] | null
  /** The version whose tools the scopes were granted for; later additions are not granted. */
  readonly consentedVersion: number
}

export class McpClients {
  readonly #mcpServers: McpServerRegistry
  readonly #tokens: HostedTokenIssuer
  readonly #externalIssuers: ReadonlyMap<string, HostedTokenIssuer>
  readonly #subjects: SubjectStatus

  /** @param externalIssuers by the `iss` of their tokens */
  constructor(
    mcpServers: McpServerRegistry,
    tokens: HostedTokenIssuer,
    externalIssuers: ReadonlyMap<string, HostedTokenIssuer>,
    subjects: SubjectStatus,
  ) {
    this.#mcpServers = mcpServers
    this.#tokens = tokens
    this.#externalIssuers = externalIssuers
    this.#subjects = subjects
  }

  /**
   * Verifies a token for exactly this resource, without the database.
   * @param resource the server's URL in the caller's spelling
   * @throws Problem `token_invalid` or `token_expired`, also for a token of another resource; `dependency_unavailable` if
   *   the keys of an external issuer are unknown
   */
  async verify(token: string, resource: string): Promise<HostedClaims> {
    const external = this.#externalIssuers.size > 0 ? this.#externalIssuers.get(issuerIn(token)) : undefined
    return (external ?? this.#tokens).verifyHosted(token, resource).catch((cause: unknown) => {
      if (cause instanceof Problem) throw cause
      throw new Problem(cause instanceof errors.JWTExpired ? 'token_expired' : 'token_invalid', { cause })
    })
  }

  /** @throws Problem `token_invalid` for another workspace, another server, another issuer, a deleted client */
  async admit(claims: HostedClaims, server: PublishedServer): Promise<McpPrincipal> {
    if (claims.authorizationServer !== server.authorizationServer) throw new Problem('token_invalid')
    return claims.authorizationServer === null
      ? this.#admitEmbedded(claims, server)
      : admitExternal(claims, server)
  }

  async #admitEmbedded(claims: HostedClaims, server: PublishedServer): Promise<McpPrincipal> {
    const { tenantId, workspaceId } = server.ref
    const { version, sub: subject, clientId, isPerson, scopes: namedScopes, tokenId = '', grantId } = claims
    const same =
      claims.tenantId === tenantId && claims.workspaceId === workspaceId && claims.serverId === server.id
    if (!same || typeof version !== 'number' || !(await this.#isActive(claims, server)))
      throw new Problem('token_invalid')
    const grantable = (await this.#mcpServers.client(clientId))?.scopes ?? null
    const scopes = await this.#expand(namedScopes, server, { version, grantable })
    const token = { subject, clientId, tokenId, grantId, isPerson, scopes, namedScopes }
    return { ...token, server, grantable, consentedVersion: version }
  }

  /** Umbrellas stand for what they stood for in the version that was consented to, within what an admin has given the client. */
  async #expand(
    named: ReadonlySet<string>,
    server: PublishedServer,
    { version, grantable }: { readonly version: number; readonly grantable: readonly string[] | null },
  ): Promise<ReadonlySet<string>> {
    if (![...named].some(isUmbrella)) return named
    const all = expandScopes(named, await this.#mcpServers.umbrellas(server, version))
    return grantable === null ? all : new Set([...all].filter((scope) => grantable.includes(scope)))
  }

  /** A deleted client or account ends the token within `INFRA_LIMITS.credentialCacheMs`. */
  async #isActive(claims: HostedClaims, server: PublishedServer): Promise<boolean> {
    const { sub, clientId, credential } = claims
    if (!(await this.#subjects.isNotRevoked(claims))) return false
    if (clientId === OPERATOR_CLIENT) return true
    if (sub !== clientId && (await this.#subjects.isPersonActive(clientId, sub, credential)))
      return claims.proof.isMultiFactor || !(await this.#subjects.readSecondFactor(sub)).needsSecondFactor
    return (await this.#mcpServers.client(clientId))?.serverId === server.id
  }
}

/** The `iss` of a token that is not verified yet; empty if it has none. */
function issuerIn(token: string): string {
  try {
    return decodeJwt(token).iss ?? ''
  } catch (cause) {
    if (cause instanceof errors.JOSEError) return ''
    throw cause
  }
}

/**
 * An issuer may serve several tenants, so its token names the tenant of the server, and its workspace or none. It names no
 * version: the issuer has asked for consent to its scopes as they are.
 * @throws Problem `token_invalid`
 */
function admitExternal(claims: HostedClaims, server: PublishedServer): McpPrincipal {
  const { sub: subject, clientId, isPerson, scopes, tokenId = '', grantId, workspaceId } = claims
  const { tenantId, workspaceId: own } = server.ref
  if (claims.tenantId !== tenantId || (workspaceId !== undefined && workspaceId !== own))
    throw new Problem('token_invalid')
  const token = { subject, clientId, tokenId, grantId, isPerson, scopes, namedScopes: scopes }
  return { ...token, server, grantable: null, consentedVersion: server.version }
}
