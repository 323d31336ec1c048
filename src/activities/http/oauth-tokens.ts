/** OAuth 2.0 and OpenID Connect in flows: requests access tokens, and caches each for the workflow that requested it. */

import { createHash } from 'node:crypto'
import { decodeJwt } from 'jose'
import { LRUCache } from 'lru-cache'
import * as oauth from 'oauth4webapi'
import { FLOW_LIMITS } from '../../features/flows/limits.ts'
import { callFailure, type Fields, fieldsOf, textOf } from '../call-failure.ts'
import type { CallHttpClient } from './call-http-client.ts'

type Scheme = 'oauth2' | 'oidc'

interface Token {
  readonly text: string
  readonly lifetimeMs: number
}

/** A request for a token, and the client that sends it. */
interface TokenRequest {
  readonly scheme: Scheme
  /** The properties of the authentication. */
  readonly given: Fields
  readonly http: CallHttpClient
}

export class Tokens {
  readonly #tokens: LRUCache<string, Token, TokenRequest>

  /** @param now a monotonic clock in milliseconds */
  constructor(now: () => number = () => performance.now()) {
    this.#tokens = new LRUCache({
      max: FLOW_LIMITS.tokensCachedMax,
      perf: { now },
      ttlResolution: 0,
      ignoreFetchAbort: true,
      fetchMethod: async (_key, _stale, { options, context }) => {
        const requestedMs = now()
        const token = await requestToken(context)
        options.ttl = Math.max(1, Math.floor(token.lifetimeMs - (now() - requestedMs)))
        return token
      },
    })
  }

  /**
   * Returns a token for the properties of `oauth2` or `oidc`. Concurrent calls for the same token send one request.
   * @returns `isCached` if an earlier call of the workflow has requested it
   * @throws ApplicationFailure if the issuer refuses. @throws Problem if it does not respond
   */
  async get(
    workflowId: string,
    scheme: Scheme,
    given: Fields,
    http: CallHttpClient,
  ): Promise<{ readonly text: string; readonly isCached: boolean }> {
    const key = keyOf(workflowId, scheme, given)
    const status: LRUCache.Status<string, Token, TokenRequest> = {}
    const token = await this.#tokens.forceFetch(key, { context: { scheme, given, http }, status })
    // A token whose lifetime is unknown or too short is used once.
    if (token.lifetimeMs <= 0) this.#tokens.delete(key)
    return { text: token.text, isCached: status.fetch === 'hit' }
  }

  /** Removes a token that a server has rejected. */
  delete(workflowId: string, scheme: Scheme, given: Fields): void {
    this.#tokens.delete(keyOf(workflowId, scheme, given))
  }
}

/** The cache key: a digest, because the properties may contain a password. */
function keyOf(workflowId: string, scheme: string, given: Fields): string {
  return createHash('sha256')
    .update(JSON.stringify([workflowId, scheme, given]))
    .digest('base64')
}

/**
 * Requests a token. The library authenticates the client and sends the request; the response is parsed here, because the
 * library rejects one without `token_type` and validates ID tokens, which flows do not use.
 */
async function requestToken({ scheme, given, http }: TokenRequest): Promise<Token> {
  const endpoint = await tokenEndpoint(scheme, given, http)
  const client = fieldsOf(given['client'])
  const grant = textOf(given, 'grant', scheme)
  // The library uses the issuer as audience of a client assertion, and RFC 7523 §3 accepts the token endpoint for it.
  const issuer = { issuer: endpoint.href, token_endpoint: endpoint.href }
  const knownClient = { client_id: String(client['id'] ?? '-') }
  const parameters = parametersOf(scheme, grant, given)
  const { encoding = 'application/x-www-form-urlencoded' } = fieldsOf(given['request'])
  const send = async () => {
    const authentication = authenticationOf(scheme, client)
    const options = optionsFor<'POST', URLSearchParams>(http, String(encoding))
    return oauth.genericTokenEndpointRequest(issuer, knownClient, authentication, grant, parameters, options)
  }
  const response = await send().catch((error: unknown) => {
    // The library throws these for an empty secret and for a lone surrogate.
    if (!(error instanceof TypeError || error instanceof URIError)) throw error
    throw callFailure('authentication', `The credentials of \`${scheme}\` cannot be sent.`)
  })
  return parseToken(scheme, given, response)
}

