/** The activities that workflows may call: types only. Recorded histories contain them, so they are added to and never changed. */

import type { ErrorResponse } from '../../flows-dsl/errors.ts'
import type {
  EventSubscriptionsInput,
  ExecutionUpdate,
  PastEvents,
  RegistrationInput,
  ScheduledStart,
  ScheduledStartInput,
  SlotGeneration,
} from '../core/execution.ts'
import type { TenantRef } from '../core/tenant.ts'
import type {
  BulkChangeInput,
  BulkProgress,
  FirstAttempt,
  FunctionAttempt,
  FunctionRunInput,
  IndexBuildInput,
  Json,
  ProvisionInput,
  StepFailure,
  SuspensionInput,
  WorkFailure,
} from '../core/work.ts'

export interface FunctionCall {
  readonly function: string
  readonly arguments: { [name: string]: Json }
  /** The first attempt of this call, if a suspension has refused an earlier one. */
  readonly first_attempt?: FirstAttempt
  /** Names of the secrets that the execution may use; absent if its flow declares none. */
  readonly secrets?: readonly string[]
  /** How long a call to another server may take. */
  readonly timeout_ms?: number
  /** Once it was sent, a cancellation does not end it: its outcome decides what is compensated. */
  readonly finishes?: true
  /** The step, equal for all attempts of a call (`StepRef.callPath`): the idempotency key derives from it. */
  readonly call_path?: string
  /** The starter of the execution, for calls of tools. */
  readonly started_by?: string
}

/** The output of an inline request and its duration, which the workflow cannot measure: its clock stands still within a task. */
export type InlineResult = {
  readonly output: Json
  readonly took_ms: number
}

/** Failure details of an activity that a flow can see and catch (OWS error, RFC 7807). */
export type CallFailure = {
  readonly type: string
  readonly status: number
  readonly title: string
  readonly detail: string
  readonly code?: string
  readonly response?: ErrorResponse
}

export interface Activities {
  /** Runs one provisioning step and records it; idempotent. Returns true if the step has more to do. */
  provisionStep(input: ProvisionInput, step: string): Promise<boolean>
  /** Ends a provisioning as failed by a step. */
  provisionFailed(input: ProvisionInput, failures: readonly StepFailure[]): Promise<void>
  /** Builds one index of a collection and records it; idempotent. */
  buildIndex(input: IndexBuildInput, name: string): Promise<void>
  /** Records that an index could not be built. */
  indexFailed(input: IndexBuildInput, name: string, failure: WorkFailure): Promise<void>
  /** Goes on with a bulk change for some seconds; a repeated attempt changes nothing twice. Returns whether it has more to do. */
  changeDocuments(input: BulkChangeInput): Promise<BulkProgress>
  /** Ends a bulk change as failed; idempotent. */
  failBulkChange(input: BulkChangeInput, failure: WorkFailure): Promise<void>
  /** Changes the state of a tenant or workspace, unless it was changed since the request; idempotent. */
  changeState(input: SuspensionInput): Promise<void>
  /** Signals the current suspension state to the open executions of a tenant or workspace: to all, or to those not shown as suspended. */
  signalExecutions(target: TenantRef, which: 'all' | 'active'): Promise<void>
  /** Calls a function of the catalogue, or a tool of an MCP server (`mcp`); repeated attempts have its effect once. */
  callFunction(call: FunctionCall): Promise<Json>
  /** Creates the execution of a flow that another execution runs, and selects its version; idempotent. */
  startSubflow(call: FunctionCall): Promise<Json>
  /** Opens a callback for a step and returns its id and URL. Each attempt voids the URL of the one before. */
  openCallback(call: FunctionCall): Promise<Json>
  /** Starts the target of a due schedule, or returns the reason why it starts nothing; idempotent. */
  startScheduled(input: ScheduledStartInput): Promise<ScheduledStart>
  /** Synchronises the schedules of a flow or a function in Temporal with their rows; idempotent. */
  registerTriggers(input: RegistrationInput): Promise<void>
  /** Sends one HTTP request through the egress guard. */
  callHttp(call: FunctionCall): Promise<Json>
  /** Sends the request with the short timeout of inline calls; null if it must be sent again with {@link callHttp}. */
  callHttpInline(call: FunctionCall): Promise<InlineResult | null>
  /** Reads an OpenAPI document and returns the arguments of `callHttp` for one of its operations. */
  planOpenApi(call: FunctionCall): Promise<Json>
  /** Makes one attempt of a run of a function, and records its success; the code of an attempt begins once. */
  runFunction(input: FunctionAttempt): Promise<Json>
  /** The same within a workflow task; null if no slot is free, and the attempt has not begun. */
  runFunctionInline(input: FunctionAttempt): Promise<{ readonly result: Json } | null>
  /** Records that a run of a function has failed for good; idempotent. Returns true if its record has completed before. */
  failFunctionRun(input: FunctionRunInput, error: Json): Promise<boolean>
  /** Releases the slot of a waiting execution; idempotent. */
  yieldSlot(slot: SlotGeneration): Promise<void>
  /** Queues for the slot again. Returns false if none is free: the signal `slotGranted` follows. Idempotent. */
  reacquireSlot(slot: SlotGeneration & { readonly at_once: boolean }): Promise<boolean>
  /** Replaces the event subscriptions of an execution, and reads past events that match them; idempotent. */
  subscribeEvents(input: EventSubscriptionsInput): Promise<PastEvents>
  /** Writes changes of an execution to its projection; idempotent. */
  recordExecution(update: ExecutionUpdate): Promise<void>
}

/** Calls of workflows that return nothing (`Sinks` of Temporal's SDK). */
export type Records = {
  readonly records: {
    /** Does the same as `recordExecution`, for an execution that ends. */
    write(update: ExecutionUpdate): void
    /** Says that the first step of an execution is about to begin. */
    began(executionId: string): void
  }
}
