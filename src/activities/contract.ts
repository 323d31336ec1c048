/** What workflows may ask of activities: types only. Add, never change; recorded histories hold them. */

import type { TenantRef } from '../core/tenant.ts'

type Json = null | boolean | number | string | Json[] | { [name: string]: Json }

export interface ProvisionInput {
  readonly operation_id: string
  readonly kind: 'tenant' | 'workspace'
  readonly target: TenantRef
  readonly steps: readonly string[]
}

export interface FunctionCall {
  readonly function: string
  readonly arguments: { [name: string]: Json }
}

/** One line of an execution's steps, as it stands now. `seq` is its place in the run. */
export interface StepUpdate {
  readonly seq: number
  readonly name: string
  readonly kind: string
  readonly pointer: string
  readonly iteration: number
  readonly summary: string
  readonly status: 'running' | 'completed' | 'faulted' | 'skipped'
  readonly error?: Json
  readonly started_at: string
  readonly ended_at?: string
}

/** What has changed of a run since the update before. */
export interface RunUpdate {
  readonly execution_id: string
  readonly status: 'running' | 'waiting' | 'cancelled' | 'faulted' | 'completed'
  readonly steps: readonly StepUpdate[]
  readonly output?: Json
  readonly error?: Json
  readonly ended_at?: string
}

/** Failure details of an activity that a flow can see and catch (OWS error, RFC 7807). */
export interface CallFailure {
  readonly type: string
  readonly status: number
  readonly title: string
  readonly detail: string
}

export interface Activities {
  /** Runs one provisioning step and records it; idempotent. */
  provisionStep(input: ProvisionInput, step: string): Promise<void>
  /** Ends a provisioning as failed. */
  provisionFailed(input: ProvisionInput, detail: string): Promise<void>
  /** Calls a function of the catalogue; its effect happens once, however often it is attempted. */
  callFunction(call: FunctionCall): Promise<Json>
  /** Sends one HTTP request through the egress guard. */
  callHttp(call: FunctionCall): Promise<Json>
  /** Brings the projection of a run up to date; idempotent. */
  recordRun(update: RunUpdate): Promise<void>
}
