/** The embedded issuer: an OAuth 2.1 and OpenID provider mounted under /auth, with its keys in the database. */

import { hash } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { errors, type JWTPayload, type JWTVerifyGetKey, jwtVerify } from 'jose'
import type { Provider } from 'oidc-provider'
import { isObject } from '../../core/json.ts'
import type { EndUser } from '../../core/policy.ts'
import { issuerUrl, publicUrl } from '../../infra/config.ts'
import { DERIVED } from '../../infra/crypto/secrets.ts'
import { Egress } from '../../infra/http-client/egress.ts'
import { TtlCache } from '../../infra/ttl-cache.ts'
import type { AccountsStore } from './accounts-store.ts'
import { IssuerAudit, type Requester } from './audit-events.ts'
import { ClientDocuments } from './client-documents.ts'
import { Grants } from './grants.ts'
import type { IssuerServices } from './issuer-services.ts'
import type { IssuedToken } from './issuer-state.ts'
import { type OAuthClients, Registration } from './oauth-clients-store.ts'
import { openProvider } from './provider.ts'
import { ResourceIndicators } from './resource-indicators.ts'
import { type IssuerSettings, SignIn } from './sign-in.ts'
import { ALGORITHM, type KeySet } from './signing-keys.ts'
import { FactorService } from './users/factor-service.ts'
import type { IdentitiesStore } from './users/identities-store.ts'
import type { IdentityProviders } from './users/identity-providers.ts'
import type { Passkeys } from './users/passkeys.ts'
import { ProviderService } from './users/provider-service.ts'
import type { SecondFactors } from './users/second-factors.ts'
import { UserService } from './users/user-service.ts'
import type { UsersStore } from './users/users-store.ts'

/** The claims that identify a token, its subject and its client. */
interface SubjectClaims extends IssuedToken {
  readonly sub: string
  /** The client that it was issued to. */
  readonly clientId?: string | undefined
  /** The machine's secret that it was issued for, or the generation of the account. */
  readonly credential?: string | undefined
}

/** The claims of a token for the REST API, or for the platform's MCP server. */
export interface Claims extends SubjectClaims {
  readonly roles: readonly string[]
  readonly scopes: readonly string[]
  /** Of an external issuer; those of accounts are in the database. */
  readonly groups?: readonly string[]
  /** Describes the subject, if it is an end user. */
  readonly user?: Omit<EndUser, 'id'>
  readonly tenantId?: string | undefined
  readonly workspaceId?: string | undefined
}

/** The claims of a token for a hosted MCP server. */
export interface HostedClaims extends SubjectClaims {
  /** The `iss` of an external issuer; null: the embedded one. */
  readonly authorizationServer: string | null
  readonly clientId: string
  /** A person stands behind the client. */
  readonly isPerson: boolean
  readonly tenantId: unknown
  readonly workspaceId: unknown
  /** Undefined in tokens of an external issuer, as is the version. */
  readonly serverId: unknown
  /** The version of the server that was consented to. */
  readonly version: unknown
  readonly scopes: ReadonlySet<string>
}

const CLOCK_TOLERANCE_SECONDS = 30

/** Present in tokens of users of a workspace only. */
function userOf({ role, email, email_verified: emailVerified, claims }: JWTPayload): Pick<Claims, 'user'> {
  if (role !== 'user' || typeof email !== 'string') return {}
  return { user: { email, emailVerified: emailVerified === true, claims: isObject(claims) ? claims : {} } }
}

const textOf = (claim: unknown) => (typeof claim === 'string' ? claim : undefined)

const subjectClaims = ({ jti, grant_id, sub = '', client_id, credential }: JWTPayload): SubjectClaims => ({
  tokenId: textOf(jti),
  grantId: textOf(grant_id),
  sub,
  clientId: textOf(client_id),
  credential: textOf(credential),
})

function claimsOf(payload: JWTPayload): Claims {
  const { roles, scope, tenant_id, workspace_id } = payload
  return {
    ...subjectClaims(payload),
    roles: Array.isArray(roles) ? roles.filter((role) => typeof role === 'string') : [],
    scopes: textOf(scope)?.split(' ') ?? [],
    tenantId: textOf(tenant_id),
    workspaceId: textOf(workspace_id),
    ...userOf(payload),
  }
}

