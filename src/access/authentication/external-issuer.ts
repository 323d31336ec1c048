/** Verifies tokens of an external issuer against its cached JWKS, and maps their claims to ours. */

import { createLocalJWKSet, errors, type JWTPayload, type JWTVerifyGetKey, jwtVerify } from 'jose'
import { isObject } from '../../core/json.ts'
import { CORE_LIMITS } from '../../core/limits.ts'
import { GROUP_PATTERN } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import { isTenantId, isWorkspaceId } from '../../core/tenant.ts'
import { type Egress, hostAndPort } from '../../infra/http-client/egress.ts'
import { INFRA_LIMITS } from '../../infra/limits.ts'
import type { TrustedIssuer } from '../../infra/trusted-issuers.ts'
import { ACCESS_LIMITS } from '../limits.ts'
import {
  type Claims,
  type HostedClaims,
  type HostedTokenIssuer,
  proofOf,
  type TokenIssuer,
} from './claims.ts'

export class ExternalIssuer implements TokenIssuer, HostedTokenIssuer {
  readonly #settings: TrustedIssuer
  readonly #keys: JwksCache

  constructor(settings: TrustedIssuer, parts: JwksCacheOptions) {
    this.#settings = settings
    this.#keys = new JwksCache(settings.issuer, settings.jwksUri, parts)
  }

  /**
   * Verifies an access token (RFC 8725: a fixed list of algorithms, keys from the configured location only).
   * @throws a jose error if it is invalid, or claims what its issuer may not grant
   * @throws Problem `dependency_unavailable` if the issuer's keys are unknown
   */
  async verify(token: string): Promise<Claims> {
    return claimsOf(await this.#payload(token, this.#settings.audience), this.#settings)
  }

  /**
   * Verifies an access token for one hosted MCP server, as {@link verify} does; `aud` must be that resource alone. Users of
   * a workspace have no access to hosted servers.
   * @throws a jose error, or a Problem, as {@link verify}
   */
  async verifyHosted(token: string, resource: string): Promise<HostedClaims> {
    const payload = await this.#payload(token, [resource])
    assertClaim([payload.aud].flat().length === 1, '"aud" names more than one resource')
    const { sub, user, tenantId, workspaceId, scopes } = claimsOf(payload, this.#settings)
    assertClaim(user === undefined, 'it is of a user of a workspace')
    const { jti, client_id: named, azp: client = named } = payload
    assertClaim(typeof client === 'string' && isPrintable(client), 'it names no client')
    const isMachine = isOfMachine(payload)
    const { issuer } = this.#settings
    return {
      authorizationServer: issuer,
      // Ids of clients may be equal to ours, as those of subjects.
      clientId: `${issuer}#${client}`,
      isPerson: !isMachine,
      ...{ sub, tokenId: jti, tenantId, workspaceId, scopes: new Set(scopes) },
      ...{ serverId: undefined, version: undefined },
      proof: proofOf(payload, isMachine),
    }
  }

  async #payload(token: string, audience: readonly string[]): Promise<JWTPayload> {
    const { issuer, algorithms, typ } = this.#settings
    const { payload } = await jwtVerify(token, this.#keys.find, {
      issuer,
      audience: [...audience],
      algorithms: [...algorithms],
      typ,
      requiredClaims: ['exp', 'iat', 'sub'],
      maxTokenAge: ACCESS_LIMITS.externalTokenSeconds,
      clockTolerance: 30,
    }).catch((cause: unknown) => {
      if (cause instanceof Problem || cause instanceof errors.JOSEError) throw cause
      // The issuer published an unusable key: too short, or of a type that Node does not support.
      throw new errors.JWKSInvalid('the key cannot be used', { cause })
    })
    return payload
  }
}

/** RFC 9068 §2.2; Keycloak has an account for each machine, and the claim `clientAddress` in tokens of such accounts alone. */
const isOfMachine = ({ sub, clientAddress, client_id: named, azp = named }: JWTPayload): boolean =>
  sub === azp || clientAddress !== undefined

const isPrintable = (text: string) =>
  text.length <= CORE_LIMITS.subjectCharsMax && /^[\x21-\x7e]+$/.test(text)

