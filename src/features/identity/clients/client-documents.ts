/**
 * Clients whose id is the URL of a document that describes them (draft-ietf-oauth-client-id-metadata-document). Anonymous
 * callers choose the URL: the document is read through the egress guard, and the client gets no more than one that
 * registered itself.
 */

import { LRUCache } from 'lru-cache'
import { errors } from 'oidc-provider'
import Type, { type Static } from 'typebox'
import { Value } from 'typebox/value'
import { AttemptThrottle } from '../../../access/authentication/attempt-throttle.ts'
import { networkOf } from '../../../access/rate-limit/memory-buckets.ts'
import { CORE_LIMITS } from '../../../core/limits.ts'
import { Problem } from '../../../core/problem.ts'
import type { Config } from '../../../infra/config.ts'
import { type Egress, hostAndPort, type Inbound } from '../../../infra/http-client/egress.ts'
import type { IssuerAudit, Requester } from '../issuer/audit-events.ts'
import { ISSUER_LIMITS } from '../limits.ts'
import { clientNameFault, type OAuthClient, type OAuthClients } from './oauth-clients-store.ts'
import { REDIRECT_URI_RULE, usableRedirectUris } from './redirect-uris.ts'

const {
  bytesMax,
  timeoutMs,
  freshSeconds,
  failureCacheMs: failureMs,
  failuresCachedMax: failuresMax,
  readsMax: concurrentMax,
} = ISSUER_LIMITS.clientDocuments
const BOUNDS = { bytesMax, timeoutMs }

/** The evaluated members; the rest is ignored, including keys and scopes. */
const Document = Type.Object({
  client_id: Type.String(),
  client_name: Type.Optional(Type.String({ minLength: 1, maxLength: CORE_LIMITS.nameCharsMax })),
  redirect_uris: Type.Array(Type.String({ maxLength: 2_000 }), { minItems: 1, maxItems: 100 }),
  grant_types: Type.Optional(Type.Array(Type.String(), { maxItems: 20 })),
  response_types: Type.Optional(Type.Array(Type.String(), { maxItems: 20 })),
  token_endpoint_auth_method: Type.Optional(Type.String()),
})

/** A document without faults. */
interface ReadDocument {
  readonly name: string
  readonly redirectUris: readonly string[]
  /** How long it needs not be read again. */
  readonly freshSeconds: number
}

/** Why a document was not used. */
class DocumentFailure extends Error {
  /** Its server did not answer, or has a fault: an earlier copy of the document may still be right. */
  readonly isTemporary: boolean

  constructor(message: string, isTemporary = false) {
    super(message)
    this.isTemporary = isTemporary
  }
}

interface Services {
  readonly clients: OAuthClients
  readonly egress: Egress
  readonly audit: IssuerAudit
  readonly config: Pick<Config, 'TENON_CLIENT_ID_HOSTS' | 'TENON_REGISTRATIONS_PER_ADDRESS'>
}

export class ClientDocuments {
  readonly #services: Services
  /** `host:port` texts that may be read although their addresses are not public. */
  readonly #hosts: readonly string[]
  readonly #throttle = new AttemptThrottle()
  /** Keeps a client with a faulty document from making this process read it with each request. */
  readonly #failures = new LRUCache<string, DocumentFailure>({ max: failuresMax, ttl: failureMs })
  readonly #reading = new Map<string, Promise<void>>()

  constructor(services: Services) {
    this.#services = services
    this.#hosts = services.config.TENON_CLIENT_ID_HOSTS.split(',')
  }

  /**
   * The client that a document describes, read again if the stored copy is not fresh. While its server fails, the copy stays
   * valid for `ISSUER_LIMITS.clientDocuments.keptHours`.
   * @param id as `isDocumentId` accepts it
   * @throws InvalidClient with the reason
   */
  async resolve(id: string, by: Requester): Promise<OAuthClient> {
    const known = await this.#services.clients.findDocument(id)
    if (known?.isFresh === true) return known
    try {
      await this.#refresh(id, by)
    } catch (cause) {
      if (!(cause instanceof DocumentFailure)) throw cause
      if (cause.isTemporary && known?.isKept === true) return known
      throw new errors.InvalidClient(`the document of the client cannot be used: ${cause.message}`)
    }
    const client = await this.#services.clients.findDocument(id)
    if (client === undefined) throw new errors.InvalidClient('the client was deleted')
    return client
  }