/** Parses a token response (RFC 6749 §5). An error is reported by its code only: its description may repeat credentials. */
async function parseToken(scheme: Scheme, given: Fields, response: Response): Promise<Token> {
  const { status } = response
  const answer = fieldsOf(await response.json().catch(() => undefined))
  const { access_token: text, token_type: type, expires_in: lifetime, error } = answer
  if (status !== 200) {
    const why = typeof error === 'string' && /^\w{1,60}$/.test(error) ? ` (${error})` : ''
    const detail = `The issuer of \`${scheme}\` answered ${status}${why}.`
    if (status >= 500) throw callFailure('communication', detail, { status })
    throw callFailure('authentication', detail)
  }
  const isBearer = String(type ?? 'bearer').toLowerCase() === 'bearer'
  if (typeof text !== 'string' || text.length > FLOW_LIMITS.tokenCharsMax || !isBearer) {
    throw callFailure('authentication', `The issuer of \`${scheme}\` gave no bearer token.`)
  }
  checkIssuer(text, given['issuers'])
  return { text, lifetimeMs: (Number(lifetime) || 0) * 1_000 - FLOW_LIMITS.tokenLeewayMs }
}

/** The token endpoint: for `oauth2` a path below the authority or a URL, for `oidc` that of the discovery document. */
async function tokenEndpoint(scheme: Scheme, given: Fields, http: CallHttpClient): Promise<URL> {
  const authority = textOf(given, 'authority', scheme)
  if (scheme === 'oidc') return discoverEndpoint(authority, given, http)
  const { token = '/oauth2/token' } = fieldsOf(given['endpoints'])
  const path = String(token)
  if (/^https?:/i.test(path)) return urlOf(path, '`endpoints.token`')
  return urlOf(`${authority.replace(/\/+$/, '')}/${path.replace(/^\/+/, '')}`, '`authority`')
}

/** Reads the discovery document (OpenID Connect Discovery 1.0 §4). Its issuer must be the authority, or one of `issuers`. */
async function discoverEndpoint(authority: string, given: Fields, http: CallHttpClient): Promise<URL> {
  const base = authority.replace(DISCOVERY, '').replace(/\/+$/, '')
  const response = await oauth.discoveryRequest(urlOf(base, '`authority`'), optionsFor(http))
  const { status } = response
  if (status !== 200) {
    throw callFailure('communication', `The discovery of \`oidc\` answered ${status}.`, { status })
  }
  const named: unknown[] = Array.isArray(given['issuers']) ? given['issuers'] : []
  const issuers = [base, `${base}/`, ...named.map(String)].filter((one) => URL.canParse(one))
  const metadata = await Promise.any(
    issuers.map((issuer) => oauth.processDiscoveryResponse(new URL(issuer), response.clone())),
  ).catch(() => {
    throw callFailure('authentication', 'The discovery document of `oidc` belongs to another issuer.')
  })
  if (metadata.token_endpoint !== undefined) return urlOf(metadata.token_endpoint, 'The token endpoint')
  throw callFailure('authentication', 'The discovery document of `oidc` names no token endpoint.')
}

const DISCOVERY = /\/\.well-known\/openid-configuration$/

function urlOf(text: unknown, subject: string): URL {
  const url = URL.canParse(String(text)) ? new URL(String(text)) : undefined
  if (url !== undefined && /^https?:$/.test(url.protocol) && url.username === '' && url.password === '')
    return url
  throw callFailure('configuration', `${subject} must be an absolute HTTP URI without credentials.`)
}

