/** The public keys of an issuer elsewhere: read seldom, whatever tokens come, and kept while it is away. */

import { createLocalJWKSet, errors, type JWTVerifyGetKey } from 'jose'
import { LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'
import { type Egress, placeOf } from '../egress.ts'

type KeySet = ReturnType<typeof createLocalJWKSet>

/** What the keys are read with. */
export interface RemoteKeysParts {
  readonly egress: Egress
  /** Milliseconds that never go back. */
  readonly now: () => number
  /** Told each time the keys cannot be read. */
  readonly onFailure: (issuer: string, error: unknown) => void
}

const BOUNDS = { timeoutMs: LIMITS.jwksMs.timeout, bytesMax: LIMITS.externalIssuers.jwksBytesMax }

export class RemoteKeys {
  readonly #issuer: string
  readonly #jwksUri: string | undefined
  readonly #parts: RemoteKeysParts
  /** What the operator has named may be anywhere; what a discovery document names must be public. */
  readonly #places: readonly string[]
  #known: KeySet | undefined
  #loading: Promise<void> | undefined
  #readMs = Number.NEGATIVE_INFINITY
  #askedMs = Number.NEGATIVE_INFINITY
  #failedMs = Number.NEGATIVE_INFINITY

  /** @param jwksUri where the keys are; by OpenID Connect Discovery where absent */
  constructor(issuer: string, jwksUri: string | undefined, parts: RemoteKeysParts) {
    this.#issuer = issuer
    this.#jwksUri = jwksUri
    this.#parts = parts
    this.#places = [placeOf(new URL(jwksUri ?? issuer))]
  }

  /**
   * Finds the key that a token names.
   * @throws a jose error where there is none. @throws Problem `dependency_unavailable` where no keys are known
   */
  readonly find: JWTVerifyGetKey = async (header, token) => {
    try {
      return await (await this.#current())(header, token)
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey)) throw error
      return (await this.#renewed())(header, token)
    }
  }

  async #current(): Promise<KeySet> {
    if (this.#known !== undefined && this.#ageMs() < LIMITS.jwksMs.fresh) return this.#known
    const away = this.#parts.now() - this.#failedMs < LIMITS.jwksMs.fresh
    if (!away || !this.#usable(this.#known)) return this.#renewed()
    // Nobody waits to hear that it still is.
    void this.#tried()
    return this.#known
  }

  async #renewed(): Promise<KeySet> {
    await this.#tried()
    if (this.#usable(this.#known)) return this.#known
    throw new Problem('dependency_unavailable', { detail: 'The keys of the issuer cannot be read.' })
  }

  /** Reads them anew, unless that was tried a moment ago: whatever came of it then stands for a while. Never rejects. */
  async #tried(): Promise<void> {
    const pauseMs = this.#usable(this.#known) ? LIMITS.jwksMs.cooldown : LIMITS.jwksMs.retry
    const due = this.#parts.now() - this.#askedMs >= pauseMs
    if (this.#loading !== undefined || due) await this.#load()
  }

  #usable(known: KeySet | undefined): known is KeySet {
    return known !== undefined && this.#ageMs() < LIMITS.jwksMs.kept
  }

  #ageMs(): number {
    return this.#parts.now() - this.#readMs
  }

  #load(): Promise<void> {
    this.#loading ??= this.#read()
      .catch((error: unknown) => {
        this.#failedMs = this.#parts.now()
        this.#parts.onFailure(this.#issuer, error)
      })
      .finally(() => {
        this.#loading = undefined
      })
    return this.#loading
  }

  async #read(): Promise<void> {
    this.#askedMs = this.#parts.now()
    const uri = this.#jwksUri ?? (await this.#discover())
    this.#known = createLocalJWKSet((await this.#json(new URL(uri))) as never)
    this.#readMs = this.#parts.now()
    this.#failedMs = Number.NEGATIVE_INFINITY
  }

  /** OpenID Connect Discovery 1.0 §4: the document must say whose it is. */
  async #discover(): Promise<string> {
    const url = new URL(`${this.#issuer.replace(/\/$/, '')}/.well-known/openid-configuration`)
    const { issuer, jwks_uri: uri } = (await this.#json(url)) as Record<string, unknown>
    if (issuer !== this.#issuer) throw new TypeError('the discovery document is that of another issuer')
    if (typeof uri !== 'string' || !URL.canParse(uri)) throw new TypeError('it names no keys')
    const { protocol, origin } = new URL(uri)
    if (protocol !== 'https:' && origin !== url.origin) throw new TypeError('its keys are not behind https')
    return uri
  }

  async #json(url: URL): Promise<unknown> {
    const outbound = { method: 'GET', url, headers: { accept: 'application/json' } }
    const { status, body } = await this.#parts.egress.send(outbound, { allowed: this.#places }, BOUNDS)
    if (status !== 200) throw new TypeError(`${url.pathname} answered ${status}`)
    return JSON.parse(body.toString())
  }
}