  async #refresh(id: string, by: Requester): Promise<void> {
    const failed = this.#failures.get(id)
    if (failed !== undefined) throw failed
    const reading = this.#reading.get(id) ?? this.#start(id, by)
    await reading
  }

  #start(id: string, by: Requester): Promise<void> {
    const { TENON_REGISTRATIONS_PER_ADDRESS: max } = this.#services.config
    if (this.#reading.size >= concurrentMax || !this.#throttle.admit(networkOf(by.address), max))
      throw new DocumentFailure('too many client documents are being read; try again later', true)
    const reading = this.#readAndStore(id, by).finally(() => this.#reading.delete(id))
    this.#reading.set(id, reading)
    return reading
  }

  async #readAndStore(id: string, by: Requester): Promise<void> {
    const { clients, audit } = this.#services
    try {
      const document = await this.#read(id)
      const stored = await clients.storeDocument(id, document)
      if (stored === undefined) throw new DocumentFailure('there are too many clients', true)
      if (stored.hasChanged) audit.documentRead(by, id, document.name)
    } catch (cause) {
      if (!(cause instanceof DocumentFailure)) throw cause
      this.#failures.set(id, cause)
      audit.documentRefused(by, id)
      throw cause
    }
  }

  /** @throws DocumentFailure, with the same text for all addresses that cannot be reached */
  async #read(id: string): Promise<ReadDocument> {
    const url = new URL(id)
    if (url.protocol !== 'https:' && !this.#hosts.includes(hostAndPort(url)))
      throw new DocumentFailure('it cannot be read')
    const outbound = { method: 'GET', url, headers: { accept: 'application/json' } }
    const reply = await this.#services.egress
      .send(outbound, { allowed: this.#hosts }, BOUNDS)
      .catch((cause: unknown) => {
        if (!(cause instanceof Problem)) throw cause
        if (cause.code === 'upstream_invalid') throw new DocumentFailure(`it has more than ${bytesMax} bytes`)
        throw new DocumentFailure('it cannot be read', cause.code !== 'egress_refused')
      })
    return documentIn(id, reply)
  }
}

/** @throws DocumentFailure */
function documentIn(id: string, { status, headers, body }: Inbound): ReadDocument {
  if (status !== 200) throw new DocumentFailure(`its server answered ${status}`, status >= 500)
  if (!/^application\/([\w.-]+\+)?json *(;|$)/i.test(headers['content-type'] ?? ''))
    throw new DocumentFailure('its content type is not application/json')
  const document = parsed(body)
  if (!Value.Check(Document, document)) throw new DocumentFailure('it needs client_id and redirect_uris')
  if (document.client_id !== id) throw new DocumentFailure('its client_id is not its URL')
  if ('client_secret' in document || 'client_secret_expires_at' in document)
    throw new DocumentFailure('it contains a secret')
  const redirectUris = usableRedirectUris(document.redirect_uris)
  const fault = faultOf(document, redirectUris)
  if (fault !== undefined) throw new DocumentFailure(fault)
  const name = document.client_name ?? new URL(id).host
  return { name, redirectUris, freshSeconds: freshSecondsOf(headers) }
}

function parsed(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString())
  } catch {
    throw new DocumentFailure('it is not JSON')
  }
}

/** A document is for many issuers, so what another one may need is ignored: further grants, other redirect URIs. */
function faultOf(document: Static<typeof Document>, usable: readonly string[]): string | undefined {
  const { client_name: name = '', grant_types: grants, response_types: responses } = document
  const { token_endpoint_auth_method: method = 'none' } = document
  const fault = clientNameFault(name)
  if (fault !== undefined) return `client_name ${fault}`
  if (method !== 'none') return 'token_endpoint_auth_method must be none'
  if (grants?.includes('authorization_code') === false) return 'grant_types must include authorization_code'
  if (responses?.includes('code') === false) return 'response_types must include code'
  if (usable.length === 0) return `no redirect URI is ${REDIRECT_URI_RULE}`
  return usable.length > ISSUER_LIMITS.redirectUrisMax
    ? `it has more than ${ISSUER_LIMITS.redirectUrisMax} redirect URIs`
    : undefined
}

/** As `Cache-Control` says (RFC 9111 §5.2.2.1), within bounds. */
function freshSecondsOf(headers: Inbound['headers']): number {
  const control = headers['cache-control'] ?? ''
  const { min, default: usual, max } = freshSeconds
  if (/\bno-(store|cache)\b/i.test(control)) return min
  const [, age] = /\bmax-age=(\d{1,9})\b/i.exec(control) ?? []
  return Math.min(max, Math.max(min, age === undefined ? usual : Number(age)))
}
