/** The embedded issuer: an OAuth 2.1 and OpenID provider mounted under /auth, with its keys in the database. */

import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Provider } from 'oidc-provider'
import type { KeySet } from '../../../access/authentication/signing-keys.ts'
import { issuerUrl, publicUrl } from '../../../infra/config.ts'
import { DERIVED } from '../../../infra/crypto/secrets.ts'
import { Egress } from '../../../infra/http-client/egress.ts'
import type { AccountsStore } from '../accounts/accounts-store.ts'
import { ClientDocuments } from '../clients/client-documents.ts'
import { type OAuthClients, Registration } from '../clients/oauth-clients-store.ts'
import { FactorService } from '../factors/factor-service.ts'
import type { Passkeys } from '../factors/passkeys.ts'
import type { SecondFactors } from '../factors/second-factors.ts'
import type { Sessions } from '../sessions/sessions.ts'
import type { IdentitiesStore } from '../users/identities-store.ts'
import type { IdentityProviders } from '../users/identity-providers.ts'
import { ProviderService } from '../users/provider-service.ts'
import { UserService } from '../users/user-service.ts'
import type { UsersStore } from '../users/users-store.ts'
import { IssuerAudit, type Requester } from './audit-events.ts'
import { Grants } from './grants.ts'
import type { IssuerServices } from './issuer-services.ts'
import { openProvider } from './provider.ts'
import { ResourceIndicators } from './resource-indicators.ts'
import { type IssuerSettings, SignIn } from './sign-in.ts'

export class EmbeddedIssuer {
  readonly issuer: string
  readonly audience: string
  /** Of the issuer's own pages. */
  readonly origin: string
  readonly accounts: AccountsStore
  readonly users: UsersStore
  readonly userService: UserService
  readonly factorService: FactorService
  readonly providerService: ProviderService
  readonly secondFactors: SecondFactors
  readonly passkeys: Passkeys
  readonly identityProviders: IdentityProviders
  readonly identitiesStore: IdentitiesStore
  readonly oauthClients: OAuthClients
  readonly signIn: SignIn
  readonly grants: Grants
  readonly sessions: Sessions
  readonly registration: Registration
  readonly audit: IssuerAudit
  readonly #settings: IssuerSettings
  readonly #forwarded: Readonly<Record<string, string>>
  #current: { readonly keys: KeySet; readonly provider: Provider } | undefined

  private constructor(services: IssuerServices) {
    const { config, secrets, accounts, users, oauthClients } = services
    const base = publicUrl(config)
    const audience = `${base}/v1`
    this.issuer = issuerUrl(config)
    this.audience = audience
    this.accounts = accounts
    this.users = users
    this.oauthClients = oauthClients
    this.audit = new IssuerAudit(services)
    this.userService = new UserService(services, this.audit)
    this.secondFactors = services.secondFactors
    this.passkeys = services.passkeys
    this.sessions = services.sessions
    this.identityProviders = services.identityProviders
    this.identitiesStore = services.identitiesStore
    this.factorService = new FactorService(services, this.audit)
    this.providerService = new ProviderService(services, this.audit)
    this.#settings = {
      ...services,
      issuer: this.issuer,
      audience,
      operatorSecrets: config.TENON_OPERATOR_SECRET
        ? [config.TENON_OPERATOR_SECRET]
        : secrets.deriveAll(DERIVED.operatorSecret),
      cookieKeys: secrets.deriveAll('cookies'),
      resources: new ResourceIndicators({ ...services, audience }),
      issuerAudit: this.audit,
      // Without the allowlist of flows: anybody can name a URL.
      clientDocuments: new ClientDocuments({
        clients: oauthClients,
        egress: new Egress([]),
        audit: this.audit,
        config,
      }),
      provider: () => this.#provider(),
      verify: (token) => services.tokens.verifyUncached(token),
    }
    this.signIn = new SignIn(this.#settings)
    this.grants = new Grants(this.#settings)
    this.registration = new Registration(oauthClients, config.TENON_REGISTRATIONS_PER_ADDRESS)
    const { host, protocol, origin } = new URL(base)
    this.origin = origin
    this.#forwarded = { host, 'x-forwarded-host': host, 'x-forwarded-proto': protocol.replace(':', '') }
  }

  static async open(services: IssuerServices): Promise<EmbeddedIssuer> {
    const issuer = new EmbeddedIssuer(services)
    await issuer.#provider()
    return issuer
  }

  /** The provider for the current keys, which it takes when it is created; its state is in the database. */
  async #provider(): Promise<Provider> {
    const keys = await this.#settings.signingKeys.current()
    if (this.#current?.keys !== keys) this.#current = { keys, provider: openProvider(this.#settings, keys) }
    return this.#current.provider
  }

  /**
   * Handles a request below /auth; the provider sees its URL without that prefix. The URLs in its metadata come from the
   * configuration, not from `Host` or `X-Forwarded-*` of the client.
   * @param by for the audit log
   */
  async handle(
    request: IncomingMessage,
    response: ServerResponse,
    url: string,
    by: Requester,
  ): Promise<void> {
    const provider = await this.#provider()
    this.audit.attach(request, by)
    Object.assign(request.headers, this.#forwarded)
    Object.assign(request, { originalUrl: url, url: url.replace(/^\/auth/, '') || '/' })
    return provider.callback()(request, response)
  }
}
