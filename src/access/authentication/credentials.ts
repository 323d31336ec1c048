/** Extracts the credentials of a request (API key, bearer token, gateway headers), and defines the form of API keys. */

import { createHash, hash, randomBytes, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { crc32 } from 'node:zlib'
import { LIMITS } from '../../core/limits.ts'
import type { DataRole } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import { isTenantId, isWorkspaceId, type TenantId, type WorkspaceId } from '../../core/tenant.ts'

/** One thing that was presented. */
export type Credential =
  | { readonly kind: 'api_key'; readonly text: string }
  | { readonly kind: 'token'; readonly text: string }
  | { readonly kind: 'gateway'; readonly identity: GatewayIdentity }

/** Where credentials may stand in a request. */
export interface CredentialSources {
  readonly headers: IncomingHttpHeaders
  /** Names and values in turn, as they came: of two Authorization headers, Node keeps one without a word. */
  readonly rawHeaders: readonly string[]
  readonly query: Readonly<Record<string, unknown>>
  /** Set where the gateway's secret came with it. */
  readonly gateway?: GatewayIdentity | undefined
  /** What the Temporal UI has of its reader, where it asks for payloads. */
  readonly pageToken?: string | undefined
}

/**
 * Every credential that was presented, the one that counts first: the key, in whichever presentation it comes, then a
 * Bearer token; the token of a page, and who the gateway says it is, only where neither is there. Nothing is verified yet. An empty header is a
 * credential that is not good, rather than none.
 * @returns none where none was presented
 * @throws Problem `service_key_in_query`, `credentials_conflict`, `token_invalid`
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
  // No credential holds a comma: what has one was sent twice, and joined by Node or on the way (RFC 9110 §5.2).
  if (keys.some((key) => key !== first || key.includes(',')) || token?.includes(','))
    throw new Problem('credentials_conflict')
  const found: Credential[] = []
  if (first !== undefined) found.push({ kind: 'api_key', text: String(first) })
  if (token !== undefined) found.push({ kind: 'token', text: token })
  if (found.length === 0 && pageToken !== undefined) found.push({ kind: 'token', text: pageToken })
  if (found.length === 0 && gateway !== undefined) found.push({ kind: 'gateway', identity: gateway })
  return found
}

/** @throws Problem where a key may not stand in the URL, or more than one does */
function keyInUrl(value: unknown, allowed = false): string | undefined {
  if (value === undefined) return undefined
  const keys = [value].flat()
  if (!allowed || !keys.every((key) => typeof key === 'string' && key.startsWith('svc_anon_')))
    throw new Problem('service_key_in_query')
  if (keys.length > 1) throw new Problem('credentials_conflict')
  return String(keys[0])
}

/** How often a header was sent. */
function countHeader(name: string, rawHeaders: readonly string[]): number {
  let count = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const sent = rawHeaders[at]
    if (sent?.length === name.length && sent.toLowerCase() === name) count += 1
  }
  return count
}

/** @throws Problem `token_invalid` for a scheme that is none of ours, or one without a value */
function authorization(header: string | undefined): { scheme?: 'bearer' | 'apikey'; value: string } {
  if (header === undefined) return { value: '' }
  const [, scheme = '', value = ''] = /^(\S+) +(\S.*)$/.exec(header) ?? []
  const known = scheme.toLowerCase()
  if (known === 'bearer' || known === 'apikey') return { scheme: known, value: value.trim() }
  throw new Problem('token_invalid', { detail: 'Authorization takes the schemes Bearer and ApiKey.' })
}

const SECRET = 'x-gateway-secret'
const IDENTITY = ['x-tenant-id', 'x-workspace-id', 'x-auth-subject', 'x-pg-role'] as const

/** The identity headers of one request, as they came. Nobody has looked at them yet. */
export type GatewayIdentity = Readonly<Partial<Record<(typeof IDENTITY)[number], string>>>

export interface VerifiedIdentity {
  readonly subject: string
  readonly tenantId: TenantId
  readonly workspaceId: WorkspaceId
  readonly role: DataRole
}

/**
 * Takes the identity headers and the secret out of each request, so that nothing behind can read them, and gives the
 * identity back where the secret was right and came with one. Without a secret of our own nobody is believed.
 */
