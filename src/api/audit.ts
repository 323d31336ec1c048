/** Writes audit entries of HTTP requests: operations that change or reveal data, and denials. */

import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Audit } from '../access/audit/audit.ts'
import { auditsAsync } from '../access/audit/audited-run.ts'
import {
  ANONYMOUS,
  type AuditActor,
  type AuditEvent,
  type AuditOwner,
  digestOf,
} from '../access/audit/entry.ts'
import type { RejectedKey } from '../access/authentication/authenticator.ts'
import type { StoredReply } from '../access/idempotency.ts'
import { type Look, revealedIn } from '../access/payload-access.ts'
import type { Permission } from '../access/permission.ts'
import { WorkspaceScope } from '../access/scope.ts'
import type { AnyOperation } from '../core/operation.ts'
import { type Principal, roleFor } from '../core/policy.ts'
import { isTenantId, isWorkspaceId } from '../core/tenant.ts'
import { OPERATIONS } from '../features/index.ts'

/** The audited properties of a route: those of its operation. */
type Audited = Pick<AnyOperation, 'name' | 'reads'> &
  Partial<Pick<AnyOperation, 'roles' | 'domain' | 'reveals' | 'http'>>

declare module 'fastify' {
  interface FastifyContextConfig {
    readonly operation?: Audited
  }
  interface FastifyRequest {
    /** The data of this request's audit entry, except its principal. */
    auditContext: AuditContext | undefined
    /** How the reply shows payloads of others; undefined if it shows none. */
    look: Look['by'] | undefined
  }
}

interface AuditContext {
  /** Tenant and workspace that the request is about; for an operator, they decide which chain has the entry. */
  owner: AuditOwner
  /** Further tenants that an operator's request is about: each chain gets the entry. */
  readonly otherOwners?: readonly AuditOwner[]
  /** True if the owner is that of a scope, and not only named by ids of the request. */
  readonly isVerified: boolean
  /** The actor, if the request has no principal. */
  readonly actor?: AuditActor
  before: string | null
  after: string | null
  detail?: Readonly<Record<string, string>>
}

type Input = Readonly<Record<string, unknown>>

/** The context of a rejected key, in the chain of its tenant. */
export function auditRejectedKey({ id, ref }: RejectedKey): AuditContext {
  const actor = { subject: id, role: null, kind: 'api_key' } as const
  return { owner: ref, isVerified: true, actor, before: null, after: null }
}

/**
 * Begins the context of an operation that changes something, or reveals data of tenants.
 * @throws Problem if the log cannot take its entry
 */
export async function startAuditRecord(
  operation: AnyOperation,
  scope: unknown,
  input: Input,
  audit: Audit,
): Promise<AuditContext | undefined> {
  if (operation.reveals !== undefined) {
    audit.refuseUnlessReady()
    const [owner = {}, ...otherOwners] = operation.reveals(input).map((tenantId) => ({ tenantId }))
    return { owner, otherOwners, isVerified: false, before: null, after: null }
  }
  if (operation.reads) return undefined
  if (!auditsAsync(operation)) audit.refuseUnlessReady()
  const state = await readSnapshot(READERS.get(operation), scope, input)
  const isVerified = scope instanceof WorkspaceScope
  const owner = isVerified ? scope.ref : { ...idsIn(input), ...idsIn(state) }
  return { owner, isVerified, before: digestOf(state), after: null }
}

/** Completes the context with the output of the operation. */
export async function finishAuditRecord(
  context: AuditContext,
  operation: AnyOperation,
  scope: unknown,
  input: Input,
  output: unknown,
): Promise<void> {
  if (operation.reveals !== undefined) return
  if (operation.auditDetail !== undefined) context.detail = operation.auditDetail(output, input)
  const reader = READERS.get(operation)
  const isResource = reader === undefined || reader.output === operation.output
  const state = isResource ? output : await readSnapshot(reader, scope, input)
  context.after = digestOf((await snapshotOfCreated(operation, scope, input, output)) ?? state)
  if (!context.isVerified) context.owner = { ...context.owner, ...idsIn(output) }
}