function parametersOf(scheme: Scheme, grant: string, given: Fields): URLSearchParams {
  if (grant !== 'client_credentials' && grant !== 'password') {
    const detail = `The grant \`${grant}\` is not supported here; use \`client_credentials\` or \`password\`.`
    throw callFailure('configuration', detail)
  }
  const parameters = new URLSearchParams()
  if (grant === 'password') {
    for (const name of ['username', 'password']) parameters.set(name, textOf(given, name, scheme))
  }
  const { scopes, audiences } = given
  if (Array.isArray(scopes) && scopes.length > 0) parameters.set('scope', scopes.join(' '))
  // Each audience is a parameter of its own (RFC 8693 §2.1).
  for (const audience of Array.isArray(audiences) ? audiences : [])
    parameters.append('audience', String(audience))
  return parameters
}

/** The method by which the client authenticates (OWS 1.0: `client_secret_post` by default). */
function authenticationOf(scheme: Scheme, client: Fields): oauth.ClientAuth {
  const { authentication = 'client_secret_post', id } = client
  const text = (name: string) => textOf(client, name, `client\` of \`${scheme}`)
  const named = (body: URLSearchParams) => void (typeof id === 'string' && body.set('client_id', id))
  if (authentication === 'none') return (_issuer, _client, body) => named(body)
  if (authentication === 'private_key_jwt') {
    const assertion = text('assertion')
    return (_issuer, _client, body) => {
      named(body)
      body.set('client_assertion_type', 'urn:ietf:params:oauth:client-assertion-type:jwt-bearer')
      body.set('client_assertion', assertion)
    }
  }
  const name = String(authentication)
  const method = Object.hasOwn(BY_SECRET, name) ? BY_SECRET[name] : undefined
  if (method === undefined)
    throw callFailure('configuration', `There is no client authentication \`${name}\`.`)
  text('id')
  return method(text('secret'))
}

const BY_SECRET: Readonly<Record<string, (secret: string) => oauth.ClientAuth>> = {
  client_secret_post: oauth.ClientSecretPost,
  client_secret_basic: oauth.ClientSecretBasic,
  client_secret_jwt: (secret) => oauth.ClientSecretJwt(secret),
}

/**
 * Lets the library send through the egress guard.
 * @param encoding media type of the request's body, a form or JSON (OWS 1.0 `request.encoding`)
 */
function optionsFor<Method, Body extends URLSearchParams | undefined>(
  http: CallHttpClient,
  encoding = '',
): oauth.HttpRequestOptions<Method, Body> {
  return {
    [oauth.allowInsecureRequests]: true,
    headers: { 'user-agent': 'tenon-flow/1' },
    [oauth.customFetch]: async (href, { method, headers, body: form }) => {
      const url = new URL(href)
      const body = form && (encoding === 'application/json' ? jsonBody(form) : form.toString())
      const sent = body === undefined ? {} : { body, headers: { ...headers, 'content-type': encoding } }
      const outbound = { method: String(method), url, headers, ...sent }
      const { status, body: answer } = await http.send(outbound, FLOW_LIMITS.tokenResponseBytesMax)
      const isEmpty = [204, 205, 304].includes(status)
      return new Response(isEmpty ? null : answer, { status: Math.min(status, 599) })
    },
  }
}

/** Converts a form to JSON. The values of a repeated name become a list. */
function jsonBody(form: URLSearchParams): string {
  const members = [...new Set(form.keys())].map((name) => {
    const values = form.getAll(name)
    return [name, values.length === 1 ? values[0] : values] as const
  })
  return JSON.stringify(Object.fromEntries(members))
}

/** A token that names an issuer must be from one of `issuers`, if there are any (OWS 1.0 "OAUTH2 Authentication"). */
function checkIssuer(token: string, issuers: unknown): void {
  if (!Array.isArray(issuers) || issuers.length === 0) return
  let issuer: string | undefined
  try {
    issuer = decodeJwt(token).iss
  } catch {
    // An opaque token names no issuer.
  }
  if (issuer === undefined || issuers.includes(issuer)) return
  throw callFailure('authentication', 'The token is from an issuer that is not among `issuers`.')
}
