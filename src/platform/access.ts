/** Principal + operation + input → scope. The one place where a credential becomes a handle, for every door. */

import { type IdSource, randomIds } from '../core/ids.ts'
import type { AnyOperation } from '../core/operation.ts'
import { type Actor, inDomain, type Principal, type Role, requireScope, roleFor } from '../core/policy.ts'
import { notFound, Problem } from '../core/problem.ts'
import { isWorkspaceId, type TenantId, type WorkspaceRef } from '../core/tenant.ts'
import { CallerScope } from './caller.ts'
import type { Claim } from './idempotency.ts'
import type { Hosted } from './identity/hosted.ts'
import { lentTo } from './lent.ts'
import type { Standing } from './limiter/passage.ts'
import type { Parts } from './parts.ts'
import { AdminScope, WorkspaceScope } from './scope.ts'
import { type States, Suspended, suspensionOf } from './tenant-states.ts'

const NEEDED = {
  structural_admin: 'an operator or tenant-admin token (`Authorization: Bearer …`)',
  data_access: 'an API key (`apikey: svc_…`) or a token that names a tenant and a workspace',
} as const

export class Access {
  readonly #parts: Parts

  constructor(parts: Parts) {
    this.#parts = parts
  }

  /**
   * @param workspaceId what the path names, for operations inside a workspace that an admin reaches
   * @param standings how the request stands with its limits, for operations about the caller
   * @throws Problem 403 where the domain or the role does not fit, 404 where the workspace is not the caller's
   */
  async open(
    operation: AnyOperation,
    principal: Principal,
    workspaceId?: string,
    standings: readonly Standing[] = [],
  ): Promise<AdminScope | WorkspaceScope | CallerScope> {
    const role = this.permit(operation, principal)
    if (role === undefined) return CallerScope.open(principal, standings)
    const actor = { subject: principal.subject, role }
    if (operation.reach === 'admin') return AdminScope.open(actor, principal, this.#parts, randomIds)
    const ref = await this.#workspace(operation, principal, role, workspaceId)
    return WorkspaceScope.open(actor, ref, this.#parts, randomIds)
  }

  /** What {@link open} gave this principal, once more, for a request that may be sent again. */
  openSeeded(
    opened: AdminScope | WorkspaceScope,
    principal: Principal,
    { ids, mark }: Pick<Claim, 'ids' | 'mark'>,
  ): AdminScope | WorkspaceScope {
    if (opened instanceof WorkspaceScope)
      return WorkspaceScope.open(opened.actor, opened.ref, this.#parts, ids, [mark])
    return AdminScope.open(opened.actor, principal, this.#parts, ids)
  }

  /**
   * The role in which the principal may run the operation, within its scopes; undefined where any credential will do,
   * also one without a role. Needs no input, so it is asked before any is read; and once more with the input, where some
   * inputs need more.
   * @throws Problem 403
   */
  permit(operation: AnyOperation, principal: Principal, input?: unknown): Role | undefined {
    if (operation.domain === 'any') return undefined
    const role = roleFor(principal, operation.roles)
    if (role !== undefined) {
      const { requiredScope, alsoNeeds } = operation
      requireScope(principal.scopes, requiredScope)
      if (input !== undefined && alsoNeeds?.when(input)) requireScope(principal.scopes, alsoNeeds.scope)
      return role
    }
    if (inDomain(principal, operation.domain)) {
      throw new Problem('forbidden', {
        detail: `${operation.name} needs the role ${operation.roles.join(' or ')}.`,
      })
    }
    throw new Problem('privilege_domain_mismatch', {
      detail: `This route is of the domain ${operation.domain}: send ${NEEDED[operation.domain]}. You sent ${principal.seen}.`,
      members: { domain: operation.domain },
    })
  }

  /**
   * A scope for what a run of this ref does to data or to the world. A run outlives the request that started it, so
   * whether its tenant is still active is asked here again, as it is for a key.
   * @throws Suspended, on which the run waits until it is resumed; Problem as {@link open} does for other states
   */
  async continueActive(ref: WorkspaceRef, actor: Actor, ids: IdSource): Promise<WorkspaceScope> {
    const states = await this.#parts.tenantStates.ofRun(ref)
    if (states === undefined) throw notFound('workspace')
    refuseUnlessActive(states)
    return this.continueWorkspace(ref, actor, ids)
  }

  /** A scope for the record of such a run, which is kept whatever has become of its tenant. */
  continueWorkspace(ref: WorkspaceRef, actor: Actor, ids: IdSource): WorkspaceScope {
    return WorkspaceScope.open(actor, ref, this.#parts, ids)
  }

  /** The workspace of a hosted MCP server, for a call on it whose caller `platform/guests` has admitted. */
  openHosted(server: Hosted, subject: string): WorkspaceScope {
    return WorkspaceScope.open({ subject, role: 'workspace_admin' }, server.ref, this.#parts, randomIds)
  }

  continueAdmin(tenantId: TenantId, subject: string, ids: IdSource): AdminScope {
    return AdminScope.open({ subject, role: 'tenant_admin' }, { tenantId }, this.#parts, ids)
  }

  async #workspace(
    operation: AnyOperation,
    principal: Principal,
    role: Role,
    wanted: string | undefined,
  ): Promise<WorkspaceRef> {
    const { tenantId, workspaceId } = principal
    if (operation.domain === 'data_access') {
      if (tenantId === undefined || workspaceId === undefined) throw new Problem('forbidden')
      return { tenantId, workspaceId }
    }
    if (!isWorkspaceId(wanted)) throw notFound('workspace')
    if (role === 'workspace_admin' && wanted !== workspaceId) throw notFound('workspace')
    const found = await this.#parts.tenantStates.ofWorkspace(wanted)
    if (found === undefined || (role !== 'operator' && found.tenantId !== tenantId))
      throw notFound('workspace')
    // Who may resume a workspace may look at what stands still in it; the tenant's own credentials came not so far.
    if (!(operation.reads && isSuspended(found))) refuseUnlessActive(found)
    return { tenantId: found.tenantId, workspaceId: wanted }
  }

  /** How many streams a tenant may have, where an operator has said so. Asked as each opens. */
  async streamsMax(tenantId: TenantId | undefined): Promise<number | undefined> {
    return tenantId === undefined ? undefined : this.#parts.tenantStates.streamsMax(tenantId)
  }
}

const isSuspended = ({ tenant, workspace }: States) =>
  tenant === 'suspended' || (tenant === 'active' && workspace === 'suspended')

function refuseUnlessActive(states: States): void {
  const { tenant, workspace, seq } = states
  const state = tenant === 'active' ? workspace : tenant
  if (state === 'active') return
  if (!isSuspended(states)) throw new Problem('state_conflict', { detail: `The workspace is ${state}.` })
  throw new Suspended(suspensionOf(tenant, workspace) ?? 'tenant_suspended', seq)
}

/**
 * The same workspace with the rights of a service key, as an admin may make one: an admin scope sees no documents, and a
 * tool of an MCP server can do no more than such a key.
 */
export function asService(scope: WorkspaceScope): WorkspaceScope {
  const { parts, ids } = lentTo(scope)
  return WorkspaceScope.open({ ...scope.actor, role: 'service' }, scope.ref, parts, ids, scope.marks)
}

/** A workspace with the rights of a service key, as its admin may make one. @throws Problem `not_found` */
export function insideOf(scope: AdminScope, ref: WorkspaceRef): WorkspaceScope {
  if (!scope.reaches(ref)) throw new Problem('not_found')
  const { parts, ids } = lentTo(scope)
  return WorkspaceScope.open({ ...scope.actor, role: 'service' }, ref, parts, ids)
}
