/** Configures the OAuth provider of the issuer: its flows, clients, lifetimes, pages and cookies. */

import { createHash, timingSafeEqual } from 'node:crypto'
import { errors as joseErrors } from 'jose'
import {
  type AccountClaims,
  type Adapter,
  type AdapterPayload,
  type Client,
  type Configuration,
  errors,
  interactionPolicy,
  type KoaContextWithOIDC,
  Provider,
} from 'oidc-provider'
import { ACR, isMultiFactor } from '../../../access/authentication/claims.ts'
import { isDocumentId } from '../../../access/authentication/client-ids.ts'
import { ALGORITHM, type KeySet } from '../../../access/authentication/signing-keys.ts'
import { ACCESS_LIMITS } from '../../../access/limits.ts'
import { OPERATOR_CLIENT } from '../../../infra/crypto/secrets.ts'
import type { Account } from '../accounts/accounts-store.ts'
import type { OAuthClient } from '../clients/oauth-clients-store.ts'
import { isNative, webOriginOf } from '../clients/redirect-uris.ts'
import { ISSUER_LIMITS } from '../limits.ts'
import { plainPage } from '../pages/pages.ts'
import { sessionIdOf } from '../sessions/sessions.ts'
import { isUser } from '../users/users-store.ts'
import { consentedVersion } from './grants.ts'
import { grantIdOf } from './issuer-state.ts'
import type { ResourceIndicators } from './resource-indicators.ts'
import type { IssuerSettings } from './sign-in.ts'
import { findPerson, findSubject } from './subjects.ts'

export function openProvider(settings: IssuerSettings, keys: KeySet): Provider {
  const operatorHashes = settings.operatorSecrets.map(sha256)
  const provider = new Provider(settings.issuer, {
    ...flows(settings),
    ...pages(settings),
    adapter: (name) => (name === 'Client' ? new Clients(settings) : settings.issuerState.of(name)),
    jwks: { keys: keys.keys.map((jwk) => ({ ...jwk, alg: ALGORITHM, use: 'sig' })) },
    cookies: cookies(settings),
    clients: [machineClient(OPERATOR_CLIENT, operatorHashes.join(' '))],
  })
  // Only digests of secrets are stored. The operator's client has one of each master key.
  provider.Client.prototype.compareClientSecret = function compare(this: Client, actual: string): boolean {
    const accepted = (this.clientSecret ?? sha256('')).split(' ')
    return accepted.some((hash) => timingSafeEqual(Buffer.from(sha256(actual)), Buffer.from(hash)))
  }
  // Endpoints in the metadata follow the headers that EmbeddedIssuer.handle sets from the configuration.
  provider.proxy = true
  // The provider replies without logging its own failures.
  provider.on('server_error', ({ response }: KoaContextWithOIDC, error: Error) =>
    settings.log.error({ err: error, request_id: response.get('x-request-id') }, 'issuer request failed'),
  )
  settings.issuerAudit.listen(provider)
  revokeAccessTokens(provider, settings)
  recordSessions(provider, settings)
  return provider
}

/**
 * Lets `POST /auth/revoke` end access tokens (RFC 7009). The provider authenticates the client and then refuses JWTs
 * as a type that it cannot revoke; this revokes them instead. An invalid token, or one of another client, gets the same
 * reply (§2.2) without effect.
 */
function revokeAccessTokens(provider: Provider, { issuerState, verify, issuerAudit }: IssuerSettings): void {
  const refused = new WeakSet<KoaContextWithOIDC>()
  provider.on('revocation.error', (context: KoaContextWithOIDC, error: Error) => {
    if (error instanceof errors.UnsupportedTokenType) refused.add(context)
  })
  provider.use(async (context: KoaContextWithOIDC, next) => {
    await next()
    if (!refused.has(context)) return
    const { client, params } = context.oidc
    const token = await verify(String(params?.['token'])).catch((error: unknown) => {
      if (error instanceof joseErrors.JOSEError) return undefined
      throw error
    })
    const { jti, exp, client_id: clientId } = token ?? {}
    if (token !== undefined && jti !== undefined && exp !== undefined && clientId === client?.clientId) {
      await issuerState.revoke(jti, exp)
      issuerAudit.tokenRevoked(context, token)
    }
    context.status = 200
    context.body = ''
  })
}

