/** The embedded issuer: a standard OAuth 2.1 / OpenID provider mounted under /auth, with its key in the database. */

import { createHash } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { errors, type JWTPayload, type JWTVerifyGetKey, jwtVerify } from 'jose'
import type { Provider } from 'oidc-provider'
import { type Config, issuerUrl, publicUrl } from '../../infra/config.ts'
import { DERIVED, type Secrets } from '../../infra/crypto/secrets.ts'
import type { Log } from '../../infra/log.ts'
import { TtlCache } from '../../infra/ttl-cache.ts'
import type { Audit } from '../audit/audit.ts'
import type { McpServerRegistry } from '../authentication/mcp-server-registry.ts'
import type { AccountsStore } from './accounts-store.ts'
import { IssuerAudit, type Requester } from './audit-events.ts'
import type { IssuedToken, IssuerState } from './issuer-state.ts'
import { type OAuthClients, Registration } from './oauth-clients-store.ts'
import { type IssuerSettings, openProvider } from './provider.ts'
import { ResourceIndicators } from './resource-indicators.ts'
import { SignIn } from './sign-in.ts'
import { ALGORITHM, type KeySet, type SigningKeys } from './signing-keys.ts'

export interface Claims extends IssuedToken {
  readonly sub: string
  /** Whom it was given to, where it says so. */
  readonly clientId?: string
  /** For which of a machine's secrets, or in which generation of an account. */
  readonly credential?: string
  readonly roles: readonly string[]
  readonly scopes: readonly string[]
  readonly tenantId?: string
  readonly workspaceId?: string
}

/** What a token for a hosted MCP server says. */
export interface HostedClaims extends IssuedToken {
  readonly sub: string
  readonly clientId: string
  readonly credential?: string
  readonly tenantId: unknown
  readonly workspaceId: unknown
  readonly serverId: unknown
  /** The version of the server that was consented to. */
  readonly version: unknown
  readonly scopes: ReadonlySet<string>
}

/** What the issuer is made of. */
export interface IdentityParts {
  readonly config: Config
  readonly secrets: Secrets
  readonly keys: SigningKeys
  readonly hosted: McpServerRegistry
  readonly people: AccountsStore
  readonly clients: OAuthClients
  readonly state: IssuerState
  readonly audit: Audit
  readonly log: Log
}

/** What clocks may differ by. */
const CLOCK_TOLERANCE_SECONDS = 30

/** The claims by which a token, or its grant, can be revoked. */
const issuedToken = ({ jti, grant_id: grantId }: JWTPayload): IssuedToken => ({
  ...(typeof jti === 'string' && { tokenId: jti }),
  ...(typeof grantId === 'string' && { grantId }),
})

const isFresh = ({ exp = 0 }: JWTPayload) => exp + CLOCK_TOLERANCE_SECONDS > Date.now() / 1_000

export class EmbeddedIssuer {
  readonly issuer: string
  readonly audience: string
  /** Of the issuer's own pages. */
  readonly origin: string
  readonly people: AccountsStore
  readonly signIn: SignIn
  readonly registration: Registration
  readonly audit: IssuerAudit
  readonly #keys: SigningKeys
  readonly #settings: IssuerSettings
  readonly #address: Readonly<Record<string, string>>
  /** Payloads whose signatures held, by digests of their tokens. */
  readonly #verified = new TtlCache<{ readonly keys: KeySet; readonly payload: JWTPayload }>()
  #opened: { readonly keys: KeySet; readonly provider: Provider } | undefined

  private constructor({ config, secrets, keys, hosted, people, clients, state, audit, log }: IdentityParts) {
    const base = publicUrl(config)
    this.issuer = issuerUrl(config)
    this.audience = `${base}/v1`
    this.people = people
    this.#keys = keys
    const { issuer, audience } = this
    const targets = new ResourceIndicators({ audience, hosted, people, clients })
    const operatorSecret = config.TENON_OPERATOR_SECRET ?? secrets.derive(DERIVED.operatorSecret)
    const cookieKey = secrets.derive('cookies')
    const records = new IssuerAudit({ audit, clients, hosted, people, log })
    this.audit = records
    const verify = (token: string) => this.#verifiedNow(token)
    const identity = { issuer, operatorSecret, cookieKey, verify }
    this.#settings = { ...identity, hosted, clients, people, targets, state, records, log }
    const provider = () => this.#provider()
    this.signIn = new SignIn({ issuer, provider, people, clients, hosted, targets, records })
    this.registration = new Registration(clients)
    const { host, protocol, origin } = new URL(base)
    this.origin = origin
    this.#address = { host, 'x-forwarded-host': host, 'x-forwarded-proto': protocol.replace(':', '') }
  }