/** A resource as its GET returns it; undefined if it has none, or does not exist. */
async function readSnapshot(
  reader: AnyOperation | undefined,
  scope: unknown,
  input: Input,
): Promise<unknown> {
  if (reader === undefined) return undefined
  const fields = Object.keys(reader.input.properties).filter((name) => Object.hasOwn(input, name))
  try {
    return await reader.run(
      scope,
      reader.parse(Object.fromEntries(fields.map((name) => [name, input[name]]))),
    )
  } catch {
    // The operation itself meets the same error and reports it.
    return undefined
  }
}

/** Operations that change the structure of tenants, and those that return a part of it. */
const CHANGING = OPERATIONS.filter(({ reads, domain }) => !reads && domain === 'structural_admin')
const READING = OPERATIONS.filter(({ http }) => http.method === 'GET' && http.reply === undefined)

/**
 * The GET of the resource that an operation changes: at the same path, or, for a verb, at the path before it if both
 * return the same. A POST on a list changes no existing resource.
 */
const READERS: ReadonlyMap<AnyOperation, AnyOperation> = new Map(
  CHANGING.flatMap((operation) => {
    const { method, path } = operation.http
    const found = READING.find(({ http, output }) => {
      if (method !== 'POST') return http.path === path
      return http.path === path.slice(0, path.lastIndexOf('/')) && includesOutput(operation.output, output)
    })
    return found === undefined || operation.forgets ? [] : [[operation, found] as const]
  }),
)

/** True if an output has all properties of the GET's, and perhaps more, such as a link that is returned once. */
function includesOutput(made: AnyOperation['output'], read: AnyOperation['output']): boolean {
  if (made === read) return true
  const [more, all] = [made, read].map((schema) => Object(schema).properties as Record<string, unknown>)
  return (
    all !== undefined && more !== undefined && Object.entries(all).every(([name, one]) => more[name] === one)
  )
}

/** The GET of what a POST on a list creates, and the field with its id. The reply may hold more, such as a new key. */
const CREATED: ReadonlyMap<AnyOperation, { readonly reader: AnyOperation; readonly field: string }> = new Map(
  CHANGING.filter(({ http }) => http.method === 'POST' && http.location !== undefined).flatMap((operation) =>
    READING.flatMap((reader) => {
      const [, list, field] = /^(.*)\/\{(\w+)\}$/.exec(reader.http.path) ?? []
      return list === operation.http.path && field !== undefined
        ? [[operation, { reader, field }] as const]
        : []
    }),
  ),
)

/** The created resource as its GET returns it; undefined if the operation creates none, or a job creates it later. */
async function snapshotOfCreated(
  operation: AnyOperation,
  scope: unknown,
  input: Input,
  output: unknown,
): Promise<unknown> {
  const created = CREATED.get(operation)
  const location = created && operation.http.location?.(output, input)
  if (created === undefined || location === undefined || location.startsWith('/v1/operations/'))
    return undefined
  const id = decodeURIComponent(location.slice(location.lastIndexOf('/') + 1))
  return readSnapshot(created.reader, scope, { ...input, [created.field]: id })
}

/** The ids of tenant and workspace in a record: its own, and those that it belongs to. */
function idsIn(value: unknown): AuditOwner {
  const { id, tenant_id, workspace_id } = Object(value) as Record<string, unknown>
  const tenantId = [tenant_id, id].find(isTenantId)
  const workspaceId = [workspace_id, id].find(isWorkspaceId)
  return { ...(tenantId && { tenantId }), ...(workspaceId && { workspaceId }) }
}

/**
 * Notes that the output shows payloads by the caller's right to see them, so that a read gets an entry as well: one for the request,
 * however much it shows.
 * @throws Problem if the log cannot take it
 */
