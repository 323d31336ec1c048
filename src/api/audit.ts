/** Writes audit entries of HTTP requests: operations that change or reveal data, and denials. */

import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Audit } from '../access/audit/audit.ts'
import { auditsAsync } from '../access/audit/audited-run.ts'
import { type AuditActor, type AuditEvent, type AuditOwner, digestOf } from '../access/audit/entry.ts'
import type { RejectedKey } from '../access/authentication/authenticator.ts'
import { WorkspaceScope } from '../access/scope.ts'
import type { AnyOperation } from '../core/operation.ts'
import { type Principal, roleFor } from '../core/policy.ts'
import { isTenantId, isWorkspaceId } from '../core/tenant.ts'
import { OPERATIONS } from '../features/index.ts'

/** What a route is in the audit log. */
type Audited = Pick<AnyOperation, 'name' | 'reads'> &
  Partial<Pick<AnyOperation, 'roles' | 'domain' | 'reveals'>>

declare module 'fastify' {
  interface FastifyContextConfig {
    readonly operation?: Audited
  }
  interface FastifyRequest {
    /** What the audit log is to know of this request beyond its principal. */
    auditContext: AuditContext | undefined
  }
}

export interface AuditContext {
  /** Ids of tenants and workspaces that it is about; of an operator, they decide whose chain it is in. */
  owner: AuditOwner
  /** Further tenants that it is about: an operator's deed is in the chain of each. */
  readonly otherOwners?: readonly AuditOwner[]
  /** Whether the place is that of the scope itself, and not only what ids say. */
  readonly isVerified: boolean
  /** Who it is, where no principal says so. */
  readonly actor?: AuditActor
  before: string | null
  after: string | null
}

/** It is in the chain of the tenant whose key it is. */
export function auditRejectedKey({ id, ref }: RejectedKey): AuditContext {
  return {
    owner: ref,
    isVerified: true,
    actor: { subject: id, role: null, kind: 'api_key' },
    before: null,
    after: null,
  }
}

/**
 * Begins the context of an operation that changes something, or reveals data of tenants.
 * @throws Problem where its entry could not be kept
 */
export async function startAuditRecord(
  operation: AnyOperation,
  scope: unknown,
  input: Readonly<Record<string, unknown>>,
  audit: Audit,
): Promise<AuditContext | undefined> {
  if (operation.reveals !== undefined) {
    audit.refuseUnlessReady()
    return traceOfRevealed(operation.reveals(input))
  }
  if (operation.reads) return undefined
  if (!auditsAsync(operation)) audit.refuseUnlessReady()
  const reader = READERS.get(operation)
  const state = reader && (await snapshotOf(reader, scope, input))
  const sure = scope instanceof WorkspaceScope
  const place = sure ? scope.ref : { ...idsIn(input), ...idsIn(state) }
  return { owner: place, isVerified: sure, before: digestOf(state), after: null }
}

function traceOfRevealed(tenants: readonly string[]): AuditContext {
  const [place = {}, ...others] = tenants.map((tenantId) => ({ tenantId }))
  return { owner: place, otherOwners: others, isVerified: false, before: null, after: null }
}

/** Completes it with what the operation gave. */
export async function finishAuditRecord(
  context: AuditContext,
  operation: AnyOperation,
  scope: unknown,
  input: Readonly<Record<string, unknown>>,
  output: unknown,
): Promise<void> {
  if (operation.reveals !== undefined) return
  const reader = READERS.get(operation)
  const own = reader === undefined || reader.output === operation.output
  const shown = own ? output : await snapshotOf(reader, scope, input)
  const made = CREATORS.has(operation) ? await snapshotOfCreated(operation, scope, input, output) : undefined
  context.after = digestOf(made ?? shown)
  if (!context.isVerified) context.owner = { ...context.owner, ...idsIn(output) }
}

/** A resource as its GET shows it; undefined where it has none, or is not there. */
async function snapshotOf(
  reader: AnyOperation | undefined,
  scope: unknown,
  input: Readonly<Record<string, unknown>>,
): Promise<unknown> {
  if (reader === undefined) return undefined
  const fields = Object.keys(reader.input.properties).filter((name) => Object.hasOwn(input, name))
  const asked = Object.fromEntries(fields.map((name) => [name, input[name]]))
  try {
    return await reader.run(scope, reader.parse(asked))
  } catch {
    // Whatever is wrong, the operation itself comes upon it, and says so.
    return undefined
  }
}

/** Operations that change the structure of tenants, and those that show a part of it. */
const CHANGING = OPERATIONS.filter(({ reads, domain }) => !reads && domain === 'structural_admin')
const SHOWING = OPERATIONS.filter(({ http }) => http.method === 'GET' && http.reply === undefined)

/**
 * Of each operation on the structure of tenants, the GET of the same resource: at the same path, or, for a verb, at the
 * path before it where both give the same. A POST on a list is about none that is there already.
 */
const READERS: ReadonlyMap<AnyOperation, AnyOperation> = new Map(
  CHANGING.flatMap((operation) => {
    const { method, path } = operation.http
    const found = SHOWING.find(({ http, output }) => {
      if (method !== 'POST') return http.path === path
      return http.path === path.slice(0, path.lastIndexOf('/')) && isShownBy(operation.output, output)
    })
    return found === undefined ? [] : [[operation, found] as const]
  }),
)

