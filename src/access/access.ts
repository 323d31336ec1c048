/** Opens scopes for credentials: the only file that turns one into a scope, for every entry point. */

import { randomIds } from '../core/ids.ts'
import type { AnyOperation } from '../core/operation.ts'
import { type Actor, boundingWorkspace, type Principal, type Role } from '../core/policy.ts'
import { notFound, Problem } from '../core/problem.ts'
import { isWorkspaceId, type TenantId, type WorkspaceRef } from '../core/tenant.ts'
import type { Claim } from './idempotency.ts'
import { attachServices, type PlatformServices } from './internals.ts'
import type { Permission } from './permission.ts'
import type { BucketState } from './rate-limit/memory-buckets.ts'
import { AdminScope, CallerScope, WorkspaceScope } from './scope.ts'
import { isSuspended, refuseUnlessActive } from './tenant-states.ts'

export class Access {
  readonly #services: PlatformServices

  constructor(services: PlatformServices) {
    this.#services = services
    attachServices(this, services)
  }

  /**
   * @param workspaceId from the path, for operations of an admin inside a workspace
   * @param rateLimits rate limits of the request, for operations about the caller
   * @throws Problem 404 if the workspace is not the caller's; 403 `tenant_suspended` or `workspace_suspended`, and 409
   *   `state_conflict` in any other state, unless an admin only reads a suspended workspace
   */
  async open(
    permission: Permission,
    workspaceId?: string,
    rateLimits: readonly BucketState[] = [],
  ): Promise<AdminScope | WorkspaceScope | CallerScope> {
    const { operation, principal, role } = permission
    if (role === undefined) {
      const caller = new CallerScope(principal, rateLimits, this.#services.publicUrl)
      attachServices(caller, this.#services)
      return caller
    }
    const {
      subject,
      clientId,
      groups,
      user,
      scopes,
      storage,
      kind,
      roles,
      claims,
      link,
      seesPayloads,
      replaces,
    } = principal
    const actor: Actor = {
      ...{ subject, role },
      credential: {
        ...{ kind, roles, ...(claims && { claims }), ...(link && { link }) },
        ...(seesPayloads && { seesPayloads }),
        ...(replaces && { replaces }),
      },
      // It changes nothing, whatever its scopes are.
      ...(claims?.dataToken?.role === 'viewer' && { credentialRole: 'viewer' as const }),
      ...(clientId !== undefined && { clientId }),
      ...(groups !== undefined && { groups }),
      ...(user !== undefined && { user }),
      ...(scopes !== undefined && { scopes }),
      ...(storage !== undefined && { storage }),
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
    if ((boundingWorkspace(role, workspaceId) ?? wanted) !== wanted) throw notFound('workspace')
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
