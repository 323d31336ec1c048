/** Authenticates HTTP requests of flows: basic, bearer, digest, OAuth 2.0, OpenID Connect (OWS 1.0 "Authentication"). */

import type { Inbound, Outbound } from '../../infra/http-client/egress.ts'
import { callFailure, type Fields, fieldsOf, textOf } from '../call-failure.ts'
import type { CallHttpClient } from './call-http-client.ts'
import { sendDigest } from './digest.ts'
import type { Tokens } from './oauth-tokens.ts'

/** What stands between a call and the other side: the line, and the tokens of its run. */
export interface CallClients {
  readonly http: CallHttpClient
  readonly tokens: Tokens
  /** The run that calls; a token is never used for another. */
  readonly workflowId: string
  /** Told of tokens that issuers give: they must not be shown either. */
  readonly onToken?: (token: string) => void
}

/**
 * Sends the request with the credentials, which are put into a copy: whoever shows `outbound` later shows none.
 * @param authentication `{scheme, properties}` without expressions, or undefined for nobody
 * @throws ApplicationFailure (final) where the credentials cannot be given: never a request without them
 */
export async function sendAuthenticated(
  authentication: unknown,
  outbound: Outbound,
  way: CallClients,
): Promise<Inbound> {
  const { http: line } = way
  if (authentication === undefined) return line.send(outbound)
  const { scheme, secret, properties } = fieldsOf(authentication)
  if (secret !== undefined)
    throw callFailure('configuration', 'The run has no secrets to take credentials from.')
  const given = fieldsOf(properties)
  if (scheme === 'basic') return line.send(authorized(outbound, basic(given)))
  if (scheme === 'bearer') return line.send(authorized(outbound, bearer(textOf(given, 'token', 'bearer'))))
  if (scheme === 'digest') return sendDigest(nameAndPassword(given, 'digest'), outbound, line)
  if (scheme === 'oauth2' || scheme === 'oidc') return sendWithToken(scheme, given, outbound, way)
  throw callFailure('configuration', `There is no authentication \`${String(scheme)}\`.`)
}

/** A token that is kept may have been revoked since: a request that is refused for it is sent once more with a new one. */
async function sendWithToken(
  scheme: 'oauth2' | 'oidc',
  given: Fields,
  outbound: Outbound,
  { http: line, tokens, workflowId: run, onToken: told }: CallClients,
): Promise<Inbound> {
  const { text, isKept } = await tokens.of(run, scheme, given, line)
  told?.(text)
  const inbound = await line.send(authorized(outbound, bearer(text)))
  if (inbound.status !== 401 || !isKept) return inbound
  tokens.forget(run, scheme, given)
  const renewed = await tokens.of(run, scheme, given, line)
  told?.(renewed.text)
  return line.send(authorized(outbound, bearer(renewed.text)))
}

function authorized(outbound: Outbound, authorization: string): Outbound {
  return { ...outbound, headers: { ...outbound.headers, authorization } }
}

/** RFC 7617: UTF-8, and no colon in the name. */
function basic(given: Fields): string {
  const { username, password } = nameAndPassword(given, 'basic')
  if (username.includes(':')) throw callFailure('authentication', '`username` of `basic` must have no colon.')
  return `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}`
}

/** RFC 6750 §2.1. */
function bearer(token: string): string {
  if (!/^[\x21-\x7e]+$/.test(token)) {
    throw callFailure('authentication', 'The bearer token has characters that no token has.')
  }
  return `Bearer ${token}`
}

function nameAndPassword(given: Fields, scheme: string): { username: string; password: string } {
  return {
    username: textOf(given, 'username', scheme),
    password: textOf(given, 'password', scheme),
  }
}
