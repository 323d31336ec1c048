/** OpenID Connect at the identity providers of a workspace: the authorization request, and the identity that it ends with. */

import { LRUCache } from 'lru-cache'
import * as oidc from 'openid-client'
import { ACCESS_LIMITS } from '../../../access/limits.ts'
import { CORE_LIMITS } from '../../../core/limits.ts'
import type { Egress } from '../../../infra/http-client/egress.ts'
import { INFRA_LIMITS } from '../../../infra/limits.ts'
import type { Tickets } from '../factors/tickets.ts'
import { ISSUER_LIMITS } from '../limits.ts'
import type { ProviderSettings, StoredProvider } from './identity-provider-settings.ts'
import type { UserWorkspace } from './users-store.ts'

/** A person, as a provider describes them (OpenID Connect Core 1.0 §5.1). */
export interface Identity {
  readonly issuer: string
  readonly subject: string
  /** In lower case; empty unless the provider has verified it. */
  readonly verifiedEmail: string
  readonly name: string
}

/** An authorization request that is under way; the parameter `state` carries it, encrypted. */
export interface PendingRequest {
  /** Identifies the sign-in. */
  readonly at: string
  readonly workspaceId: string
  readonly providerId: string
  readonly nonce: string
  readonly codeVerifier: string
}

const PURPOSE = 'identity-provider'
const BOUNDS = { timeoutMs: ISSUER_LIMITS.users.providerTimeoutMs, bytesMax: INFRA_LIMITS.jwksBytesMax }

export class IdentityProviders {
  readonly #settings: ProviderSettings
  readonly #tickets: Tickets
  readonly #egress: Egress
  /** By workspace and settings. */
  readonly #clients = new LRUCache<string, Promise<oidc.Configuration>>({
    max: ISSUER_LIMITS.users.providersCachedMax,
    ttl: ACCESS_LIMITS.jwks.freshMs,
  })

  constructor(settings: ProviderSettings, tickets: Tickets, egress: Egress) {
    this.#settings = settings
    this.#tickets = tickets
    this.#egress = egress
  }

  /**
   * The address at the provider where the browser goes.
   * @param at identifies the sign-in, which alone can be continued with the answer
   * @throws Error if the provider cannot be reached, or has no valid discovery document
   */
  async authorizationUrl(workspace: UserWorkspace, provider: StoredProvider, at: string): Promise<URL> {
    const client = await this.#client(workspace, provider)
    const [nonce, codeVerifier] = [oidc.randomNonce(), oidc.randomPKCECodeVerifier()]
    const { workspaceId } = workspace
    const pending: PendingRequest = { at, workspaceId, providerId: provider.id, nonce, codeVerifier }
    const url = oidc.buildAuthorizationUrl(client, {
      redirect_uri: this.#settings.redirectUri(workspace, provider.id),
      scope: 'openid email profile',
      state: this.#tickets.issue(PURPOSE, pending, ISSUER_LIMITS.users.providerSeconds),
      nonce,
      code_challenge: await oidc.calculatePKCECodeChallenge(codeVerifier),
      code_challenge_method: 'S256',
    })
    if (!/^https?:$/.test(url.protocol))
      throw new TypeError('the authorization endpoint is not an http or https URL')
    return url
  }

  /** The request that an answer belongs to; undefined if there is none, or it has expired. */
  pending(state: string): PendingRequest | undefined {
    return this.#tickets.read<PendingRequest>(PURPOSE, state)
  }

  /**
   * Exchanges the code of an answer for an ID token, and verifies it with its signature.
   * @param answer the parameters of the redirect
   * @throws oidc.AuthorizationResponseError if the provider has refused @throws Error if the answer is not valid
   */
  async identity(
    workspace: UserWorkspace,
    provider: StoredProvider,
    { nonce, codeVerifier }: PendingRequest,
    answer: URLSearchParams,
  ): Promise<Identity> {
    const client = await this.#client(workspace, provider)
    const url = new URL(`${this.#settings.redirectUri(workspace, provider.id)}?${answer}`)
    const tokens = await oidc.authorizationCodeGrant(client, url, {
      expectedNonce: nonce,
      expectedState: answer.get('state') ?? '',
      pkceCodeVerifier: codeVerifier,
      idTokenExpected: true,
    })
    const idToken = tokens.claims()
    if (idToken === undefined || idToken.sub.length > CORE_LIMITS.subjectCharsMax)
      throw new TypeError('the subject of the ID token is missing, or too long')
    // Some providers describe the person here only.
    const isDescribed =
      idToken['email'] !== undefined || client.serverMetadata().userinfo_endpoint === undefined
    const {
      email,
      email_verified: isVerified,
      name,
    } = isDescribed ? idToken : await oidc.fetchUserInfo(client, tokens.access_token, idToken.sub)
    return {
      issuer: provider.issuer,
      subject: idToken.sub,
      verifiedEmail: isVerified === true && typeof email === 'string' ? email.toLowerCase() : '',
      name: typeof name === 'string' ? name : '',
    }
  }

  /** The client of a provider, with its discovery document and keys. A failure is not cached. */
  #client(workspace: UserWorkspace, provider: StoredProvider): Promise<oidc.Configuration> {
    const { workspaceId, egressAllowed } = workspace
    const key = JSON.stringify([workspaceId, provider, egressAllowed])
    const known = this.#clients.get(key)
    if (known !== undefined) return known
    const client = this.#discover(workspace, provider)
    this.#clients.set(key, client)
    client.catch(() => this.#clients.delete(key))
    return client
  }

  #discover(workspace: UserWorkspace, provider: StoredProvider): Promise<oidc.Configuration> {
    const { issuer, client_id: clientId } = provider
    const secret = this.#settings.secretOf(workspace, provider)
    return oidc.discovery(
      new URL(issuer),
      clientId,
      {},
      secret === undefined ? oidc.None() : authenticationWith(secret),
      {
        [oidc.customFetch]: this.#fetchFor(workspace),
        // Without https only where an operator has opened the address.
        execute: [
          oidc.enableNonRepudiationChecks,
          ...(issuer.startsWith('http:') ? [oidc.allowInsecureRequests] : []),
        ],
      },
    )
  }

  /** Sends through the egress guard: admins of a workspace choose the provider, and it names further addresses. */
  #fetchFor({ egressAllowed: allowed }: UserWorkspace): oidc.CustomFetch {
    return async (href, { method, headers, body }) => {
      const text = body === undefined || body === null ? undefined : String(body)
      const outbound = { method, url: new URL(href), headers, ...(text !== undefined && { body: text }) }
      const received = await this.#egress.send(outbound, { allowed }, BOUNDS)
      const isEmpty = [204, 205, 304].includes(received.status)
      const { 'content-type': type = 'application/octet-stream' } = received.headers
      return new Response(isEmpty ? null : Uint8Array.from(received.body), {
        status: Math.min(received.status, 599),
        headers: { 'content-type': type },
      })
    }
  }
}

/** Sends the secret in a way that the provider offers; HTTP Basic by default (OpenID Connect Discovery 1.0 §3). */
function authenticationWith(secret: string): oidc.ClientAuth {
  const [basic, post] = [oidc.ClientSecretBasic(secret), oidc.ClientSecretPost(secret)]
  return (server, ...request) => {
    const { token_endpoint_auth_methods_supported: offered = ['client_secret_basic'] } = server
    return (offered.includes('client_secret_basic') ? basic : post)(server, ...request)
  }
}