/** Records where people are signed in, for those who list their sessions: each authorization in a browser with a session. */
function recordSessions(provider: Provider, settings: IssuerSettings): void {
  provider.use(async (context: KoaContextWithOIDC, next) => {
    await next()
    const { route, session } = context.oidc ?? {}
    if ((route !== 'authorization' && route !== 'resume') || session?.accountId === undefined) return
    const person = await findPerson(settings, session.accountId)
    const { address } = settings.issuerAudit.requesterOf(context)
    const device = { address, agent: context.get('user-agent') }
    if (person !== undefined) await settings.sessions.record(session.uid, person, device)
  })
}

/** Client credentials, and the code flow with PKCE and rotated refresh tokens (RFC 9700). */
function flows(settings: IssuerSettings): Configuration {
  const { resources } = settings
  return {
    responseTypes: ['code'],
    scopes: ['openid'],
    pkce: { required: () => true },
    clientAuthMethods: ['client_secret_basic', 'client_secret_post', 'none'],
    allowOmittingSingleRegisteredRedirectUri: false,
    // OpenID Initiating User Registration 1.0 §4.1.
    discovery: { prompt_values_supported: ['none', 'login', 'consent', 'create'] },
    // Accounts have the first one only.
    claims: { openid: ['sub', 'email', 'email_verified', 'name', 'auth_time', 'amr', 'acr'] },
    acrValues: Object.values(ACR),
    rotateRefreshToken: true,
    issueRefreshToken: async (_context, client) => client.grantTypeAllowed('refresh_token'),
    expiresWithSession: async () => false,
    ttl: {
      AccessToken: (_context, { resourceServer }) =>
        resourceServer?.accessTokenTTL ?? ISSUER_LIMITS.personTokenSeconds,
      IdToken: ISSUER_LIMITS.personTokenSeconds,
      ClientCredentials: (_context, { resourceServer }) =>
        resourceServer?.accessTokenTTL ?? ACCESS_LIMITS.tokenSeconds,
      AuthorizationCode: ISSUER_LIMITS.authorizationCodeSeconds,
      Interaction: ISSUER_LIMITS.interactionSeconds,
      Session: ISSUER_LIMITS.signInSeconds,
      Grant: ISSUER_LIMITS.refreshSeconds + ISSUER_LIMITS.signInSeconds,
      RefreshToken: ({ oidc }) =>
        oidc.entities.RotatedRefreshToken?.remainingTTL ?? ISSUER_LIMITS.refreshSeconds,
    },
    findAccount: async ({ oidc }, id) => {
      const client = await settings.oauthClients.find(oidc.client?.clientId ?? '')
      const person = client && (await findSubject(settings, id, client))
      return person === undefined ? undefined : { accountId: id, claims: async () => identityClaims(person) }
    },
    loadExistingGrant: (context) => loadGrant(context, settings),
    extraTokenClaims: async ({ oidc }, token) => {
      if (!('resourceServer' in token) || token.clientId === undefined) return {}
      const resource = String(token.resourceServer?.identifier())
      const claims = await resources.claims({
        clientId: token.clientId,
        accountId: 'accountId' in token ? token.accountId : undefined,
        scopes: new Set(token.scope?.split(' ')),
        resource,
        consented: consentedVersion(oidc.entities.Grant, resource),
      })
      const grantId = 'grantId' in token ? token.grantId : undefined
      const sid = await touchSession(token, settings)
      return {
        ...claims,
        ...authenticationClaims(oidc),
        ...(sid !== undefined && { sid }),
        ...(grantId !== undefined && { grant_id: grantIdOf(grantId) }),
      }
    },
    // Pages of a client may request its tokens; other pages may not.
    clientBasedCORS: (_context, origin, client) =>
      (client.redirectUris ?? []).some((uri) => webOriginOf(uri) === origin),
    features: {
      devInteractions: { enabled: false },
      dPoP: { enabled: false },
      pushedAuthorizationRequests: { enabled: false },
      rpInitiatedLogout: { enabled: false },
      userinfo: { enabled: false },
      revocation: { enabled: true },
      // For the metadata only: api/issuer/issuer-routes.ts handles the route.
      registration: { enabled: true },
      // For the metadata only: client-documents.ts reads the documents.
      clientIdMetadataDocument: { enabled: true, ack: 'draft-02', allowFetch: async () => false },
      clientCredentials: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: (_context, client) => resources.default(client?.clientId),
        useGrantedResource: () => true,
        getResourceServerInfo: (context, resource, client) => resources.describe(context, resource, client),
      },
    },
  }
}

/** The session that a token of a person comes from. */
async function touchSession(token: object, { sessions }: IssuerSettings): Promise<string | undefined> {
  const { sessionUid, accountId } = token as { sessionUid?: unknown; accountId?: unknown }
  if (typeof sessionUid !== 'string' || typeof accountId !== 'string') return undefined
  const id = sessionIdOf(sessionUid, accountId)
  await sessions.touch(id)
  return id
}

