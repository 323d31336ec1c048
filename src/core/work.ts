/** Work in Temporal: the shapes that features, workflows and activities exchange, and the purpose of each argument. */

import type { EndUser } from './policy.ts'
import type { TenantRef, WorkspaceRef } from './tenant.ts'
import type { Trace } from './trace.ts'

/**
 * The version of what the API, the workers and recorded histories agree on: workflow types, their arguments, signals, updates and
 * activities. It grows with a change that a running process of the version before cannot work with.
 */
export const PROTOCOL = 1

/** Task queues, shared by all tenants; Temporal provides fairness between them (`fairnessKey`). */
export const QUEUES = {
  flows: 'tenon-flows',
  calls: 'tenon-calls',
  provisioning: 'tenon-provisioning',
  functions: 'tenon-functions',
  indexes: 'tenon-indexes',
  archives: 'tenon-archives',
} as const

/**
 * The search attributes of workflows by name, with their types. Every namespace registers exactly these. Their values contain names
 * of definitions, ids of the platform, and ids that clients choose for their requests, never data. A namespace on an SQL database has room for ten of the type Keyword.
 */
export const SEARCH_ATTRIBUTES = {
  TenantId: 'Keyword',
  WorkspaceId: 'Keyword',
  FlowId: 'Keyword',
  FlowName: 'Keyword',
  FlowVersion: 'Keyword',
  ExecutionId: 'Keyword',
  RunStatus: 'Keyword',
  TriggerKind: 'Keyword',
  CorrelationKey: 'Keyword',
  ErrorType: 'Keyword',
  /** The ids of the request and of the trace that the workflow belongs to. */
  RequestIds: 'KeywordList',
} as const

/** Values of the search attributes that starts give, by name. */
export type SearchAttributes = {
  readonly [Name in Exclude<keyof typeof SEARCH_ATTRIBUTES, 'RequestIds'>]?: string
}

/**
 * Values of `RunStatus`, which says what Temporal's own status does not. An execution that never stops has none; one that
 * continues is `running`, and one that ends afterwards has its final status.
 */
export type RunStatus =
  | 'running'
  | 'waiting_for_approval'
  | 'waiting_for_event'
  | 'held'
  | 'queued'
  | 'paused'
  | 'suspended'
  | 'completed'
  | 'faulted'
  | 'cancelled'

export type Json = null | boolean | number | string | Json[] | { [name: string]: Json }

/** True for a step that reads or writes a whole archive: it has a queue and limits of its own. */
export const isLongStep = (name: string): boolean => name.endsWith('_archive')

/** Why a step of a provisioning has ended it: the problem of its last attempt. */
export interface StepFailure {
  readonly name: string
  readonly code: string
  readonly detail: string
}

/** Provisioning of a tenant or workspace, and its named steps. */
export interface ProvisionInput {
  readonly operation_id: string
  readonly kind: 'tenant' | 'workspace'
  readonly target: TenantRef
  readonly steps: readonly string[]
  /** The step that a workflow with a long history goes on with in a new one; absent for the first. */
  readonly begin_at?: string
  /** If a step fails, it and those before it are undone in reverse: the undoing steps, by the steps that have one. */
  readonly undo?: Readonly<Record<string, string>>
  /** Milliseconds for which a step waits for a server that is away. Default: `TENANT_LIMITS.provisioningStepMs`. */
  readonly step_wait_ms?: number
}

/** Indexes of a schema to build, by name. */
export interface IndexBuildInput {
  readonly operation_id: string
  readonly schema_id: string
  readonly target: WorkspaceRef
  readonly indexes: readonly string[]
}

/** A bulk change, whose record has the rest. */
export interface BulkChangeInput {
  readonly bulk_id: string
}

/** How far an attempt at a bulk change has come. `suspended`: nothing goes on until its workspace is resumed. */
export type BulkProgress = 'ended' | 'more' | 'suspended'

/** The reason why a job failed, as its record shows it. */
export interface WorkFailure {
  readonly code: string
  readonly detail: string
  readonly [member: string]: Json
}

