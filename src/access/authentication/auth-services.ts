/** Wires authentication for the API: the embedded issuer, token verifiers, MCP clients, and the payload session cookie. */

import { decodeJwt, type JWK } from 'jose'
import { Problem } from '../../core/problem.ts'
import { type Config, issuerUrl, publicUrl } from '../../infra/config.ts'
import type { Secrets } from '../../infra/crypto/secrets.ts'
import { Egress } from '../../infra/http-client/egress.ts'
import type { PlatformServices } from '../internals.ts'
import { AccountsStore } from '../issuer/accounts-store.ts'
import { EmbeddedIssuer } from '../issuer/embedded-issuer.ts'
import { IdentitiesStore } from '../issuer/users/identities-store.ts'
import { ProviderSettings } from '../issuer/users/identity-provider-settings.ts'
import { IdentityProviders } from '../issuer/users/identity-providers.ts'
import { Passkeys } from '../issuer/users/passkeys.ts'
import { SecondFactors } from '../issuer/users/second-factors.ts'
import { Tickets } from '../issuer/users/tickets.ts'
import { UserLinks } from '../issuer/users/user-links.ts'
import { UsersStore } from '../issuer/users/users-store.ts'
import { ACCESS_LIMITS } from '../limits.ts'
import { Authenticator, type TokenIssuer } from './authenticator.ts'
import { ExternalIssuer } from './external-issuer.ts'
import { AGENTS_SESSION, APPROVAL_SESSION, HolderSession, USER_SESSION } from './holder-session.ts'
import { McpServerRegistry } from './mcp-server-registry.ts'
import { PlatformClients } from './platform-clients.ts'
import { SessionCookie } from './session-cookie.ts'
import { McpClients, type SubjectStatus } from './subject-status.ts'

export interface AuthServices {
  /** Opens the embedded issuer. Rejects while the database is unavailable; the next call tries again. */
  readonly identity: () => Promise<EmbeddedIssuer>
  readonly auth: Authenticator
  readonly mcpServers: McpServerRegistry
  /** The keys of signatures of manifests. */
  readonly manifestKeys: () => Promise<{ readonly keys: readonly JWK[] }>
  readonly mcpClients: McpClients
  readonly platformClients: PlatformClients
  readonly payloadSession: PayloadSession
  readonly approvalSession: HolderSession
  readonly userSession: HolderSession
  readonly agentsSession: HolderSession
}

/** @param now milliseconds that never go back; tests replace the clock */
export function openAuthServices(
  config: Config,
  services: PlatformServices,
  now = () => performance.now(),
): AuthServices {
  const { database, subjectStatus, secrets, publishedServers } = services
  const mcpServers = new McpServerRegistry(database, publicUrl(config), publishedServers)
  const forget = (subject: string) => subjectStatus.forget(subject)
  const providerSettings = new ProviderSettings(secrets, publicUrl(config))
  const stores = {
    accounts: new AccountsStore(database, forget),
    users: new UsersStore(database, forget),
    userLinks: new UserLinks(database, forget),
    secondFactors: new SecondFactors(database, secrets),
    passkeys: new Passkeys(database, secrets, services.issuerState, publicUrl(config)),
    identitiesStore: new IdentitiesStore(database),
    // Without the allowlist of the platform's flows: an operator opens addresses for each workspace.
    identityProviders: new IdentityProviders(providerSettings, new Tickets(secrets), new Egress([])),
  }
  let issuer: Promise<EmbeddedIssuer> | undefined
  const identity = () => {
    issuer ??= EmbeddedIssuer.open({ ...services, ...stores, config, mcpServers }).catch((error: unknown) => {
      issuer = undefined
      throw error
    })
    return issuer
  }
  const external = new Map(externalIssuers(config, services, now))
  const issuers = new Map<string, TokenIssuer>([
    ...external,
    [issuerUrl(config), embeddedIssuer(identity, subjectStatus)],
  ])
  const auth = new Authenticator(database, issuers, services.keys, services.tenantStates)
  return {
    identity,
    auth,
    mcpServers,
    manifestKeys: () => services.signingKeys.published(),
    mcpClients: new McpClients(mcpServers, identity, external, subjectStatus),
    platformClients: new PlatformClients(publicUrl(config), { identity, auth, subjectStatus }),
    payloadSession: new PayloadSession(secrets, publicUrl(config)),
    approvalSession: new HolderSession(secrets, publicUrl(config), APPROVAL_SESSION),
    userSession: new HolderSession(secrets, publicUrl(config), USER_SESSION),
    agentsSession: new HolderSession(secrets, publicUrl(config), AGENTS_SESSION),
  }
}

function embeddedIssuer(identity: () => Promise<EmbeddedIssuer>, subjects: SubjectStatus): TokenIssuer {
  return {
    verify: async (token) => {
      const claims = await (await identity()).verify(token)
      if (!(await subjects.isTokenActive(claims))) throw new Problem('token_invalid')
      return claims
    },
  }
}

/** By the `iss` of their tokens. */
function externalIssuers({ OIDC_ISSUERS: trusted }: Config, { log }: PlatformServices, now: () => number) {
  const onFailure = (issuer: string, error: unknown) =>
    log.warn({ err: error, issuer }, 'issuer keys unavailable')
  // Without the allowlist of flows: the operator has configured these issuers.
  const parts = { egress: new Egress([]), now, onFailure }
  return trusted.map((settings) => [settings.issuer, new ExternalIssuer(settings, parts)] as const)
}

/** The only path that the cookie is sent to. */
export const PAYLOAD_SESSION_PATH = '/v1/codec/decode'

const COOKIE = {
  name: 'tenon_payloads',
  purpose: 'cookie:payloads',
  path: PAYLOAD_SESSION_PATH,
  sameSite: 'Strict',
} as const

/** The cookie with which the Temporal UI in a browser reads payloads. */
export class PayloadSession {
  readonly #cookie: SessionCookie<{ readonly token: string; readonly until: number }>

  /** @param url of the API, as browsers see it */
  constructor(secrets: Secrets, url: string) {
    this.#cookie = new SessionCookie(secrets, url, COOKIE)
  }

  /**
   * @param token a verified one; the session expires no later than it
   * @returns the value of a Set-Cookie header, and when the session expires
   */
  issue(token: string): { cookie: string; until: Date } {
    const now = Date.now()
    const ends = (decodeJwt(token).exp ?? 0) * 1_000
    const until = Math.min(ends, now + ACCESS_LIMITS.payloadSessionSeconds * 1_000)
    return { cookie: this.#cookie.issue({ token, until }, now), until: new Date(until) }
  }

  /**
   * The token in a Cookie header, not verified.
   * @returns undefined without the cookie; the empty text, which is no valid token, if it has expired or was changed
   */
  tokenIn(header?: string): string | undefined {
    const session = this.#cookie.read(header)
    return session === 'invalid' ? '' : session?.token
  }
}
