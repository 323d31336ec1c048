/** Signs and reads links to objects: each carries one request for one object, and acts as the credential that made it. */

import { createHmac, timingSafeEqual } from 'node:crypto'
import type { LinkTerms, Principal } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import { isTenantId, isWorkspaceId, type WorkspaceRef } from '../../core/tenant.ts'
import { purposeIn, type Secrets } from '../../infra/crypto/secrets.ts'
import type { Claims } from './claims.ts'

/** The request that a link carries. */
export interface LinkedRequest {
  /** A link for GET also carries HEAD. */
  readonly method: string
  readonly bucket: string
  readonly key: string
}

/** The credential that made a link: an API key by its id, or a token by its claims. */
export type LinkMaker = { readonly keyId: string } | { readonly claims: Claims }

export interface ObjectLink {
  readonly ref: WorkspaceRef
  readonly maker: LinkMaker
  /** Milliseconds since 1970. */
  readonly expiresMs: number
  readonly terms: LinkTerms
}

/** The members of a link that can be read without a key. Claims are sealed, since they name the address of a user. */
type Wire = readonly [
  tenant: string,
  workspace: string,
  method: string,
  expiresMs: number,
  keyId: string | null,
  claims: string | null,
  terms: LinkTerms,
]

const PURPOSE = 'object-links'

/** @returns the value of the parameter `link` */
export function signLink(
  secrets: Secrets,
  { method, bucket, key }: LinkedRequest,
  { ref, maker, expiresMs, terms }: ObjectLink,
): string {
  const sealed =
    'claims' in maker
      ? secrets.seal(purposeIn(ref, PURPOSE), Buffer.from(JSON.stringify(maker.claims))).toString('base64url')
      : null
  const keyId = 'keyId' in maker ? maker.keyId : null
  const wire: Wire = [ref.tenantId, ref.workspaceId, method, expiresMs, keyId, sealed, terms]
  const signed = Buffer.from(JSON.stringify(wire)).toString('base64url')
  return `${signed}.${macOf(secrets.derive(purposeIn(ref, PURPOSE)), [signed, bucket, key])}`
}

/**
 * Reads a link that a request was sent with. Its expiry, and whether its maker still has the right, are for the caller to check.
 * @throws Problem `link_invalid` if this platform did not make it for this request
 */
export function readLink(secrets: Secrets, text: string, request: LinkedRequest): ObjectLink {
  const [signed = '', mac = '', ...more] = text.split('.')
  const wire = more.length === 0 ? wireOf(signed) : undefined
  const ref = wire && refOf(wire)
  if (wire === undefined || ref === undefined) throw new Problem('link_invalid')
  const keys = secrets.deriveAll(purposeIn(ref, PURPOSE))
  if (!keys.some((key) => isEqual(mac, macOf(key, [signed, request.bucket, request.key]))))
    throw new Problem('link_invalid')
  const [, , method, expiresMs, keyId, sealed, terms] = wire
  if (method !== (request.method === 'HEAD' ? 'GET' : request.method))
    throw new Problem('link_invalid', { detail: `The link is for ${method}.` })
  const maker =
    keyId === null
      ? { claims: claimsIn(secrets.open(purposeIn(ref, PURPOSE), Buffer.from(sealed ?? '', 'base64url'))) }
      : { keyId }
  return { ref, maker, expiresMs, terms }
}

/** The maker of a link, as the link names it. @throws Problem `forbidden` if it can make none */
export function makerOf(
  subject: string,
  credential: Pick<Principal, 'kind' | 'claims'> | undefined,
): LinkMaker {
  if (credential?.kind === 'api_key') return { keyId: subject }
  if (credential?.claims !== undefined) return { claims: credential.claims as Claims }
  throw new Problem('forbidden', {
    detail:
      'A link ends with the credential that made it, so it is made with an API key or a token: not by code of a function, nor under the identity of a gateway.',
  })
}

/**
 * When a link of this maker ends at the latest, in milliseconds since 1970. Keys, and users of the platform, are asked about at each
 * use. Of any other token only its own expiry is known.
 */
export function lastsUntil(maker: LinkMaker): number {
  if ('keyId' in maker) return Number.POSITIVE_INFINITY
  const { user, credential, expiresMs } = maker.claims
  return user !== undefined && credential !== undefined ? Number.POSITIVE_INFINITY : expiresMs
}

function wireOf(signed: string): Wire | undefined {
  try {
    const wire: unknown = JSON.parse(Buffer.from(signed, 'base64url').toString())
    return Array.isArray(wire) ? (wire as unknown as Wire) : undefined
  } catch {
    return undefined
  }
}

function refOf([tenantId, workspaceId]: Wire): WorkspaceRef | undefined {
  return isTenantId(tenantId) && isWorkspaceId(workspaceId) ? { tenantId, workspaceId } : undefined
}

const claimsIn = (json: Buffer): Claims => JSON.parse(json.toString())

/** @param key of the workspace alone @param parts as JSON, so that none runs into the next */
const macOf = (key: string, parts: readonly string[]): string =>
  createHmac('sha256', key).update(JSON.stringify(parts)).digest('base64url')

/** In a time that depends on the lengths alone. */
function isEqual(given: string, own: string): boolean {
  const [left, right] = [Buffer.from(given), Buffer.from(own)]
  return left.length === right.length && timingSafeEqual(left, right)
}
