/** Authenticates HTTP requests of flows: basic, bearer, digest, OAuth 2.0, OpenID Connect (OWS 1.0 "Authentication"). */

import type { Inbound, Outbound } from '../../infra/http-client/egress.ts'
import { callFailure, type Fields, fieldsOf, textOf } from '../call-failure.ts'
import type { CallHttpClient } from './call-http-client.ts'
import { sendDigest } from './digest.ts'
import type { Tokens } from './oauth-tokens.ts'

/** The clients that a call uses: for HTTP, and for access tokens. */
export interface CallClients {
  readonly http: CallHttpClient
  readonly tokens: Tokens
  /** The workflow that calls. A token is never used for another. */
  readonly workflowId: string
  /** Sent with requests that are not safe, unless the flow gives another. */
  readonly idempotencyKey?: string
  /** Stores an object with these arguments of `object.put`; absent for calls that may be made twice. */
  readonly store?: (args: Fields) => Promise<unknown>
  /** Gets each token that an issuer returns, so that it can be redacted. */
  readonly onToken?: (token: string) => void
  /** Masks the secrets of the call in a text that may end within one. */
  readonly redactExcerpt?: (text: string) => string
}

/**
 * Sends the request with credentials. They are added to a copy, so that `outbound` can be shown later.
 * @param authentication `{scheme, properties}` without expressions; undefined for none
 * @throws ApplicationFailure (final) if the credentials are invalid or cannot be obtained; the request is not sent then
 */
export async function sendAuthenticated(
  authentication: unknown,
  outbound: Outbound,
  clients: CallClients,
): Promise<Inbound> {
  const { http } = clients
  if (authentication === undefined) return http.send(outbound)
  const { scheme, secret, properties } = fieldsOf(authentication)
  if (secret !== undefined)
    throw callFailure('configuration', 'The execution has no secrets to take credentials from.')
  const given = fieldsOf(properties)
  if (scheme === 'basic') return http.send(authorized(outbound, basic(given)))
  if (scheme === 'bearer') return http.send(authorized(outbound, bearer(textOf(given, 'token', 'bearer'))))
  if (scheme === 'digest') return sendDigest(nameAndPassword(given, 'digest'), outbound, http)
  if (scheme === 'oauth2' || scheme === 'oidc') return sendWithToken(scheme, given, outbound, clients)
  throw callFailure('configuration', `There is no authentication \`${String(scheme)}\`.`)
}

/** Sends the request with a token. If a cached token is rejected with 401, it may be revoked: the request is repeated with a new one. */
async function sendWithToken(
  scheme: 'oauth2' | 'oidc',
  given: Fields,
  outbound: Outbound,
  { http, tokens, workflowId, onToken }: CallClients,
): Promise<Inbound> {
  const { text, isCached } = await tokens.get(workflowId, scheme, given, http)
  onToken?.(text)
  const inbound = await http.send(authorized(outbound, bearer(text)))
  if (inbound.status !== 401 || !isCached) return inbound
  tokens.delete(workflowId, scheme, given)
  const renewed = await tokens.get(workflowId, scheme, given, http)
  onToken?.(renewed.text)
  return http.send(authorized(outbound, bearer(renewed.text)))
}

function authorized(outbound: Outbound, authorization: string): Outbound {
  return { ...outbound, headers: { ...outbound.headers, authorization } }
}

/** The header of basic authentication (RFC 7617): UTF-8, and no colon in the name. */
function basic(given: Fields): string {
  const { username, password } = nameAndPassword(given, 'basic')
  if (username.includes(':')) throw callFailure('authentication', '`username` of `basic` must have no colon.')
  return `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`
}

/** The header of a bearer token (RFC 6750 §2.1). */
function bearer(token: string): string {
  if (!/^[\x21-\x7e]+$/.test(token)) {
    throw callFailure('authentication', 'The bearer token has characters that tokens must not have.')
  }
  return `Bearer ${token}`
}

function nameAndPassword(given: Fields, scheme: string): { username: string; password: string } {
  return {
    username: textOf(given, 'username', scheme),
    password: textOf(given, 'password', scheme),
  }
}
