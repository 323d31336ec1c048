/** Opens scopes: the only file that turns a credential into a scope, for every entry point. */

import { type IdSource, randomIds } from '../core/ids.ts'
import type { AnyOperation } from '../core/operation.ts'
import { type Actor, inDomain, type Principal, type Role, requireScope, roleFor } from '../core/policy.ts'
import { notFound, Problem } from '../core/problem.ts'
import { isWorkspaceId, type TenantId, type WorkspaceRef } from '../core/tenant.ts'
import type { PublishedServer } from './authentication/mcp-server-registry.ts'
import type { Claim } from './idempotency.ts'
import { internalsOf, type PlatformServices } from './internals.ts'
import type { BucketState } from './rate-limit/memory-buckets.ts'
import { AdminScope, CallerScope, WorkspaceScope } from './scope.ts'
import { Suspended, suspensionOf, type TenantState } from './tenant-states.ts'

/** Describes the credentials that an operation takes. */
function credentialsFor({ domain, roles }: AnyOperation): string {
  if (domain === 'data_access')
    return 'an API key (`apikey: svc_…`) or a token that names a tenant and a workspace'
  return `a token with the role ${roles.join(' or ')} (\`Authorization: Bearer …\`)`
}

export class Access {
  readonly #services: PlatformServices

  constructor(services: PlatformServices) {
    this.#services = services
  }