const isFresh = ({ exp = 0 }: JWTPayload) => exp + CLOCK_TOLERANCE_SECONDS > Date.now() / 1_000

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
  readonly registration: Registration
  readonly audit: IssuerAudit
  readonly #settings: IssuerSettings
  readonly #forwarded: Readonly<Record<string, string>>
  /** Verified payloads by digests of their tokens. */
  readonly #verified = new TtlCache<{ readonly keys: KeySet; readonly payload: JWTPayload }>()
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
    this.identityProviders = services.identityProviders
    this.identitiesStore = services.identitiesStore
    this.factorService = new FactorService(services, this.audit)
    this.providerService = new ProviderService(services, this.audit)
    this.#settings = {
      ...services,
      issuer: this.issuer,
      audience,
      operatorSecret: config.TENON_OPERATOR_SECRET ?? secrets.derive(DERIVED.operatorSecret),
      cookieKey: secrets.derive('cookies'),
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
      verify: (token) => this.#verifyUncached(token),
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

  /**
   * Verifies an access token (RFC 9068: `typ` at+jwt, `exp`, `aud`; RFC 8725: a fixed list of algorithms).
   * @throws a jose error if it is invalid
   */
  async verify(token: string): Promise<Claims> {
    return claimsOf(await this.#payload(token, this.audience))
  }

  /**
   * Verifies a token for the platform's MCP server, as {@link verify} does; `aud` must be that resource alone.
   * @throws a jose error if it is invalid
   */
  async verifyPlatform(token: string, resource: string): Promise<Claims> {
    return claimsOf(await this.#payloadFor(token, resource))
  }

  /**
   * Verifies a token for one hosted MCP server, as {@link verify} does; `aud` must be that resource alone.
   * @throws a jose error if it is invalid
   */
  async verifyHosted(token: string, resource: string): Promise<HostedClaims> {
    const payload = await this.#payloadFor(token, resource)
    const claims = subjectClaims(payload)
    const { sub, clientId = '' } = claims
    return {
      ...claims,
      authorizationServer: null,
      clientId,
      isPerson: sub !== clientId,
      tenantId: payload['tenant_id'],
      workspaceId: payload['workspace_id'],
      serverId: payload['mcp_server'],
      version: payload['mcp_version'],
      scopes: new Set(textOf(payload['scope'])?.split(' ')),
    }
  }

  async #payloadFor(token: string, resource: string): Promise<JWTPayload> {
    const payload = await this.#payload(token, resource)
    if (typeof payload.aud !== 'string') throw new errors.JWTInvalid('"aud" names more than one resource')
    return payload
  }

  /** Caches verified signatures for a few seconds, as long as the keys are the same and the token has not expired. */
  async #payload(token: string, audience: string): Promise<JWTPayload> {
    const keys = await this.#settings.signingKeys.current()
    const name = hash('sha256', `${audience} ${token}`, 'base64')
    const known = this.#verified.get(name)
    if (known?.keys === keys && isFresh(known.payload)) return known.payload
    const payload = await this.#verifyUncached(token, audience)
    this.#verified.set(name, { keys, payload })
    return payload
  }

  /** @param audience any by default */
  async #verifyUncached(token: string, audience?: string): Promise<JWTPayload> {
    const { payload } = await jwtVerify(token, this.#find, {
      issuer: this.issuer,
      ...(audience !== undefined && { audience }),
      algorithms: [ALGORITHM],
      typ: 'at+jwt',
      requiredClaims: ['exp', 'iat', 'sub'],
      clockTolerance: CLOCK_TOLERANCE_SECONDS,
    })
    return payload
  }

  /** Reloads the keys if another node may have created one. */
  readonly #find: JWTVerifyGetKey = async (header, token) => {
    try {
      return await (await this.#settings.signingKeys.current()).find(header, token)
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey)) throw error
      return (await this.#settings.signingKeys.renewed()).find(header, token)
    }
  }
}
