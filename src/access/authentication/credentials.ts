/** Extracts the credentials of a request (API key, bearer token, gateway headers), and defines the form of API keys. */

import { createHash, hash, randomBytes, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { crc32 } from 'node:zlib'
import { CORE_LIMITS } from '../../core/limits.ts'
import type { ApiKeyKind, KeyKind } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import { isTenantId, isWorkspaceId, type TenantId, type WorkspaceId } from '../../core/tenant.ts'

/** One credential of a request, not verified. */
export type Credential =
  | { readonly kind: 'api_key'; readonly text: string }
  | { readonly kind: 'token'; readonly text: string }
  | { readonly kind: 'gateway'; readonly identity: GatewayIdentity }
  | Signature

/** The signature of a request of the S3 API, by the secret of a storage key, which is never sent. */
export interface Signature {
  readonly kind: 'signature'
  /** The id of the key. */
  readonly keyId: string
  /** @throws Problem `SignatureDoesNotMatch` */
  readonly verify: (secret: string) => void
}

/** The parts of a request that may hold credentials. */
export interface CredentialSources {
  readonly headers: IncomingHttpHeaders
  /** Alternating names and values: `headers` holds only the first of two Authorization headers. */
  readonly rawHeaders: readonly string[]
  readonly query: Readonly<Record<string, unknown>>
  /** Set if the gateway's secret was sent with it. */
  readonly gateway?: GatewayIdentity | undefined
  /** The token of the session in which the Temporal UI reads payloads. */
  readonly pageToken?: string | undefined
}

/**
 * The credentials of a request, by precedence: the API key, from whichever location, and the Bearer token; without both, the
 * token of a page session, or else the identity of the gateway. An empty header is an invalid credential, not an absent one.
 * @throws Problem `service_key_in_query`, `anon_key_in_query`, `credentials_conflict`, `token_invalid`
 */
export function credentialsOf(
  { headers, rawHeaders, query, gateway, pageToken }: CredentialSources,
  options: { readonly keyInQuery?: boolean } = {},
): Credential[] {
  const inQuery = keyInUrl(query['apikey'], options.keyInQuery)
  if (countHeader('authorization', rawHeaders) > 1) throw new Problem('credentials_conflict')
  const { scheme, value } = authorization(headers.authorization)
  const bearerKey = scheme === 'bearer' && value.startsWith('svc_')
  const keys = [
    headers['apikey'],
    headers['x-api-key'],
    scheme === 'apikey' || bearerKey ? value : undefined,
    inQuery,
  ].filter((key) => key !== undefined)
  const token = scheme === 'bearer' && !bearerKey ? value : undefined
  const [first] = keys
  // No credential holds a comma: a header with one was sent twice and joined (RFC 9110 §5.2).
  if (keys.some((key) => key !== first || key.includes(',')) || token?.includes(','))
    throw new Problem('credentials_conflict')
  const found: Credential[] = []
  if (first !== undefined) found.push({ kind: 'api_key', text: String(first) })
  if (token !== undefined) found.push({ kind: 'token', text: token })
  if (found.length === 0 && pageToken !== undefined) found.push({ kind: 'token', text: pageToken })
  if (found.length === 0 && gateway !== undefined) found.push({ kind: 'gateway', identity: gateway })
  return found
}

/** @throws Problem if the URL may not hold a key, or holds several */
function keyInUrl(value: unknown, allowed = false): string | undefined {
  if (value === undefined) return undefined
  const keys = [value].flat()
  if (!keys.every((key) => typeof key === 'string' && key.startsWith('svc_anon_')))
    throw new Problem('service_key_in_query')
  if (!allowed) throw new Problem('anon_key_in_query')
  if (keys.length > 1) throw new Problem('credentials_conflict')
  return String(keys[0])
}

/** How often a header was sent. @param name in small letters */
export function countHeader(name: string, rawHeaders: readonly string[]): number {
  let count = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const sent = rawHeaders[at]
    if (sent?.length === name.length && sent.toLowerCase() === name) count += 1
  }
  return count
}

/** @throws Problem `token_invalid` for an unknown scheme, or one without a value */
function authorization(header: string | undefined): { scheme?: 'bearer' | 'apikey'; value: string } {
  if (header === undefined) return { value: '' }
  const [, scheme = '', value = ''] = /^(\S+) +(\S.*)$/.exec(header) ?? []
  const known = scheme.toLowerCase()
  if (known === 'bearer' || known === 'apikey') return { scheme: known, value: value.trim() }
  throw new Problem('token_invalid', {
    detail: 'The header Authorization supports the schemes Bearer and ApiKey.',
  })
}

const SECRET = 'x-gateway-secret'
const IDENTITY = ['x-tenant-id', 'x-workspace-id', 'x-auth-subject', 'x-pg-role'] as const