function claimsOf(payload: JWTPayload, { issuer, claims, roles, tenants }: TrustedIssuer): Claims {
  // Keycloak's access and other tokens may share the header type JWT; this claim distinguishes them.
  assertClaim(payload['typ'] === undefined || payload['typ'] === 'Bearer', 'it is no access token')
  const { sub = '' } = payload
  assertClaim(isPrintable(sub), '"sub" is not of the form')
  const tenantId = claimAt(payload, claims.tenant)
  const workspaceId = claimAt(payload, claims.workspace)
  assertClaim(tenantId === undefined || isTenantId(tenantId), 'the tenant has not the form of one')
  assertClaim(
    workspaceId === undefined || isWorkspaceId(workspaceId),
    'the workspace has not the form of one',
  )
  assertClaim(tenantId !== undefined || workspaceId === undefined, 'it names a workspace of no tenant')
  // A tenant may run its own issuer, which must not grant access to others.
  assertClaim(tenantId === undefined || (tenants?.has(tenantId) ?? true), 'the tenant is not one of its own')
  const own = words(claimAt(payload, claims.roles)).flatMap((role) => roles.get(role) ?? [])
  return {
    // Subjects of two issuers, or of the embedded one, may be equal.
    sub: `${issuer}#${sub}`,
    expiresMs: (payload.exp ?? 0) * 1_000,
    roles: own,
    scopes: words(claimAt(payload, claims.scope)),
    groups: groupsIn(claims.groups === undefined ? undefined : claimAt(payload, claims.groups)),
    ...(own.includes('user') && { user: userIn(payload, claims.user) }),
    tenantId,
    workspaceId,
    proof: proofOf(payload, isOfMachine(payload)),
  }
}

/** The standard claims about a person (OpenID Connect Core 1.0 §5.1), and the object at `path`. */
function userIn(payload: JWTPayload, path: readonly string[]): NonNullable<Claims['user']> {
  const { email, email_verified: verified } = payload
  const custom = claimAt(payload, path)
  return {
    email: typeof email === 'string' ? email.toLowerCase() : '',
    emailVerified: verified === true,
    claims: isObject(custom) ? custom : {},
  }
}

function assertClaim(holds: boolean, why: string): asserts holds {
  if (!holds) throw new errors.JWTInvalid(why)
}

/** The claim at a path of own members. */
function claimAt(payload: JWTPayload, path: readonly string[]): unknown {
  let value: unknown = payload
  for (const name of path) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, name)) return undefined
    value = (value as Record<string, unknown>)[name]
  }
  return value
}

/** The words of a list, or of a text separated by spaces (RFC 6749 §3.3). */
function words(value: unknown): string[] {
  const list = typeof value === 'string' ? value.split(' ') : value
  return Array.isArray(list) ? list.filter((word) => typeof word === 'string' && word !== '') : []
}

const GROUP = new RegExp(GROUP_PATTERN)

/** The groups that approvers can be named by; an issuer may have others, which count for nothing. */
const groupsIn = (value: unknown): string[] =>
  words(value)
    .filter((name) => GROUP.test(name))
    .slice(0, ACCESS_LIMITS.externalGroupsMax)

type KeySet = ReturnType<typeof createLocalJWKSet>

interface JwksCacheOptions {
  readonly egress: Egress
  /** Milliseconds that never go back. */
  readonly now: () => number
  /** Called when the keys cannot be read. */
  readonly onFailure: (issuer: string, error: unknown) => void
}

const BOUNDS = { timeoutMs: ACCESS_LIMITS.jwks.timeoutMs, bytesMax: INFRA_LIMITS.jwksBytesMax }

/** The keys of an issuer: reloaded when they are old or a key is unknown, and kept for a while if that fails. */
class JwksCache {
  readonly #issuer: string
  readonly #jwksUri: string | undefined
  readonly #services: JwksCacheOptions
  /** The configured host may be private; one that a discovery document names must be public. */
  readonly #allowed: readonly string[]
  #known: KeySet | undefined
  #loading: Promise<void> | undefined
  #readMs = Number.NEGATIVE_INFINITY
  #startedMs = Number.NEGATIVE_INFINITY
  #failedMs = Number.NEGATIVE_INFINITY