/** A suspension or resumption of a workspace or a tenant. */
export interface SuspensionInput {
  readonly target: TenantRef
  /** `restored`: the state before the deletion. */
  readonly to: 'active' | 'suspended' | 'restored'
  /** The `state_seq` of the target at the time of the request. If it has changed since, this has no effect. Null: the state was changed already. */
  readonly after: number | null
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

/** A run of a function: version, input, rights and limits, all fixed when it is started. */
export interface FunctionRunInput {
  readonly run_id: string
  readonly function: { readonly id: string; readonly name: string; readonly version: number }
  /** `fetch`: the code serves an HTTP request, whose head is the input. */
  readonly kind: 'call' | 'fetch'
  readonly input: Json
  /** Members of the second argument of the function. */
  readonly context?: Json
  readonly caller: WorkCaller
  readonly trigger: FunctionTrigger
  /** Of one attempt. */
  readonly timeout_ms: number
  readonly memory_mb: number
  readonly attempts_max: number
  /** The caller does not wait for the result, so the record keeps it. */
  readonly is_async: boolean
  /** Secrets of the calling execution, whose handles in the input stand for values. */
  readonly secrets?: SecretNames
}

/** True if no caller waits who needs to know soon that the run is not made: an execution waits as long as it takes. */
export const isPatient = ({ is_async, trigger }: FunctionRunInput): boolean =>
  is_async || trigger.kind === 'flow'

/** One attempt of a run; `attempt` counts from 1 those whose code has begun. */
export interface FunctionAttempt extends FunctionRunInput {
  readonly attempt: number
}

/** On whose behalf the code of a run calls the platform. */
export interface WorkCaller {
  readonly subject: string
  readonly role: 'service' | 'user' | 'anon'
  readonly clientId?: string
  readonly groups?: readonly string[]
  readonly user?: EndUser
  /** The user for whom a function that declares scopes has called; the code is told, and gets no rights by it. */
  readonly onBehalfOfUser?: EndUser
  /** Of a dead letter that is run again: the start of its first run. */
  readonly via?: Pick<FunctionTrigger, 'kind' | 'id'>
  /** Scopes that restrict the role; absent if it is not restricted. */
  readonly scopes?: readonly string[]
  /** The other subjects behind the run (`fourEyes`). The code is not told; absent if there are none. */
  readonly causes?: readonly string[]
}

/** The start of a run. `id`: of the execution, the function run, the server or the trigger that started it. */
export interface FunctionTrigger {
  readonly kind: 'api' | 'http' | 'flow' | 'function' | 'mcp' | 'schedule' | 'event' | 'redrive'
  readonly id?: string
  /** The number of runs and executions that started one another, up to this one; absent for a request. */
  readonly chain_depth?: number
}

/** The names of secrets that an invocation may use, never their values. */
export interface SecretNames {
  /** The workflow id of the execution that the handles belong to. */
  readonly workflow_id: string
  readonly names: readonly string[]
}

/** The purpose of an argument: starting a workflow of that type, or a call of that activity, signal or update. */
export type Purpose = `${'start' | 'activity' | 'signal' | 'update'}:${string}`

/**
 * The workflow type that the Temporal UI shows: the name of the flow or function. The bundle is a JavaScript object, in which
 * Temporal looks up the type: a name that every object has gets a suffix.
 */
export const workflowTypeOf = (name: string): string => (name in {} ? `${name}-` : name)

/** The metadata key of the purpose (Temporal API, `Payload.metadata`). The codec encrypts it with the value. */
export const PURPOSE = 'tenon-purpose'

/** The metadata key of the trace of an argument ({@link traceText}). The codec encrypts it with the value. */
export const TRACE = 'tenon-trace'

/** The encoding of the payload that replaces one which the platform has not encrypted for this workflow. */
export const REJECTED = 'binary/tenon-rejected'

/** The failure type of work whose arguments the platform did not create. */
export const UNAUTHENTICATED = 'work_unauthenticated'

export const UNAUTHENTICATED_MESSAGE =
  'The platform has not made this work: its arguments are not sealed for this workflow and this use.'

/** Identifies instances across two copies of this class: the worker loads its converters as separate modules. */
const BRAND = Symbol.for('tenon.work-input')

/** An argument with its purpose and its trace. The payload converters encode and decode it. */
export class WorkInput {
  readonly [BRAND] = true
  readonly purpose: Purpose | typeof REJECTED
  readonly value: unknown
  /** The trace of the work that the argument is for. */
  readonly trace: Trace | undefined

  constructor(purpose: Purpose | typeof REJECTED, value: unknown, trace?: Trace) {
    this.purpose = purpose
    this.value = value
    this.trace = trace
  }

  static is(value: unknown): value is WorkInput {
    return typeof value === 'object' && value !== null && BRAND in value
  }
}

/** Wraps arguments for sending; one that has its purpose already keeps it. */
export function workArguments(purpose: Purpose, args: readonly unknown[], trace?: Trace): WorkInput[] {
  const wrap = (value: unknown) =>
    WorkInput.is(value)
      ? new WorkInput(value.purpose, value.value, trace)
      : new WorkInput(purpose, value, trace)
  return args.map(wrap)
}

/** The trace of the work that arguments are for; undefined if the platform has not made them. */
export const traceOfArguments = ([first]: readonly unknown[]): Trace | undefined =>
  WorkInput.is(first) ? first.trace : undefined

/** The argument of a workflow of the definition, for a start under another workflow type. */
export const startArgument = <T>(definition: string, input: T): T =>
  new WorkInput(`start:${definition}`, input) as T

/**
 * Unwraps the argument of a start.
 * @returns the definition that it was sealed for, and the input; undefined if the platform did not seal it for a start
 */
export function startedDefinition(
  args: readonly unknown[],
): [definition: string, input: unknown] | undefined {
  const [arg, ...more] = args
  if (!WorkInput.is(arg) || more.length > 0 || !arg.purpose.startsWith('start:')) return undefined
  return [arg.purpose.slice('start:'.length), arg.value]
}

/**
 * Unwraps arguments that {@link workArguments} wrapped.
 * @returns undefined if there are none, or one of them was made for another purpose
 */
export function authenticatedArguments(purpose: Purpose, args: readonly unknown[]): unknown[] | undefined {
  if (args.length === 0) return undefined
  const isMeant = (arg: unknown) => WorkInput.is(arg) && arg.purpose === purpose
  return args.every(isMeant) ? args.map((arg) => (arg as WorkInput).value) : undefined
}

/** The metadata key of the mark (Temporal API, `Payload.metadata`). */
export const PAYLOAD_MARK = 'tenon'

/**
 * Treatment of a payload by the codec. `cleartext`: text for operators without data of a tenant, readable, not encrypted. `local`: argument of a local
 * activity, never sent, not encrypted. `failure` and `detail`: parts of a failure, which is sent without them if necessary.
 */
export type PayloadMark = 'cleartext' | 'local' | 'failure' | 'detail'