  static async open(parts: IdentityParts): Promise<EmbeddedIssuer> {
    const opened = new EmbeddedIssuer(parts)
    await opened.#provider()
    return opened
  }

  /** The provider takes its keys when it is made, so with other keys it is another one; what it keeps is elsewhere. */
  async #provider(): Promise<Provider> {
    const keys = await this.#keys.current()
    if (this.#opened?.keys !== keys) this.#opened = { keys, provider: openProvider(this.#settings, keys) }
    return this.#opened.provider
  }

  /**
   * Answers a request below /auth; the provider sees its URL without that prefix. The addresses it writes into its
   * metadata come from the configuration, whatever `Host` or `X-Forwarded-*` say.
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
    Object.assign(request.headers, this.#address)
    Object.assign(request, { originalUrl: url, url: url.replace(/^\/auth/, '') || '/' })
    return provider.callback()(request, response)
  }

  /**
   * Verifies an access token (RFC 9068: `typ` at+jwt, `exp`, `aud`; RFC 8725: a fixed list of algorithms).
   * @throws a jose error where any of it does not hold
   */
  async verify(token: string): Promise<Claims> {
    const payload = await this.#payload(token, this.audience)
    const { roles, scope, client_id: clientId, tenant_id: tenantId, workspace_id: workspaceId } = payload
    const { credential } = payload
    return {
      ...issuedToken(payload),
      sub: payload.sub ?? '',
      ...(typeof clientId === 'string' && { clientId }),
      ...(typeof credential === 'string' && { credential }),
      roles: Array.isArray(roles) ? roles.filter((role) => typeof role === 'string') : [],
      scopes: typeof scope === 'string' ? scope.split(' ') : [],
      ...(typeof tenantId === 'string' && { tenantId }),
      ...(typeof workspaceId === 'string' && { workspaceId }),
    }
  }

  /**
   * Verifies a token for one hosted MCP server, as {@link verify} does; `aud` must be that resource and no list.
   * @throws a jose error where any of it does not hold
   */
  async verifyHosted(token: string, resource: string): Promise<HostedClaims> {
    const payload = await this.#payload(token, resource)
    if (typeof payload.aud !== 'string') throw new errors.JWTInvalid('"aud" names more than one resource')
    const { client_id: clientId, credential, scope } = payload
    return {
      ...issuedToken(payload),
      sub: payload.sub ?? '',
      clientId: typeof clientId === 'string' ? clientId : '',
      ...(typeof credential === 'string' && { credential }),
      tenantId: payload['tenant_id'],
      workspaceId: payload['workspace_id'],
      serverId: payload['mcp_server'],
      version: payload['mcp_version'],
      scopes: new Set(typeof scope === 'string' ? scope.split(' ') : []),
    }
  }

  /** A signature that held a few seconds ago is not checked again, as long as the keys are the same and it has not expired. */
  async #payload(token: string, audience: string): Promise<JWTPayload> {
    const keys = await this.#keys.current()
    const name = createHash('sha256').update(`${audience} ${token}`).digest('base64')
    const known = this.#verified.get(name)
    if (known?.keys === keys && isFresh(known.payload)) return known.payload
    const payload = await this.#verifiedNow(token, audience)
    this.#verified.set(name, { keys, payload })
    return payload
  }

  /** @param audience any, where absent */
  async #verifiedNow(token: string, audience?: string): Promise<JWTPayload> {
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

  /** Another node may have made a key since. */
  readonly #find: JWTVerifyGetKey = async (header, token) => {
    try {
      return await (await this.#keys.current()).find(header, token)
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey)) throw error
      return (await this.#keys.renewed()).find(header, token)
    }
  }
}