  /** @param jwksUri found by OpenID Connect Discovery if undefined */
  constructor(issuer: string, jwksUri: string | undefined, parts: JwksCacheOptions) {
    this.#issuer = issuer
    this.#jwksUri = jwksUri
    this.#services = parts
    this.#allowed = [hostAndPort(new URL(jwksUri ?? issuer))]
  }

  /**
   * Finds the key that a token names.
   * @throws a jose error if there is none. @throws Problem `dependency_unavailable` if no keys are known
   */
  readonly find: JWTVerifyGetKey = async (header, token) => {
    try {
      return await (await this.#current())(header, token)
    } catch (error) {
      if (!(error instanceof errors.JWKSNoMatchingKey)) throw error
      return (await this.#reloaded())(header, token)
    }
  }

  async #current(): Promise<KeySet> {
    if (this.#known !== undefined && this.#ageMs() < ACCESS_LIMITS.jwks.freshMs) return this.#known
    const hasFailed = this.#services.now() - this.#failedMs < ACCESS_LIMITS.jwks.freshMs
    if (!hasFailed || !this.#usable(this.#known)) return this.#reloaded()
    // In the background: the issuer was unavailable a moment ago.
    void this.#reloadIfDue()
    return this.#known
  }

  async #reloaded(): Promise<KeySet> {
    await this.#reloadIfDue()
    if (this.#usable(this.#known)) return this.#known
    throw new Problem('dependency_unavailable', { detail: 'The keys of the issuer cannot be read.' })
  }

  /** Reloads the keys unless that was tried a moment ago. Never rejects. */
  async #reloadIfDue(): Promise<void> {
    const pauseMs = this.#usable(this.#known) ? ACCESS_LIMITS.jwks.cooldownMs : ACCESS_LIMITS.jwks.retryMs
    const due = this.#services.now() - this.#startedMs >= pauseMs
    if (this.#loading !== undefined || due) await this.#load()
  }

  #usable(known: KeySet | undefined): known is KeySet {
    return known !== undefined && this.#ageMs() < ACCESS_LIMITS.jwks.keptMs
  }

  #ageMs(): number {
    return this.#services.now() - this.#readMs
  }

  #load(): Promise<void> {
    this.#loading ??= this.#read()
      .catch((error: unknown) => {
        this.#failedMs = this.#services.now()
        this.#services.onFailure(this.#issuer, error)
      })
      .finally(() => {
        this.#loading = undefined
      })
    return this.#loading
  }

  async #read(): Promise<void> {
    this.#startedMs = this.#services.now()
    const uri = this.#jwksUri ?? (await this.#discover())
    this.#known = createLocalJWKSet((await this.#json(new URL(uri))) as never)
    this.#readMs = this.#services.now()
    this.#failedMs = Number.NEGATIVE_INFINITY
  }

  /** Reads the discovery document, which must name this issuer (OpenID Connect Discovery 1.0 §4). */
  async #discover(): Promise<string> {
    const url = new URL(`${this.#issuer.replace(/\/$/, '')}/.well-known/openid-configuration`)
    const { issuer, jwks_uri: uri } = (await this.#json(url)) as Record<string, unknown>
    if (issuer !== this.#issuer) throw new TypeError('the discovery document is that of another issuer')
    if (typeof uri !== 'string' || !URL.canParse(uri))
      throw new TypeError('the discovery document has no jwks_uri')
    const { protocol, origin } = new URL(uri)
    if (protocol !== 'https:' && origin !== url.origin)
      throw new TypeError('the keys of the issuer are not served over https')
    return uri
  }

  async #json(url: URL): Promise<unknown> {
    const outbound = { method: 'GET', url, headers: { accept: 'application/json' } }
    const { status, body } = await this.#services.egress.send(outbound, { allowed: this.#allowed }, BOUNDS)
    if (status !== 200) throw new TypeError(`${url.pathname} answered ${status}`)
    return JSON.parse(body.toString())
  }
}
