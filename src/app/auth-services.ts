/** Wires authentication for the API: the embedded issuer, token verifiers, MCP clients, and the payload session cookie. */

import type { JWK } from 'jose'
import { Authenticator } from '../access/authentication/authenticator.ts'
import type { TokenIssuer } from '../access/authentication/claims.ts'
import { ExternalIssuer } from '../access/authentication/external-issuer.ts'
import {
  ACCOUNT_SESSION,
  AGENTS_SESSION,
  APPROVAL_SESSION,
  HolderSession,
  USER_SESSION,
} from '../access/authentication/holder-session.ts'
import { McpClients } from '../access/authentication/mcp-clients.ts'
import { McpServerRegistry } from '../access/authentication/mcp-server-registry.ts'
import { PayloadSession } from '../access/authentication/payload-session.ts'
import { PlatformClients } from '../access/authentication/platform-clients.ts'
import type { SubjectStatus } from '../access/authentication/subject-status.ts'
import { TokenVerifier } from '../access/authentication/token-verifier.ts'
import type { PlatformServices } from '../access/internals.ts'
import { Problem } from '../core/problem.ts'
import { AccountsStore } from '../features/identity/accounts/accounts-store.ts'
import { Passkeys } from '../features/identity/factors/passkeys.ts'
import { SecondFactors } from '../features/identity/factors/second-factors.ts'
import { Tickets } from '../features/identity/factors/tickets.ts'
import { EmbeddedIssuer } from '../features/identity/issuer/embedded-issuer.ts'
import { IdentitiesStore } from '../features/identity/users/identities-store.ts'
import { ProviderSettings } from '../features/identity/users/identity-provider-settings.ts'
import { IdentityProviders } from '../features/identity/users/identity-providers.ts'
import { UserLinks } from '../features/identity/users/user-links.ts'
import { UsersStore } from '../features/identity/users/users-store.ts'
import { type Config, issuerUrl, publicUrl } from '../infra/config.ts'
import { Egress } from '../infra/http-client/egress.ts'

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
  readonly accountSession: HolderSession
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
    secondFactors: new SecondFactors(database, secrets, forget),
    passkeys: new Passkeys(database, secrets, services.issuerState, publicUrl(config)),
    identitiesStore: new IdentitiesStore(database),
    // Without the allowlist of the platform's flows: an operator opens addresses for each workspace.
    identityProviders: new IdentityProviders(providerSettings, new Tickets(secrets), new Egress([])),
  }
  const tokens = new TokenVerifier(config, services.signingKeys)
  let issuer: Promise<EmbeddedIssuer> | undefined
  const identity = () => {
    issuer ??= EmbeddedIssuer.open({ ...services, ...stores, config, mcpServers, tokens }).catch(
      (error: unknown) => {
        issuer = undefined
        throw error
      },
    )
    return issuer
  }
  const external = new Map(externalIssuers(config, services, now))
  const issuers = new Map<string, TokenIssuer>([
    ...external,
    [issuerUrl(config), embeddedIssuer(tokens, subjectStatus)],
  ])
  const auth = new Authenticator(services, issuers)
  return {
    identity,
    auth,
    mcpServers,
    manifestKeys: () => services.signingKeys.published(),
    mcpClients: new McpClients(mcpServers, tokens, external, subjectStatus),
    platformClients: new PlatformClients(publicUrl(config), { tokens, auth, subjectStatus }),
    payloadSession: new PayloadSession(secrets, publicUrl(config)),
    approvalSession: new HolderSession(secrets, publicUrl(config), APPROVAL_SESSION),
    userSession: new HolderSession(secrets, publicUrl(config), USER_SESSION),
    accountSession: new HolderSession(secrets, publicUrl(config), ACCOUNT_SESSION),
    agentsSession: new HolderSession(secrets, publicUrl(config), AGENTS_SESSION),
  }
}

function embeddedIssuer(tokens: TokenVerifier, subjects: SubjectStatus): TokenIssuer {
  return {
    verify: async (token) => {
      const claims = await tokens.verify(token)
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