/** Whether an output is what the GET shows, or has all of that and more, such as a link that is shown once. */
function isShownBy(made: AnyOperation['output'], shown: AnyOperation['output']): boolean {
  if (made === shown) return true
  const [more, all] = [made, shown].map((schema) => Object(schema).properties as Record<string, unknown>)
  return (
    all !== undefined && more !== undefined && Object.entries(all).every(([name, one]) => more[name] === one)
  )
}

/** The GET of what an operation makes, and its field that names one. */
interface CreatedResource {
  readonly reader: AnyOperation
  readonly field: string
}

/** Of each POST on a list, the GET of one of the list: its reply may show more, such as the text of a new key. */
const CREATORS: ReadonlyMap<AnyOperation, CreatedResource> = new Map(
  CHANGING.filter(({ http }) => http.method === 'POST' && http.location !== undefined).flatMap(
    (operation) => {
      for (const reader of SHOWING) {
        const { path } = operation.http
        const [, list, field] = /^(.*)\/\{(\w+)\}$/.exec(reader.http.path) ?? []
        if (list === path && field !== undefined) return [[operation, { reader, field }] as const]
      }
      return []
    },
  ),
)

/** What the operation has made, as its GET shows it; undefined where it has none, or what is made comes later. */
async function snapshotOfCreated(
  operation: AnyOperation,
  scope: unknown,
  input: Readonly<Record<string, unknown>>,
  output: unknown,
): Promise<unknown> {
  const maker = CREATORS.get(operation)
  const place = maker && operation.http.location?.(output, input)
  if (place === undefined || place.startsWith('/v1/operations/')) return undefined
  const id = decodeURIComponent(place.slice(place.lastIndexOf('/') + 1))
  return snapshotOf(maker?.reader, scope, { ...input, [maker?.field ?? '']: id })
}

/** Of a record, its own ids and those of where it is. */
function idsIn(value: unknown): { tenantId?: string; workspaceId?: string } {
  const { id, tenant_id, workspace_id } = Object(value) as Record<string, unknown>
  const tenant = [tenant_id, id].find(isTenantId)
  const workspace = [workspace_id, id].find(isWorkspaceId)
  return { ...(tenant && { tenantId: tenant }), ...(workspace && { workspaceId: workspace }) }
}

/**
 * Called before each reply leaves.
 * @returns what it waits for; undefined where it need not wait
 */
export function writeAuditEntry(
  audit: Audit,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<void> | undefined {
  const { operation } = request.routeOptions.config
  const { statusCode: status } = reply
  if (operation === undefined) return undefined
  const reads = operation.reads && operation.reveals === undefined
  if (reads && status < 400) return undefined
  const denied = status === 401 || status === 403 || status === 429
  if ((reads && !denied) || reply.hasHeader('idempotent-replayed')) return undefined
  const deed = auditEventOf(operation, request, reply, denied)
  const { principal, auditContext: context } = request
  // What an operator does to a tenant is in the tenant's own chain.
  if (
    principal !== undefined &&
    principal.tenantId === undefined &&
    context !== undefined &&
    !context.isVerified
  ) {
    const leaveAt = async (named: AuditOwner) =>
      recordEvent(audit, operation, { ...deed, owner: await audit.ownerOf(named) })
    return Promise.all([context.owner, ...(context.otherOwners ?? [])].map(leaveAt)).then(() => undefined)
  }
  return recordEvent(audit, operation, deed)
}

function recordEvent(audit: Audit, operation: Audited, deed: AuditEvent): Promise<void> | undefined {
  const { outcome, status } = deed
  if (status === 429) audit.countOnly(deed)
  else if (outcome !== 'done') audit.enqueueThrottled(deed)
  else if (auditsAsync(operation)) audit.enqueue(deed)
  else return audit.append(deed)
  return undefined
}

function auditEventOf(
  operation: Audited,
  request: FastifyRequest,
  reply: FastifyReply,
  denied: boolean,
): AuditEvent {
  const { principal, auditContext: context } = request
  const { statusCode: status } = reply
  const code = reply.getHeader('x-problem-code')
  return {
    owner: ownerOf(principal, context),
    requestId: request.id,
    actor: context?.actor ?? actorOf(operation, principal),
    ...(status >= 400 && { address: request.ip }),
    operation: operation.name,
    target: request.url.split('?')[0] ?? '',
    outcome: denied ? 'denied' : status < 400 ? 'done' : 'failed',
    status,
    code: code === undefined ? null : String(code),
    before: context?.before ?? null,
    after: context?.after ?? null,
  }
}

/** Whoever has a tenant is in its chain, whatever else the request names: nobody writes into another's. */
function ownerOf(principal: Principal | undefined, context: AuditContext | undefined): AuditOwner {
  if (principal === undefined) return context?.owner ?? {}
  const { tenantId, workspaceId } = principal
  if (tenantId === undefined) return context?.isVerified ? context.owner : {}
  return { tenantId, workspaceId: workspaceId ?? context?.owner.workspaceId }
}

function actorOf(operation: Audited, principal: Principal | undefined): AuditActor {
  if (principal === undefined) return { subject: null, role: null, kind: 'nobody' }
  const { kind, subject, roles } = principal
  const role = roleFor(principal, operation.roles ?? []) ?? roles[0] ?? null
  return { subject, role, kind }
}
