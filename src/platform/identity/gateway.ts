/** What a gateway says of a caller that it has verified, and when that can be believed (decisions §3). */

import { createHash, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { LIMITS } from '../../core/limits.ts'
import type { DataRole } from '../../core/policy.ts'
import { Problem } from '../../core/problem.ts'
import { isTenantId, isWorkspaceId, type TenantId, type WorkspaceId } from '../../core/tenant.ts'

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
    const { [SECRET]: given, ...identity } = takeHeaders(request)
    if (expected === undefined || given === undefined || Object.keys(identity).length === 0) return undefined
    return timingSafeEqual(digest(given), expected) ? identity : undefined
  }
}

/** Texts of any two lengths are compared in constant time by their digests. */
const digest = (text: string) => createHash('sha256').update(text).digest()

function takeHeaders(request: IncomingMessage): GatewayIdentity & { readonly [SECRET]?: string } {
  const taken: Record<string, string> = {}
  for (const name of [SECRET, ...IDENTITY]) {
    const value = request.headers[name]
    if (value === undefined) continue
    taken[name] = String(value)
    delete request.headers[name]
  }
  const names = new Set(Object.keys(taken))
  if (names.size > 0) forget(request, names)
  return taken
}

/**
 * Out of the other two forms as well. Node makes the distinct one of the raw one when it is first asked for, and counts
 * on its length: so it is asked for before. An injected request has none.
 */
function forget(request: IncomingMessage, names: ReadonlySet<string>): void {
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