export function gatewayReader(
  secret: string | undefined,
): (request: IncomingMessage) => GatewayIdentity | undefined {
  const expected = secret === undefined ? undefined : digest(secret)
  return (request) => {
    const { [SECRET]: given, ...identity } = extractHeaders(request)
    if (expected === undefined || given === undefined || Object.keys(identity).length === 0) return undefined
    return timingSafeEqual(digest(given), expected) ? identity : undefined
  }
}

/** Texts of any two lengths are compared in constant time by their digests. */
const digest = (text: string) => createHash('sha256').update(text).digest()

function extractHeaders(request: IncomingMessage): GatewayIdentity & { readonly [SECRET]?: string } {
  const taken: Record<string, string> = {}
  for (const name of [SECRET, ...IDENTITY]) {
    const value = request.headers[name]
    if (value === undefined) continue
    taken[name] = String(value)
    delete request.headers[name]
  }
  const names = new Set(Object.keys(taken))
  if (names.size > 0) removeHeaders(request, names)
  return taken
}

/**
 * Out of the other two forms as well. Node makes the distinct one of the raw one when it is first asked for, and counts
 * on its length: so it is asked for before. An injected request has none.
 */
function removeHeaders(request: IncomingMessage, names: ReadonlySet<string>): void {
  const distinct = request.headersDistinct as NodeJS.Dict<string[]> | undefined
  for (const name of names) delete distinct?.[name]
  request.rawHeaders = request.rawHeaders.filter(
    (_text, at, all) => !names.has((all[at - (at % 2)] ?? '').toLowerCase()),
  )
}

/**
 * The identity, if it is of the right form; whether such a tenant is there is not asked here.
 * @throws Problem `gateway_identity_invalid`, with all that is wrong
 */
export function identityOf(sent: GatewayIdentity): VerifiedIdentity {
  const { 'x-tenant-id': tenantId, 'x-workspace-id': workspaceId, 'x-pg-role': role } = sent
  const subject = sent['x-auth-subject'] ?? ''
  const named = subject.length <= LIMITS.subjectCharsMax && /^[\x21-\x7e]+$/.test(subject)
  const known = role === 'anon' || role === 'service'
  if (isTenantId(tenantId) && isWorkspaceId(workspaceId) && named && known)
    return { subject, tenantId, workspaceId, role }
  const errors = [
    ...fault(isTenantId(tenantId), 'x-tenant-id', 'is no id of a tenant'),
    ...fault(isWorkspaceId(workspaceId), 'x-workspace-id', 'is no id of a workspace'),
    ...fault(named, 'x-auth-subject', `has 1 to ${LIMITS.subjectCharsMax} visible characters of ASCII`),
    ...fault(known, 'x-pg-role', 'is anon or service'),
  ]
  const detail = errors.map((error) => `${error.name}: ${error.detail}`).join('; ')
  throw new Problem('gateway_identity_invalid', { detail, errors })
}

function fault(good: boolean, name: (typeof IDENTITY)[number], detail: string) {
  return good ? [] : [{ in: 'header', name, pointer: '', detail } as const]
}

export type KeyKind = 'anon' | 'service'

const FORM = /^svc_(anon|service)_([A-Za-z0-9_-]{43})([0-9a-f]{8})$/

/** A new key's text. It is shown once; what stays is its {@link keyHash}. */
export function makeKey(kind: KeyKind): string {
  const secret = randomBytes(32).toString('base64url')
  return `svc_${kind}_${secret}${checksum(kind, secret)}`
}

/** The kind where the text has the form of a key and its checksum holds; else undefined. */
export function keyKind(text: string): KeyKind | undefined {
  const [, kind, secret = '', sum] = FORM.exec(text) ?? []
  if (kind !== 'anon' && kind !== 'service') return undefined
  return sum === checksum(kind, secret) ? kind : undefined
}

/** SHA-256: the key holds 256 random bits, so nothing slower is needed. */
export function keyHash(text: string): Buffer {
  return hash('sha256', text, 'buffer')
}

function checksum(kind: KeyKind, secret: string): string {
  return crc32(`${kind}:${secret}`).toString(16).padStart(8, '0')
}
