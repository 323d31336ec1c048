/** An issuer elsewhere: its tokens verified, and what they say in our words, as far as it may say that. */

import { errors, type JWTPayload, jwtVerify } from 'jose'
import { LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'
import { isTenantId, isWorkspaceId } from '../../core/tenant.ts'
import type { TrustedIssuer } from '../trusted-issuers.ts'
import type { Claims } from './identity.ts'
import { RemoteKeys, type RemoteKeysParts } from './remote-keys.ts'

export class ExternalIssuer {
  readonly #settings: TrustedIssuer
  readonly #keys: RemoteKeys

  constructor(settings: TrustedIssuer, parts: RemoteKeysParts) {
    this.#settings = settings
    this.#keys = new RemoteKeys(settings.issuer, settings.jwksUri, parts)
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
