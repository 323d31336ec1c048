/** One entry of the audit log: its members, its one text, and the digests that stand in it. */

import { hash } from 'node:crypto'
import { canonical, exceedsDepth } from '../../core/json.ts'
import { LIMITS } from '../../core/limits.ts'
import type { Role } from '../../core/policy.ts'
import { holdsSecret, namesSecret, redact, redactText } from '../../core/redact.ts'

/** The chain of what belongs to no tenant: operators alone see it. */
export const PLATFORM_CHAIN = '-'

/**
 * How the actor was recognised: by a credential, as a tool of an MCP server, by the secret of a webhook, as a run, as a
 * person or a client at the issuer; or the platform itself.
 */
type ActorKind =
  | 'api_key'
  | 'token'
  | 'gateway'
  | 'mcp_client'
  | 'webhook'
  | 'run'
  | 'person'
  | 'client'
  | 'nobody'
  | 'platform'

export interface AuditActor {
  /** Id of the key, subject of the token, workflow id of the run; null where nobody was recognised. */
  readonly subject: string | null
  readonly role: Role | null
  readonly kind: ActorKind
}

/** Where something happened: whose chain an entry is in, and which workspace's admins see it. */
export interface AuditOwner {
  readonly tenantId?: string | undefined
  readonly workspaceId?: string | undefined
}

export interface AuditEvent {
  readonly owner: AuditOwner
  readonly requestId: string | null
  readonly actor: AuditActor
  /** The client's, of refusals, failures and what happens at the issuer. */
  readonly address?: string
  /** Name of the operation. */
  readonly operation: string
  /** Path of the resource, without query. */
  readonly target: string
  readonly outcome: 'done' | 'denied' | 'failed'
  readonly status: number | null
  readonly code: string | null
  /** What else identifies the event, by name; never a secret. */
  readonly detail?: Readonly<Record<string, string>>
  /** Digests of the resource as its GET shows it. */
  readonly before: string | null
  readonly after: string | null
  /** How many alike this stands for; 1 where absent. */
  readonly count?: number
}

/** An entry on its way to its chain. */
export interface AuditRow {
  readonly chain: string
  /** Empty where it is of none. */
  readonly workspace: string
  /** Canonical JSON (RFC 8785): texts and whole numbers alone, so there is one way to write it. */
  readonly text: string
}

/** Members stand in code unit order: what JSON.stringify gives is canonical as it is. */
export function auditRowOf(deed: AuditEvent, atMs: number): AuditRow {
  const chain = deed.owner.tenantId ?? PLATFORM_CHAIN
  const text = JSON.stringify({
    actor: { kind: deed.actor.kind, role: deed.actor.role, subject: plain(deed.actor.subject) },
    address: deed.address ?? null,
    after: deed.after,
    at: new Date(atMs).toISOString(),
    before: deed.before,
    code: deed.code,
    count: deed.count ?? 1,
    detail: deed.detail && plainDetail(deed.detail),
    operation: deed.operation,
    outcome: deed.outcome,
    request_id: plain(deed.requestId),
    status: deed.status,
    target: plain(deed.target),
    tenant_id: chain,
    workspace_id: deed.owner.workspaceId ?? null,
  })
  return { chain, workspace: deed.owner.workspaceId ?? '', text }
}

/** Members in code unit order. Absent details leave no member behind. */
function plainDetail(detail: Readonly<Record<string, string>>): Record<string, string | null> {
  const names = Object.keys(detail).sort()
  return Object.fromEntries(names.map((name) => [name, plain(detail[name] ?? null)]))
}

/** What a caller chose the letters of: cut, without secrets, and without what JSON in PostgreSQL does not take. */
function plain(text: string | null): string | null {
  if (text === null) return null
  const cut = redactText(text).slice(0, LIMITS.auditTextCharsMax)
  if (!UNSTORABLE.test(cut)) return cut
  // Half a surrogate pair becomes a character.
  return Buffer.from(cut.replaceAll('\u0000', '\ufffd')).toString()
}

const UNSTORABLE = /[\0\p{Surrogate}]/u

/**
 * SHA-256 of a state as canonical JSON, in hexadecimal; secrets are taken out first, since who knows nearly all of a
 * text can guess the rest by its digest.
 * @returns null where there is no state, or one deeper than any resource
 */
export function digestOf(state: unknown): string | null {
  if (state === undefined || state === null || exceedsDepth(state, LIMITS.auditDepthMax)) return null
  const text = canonical(state)
  // Nearly always there is none, and a text is looked through faster than a copy is made.
  const harmless = !holdsSecret(text) && !namesSecret(state)
  return hash('sha256', harmless ? text : canonical(redact(state)), 'hex')
}