  /**
   * @param workspaceId from the path, for operations of an admin inside a workspace
   * @param rateLimits rate limits of the request, for operations about the caller
   * @throws Problem 403 if domain, role or scope does not fit; 404 if the workspace is not the caller's; 403 `tenant_suspended` or
   *   `workspace_suspended`, and 409 `state_conflict` in any other state, unless an admin only reads a suspended workspace
   */
  async open(
    operation: AnyOperation,
    principal: Principal,
    workspaceId?: string,
    rateLimits: readonly BucketState[] = [],
  ): Promise<AdminScope | WorkspaceScope | CallerScope> {
    const role = this.permit(operation, principal)
    if (role === undefined) return new CallerScope(principal, rateLimits)
    const { subject, clientId, groups, user, scopes, kind, roles } = principal
    const actor: Actor = {
      ...{ subject, role, credential: { kind, roles } },
      ...(clientId !== undefined && { clientId }),
      ...(groups !== undefined && { groups }),
      ...(user !== undefined && { user }),
      ...(scopes !== undefined && { scopes }),
    }
    if (operation.reach === 'admin') return AdminScope.open(actor, principal, this.#services, randomIds)
    const ref = await this.#workspace(operation, principal, role, workspaceId)
    return new WorkspaceScope(actor, ref, this.#services, randomIds)
  }

  /** Reopens a scope that {@link open} returned, with the ids of an idempotency claim. */
  openSeeded(
    scope: AdminScope | WorkspaceScope,
    principal: Principal,
    { ids, completion }: Pick<Claim, 'ids' | 'completion'>,
  ): AdminScope | WorkspaceScope {
    if (scope instanceof WorkspaceScope)
      return new WorkspaceScope(scope.actor, scope.ref, this.#services, ids, completion)
    return AdminScope.open(scope.actor, principal, this.#services, ids, completion)
  }

  /**
   * The role in which the principal may run the operation, within its scopes; undefined if any credential will do, even
   * one without a role. Checked before the input is read, and again with the input, since some inputs need another scope.
   * @throws Problem 403
   */
  permit(operation: AnyOperation, principal: Principal, input?: unknown): Role | undefined {
    if (operation.domain === 'any') return undefined
    const role = roleFor(principal, operation.roles)
    if (role !== undefined) {
      requireScopes(operation, principal.scopes, input)
      return role
    }
    if (inDomain(principal, operation.domain)) throw roleMissing(operation)
    throw new Problem('privilege_domain_mismatch', {
      detail: `This route is of the domain ${operation.domain}: send ${credentialsFor(operation)}. You sent ${principal.seen}.`,
      members: { domain: operation.domain },
    })
  }

  /**
   * A scope for effects of an execution. It outlives the request that started it, so the tenant's state is checked again,
   * as it is for a key.
   * @throws Suspended until the tenant is resumed; Problem as {@link open} does for other states
   */
  async continueActive(ref: WorkspaceRef, actor: Actor, ids: IdSource): Promise<WorkspaceScope> {
    const states = await this.#services.tenantStates.forExecution(ref)
    if (states === undefined) throw notFound('workspace')
    refuseUnlessActive(states)
    return this.continueWorkspace(ref, actor, ids)
  }

  /** A scope in any state of the tenant, for the record of an execution. */
  continueWorkspace(ref: WorkspaceRef, actor: Actor, ids: IdSource): WorkspaceScope {
    return new WorkspaceScope(actor, ref, this.#services, ids)
  }

  /**
   * The workspace of a hosted MCP server, for a call of an authenticated client.
   * @param chainDepth how many calls of other servers are around this one
   */
  openHosted({ ref }: PublishedServer, subject: string, chainDepth?: number): WorkspaceScope {
    const actor = {
      subject,
      role: 'workspace_admin',
      ...(chainDepth !== undefined && { chainDepth }),
    } as const
    return this.continueWorkspace(ref, actor, randomIds)
  }

  continueAdmin(tenantId: TenantId, subject: string, ids: IdSource): AdminScope {
    return AdminScope.open({ subject, role: 'tenant_admin' }, { tenantId }, this.#services, ids)
  }

  async #workspace(
    operation: AnyOperation,
    principal: Principal,
    role: Role,
    wanted: string | undefined,
  ): Promise<WorkspaceRef> {
    const { tenantId, workspaceId } = principal
    if (operation.domain === 'data_access') {
      if (tenantId === undefined || workspaceId === undefined)
        throw new Problem('forbidden', { detail: 'The credential names no workspace.' })
      return { tenantId, workspaceId }
    }
    if (!isWorkspaceId(wanted)) throw notFound('workspace')
    if (role === 'workspace_admin' && wanted !== workspaceId) throw notFound('workspace')
    const found = await this.#services.tenantStates.ofWorkspace(wanted)
    if (found === undefined || (role !== 'operator' && found.tenantId !== tenantId))
      throw notFound('workspace')
    // Admins may read a suspended workspace (they can resume it). Tenant credentials are rejected at authentication.
    if (!(operation.reads && isSuspended(found))) refuseUnlessActive(found)
    return { tenantId: found.tenantId, workspaceId: wanted }
  }

  /** The quota of event streams, if an operator has set one; read whenever a stream opens. */
  async streamsMax(tenantId: TenantId | undefined): Promise<number | undefined> {
    return tenantId === undefined ? undefined : this.#services.tenantStates.streamsMax(tenantId)
  }
}

/** @throws Problem `insufficient_scope` */
function requireScopes(
  { requiredScope, conditionalScope }: AnyOperation,
  scopes: ReadonlySet<string> | undefined,
  input: unknown,
): void {
  requireScope(scopes, requiredScope)
  if (input !== undefined && conditionalScope?.when(input)) requireScope(scopes, conditionalScope.scope)
}

const roleMissing = ({ name, roles }: AnyOperation) =>
  new Problem('forbidden', { detail: `${name} needs the role ${roles.join(' or ')}.` })

/**
 * The checks of {@link Access.permit} for code of a function, which acts in a scope without a credential.
 * @throws Problem `forbidden`, `insufficient_scope`
 */
export function requireRights(
  operation: AnyOperation,
  { actor: { role, scopes } }: WorkspaceScope,
  input: unknown,
): void {
  if (!operation.roles.includes(role)) throw roleMissing(operation)
  requireScopes(operation, scopes, input)
}

const isSuspended = ({ tenant, workspace }: TenantState) =>
  tenant === 'suspended' || (tenant === 'active' && workspace === 'suspended')

function refuseUnlessActive(states: TenantState): void {
  const { tenant, workspace, seq } = states
  const state = tenant === 'active' ? workspace : tenant
  if (state === 'active') return
  if (!isSuspended(states)) throw new Problem('state_conflict', { detail: `The workspace is ${state}.` })
  throw new Suspended(suspensionOf(tenant, workspace) ?? 'tenant_suspended', seq)
}

/**
 * The same workspace for other work than the request's own operation: in another role, to which the row of its idempotency claim
 * is hidden, or of an operation that runs inside it, whose output is not that of the request. So the claim stays behind.
 */
function derived(scope: WorkspaceScope, actor: Actor): WorkspaceScope {
  const { services, ids } = internalsOf(scope)
  return new WorkspaceScope(actor, scope.ref, services, ids)
}

/** The workspace with the rights of a service key: an admin sees no documents, and an MCP tool can do no more than a key. */
export const asWorkspaceService = (scope: WorkspaceScope): WorkspaceScope =>
  derived(scope, { ...scope.actor, role: 'service' })

/** The same caller, for an operation that runs inside that of the request. */
export const forNestedRun = (scope: WorkspaceScope): WorkspaceScope => derived(scope, scope.actor)

/** The same caller in its own operation, with values that were looked up for the rules that its statements are under. */
export function withLookups(scope: WorkspaceScope, lookups: NonNullable<Actor['lookups']>): WorkspaceScope {
  const { services, ids } = internalsOf(scope)
  return new WorkspaceScope({ ...scope.actor, lookups }, scope.ref, services, ids, scope.completion)
}

/** The same caller, within other calls of tools. @param chainDepth how many */
export const withChainDepth = (scope: WorkspaceScope, chainDepth: number): WorkspaceScope =>
  derived(scope, { ...scope.actor, chainDepth })

/**
 * The scope of a request that code of a function has sent, or another call of the platform: that much deeper in their chain.
 * @param chainDepth that its headers say; undefined for a request of another sender
 */
export function nestedScope<S>(opened: S, chainDepth: number | undefined): S | WorkspaceScope {
  if (chainDepth === undefined || !(opened instanceof WorkspaceScope)) return opened
  return withChainDepth(opened, chainDepth)
}

/** The workspace with the right to start and follow its flows, for a key or token that has the scope for it. */
export const asFlowRunner = (scope: WorkspaceScope): WorkspaceScope =>
  derived(scope, { ...scope.actor, role: 'workspace_admin', credentialRole: scope.actor.role })

/** The workspace with the right to keep the records of its function runs, which callers of functions do not have themselves. */
export const asRunOwner = (scope: WorkspaceScope): WorkspaceScope =>
  derived(scope, { subject: scope.actor.subject, role: 'workspace_admin' })

/** A workspace of an admin, to keep the records of its function runs. @throws Problem `not_found` */
export function openRunScope(scope: AdminScope, ref: WorkspaceRef): WorkspaceScope {
  if (!scope.reaches(ref)) throw new Problem('not_found')
  const { services, ids } = internalsOf(scope)
  return new WorkspaceScope({ ...scope.actor, role: 'workspace_admin' }, ref, services, ids)
}

/** A workspace of an admin with the rights of a service key. @throws Problem `not_found` */
export function openWorkspaceScope(scope: AdminScope, ref: WorkspaceRef): WorkspaceScope {
  if (!scope.reaches(ref)) throw new Problem('not_found')
  const { services, ids } = internalsOf(scope)
  return new WorkspaceScope({ ...scope.actor, role: 'service' }, ref, services, ids)
}
