/** One entry of the audit log: its members, its canonical text, and the digests in it. */

import { hash } from 'node:crypto'
import { canonical, exceedsDepth } from '../../core/json.ts'
import type { Role } from '../../core/policy.ts'
import { holdsSecret, namesSecret, redact, redactText } from '../../core/redact.ts'
import { currentTraceId } from '../../infra/trace-context.ts'
import { ACCESS_LIMITS } from '../limits.ts'

/** The chain of entries without a tenant, which only operators see. */
export const PLATFORM_CHAIN = '-'

/** How the actor was identified; `person` and `client` are those of the issuer. */
type ActorKind =
  | 'api_key'
  | 'token'
  | 'gateway'
  | 'mcp_client'
  | 'webhook'
  | 'run'
  | 'person'
  | 'client'
  | 'anonymous'
  | 'platform'

export interface AuditActor {
  /** Id of the key, subject of the token, workflow id of the execution; null if the caller is unknown. */
  readonly subject: string | null
  readonly role: Role | 'user' | null
  readonly kind: ActorKind
}

/** The actor of a request that was not authenticated. */
export const ANONYMOUS: AuditActor = { subject: null, role: null, kind: 'anonymous' }

/** The tenant whose chain an entry is in, and the workspace whose admins see it. */
export interface AuditOwner {
  readonly tenantId?: string | undefined
  readonly workspaceId?: string | undefined
}

export interface AuditEvent {
  readonly owner: AuditOwner
  readonly requestId: string | null
  readonly actor: AuditActor
  /** The client's address, for refusals, failures and events of the issuer. */
  readonly address?: string
  /** Name of the operation. */
  readonly operation: string
  /** Path of the resource, without query. */
  readonly target: string
  readonly outcome: 'done' | 'denied' | 'failed'
  readonly status: number | null
  readonly code: string | null
  /** Further ids of the event, by name; never a secret. */
  readonly detail?: Readonly<Record<string, string>>
  /** Digests of the resource as its GET returns it. */
  readonly before: string | null
  readonly after: string | null
  /** How many similar events this stands for; 1 by default. */
  readonly count?: number
}

/** The parameters of `append_audit` for one entry. */
export interface AuditRow {
  readonly chain: string
  /** Empty if the entry has none. */
  readonly workspace: string
  /** Canonical JSON (RFC 8785). */
  readonly text: string
}

/** Lists the members in code unit order, so that JSON.stringify returns canonical JSON. */
export function auditRowOf(event: AuditEvent, atMs: number): AuditRow {
  const chain = event.owner.tenantId ?? PLATFORM_CHAIN
  const text = JSON.stringify({
    actor: { kind: event.actor.kind, role: event.actor.role, subject: sanitize(event.actor.subject) },
    address: event.address ?? null,
    after: event.after,
    at: new Date(atMs).toISOString(),
    before: event.before,
    code: event.code,
    count: event.count ?? 1,
    detail: event.detail && sanitizeDetail(event.detail),
    operation: event.operation,
    outcome: event.outcome,
    request_id: sanitize(event.requestId),
    status: event.status,
    target: sanitize(event.target),
    tenant_id: chain,
    trace_id: event.requestId === null ? null : currentTraceId(),
    workspace_id: event.owner.workspaceId ?? null,
  })
  return { chain, workspace: event.owner.workspaceId ?? '', text }
}

/** Members in code unit order. */
function sanitizeDetail(detail: Readonly<Record<string, string>>): Record<string, string | null> {
  const names = Object.keys(detail).sort()
  return Object.fromEntries(names.map((name) => [name, sanitize(detail[name] ?? null)]))
}

const sanitize = (text: string | null): string | null => (text === null ? null : sanitizeText(text))

/** Sanitizes a text that a caller chose: truncated, without secrets and characters that JSON in PostgreSQL rejects. */
export function sanitizeText(text: string): string {
  const cut = redactText(text).slice(0, ACCESS_LIMITS.auditTextCharsMax)
  if (!UNSTORABLE.test(cut)) return cut
  // A lone surrogate becomes a replacement character.
  return Buffer.from(cut.replaceAll('\u0000', '\ufffd')).toString()
}

const UNSTORABLE = /[\0\p{Surrogate}]/u

/**
 * SHA-256 of a state as canonical JSON, in hexadecimal. Secrets are removed first: a reader who knows the rest of a text
 * could guess them by its digest.
 * @returns null without a state, or for one that is nested deeper than any resource
 */
export function digestOf(state: unknown): string | null {
  if (state === undefined || state === null || exceedsDepth(state, ACCESS_LIMITS.auditDepthMax)) return null
  const text = canonical(state)
  // Most states hold no secret, and searching a text is faster than making a copy.
  const harmless = !holdsSecret(text) && !namesSecret(state)
  return hash('sha256', harmless ? text : canonical(redact(state)), 'hex')
}
