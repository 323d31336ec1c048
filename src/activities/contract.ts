/** What workflows may ask of activities: types only. Add, never change; recorded histories hold them. */

import type {
  FunctionRunInput,
  IndexBuildInput,
  Json,
  ProvisionInput,
  RunUpdate,
  WorkFailure,
} from '../core/work.ts'

export interface FunctionCall {
  readonly function: string
  readonly arguments: { [name: string]: Json }
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
  /** Builds one index of a collection and records it; idempotent. */
  buildIndex(input: IndexBuildInput, name: string): Promise<void>
  /** Records that an index could not be built. */
  indexFailed(input: IndexBuildInput, name: string, failure: WorkFailure): Promise<void>
  /** Calls a function of the catalogue; its effect happens once, however often it is attempted. */
  callFunction(call: FunctionCall): Promise<Json>
  /** Sends one HTTP request through the egress guard. */
  callHttp(call: FunctionCall): Promise<Json>
  /** Runs user code once; never attempted a second time. */
  runFunction(input: FunctionRunInput): Promise<Json>
  /** Brings the projection of a run up to date; idempotent. */
  recordRun(update: RunUpdate): Promise<void>
}
