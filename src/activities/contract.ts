/** The activities that workflows may call: types only. Add, never change; recorded histories contain them. */

import type {
  FlowTriggerInput,
  RegistrationInput,
  RunUpdate,
  SlotGeneration,
  Triggered,
} from '../core/run.ts'
import type { TenantRef } from '../core/tenant.ts'
import type {
  Begun,
  FunctionRunInput,
  IndexBuildInput,
  Json,
  ProvisionInput,
  SuspensionInput,
  WorkFailure,
} from '../core/work.ts'

export interface FunctionCall {
  readonly function: string
  readonly arguments: { [name: string]: Json }
  /** Where the call was held before: the attempt that it goes on with. */
  readonly begun?: Begun
  /** Names of the secrets that the run may use; nothing where it has none. */
  readonly secrets?: readonly string[]
}

/** What a request gave that was over in a moment, and how long the moment was: a run knows no time within a task. */
export type Tried = {
  readonly output: Json
  readonly took_ms: number
}

/** Failure details of an activity that a flow can see and catch (OWS error, RFC 7807). */
export type CallFailure = {
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
  /** Makes the change, unless it is made or another has come since; idempotent. */
  changeStanding(input: SuspensionInput): Promise<void>
  /** Tells the open runs of a tenant, or of a workspace, how they stand now: all, or those that are not held yet. */
  tellRuns(target: TenantRef, whom: 'all' | 'unheld'): Promise<void>
  /** Closes or opens the object store to the workspaces' own identities, as they stand now; idempotent. */
  turnStorage(target: TenantRef): Promise<void>
  /** Calls a function of the catalogue; its effect happens once, however often it is attempted. */
  callFunction(call: FunctionCall): Promise<Json>
  /** Writes the execution of a flow that another runs, and reads which version it is; idempotent. */
  beginSubflow(call: FunctionCall): Promise<Json>
  /** Writes the execution that a trigger begins, or says why it begins none; idempotent. */
  admitTrigger(input: FlowTriggerInput): Promise<Triggered>
  /** Brings what triggers of a flow have outside the database to what their rows say; idempotent. */
  registerTriggers(input: RegistrationInput): Promise<void>
  /** Sends one HTTP request through the egress guard. */
  callHttp(call: FunctionCall): Promise<Json>
  /** The same if it is over in a moment; null if it was not, and is to be sent again with time for it. */
  tryHttp(call: FunctionCall): Promise<Tried | null>
  /** Reads an OpenAPI document; answers the arguments of `callHttp` that ask for one of its operations. */
  planOpenApi(call: FunctionCall): Promise<Json>
  /** Runs user code once; never attempted a second time. */
  runFunction(input: FunctionRunInput): Promise<Json>
  /** A run that waits gives its place among those of its flow back; idempotent. */
  leavePlace(place: SlotGeneration): Promise<void>
  /** It wants it again: answers whether it has it, else it is told by the signal `placed`. Idempotent. */
  wantPlace(place: SlotGeneration & { readonly at_once: boolean }): Promise<boolean>
  /** Brings the projection of a run up to date; idempotent. */
  recordRun(update: RunUpdate): Promise<void>
}

/** What runs say without waiting for an answer (`Sinks` of Temporal's SDK). */
export type Records = {
  readonly records: {
    /** The same as `recordRun`, by a run that ends. */
    write(update: RunUpdate): void
  }
}
