/** Clients that come by themselves (RFC 7591): agents that found a hosted MCP server and have no account here. */

import Type, { type Static } from 'typebox'
import { Value } from 'typebox/value'
import { LIMITS } from '../../core/limits.ts'
import { isRedirectUri } from '../../core/redirect-uri.ts'
import { hiddenIn } from '../../core/visible-text.ts'
import { Attempts } from './attempts.ts'
import type { OAuthClients } from './oauth-clients.ts'

const GRANTS = ['authorization_code', 'refresh_token']

/**
 * What counts of what they send. The rest is passed over, `scope` too: clients put there what a server has challenged
 * them for, and which scopes they get is decided when they ask for a token.
 */
const Metadata = Type.Object({
  redirect_uris: Type.Array(Type.String({ maxLength: 2_000 }), {
    minItems: 1,
    maxItems: LIMITS.redirectUrisMax,
    uniqueItems: true,
  }),
  client_name: Type.Optional(Type.String({ maxLength: LIMITS.nameCharsMax })),
  grant_types: Type.Optional(Type.Array(Type.String(), { maxItems: 10 })),
  response_types: Type.Optional(Type.Array(Type.String(), { maxItems: 10 })),
})
type Metadata = Static<typeof Metadata>

export interface Registered {
  readonly status: number
  readonly body: Readonly<Record<string, unknown>>
}

export class Registration {
  readonly #clients: OAuthClients
  readonly #attempts = new Attempts()

  constructor(clients: OAuthClients) {
    this.#clients = clients
  }

  /** @param network whence it comes, as platform/limiter/address has it: one makes so many and no more */
  async take(body: unknown, network: string): Promise<Registered> {
    if (!this.#attempts.admit(network, LIMITS.registrationsPerAddressMax))
      return refusal('temporarily_unavailable', 'too many registrations from this address', 429)
    if (!Value.Check(Metadata, body))
      return refusal('invalid_client_metadata', 'redirect_uris is needed; see RFC 7591')
    const fault = faultOf(body)
    if (fault !== undefined) return fault
    const name = body.client_name ?? 'A client without a name'
    const id = await this.#clients.register(name, body.redirect_uris)
    if (id === undefined) return refusal('temporarily_unavailable', 'there are too many clients', 503)
    return { status: 201, body: answer(id, name, body.redirect_uris) }
  }
}

function faultOf(metadata: Metadata): Registered | undefined {
  const {
    redirect_uris: uris,
    grant_types: grants,
    response_types: responses,
    client_name: name = '',
  } = metadata
  const hidden = hiddenIn(name)
  if (hidden !== undefined) return refusal('invalid_client_metadata', `client_name ${hidden}`)
  if (!uris.every(isRedirectUri))
    return refusal('invalid_redirect_uri', 'each is an https URL, or http of a loopback address')
  if (grants !== undefined && (!grants.includes('authorization_code') || !grants.every(isGrant)))
    return refusal('invalid_client_metadata', `grant_types may be ${GRANTS.join(' and ')}`)
  if (responses?.some((type) => type !== 'code'))
    return refusal('invalid_client_metadata', 'response_types may be code')
  return undefined
}

const isGrant = (text: string) => GRANTS.includes(text)

/** Whatever method of authentication it asked for, it is a public client (RFC 7591 §3.2.1: the reply says so). */
function answer(id: string, name: string, redirectUris: readonly string[]): Record<string, unknown> {
  return {
    client_id: id,
    client_id_issued_at: Math.floor(Date.now() / 1_000),
    client_name: name,
    redirect_uris: redirectUris,
    grant_types: GRANTS,
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
  }
}

const refusal = (error: string, text: string, status = 400): Registered => ({
  status,
  body: { error, error_description: text },
})
