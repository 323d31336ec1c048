/** Shapes that features, workflows and activities exchange: provisioning, index builds, suspensions, function runs. */

import type { TenantRef, WorkspaceRef } from './tenant.ts'

/** Task queues, shared by all tenants; Temporal provides fairness between them (`fairnessKey`). */
export const QUEUES = {
  flows: 'tenon-flows',
  calls: 'tenon-calls',
  provisioning: 'tenon-provisioning',
  functions: 'tenon-functions',
  indexes: 'tenon-indexes',
} as const

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json }

/** Provisioning of a tenant or workspace, and its named steps. */
export interface ProvisionInput {
  readonly operation_id: string
  readonly kind: 'tenant' | 'workspace'
  readonly target: TenantRef
  readonly steps: readonly string[]
}

/** Indexes of a schema to build, by name. */
export interface IndexBuildInput {
  readonly operation_id: string
  readonly schema_id: string
  readonly target: WorkspaceRef
  readonly indexes: readonly string[]
}

/** The reason why a job failed, as its record shows it. */
export interface WorkFailure {
  readonly code: string
  readonly detail: string
  readonly [member: string]: Json
}

/** A suspension or resumption of a workspace or a tenant. */
export interface SuspensionInput {
  readonly target: TenantRef
  readonly to: 'active' | 'suspended'
  /** The `state_seq` of the target at the time of the request. If it has changed since, this has no effect. */
  readonly after: number
  readonly by: string
  readonly reason: string | null
}

/** The first attempt of a call. Later attempts derive the same ids from it. */
export interface FirstAttempt {
  readonly activity_id: string
  readonly at_ms: number
  /** The order among calls that started at the same time; absent for 0. */
  readonly order?: number
}

/** Details of the failure `held`: the call had no effect, since the workspace is suspended. */
export interface SuspendedFailure {
  readonly seq: number
  readonly code: 'tenant_suspended' | 'workspace_suspended'
  readonly begun: FirstAttempt
}

/** An invocation of a function: version, input and limits, all fixed when it is started. */
export interface FunctionRunInput {
  readonly function: { readonly id: string; readonly name: string; readonly version: number }
  readonly input: Json
  readonly timeout_ms: number
  readonly memory_mb: number
  /** Secrets of the calling execution, whose handles in the input stand for values. */
  readonly secrets?: LentSecrets
}

/** The names of secrets that an invocation may use, never their values. */
export interface LentSecrets {
  /** The workflow id of the execution that the handles belong to. */
  readonly run: string
  readonly names: readonly string[]
}
