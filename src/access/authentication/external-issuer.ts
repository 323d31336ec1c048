/** Verifies tokens of an external issuer against its cached JWKS, and maps their claims to ours. */

import { createLocalJWKSet, errors, type JWTPayload, type JWTVerifyGetKey, jwtVerify } from 'jose'
import { LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'
import { isTenantId, isWorkspaceId } from '../../core/tenant.ts'
import { type Egress, hostAndPort } from '../../infra/http-client/egress.ts'
import type { TrustedIssuer } from '../../infra/trusted-issuers.ts'
import type { Claims } from '../issuer/embedded-issuer.ts'

export class ExternalIssuer {
  readonly #settings: TrustedIssuer
  readonly #keys: JwksCache

  constructor(settings: TrustedIssuer, parts: JwksCacheParts) {
    this.#settings = settings
    this.#keys = new JwksCache(settings.issuer, settings.jwksUri, parts)
  }

  /**
   * Verifies an access token (RFC 8725: a fixed list of algorithms, keys from the configured place alone).
   * @throws a jose error where any of it does not hold, or it says what its issuer may not say
   * @throws Problem `dependency_unavailable` where the issuer's keys are not known
   */
  async verify(token: string): Promise<Claims> {
    const { issuer, audience, algorithms, typ } = this.#settings
    const { payload } = await jwtVerify(token, this.#keys.find, {
      issuer,
      audience: [...audience],
      algorithms: [...algorithms],
      typ,
      requiredClaims: ['exp', 'iat', 'sub'],
      maxTokenAge: LIMITS.externalIssuers.tokenSeconds,
      clockTolerance: 30,
    }).catch((cause: unknown) => {
      if (cause instanceof Problem || cause instanceof errors.JOSEError) throw cause
      // A key that the issuer has published and that is none: too short, or of a kind that Node does not know.
      throw new errors.JWKSInvalid('the key cannot be used', { cause })
    })
    return claimsOf(payload, this.#settings)
  }
}

function claimsOf(payload: JWTPayload, { issuer, claims, roles, tenants }: TrustedIssuer): Claims {
  // Where access tokens are of the type JWT, Keycloak's others are too, and differ by this claim.
  refuseUnless(payload['typ'] === undefined || payload['typ'] === 'Bearer', 'it is no access token')
  const { sub = '' } = payload
  refuseUnless(sub.length <= LIMITS.subjectCharsMax && /^[\x21-\x7e]+$/.test(sub), '"sub" is not of the form')
  const tenantId = at(payload, claims.tenant)
  const workspaceId = at(payload, claims.workspace)
  refuseUnless(tenantId === undefined || isTenantId(tenantId), 'the tenant has not the form of one')
  refuseUnless(
    workspaceId === undefined || isWorkspaceId(workspaceId),
    'the workspace has not the form of one',
  )
  refuseUnless(tenantId !== undefined || workspaceId === undefined, 'it names a workspace of no tenant')
  // An issuer may be run by a tenant: what it says of others is of no weight.
  refuseUnless(tenantId === undefined || (tenants?.has(tenantId) ?? true), 'the tenant is not one of its own')
  return {
    // Two issuers may call two people by the same name, or one of them as we call an account of ours.
    sub: `${issuer}#${sub}`,
    roles: words(at(payload, claims.roles)).flatMap((role) => roles.get(role) ?? []),
    scopes: words(at(payload, claims.scope)),
    ...(tenantId !== undefined && { tenantId }),
    ...(workspaceId !== undefined && { workspaceId }),
  }
}

function refuseUnless(holds: boolean, why: string): asserts holds {
  if (!holds) throw new errors.JWTInvalid(why)
}

/** What stands at a path; own members alone, so that no name reaches what every object has. */
function at(payload: JWTPayload, path: readonly string[]): unknown {
  let value: unknown = payload
  for (const name of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined
    value = (value as Record<string, unknown>)[name]
  }
  return value
}

/** A list of texts, or a text with spaces (RFC 6749 §3.3). */
function words(value: unknown): string[] {
  const list = typeof value === 'string' ? value.split(' ') : value
  return Array.isArray(list) ? list.filter((word) => typeof word === 'string' && word !== '') : []
}

type KeySet = ReturnType<typeof createLocalJWKSet>

/** What the keys are read with. */
export interface JwksCacheParts {
  readonly egress: Egress
  /** Milliseconds that never go back. */
  readonly now: () => number
  /** Told each time the keys cannot be read. */
  readonly onFailure: (issuer: string, error: unknown) => void
}

const BOUNDS = { timeoutMs: LIMITS.jwksMs.timeout, bytesMax: LIMITS.externalIssuers.jwksBytesMax }

export class JwksCache {
  readonly #issuer: string
  readonly #jwksUri: string | undefined
  readonly #parts: JwksCacheParts
  /** What the operator has named may be anywhere; what a discovery document names must be public. */
  readonly #places: readonly string[]
  #known: KeySet | undefined
  #loading: Promise<void> | undefined
  #readMs = Number.NEGATIVE_INFINITY
  #askedMs = Number.NEGATIVE_INFINITY
  #failedMs = Number.NEGATIVE_INFINITY

  /** @param jwksUri where the keys are; by OpenID Connect Discovery where absent */
  constructor(issuer: string, jwksUri: string | undefined, parts: JwksCacheParts) {
    this.#issuer = issuer
    this.#jwksUri = jwksUri
    this.#parts = parts
    this.#places = [hostAndPort(new URL(jwksUri ?? issuer))]
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