/** When and how the person has signed in: a refresh changes neither. */
function authenticationClaims({ entities }: KoaContextWithOIDC['oidc']): Record<string, unknown> {
  const { authTime, amr, acr } = entities.RefreshToken ?? entities.AuthorizationCode ?? {}
  return { ...(authTime !== undefined && { auth_time: authTime }), ...(amr && { amr }), ...(acr && { acr }) }
}

/** The claims of an ID token. */
function identityClaims(person: Account): AccountClaims {
  if (!isUser(person)) return { sub: person.id }
  const { id: sub, email, emailVerified: email_verified, name } = person
  return { sub, email, email_verified, ...(name !== '' && { name }) }
}

/**
 * The grant of an earlier consent. At a client for users, which an admin of their workspace has created, there is no question: the
 * grant covers what is requested.
 */
async function loadGrant({ oidc }: KoaContextWithOIDC, settings: IssuerSettings) {
  const { client, session, account, provider } = oidc
  if (client === undefined || session === undefined) return undefined
  const id = oidc.result?.consent?.grantId ?? session.grantIdFor(client.clientId)
  const found = id === undefined ? undefined : await provider.Grant.find(id)
  // The host of a document may give the client other redirect URIs: its user is asked again.
  const { changedAt } = (await settings.oauthClients.find(client.clientId)) ?? {}
  const known = (found?.iat ?? 0) < (changedAt ?? 0) ? undefined : found
  if (known !== undefined || account === undefined || !(await isForUsers(client, settings))) return known
  const grant = new provider.Grant({ accountId: account.accountId, clientId: client.clientId })
  grant.addOIDCScope('openid')
  for (const [resource, { scope }] of Object.entries(oidc.resourceServers ?? {}))
    grant.addResourceScope(resource, scope)
  await grant.save()
  return grant
}

const isForUsers = async ({ clientId }: Client, { oauthClients }: IssuerSettings): Promise<boolean> =>
  (await oauthClients.find(clientId))?.audience === 'users'

function pages(settings: IssuerSettings): Configuration {
  const { issuer, resources } = settings
  const policy = interactionPolicy.base()
  // Shown by clients for users; elsewhere, it leads to the sign-in.
  policy.add(new interactionPolicy.Prompt({ name: 'create', requestable: true }), 0)
  skipConsentAfterSignIn(policy, settings)
  addConsentCheck(policy, resources)
  // A session may outlive its account, or its tenant may be suspended.
  policy
    .get('login')
    ?.checks.add(
      new interactionPolicy.Check('account_gone', 'the account is not there any more', ({ oidc }) =>
        oidc.session?.accountId !== undefined && oidc.account === undefined
          ? interactionPolicy.Check.REQUEST_PROMPT
          : interactionPolicy.Check.NO_NEED_TO_PROMPT,
      ),
    )
  policy.get('login')?.checks.add(secondFactorCheck(settings))
  return {
    routes: {
      authorization: '/authorize',
      token: '/token',
      jwks: '/jwks',
      revocation: '/revoke',
      registration: '/register',
    },
    interactions: {
      policy,
      url: (_context, { uid }) => `${new URL(issuer).pathname}/interaction/${uid}`,
    },
    renderError: (context: KoaContextWithOIDC, out) => {
      const text = out.error_description ?? out.error
      const { html, headers } = plainPage('This request cannot be answered', text, context.status)
      context.set(headers)
      context.type = 'html'
      context.body = html
    },
  }
}

/**
 * Asks for another sign-in if that of the session had no second factor, and the client asks for one (`acr_values`), or the person has
 * got one since. A person without one gets a token that says so.
 */
const secondFactorCheck = ({ secondFactors }: IssuerSettings) =>
  new interactionPolicy.Check(
    'second_factor',
    'the sign-in had no second factor',
    'unmet_authentication_requirements',
    async ({ oidc }) => {
      const { session, result, params } = oidc
      const id = session?.accountId
      if (id === undefined || result?.login !== undefined || isMultiFactor(session?.amr ?? []))
        return interactionPolicy.Check.NO_NEED_TO_PROMPT
      const isAsked = String(params?.['acr_values'] ?? '')
        .split(' ')
        .includes(ACR.multi)
      const isNeeded = isAsked || (await secondFactors.read({ id })) !== undefined
      return isNeeded ? interactionPolicy.Check.REQUEST_PROMPT : interactionPolicy.Check.NO_NEED_TO_PROMPT
    },
  )

