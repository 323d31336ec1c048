/** Opens scopes for credentials: the only file that turns one into a scope, for every entry point. */

import { randomIds } from '../core/ids.ts'
import type { AnyOperation } from '../core/operation.ts'
import { type Actor, inDomain, type Principal, type Role, requireScope, roleFor } from '../core/policy.ts'
import { notFound, Problem } from '../core/problem.ts'
import { isWorkspaceId, type TenantId, type WorkspaceRef } from '../core/tenant.ts'
import type { Claim } from './idempotency.ts'
import { attachServices, type PlatformServices } from './internals.ts'
import type { BucketState } from './rate-limit/memory-buckets.ts'
import { AdminScope, CallerScope, WorkspaceScope } from './scope.ts'
import { isSuspended, refuseUnlessActive } from './tenant-states.ts'

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
    attachServices(this, services)
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