export function recordLook(request: FastifyRequest, scope: unknown, output: unknown, audit: Audit): void {
  const shown = revealedIn(output)
  if (shown !== undefined) addLook(request, scope, output, shown, audit)
}

/**
 * As {@link recordLook}, for a stored reply that has shown payloads and is sent again.
 * @throws Problem `payloads_hidden` if its caller may not see them any more
 */
export function recordReplayedLook(
  request: FastifyRequest,
  permission: Permission,
  scope: unknown,
  { body, look }: StoredReply,
  audit: Audit,
): void {
  if (look === undefined) return
  if (look === 'right') permission.confirmPayloads()
  addLook(request, scope, JSON.parse(body), { by: look, ref: {} }, audit)
}

function addLook(
  request: FastifyRequest,
  scope: unknown,
  output: unknown,
  { by, ref }: Look,
  audit: Audit,
): void {
  audit.refuseUnlessReady()
  const isVerified = scope instanceof WorkspaceScope
  const { data = [] } = output as { readonly data?: readonly unknown[] }
  const owner = isVerified
    ? scope.ref
    : { ...idsIn(Array.isArray(data) ? data[0] : undefined), ...idsIn(output), ...ref }
  request.auditContext ??= { owner, isVerified, before: null, after: null }
  request.look = by
}

/**
 * Records a request before its reply leaves.
 * @returns what the reply waits for; undefined if it need not wait
 */
export function writeAuditEntry(
  audit: Audit,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<void> | undefined {
  const { operation } = request.routeOptions.config
  const { statusCode: status } = reply
  if (operation === undefined) return undefined
  if (reply.hasHeader('idempotent-replayed') && request.look === undefined) return undefined
  const isDenied = status === 401 || status === 403 || status === 429
  if (operation.reads && operation.reveals === undefined && !isDenied && request.look === undefined)
    return undefined
  const event = auditEventOf(operation, request, reply, isDenied)
  const { principal, auditContext: context } = request
  // Changes of a tenant by an operator are recorded in the tenant's own chain.
  if (principal !== undefined && principal.tenantId === undefined && context?.isVerified === false) {
    const owners = [context.owner, ...(context.otherOwners ?? [])]
    const recordFor = async (owner: AuditOwner) =>
      recordEvent(audit, operation, { ...event, owner: await audit.findOwner(owner) })
    return Promise.all(owners.map(recordFor)).then(() => undefined)
  }
  return recordEvent(audit, operation, event)
}

function recordEvent(audit: Audit, operation: Audited, event: AuditEvent): Promise<void> | undefined {
  if (event.status === 429) audit.countOnly(event)
  else if (event.outcome !== 'done') audit.enqueueThrottled(event)
  else if (auditsAsync(operation)) audit.enqueue(event)
  else return audit.append(event)
  return undefined
}

function auditEventOf(
  operation: Audited,
  request: FastifyRequest,
  reply: FastifyReply,
  isDenied: boolean,
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
    outcome: isDenied ? 'denied' : status < 400 ? 'done' : 'failed',
    status,
    code: code === undefined ? null : String(code),
    before: context?.before ?? null,
    after: context?.after ?? null,
    ...(context?.detail !== undefined && { detail: context.detail }),
  }
}

/** A caller with a tenant is recorded in the chain of that tenant, whatever else the request names. */
function ownerOf(principal: Principal | undefined, context: AuditContext | undefined): AuditOwner {
  if (principal === undefined) return context?.owner ?? {}
  const { tenantId, workspaceId } = principal
  if (tenantId === undefined) return context?.isVerified ? context.owner : {}
  return { tenantId, workspaceId: workspaceId ?? context?.owner.workspaceId }
}

function actorOf(operation: Audited, principal: Principal | undefined): AuditActor {
  if (principal === undefined) return ANONYMOUS
  const { kind, subject, roles } = principal
  const role = roleFor(principal, operation.roles ?? []) ?? roles[0] ?? null
  return { subject, role, kind }
}