/**
 * A client on the user's machine needs an interaction each time, since other programs there could use its redirect URI
 * (RFC 8252 §8.6). At a client for users, a sign-in is one.
 */
function skipConsentAfterSignIn(policy: interactionPolicy.DefaultPolicy, settings: IssuerSettings): void {
  const checks = policy.get('consent')?.checks
  const native = checks?.get('native_client_prompt')
  if (checks === undefined || native === undefined)
    throw new TypeError('the provider must have its default consent checks')
  checks.remove(native.reason)
  checks.add(
    new interactionPolicy.Check(
      native.reason,
      native.description,
      'interaction_required',
      async (context) => {
        const { client, result } = context.oidc
        if (result?.login !== undefined && client !== undefined && (await isForUsers(client, settings)))
          return interactionPolicy.Check.NO_NEED_TO_PROMPT
        return native.check(context)
      },
    ),
  )
}

/** Requires consent again if the scopes reach more than was consented to; notes the version that the page shows. */
function addConsentCheck(policy: interactionPolicy.DefaultPolicy, resources: ResourceIndicators): void {
  const consent = policy.get('consent')
  if (consent === undefined) throw new TypeError('the provider must have its default consent checks')
  consent.details = async ({ oidc }) => ({
    shownVersion: await resources.activeVersion(String(oidc.params?.['resource'] ?? '')),
  })
  consent.checks.add(
    new interactionPolicy.Check(
      'scopes_widened',
      'the scopes reach more than was consented to',
      'consent_required',
      async ({ oidc }) => {
        const resource = String(oidc.params?.['resource'] ?? '')
        const consented = consentedVersion(oidc.grant, resource)
        return resources.exceedsConsent(resource, oidc.requestParamScopes, consented)
      },
    ),
  )
}

/** Over https, cookie name prefixes keep other hosts and plain connections from setting them (RFC 6265bis §4.1.3). */
function cookies({ issuer, cookieKeys }: IssuerSettings): NonNullable<Configuration['cookies']> {
  const secure = issuer.startsWith('https:')
  const options = { httpOnly: true, sameSite: 'lax', signed: true, secure, overwrite: true } as const
  const [host, path] = secure ? ['__Host-', '__Secure-'] : ['', '']
  return {
    keys: [...cookieKeys],
    names: {
      session: `${host}tenon_session`,
      interaction: `${path}tenon_interaction`,
      resume: `${path}tenon_resume`,
    },
    long: { ...options, path: '/' },
    short: options,
  }
}

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex')

function machineClient(id: string, secretHash: string) {
  return {
    client_id: id,
    client_secret: secretHash,
    grant_types: ['client_credentials'],
    redirect_uris: [],
    response_types: [],
    id_token_signed_response_alg: ALGORITHM,
  } satisfies AdapterPayload
}

/** The port of a loopback address of a native client may vary (RFC 8252 §7.3). */
function publicClient({ id, name, redirectUris }: OAuthClient) {
  return {
    client_id: id,
    client_name: name,
    token_endpoint_auth_method: 'none',
    application_type: isNative(redirectUris) ? 'native' : 'web',
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    redirect_uris: [...redirectUris],
    id_token_signed_response_alg: ALGORITHM,
  } satisfies AdapterPayload
}

/** Reads clients, which are created through the API or described by documents; the provider writes none. */
class Clients implements Adapter {
  readonly #settings: IssuerSettings

  constructor(settings: IssuerSettings) {
    this.#settings = settings
  }

  async find(id: string): Promise<AdapterPayload | undefined> {
    const agent = await this.#settings.mcpServers.client(id)
    if (agent !== undefined) return machineClient(agent.id, agent.secretHash)
    const client = await this.#client(id)
    if (client === undefined) return undefined
    return client.kind === 'public' ? publicClient(client) : machineClient(client.id, client.secretHash ?? '')
  }

  #client(id: string): Promise<OAuthClient | undefined> {
    const { oauthClients, clientDocuments, issuerAudit } = this.#settings
    if (!isDocumentId(id)) return oauthClients.find(id)
    return clientDocuments.resolve(id, issuerAudit.requesterOf(Provider.ctx))
  }

  async upsert(): Promise<void> {
    throw new TypeError('the provider must not create clients')
  }
  async findByUserCode(): Promise<undefined> {}
  async findByUid(): Promise<undefined> {}
  async consume(): Promise<void> {}
  async destroy(): Promise<void> {}
  async revokeByGrantId(): Promise<void> {}
}
