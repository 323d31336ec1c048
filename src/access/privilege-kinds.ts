/** Describes the kinds of privileges: what each opens, for whom, and with which opener. */

import type { IdSource } from '../core/ids.ts'
import type { Actor, ActorIn, Role } from '../core/policy.ts'
import type { TenantId, WorkspaceRef } from '../core/tenant.ts'
import type { Access } from './access.ts'
import type { PlatformServices } from './internals.ts'
import type { AdminScope, WorkspaceScope } from './scope.ts'

export type Lookups = NonNullable<Actor['lookups']>

/** The openers of openers.ts, bound to the roles of a row. @typeParam R the roles of the scopes that it opens */
export interface Openers<R extends Role> {
  readonly inRole: (scope: WorkspaceScope) => WorkspaceScope
  readonly asSubject: (scope: WorkspaceScope) => WorkspaceScope
  readonly withLookups: (scope: WorkspaceScope, lookups: Lookups) => WorkspaceScope
  readonly inWorkspace: (scope: AdminScope, ref: WorkspaceRef) => WorkspaceScope
  readonly ifActive: (
    access: Access,
    ref: WorkspaceRef,
    actor: ActorIn<R>,
    ids?: IdSource,
  ) => Promise<WorkspaceScope>
  readonly inAnyState: (
    access: Access,
    ref: WorkspaceRef,
    actor: ActorIn<R>,
    ids?: IdSource,
  ) => WorkspaceScope
  readonly ofTenant: (access: Access, tenantId: TenantId, subject: string, ids?: IdSource) => AdminScope
}

interface Row {
  /** The only module that may have it, below `src`. */
  readonly module: string
  readonly reason: string
}

/** Raises the rights of a scope. */
export interface Raise extends Row {
  readonly opener: 'inRole' | 'asSubject' | 'withLookups' | 'inWorkspace'
  /** The roles of the scopes that it takes. */
  readonly from: readonly Role[]
  readonly to: readonly [Role]
}

/** Opens a scope for work without a credential, such as an activity or a webhook. */
interface Entry extends Row {
  readonly opener: 'ifActive' | 'inAnyState' | 'ofTenant'
  readonly to: readonly Role[]
}

/**
 * Acts as a role that no credential has: the owner of the tables of collections (`tenon_tables`), which sees none of their rows, or
 * the role that counts and deletes all rows (`tenon_purger`); or reads a workspace or a tenant at one moment, as a key of the service and as an admin.
 */
export interface RoleAccess extends Row {
  readonly opener: 'tables' | 'purge' | 'snapshot'
  /** The roles of the scopes that it takes. */
  readonly from: readonly Role[]
}

/** Hands out a service that knows no rights, and of all of them only this one. */
interface ServiceAccess extends Row {
  readonly opener: 'service'
  readonly service: keyof PlatformServices
}

export type Privilege = Raise | Entry | RoleAccess | ServiceAccess
