/** Declares what a tenant or a workspace has in another system, such as a bucket: made by its creation, compared by the drift, removed by its end. */

import type { AdminScope } from '../../../access/scope.ts'
import type { TenantRef } from '../../../core/tenant.ts'

/** How what is there differs from what the database says. */
export interface Difference {
  readonly resource: string
  /** As the other system names it. */
  readonly name: string
  /** `left_over`: the platform has made it, and the database does not know it; `foreign`: the platform did not make it. */
  readonly kind: 'missing' | 'altered' | 'left_over' | 'foreign'
  readonly detail: string
  /** True if the platform repairs it by itself. False if that would hide a loss, or touch what is not its own. */
  readonly isRepaired: boolean
}

/**
 * One kind of resource of another system. Each call throws a Problem (`dependency_unavailable`, `conflict`) if the system cannot be asked or refuses, and none
 * has an effect if the tenant or workspace has no such resource.
 */
export interface Comparable {
  /** As a drift names it. */
  readonly name: string
  readonly of: 'tenant' | 'workspace'
  /** Compares it with the database, and changes nothing. */
  plan(scope: AdminScope, ref: TenantRef): Promise<readonly Difference[]>
  /** Makes it, or makes it as it should be. Idempotent. */
  apply(scope: AdminScope, ref: TenantRef): Promise<void>
}

/** One that the creation makes, in a step of its name. */
export interface Resource extends Comparable {
  /** Removes it, also what an attempt to make it has left. Idempotent. */
  remove(scope: AdminScope, ref: TenantRef): Promise<void>
}

/** One of which an inventory counts how many there are, by the name of the resource; of an optional system. */
export interface CountedResource extends Resource {
  /** False if the installation has no such system: then creations have no step for it. */
  isConfigured(scope: AdminScope): boolean
  /** Of a workspace, or of a tenant with all its workspaces. */
  count(scope: AdminScope, ref: TenantRef): Promise<number>
}
