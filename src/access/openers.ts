/** Opens scopes with other rights than those of a credential. For this folder only: others name a privilege (privileges.ts). */

import { type IdSource, randomIds } from '../core/ids.ts'
import type { Actor, Role } from '../core/policy.ts'
import { notFound, Problem } from '../core/problem.ts'
import type { TenantId, TenantRef, WorkspaceId, WorkspaceRef } from '../core/tenant.ts'
import type { StatementExecutor, Statements } from '../infra/postgres/database.ts'
import { openCache } from '../infra/ttl-cache.ts'
import type { Access } from './access.ts'
import type { Claim } from './idempotency.ts'
import { internalsOf, servicesOf } from './internals.ts'
import { AdminScope, RoleScope, WorkspaceScope } from './scope.ts'
import { refuseUnlessActive } from './tenant-states.ts'

/**
 * The same workspace for other work than the request's own operation: in another role, to which the row of its idempotency claim
 * is hidden, or of an operation that runs inside it, whose output is not that of the request. So the claim stays behind.
 */
export function derivedScope(scope: WorkspaceScope, actor: Actor): WorkspaceScope {
  const { services, ids } = internalsOf(scope)
  return new WorkspaceScope(actor, scope.ref, services, ids)
}

/** The same caller, with the ids and the completion of a claim. */
export function claimedScope(
  scope: WorkspaceScope,
  { ids, completion }: Pick<Claim, 'ids' | 'completion'>,
): WorkspaceScope {
  return new WorkspaceScope(scope.actor, scope.ref, internalsOf(scope).services, ids, completion)
}

/** The same caller in another role. */
export const inRole = (scope: WorkspaceScope, role: Role): WorkspaceScope =>
  derivedScope(scope, { ...scope.actor, role, credentialRole: scope.actor.role, ...viewing(scope.actor) })

/** A viewer stays one in every role, so that the transactions are read-only. */
const viewing = ({ role, credentialRole }: Actor): Pick<Actor, 'credentialRole'> =>
  role === 'viewer' || credentialRole === 'viewer' ? { credentialRole: 'viewer' } : {}

/** As {@link inRole}, of the caller the subject alone: what it causes has no other causes, no user, and begins a chain of calls. */
export const asSubject = (scope: WorkspaceScope, role: Role): WorkspaceScope =>
  derivedScope(scope, { subject: scope.actor.subject, role })

/** The same caller in its own operation, with values that were looked up for the rules that its statements are under. */
export function withLookups(scope: WorkspaceScope, lookups: NonNullable<Actor['lookups']>): WorkspaceScope {
  const { services, ids } = internalsOf(scope)
  return new WorkspaceScope({ ...scope.actor, lookups }, scope.ref, services, ids, scope.completion)
}

/**
 * The tables of declared collections of a workspace that an admin reaches, as the role that owns them: to create, alter and drop
 * them, and to see none of their rows.
 * @param transaction the scope of the transaction that changes the declaration
 * @throws Problem `not_found` for any other workspace
 */
export function tables(transaction: AdminScope, ref: WorkspaceRef): Statements {
  if (!transaction.reaches(ref)) throw new Problem('not_found')
  return new RoleScope(internalsOf(transaction).services, 'tenon_tables', ref)
}

/**
 * All rows of a tenant or a workspace that an admin reaches, as the role that counts and deletes them.
 * @throws Problem `not_found` for any other
 */
export function purge(scope: AdminScope, ref: TenantRef): Statements {
  if (!scope.reaches(ref)) throw new Problem('not_found')
  return new RoleScope(internalsOf(scope).services, 'tenon_purger', ref)
}

/** What a tenant has at one moment. Nothing can be changed. */
export interface Snapshot {
  readonly tenant: AdminScope
  readonly open: (workspaceId: WorkspaceId) => WorkspaceSnapshot
}

/** The content of a workspace at one moment: what keys of the service see, and what its admins see. */
export interface WorkspaceSnapshot {
  readonly documents: WorkspaceScope
  readonly structure: WorkspaceScope
}

/**
 * Reads a tenant, or one workspace, that an admin reaches in one transaction, so that all statements see the same moment.
 * @throws Problem `not_found` for any other, also inside
 */
export function snapshot<T>(
  scope: AdminScope,
  ref: TenantRef,
  work: (inside: Snapshot) => Promise<T>,
): Promise<T> {
  if (!scope.reaches(ref)) throw new Problem('not_found')
  const { services, ids } = internalsOf(scope)
  const { subject } = scope.actor
  const read = (statements: StatementExecutor) => {
    // What was declared and set at that moment must not become what this process believes of the present.
    const inside = { ...services, statements, cache: openCache() }
    const { tenantId } = ref
    return work({
      tenant: AdminScope.open({ subject, role: 'tenant_admin' }, { tenantId }, inside, ids),
      open: (workspaceId) => {
        if (ref.workspaceId !== '-' && ref.workspaceId !== workspaceId) throw new Problem('not_found')
        const own = { tenantId, workspaceId }
        return {
          documents: new WorkspaceScope({ subject, role: 'service' }, own, inside, ids),
          structure: new WorkspaceScope({ subject, role: 'workspace_admin' }, own, inside, ids),
        }
      },
    })
  }
  return services.database.transaction(ref.tenantId, read, 'snapshot')
}

/** A workspace that an admin reaches. @throws Problem `not_found` for any other */
export function inWorkspace(scope: AdminScope, ref: WorkspaceRef, role: Role): WorkspaceScope {
  if (!scope.reaches(ref)) throw new Problem('not_found')
  const { services, ids } = internalsOf(scope)
  return new WorkspaceScope({ ...scope.actor, role, ...viewing(scope.actor) }, ref, services, ids)
}

/**
 * A workspace for work that outlives the request that started it, so the state of the tenant is checked again.
 * @throws Suspended until the tenant is resumed; Problem `not_found`; `state_conflict` in other states
 */
export async function ifActive(
  access: Access,
  ref: WorkspaceRef,
  actor: Actor,
  ids: IdSource = randomIds,
): Promise<WorkspaceScope> {
  const states = await servicesOf(access).tenantStates.forExecution(ref)
  if (states === undefined) throw notFound('workspace')
  refuseUnlessActive(states)
  return inAnyState(access, ref, actor, ids)
}

/** A workspace in any state of the tenant, for reading, and for recording what was done. */
export const inAnyState = (
  access: Access,
  ref: WorkspaceRef,
  actor: Actor,
  ids: IdSource = randomIds,
): WorkspaceScope => new WorkspaceScope(actor, ref, servicesOf(access), ids)

/** The structure of one tenant. */
export const ofTenant = (
  access: Access,
  tenantId: TenantId,
  subject: string,
  ids: IdSource = randomIds,
): AdminScope => AdminScope.open({ subject, role: 'tenant_admin' }, { tenantId }, servicesOf(access), ids)