/** The identity headers of a request, not validated. */
export type GatewayIdentity = Readonly<Partial<Record<(typeof IDENTITY)[number], string>>>

interface VerifiedIdentity {
  readonly subject: string
  readonly tenantId: TenantId
  readonly workspaceId: WorkspaceId
  readonly role: KeyKind
}

/**
 * Removes the identity headers and the secret from each request, so that no later code can read them, and returns the
 * identity if the secret is right.
 * @param secret of the gateway; if undefined, no identity is trusted
 */
export function gatewayReader(
  secret: string | undefined,
): (request: IncomingMessage) => GatewayIdentity | undefined {
  const expected = secret === undefined ? undefined : digest(secret)
  return (request) => {
    const { [SECRET]: secretHeader, ...identity } = extractHeaders(request)
    if (expected === undefined || secretHeader === undefined || Object.keys(identity).length === 0)
      return undefined
    return timingSafeEqual(digest(secretHeader), expected) ? identity : undefined
  }
}

/** Digests allow a comparison in constant time of texts with different lengths. */
const digest = (text: string) => createHash('sha256').update(text).digest()

/**
 * Removes the headers from a request in all three forms, and returns them. Node computes the distinct form from the raw one
 * at its first use, so it is read before the raw one changes. Injected requests have none.
 */
function extractHeaders(request: IncomingMessage): GatewayIdentity & { readonly [SECRET]?: string } {
  const extracted: Record<string, string> = {}
  for (const name of [SECRET, ...IDENTITY]) {
    const value = request.headers[name]
    if (value === undefined) continue
    extracted[name] = String(value)
    delete request.headers[name]
    delete (request.headersDistinct as NodeJS.Dict<string[]> | undefined)?.[name]
  }
  if (Object.keys(extracted).length > 0)
    request.rawHeaders = request.rawHeaders.filter(
      (_text, at, all) => !Object.hasOwn(extracted, (all[at - (at % 2)] ?? '').toLowerCase()),
    )
  return extracted
}

/**
 * Validates the form of an identity, without checking that the tenant exists.
 * @throws Problem `gateway_identity_invalid` with all errors
 */
export function identityOf(sent: GatewayIdentity): VerifiedIdentity {
  const { 'x-tenant-id': tenantId, 'x-workspace-id': workspaceId, 'x-pg-role': role } = sent
  const subject = sent['x-auth-subject'] ?? ''
  const isSubject = subject.length <= CORE_LIMITS.subjectCharsMax && /^[\x21-\x7e]+$/.test(subject)
  const isRole = role === 'anon' || role === 'service'
  if (isTenantId(tenantId) && isWorkspaceId(workspaceId) && isSubject && isRole)
    return { subject, tenantId, workspaceId, role }
  const errors = [
    ...errorUnless(isTenantId(tenantId), 'x-tenant-id', 'is no id of a tenant'),
    ...errorUnless(isWorkspaceId(workspaceId), 'x-workspace-id', 'is no id of a workspace'),
    ...errorUnless(
      isSubject,
      'x-auth-subject',
      `has 1 to ${CORE_LIMITS.subjectCharsMax} visible characters of ASCII`,
    ),
    ...errorUnless(isRole, 'x-pg-role', 'is anon or service'),
  ]
  const detail = errors.map((error) => `${error.name}: ${error.detail}`).join('; ')
  throw new Problem('gateway_identity_invalid', { detail, errors })
}

function errorUnless(isValid: boolean, name: (typeof IDENTITY)[number], detail: string) {
  return isValid ? [] : [{ in: 'header', name, pointer: '', detail } as const]
}

const FORM = /^svc_(anon|service|storage)_([A-Za-z0-9_-]{43})([0-9a-f]{8})$/

/** Creates the text of a key, of which only the {@link keyHash} is stored; of a storage key, its secret. */
export function makeKey(kind: ApiKeyKind): string {
  const secret = randomBytes(32).toString('base64url')
  return `svc_${kind}_${secret}${checksum(kind, secret)}`
}

/** The kind of a key; undefined if the text has another form or a wrong checksum. */
export function keyKind(text: string): ApiKeyKind | undefined {
  const [, kind, secret = '', sum] = FORM.exec(text) ?? []
  if (kind !== 'anon' && kind !== 'service' && kind !== 'storage') return undefined
  return sum === checksum(kind, secret) ? kind : undefined
}

/** SHA-256: the key holds 256 random bits, so nothing slower is needed. */
export function keyHash(text: string): Buffer {
  return hash('sha256', text, 'buffer')
}

function checksum(kind: ApiKeyKind, secret: string): string {
  return crc32(`${kind}:${secret}`).toString(16).padStart(8, '0')
}
