/** What durable work is told and tells, of whatever kind: plain shapes that travel between resources, workflows and activities. */

import type { TenantRef, WorkspaceRef } from './tenant.ts'

/** Queues are shared by all tenants; fairness by tenant is Temporal's own (`fairnessKey`). */
export const QUEUES = {
  flows: 'tenon-flows',
  calls: 'tenon-calls',
  provisioning: 'tenon-provisioning',
  functions: 'tenon-functions',
  indexes: 'tenon-indexes',
} as const

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json }

/** A provisioning: what is made, and through which named steps. */
export interface ProvisionInput {
  readonly operation_id: string
  readonly kind: 'tenant' | 'workspace'
  readonly target: TenantRef
  readonly steps: readonly string[]
}

/** Indexes of a schema that are to be built, by their names there. */
export interface IndexBuildInput {
  readonly operation_id: string
  readonly schema_id: string
  readonly target: WorkspaceRef
  readonly indexes: readonly string[]
}

/** Why a piece of work could not be done, as the record of its operation tells it. */
export interface WorkFailure {
  readonly code: string
  readonly detail: string
  readonly [member: string]: Json
}

/** A change between active and suspended: of a workspace, or of the tenant as a whole. */
export interface SuspensionInput {
  readonly target: TenantRef
  readonly to: 'active' | 'suspended'
  /** Changes that the target had seen when this one was asked for: where another has come since, it is not made. */
  readonly after: number
  readonly by: string
  readonly reason: string | null
}

/** The attempt that was the first of a call: one that goes on with it makes the same ids. */
export interface Begun {
  readonly activity_id: string
  readonly at_ms: number
  /** Among those that began at the same time; nothing for none. */
  readonly order?: number
}

/** Details of the failure `held`: nothing was done, since the workspace is suspended. */
export interface Held {
  readonly seq: number
  readonly code: 'tenant_suspended' | 'workspace_suspended'
  readonly begun: Begun
}

/** A run of a function: which version, on what, within which bounds; all pinned when it was started. */
export interface FunctionRunInput {
  readonly function: { readonly id: string; readonly name: string; readonly version: number }
  readonly input: Json
  readonly timeout_ms: number
  readonly memory_mb: number
  /** What the run of a flow has lent to it: handles in the input stand for values. */
  readonly secrets?: LentSecrets
}

/** Secrets that a run may use, never their values. */
export interface LentSecrets {
  /** The workflow id of the run whose handles they are. */
  readonly run: string
  readonly names: readonly string[]
}
