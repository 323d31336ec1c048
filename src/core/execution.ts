/** Shapes that executions exchange with the platform: input, updates of the record, signals, state for continue-as-new. */

import type { Json } from './work.ts'

/** The suspension state of an execution's workspace. The one with the higher `seq` is newer. */
export interface SuspensionState {
  readonly seq: number
  readonly suspended: boolean
}

/** The current state of a step. `seq` numbers the steps of an execution. */
export interface StepUpdate {
  readonly seq: number
  readonly name: string
  readonly kind: string
  readonly pointer: string
  readonly iteration: number
  readonly summary: string
  readonly status: 'running' | 'completed' | 'faulted' | 'skipped' | 'cancelled'
  /** The number of attempts, if it is more than one. */
  readonly attempt?: number
  /** The step waits. */
  readonly isWaiting?: true
  readonly error?: Json
  /** The result of the call, unless it is too large. */
  readonly result?: Json
  /** The result is left out: it is too large or contains a secret. */
  readonly truncated?: true
  /** The stable path of the step (flows-dsl/machine/frames.ts). */
  readonly path: string
  /** The result comes from the execution that this one repeats. */
  readonly reused?: true
  /** SHA-256, hexadecimal, of the data that an approval or a flow got. */
  readonly digest?: string
  /** The execution of the flow that it runs. */
  readonly child?: string
  readonly data?: StepData
  /** The details of an approval; present if the step is one. */
  readonly approval?: ApprovalRequest
  /** Decisions about it so far. */
  readonly decisions?: readonly Json[]
  readonly started_at: string
  readonly ended_at?: string
}

/** The location of a recorded value: the `seq` of a step, and the name of the value. */
export type ValueLocation = readonly [seq: number, name: 'input' | 'output' | 'result']

/** The values of a step for people who debug the flow. `…_at` names the location of a value that is recorded elsewhere. */
export interface StepData {
  /** The input of the task, after `input.from` if it got so far. */
  readonly input?: Json
  readonly input_at?: ValueLocation
  /** The arguments of the effect that the task started, such as those of a call or the form of an approval. */
  readonly arguments?: Json
  readonly arguments_at?: ValueLocation
  /** The output of the task, after `output.as`. */
  readonly output?: Json
  readonly output_at?: ValueLocation
  /** The names of values that were shortened. */
  readonly truncated?: readonly ('input' | 'arguments' | 'output')[]
}

/** The details of an approval, as the flow machine gives them (flows-dsl/tasks/approve.ts). */
export interface ApprovalRequest {
  readonly title?: Json
  /** A JSON Schema. */
  readonly form?: Json
  readonly approvers: Json
  /** Subjects that may not decide, since they have started the execution or changed its data. */
  readonly excluded?: Json
  readonly quorum: Json
  /** The data under decision, unless they are too large. */
  readonly data?: Json
  /** RFC 3339. */
  readonly deadline?: Json
  /** The interval of reminders. */
  readonly remindMs?: Json
}

/** Changes of an execution since the previous update. */
export interface ExecutionUpdate {
  readonly execution_id: string
  readonly status: 'running' | 'waiting' | 'suspended' | 'cancelled' | 'faulted' | 'completed'
  readonly steps: readonly StepUpdate[]
  /** Events since then. Absent in histories that predate events. */
  readonly events?: readonly ExecutionEventUpdate[]
  readonly output?: Json
  readonly error?: Json
  /** Steps that were compensated and those whose compensation failed, if any. */
  readonly compensation?: Json
  readonly ended_at?: string
  /** True for a pause, false for its end, with the reason; absent if that has not changed. */
  readonly paused?: boolean
  readonly pause_reason?: string | null
  /** The generation of the slot that the execution acknowledges ({@link SlotGeneration}). */
  readonly ack_generation?: number
  /** Event subscriptions of this generation and before it are not needed any more; once it has ended, none is. */
  readonly unsubscribed?: number
  /** How the execution ends as soon as its workflow has ended in Temporal. */
  readonly ending?: Ending
  /** Absent if another workflow writes it. */
  readonly order?: TaskOrder
}

/**
 * The workflow task that an update is of: when its workflow run started, in ms, and how many events the history of that run had.
 * A later task has a higher order. What a task has recorded that Temporal then refused counts no more, even if it is written late.
 */
type TaskOrder = readonly [runStartedMs: number, historyLength: number]

/** The members that the record of an execution gets at its end, besides its steps. */
export type Ending = Pick<
  ExecutionUpdate,
  'status' | 'events' | 'output' | 'error' | 'compensation' | 'ended_at' | 'unsubscribed'
>

/** Ids of the last entries that were handled, or that are to be skipped, in the streams of events and of changes. */
export type StreamOffsets = {
  readonly events: string
  readonly changes: string
}

/** All events that an execution waits for now. Of two such sets, the one with the higher generation is newer. */
export interface EventSubscriptionsInput {
  readonly execution_id: string
  readonly generation: number
  /** Those of its tasks (flows-dsl/tasks/event-subscription.ts). */
  readonly subscriptions: readonly Json[]
  /** The ends of the streams when the execution started; only later events count. */
  readonly since?: StreamOffsets
  /** The offsets up to which an earlier call of the same generation has read. */
  readonly after?: StreamOffsets
}

/** An event with the id of its entry in the stream. */
export type StreamEvent = {
  readonly offset: string
  readonly event: ExecutionEvent
}

/** Compares ids of entries as numbers: `9-0` comes before `10-0`. */
export function isBefore(a: string, b: string): boolean {
  const [[aMs = 0, aSeq = 0] = [], [bMs = 0, bSeq = 0] = []] = [a, b].map((id) => id.split('-').map(Number))
  return aMs < bMs || (aMs === bMs && aSeq < bSeq)
}

/** Past events that match, in order. If there may be more, `after` is where to go on. */
export type PastEvents = {
  readonly events: readonly StreamEvent[]
  readonly after?: StreamOffsets
}

/** A concurrency slot and its generation, which counts how often the execution has yielded it. */
export interface SlotGeneration {
  readonly execution_id: string
  readonly generation: number
}

/** The slot of an execution with `holdWhileWaiting: false`: held, yielded, or requested again. */
export interface SlotState {
  readonly generation: number
  readonly is: 'held' | 'yielded' | 'requested'
}

/** The kinds of start of an execution. */
export const TRIGGER_KINDS = ['manual', 'schedule', 'webhook', 'event', 'flow', 'rerun'] as const

export interface ExecutionTrigger {
  readonly kind: (typeof TRIGGER_KINDS)[number]
  /** The id of the trigger; for `flow`, of the parent execution. */
  readonly id?: string
  /** The chain depth of the event, including this execution. */
  readonly chain_depth?: number
}

/**
 * The header of Temporal, and of requests to sources of tools and of functions, with the chain depth of an execution or a call, if
 * it is above 0.
 */
export const CHAIN_DEPTH_HEADER = 'tenon-chain-depth'

/** How many calls are around a request, as the platform says in its requests; others may say it, too. */
export function readChainDepth(
  headers: Readonly<Record<string, string | string[] | undefined>>,
): number | undefined {
  const depth = headers[CHAIN_DEPTH_HEADER]
  return typeof depth === 'string' && /^[1-9]\d{0,2}$/.test(depth) ? Number(depth) : undefined
}

/** The input of the workflow of an execution. */
export interface ExecutionInput {
  readonly execution_id: string
  readonly flow: { readonly id: string; readonly name: string; readonly version: number }
  /** The compiled flow. */
  readonly ir: unknown
  readonly input: Json
  /** Subject of the caller that started the execution. */
  readonly started_by: string
  readonly trigger: ExecutionTrigger
  readonly correlation_key?: string
  /** The value of `$secrets`: handles by name. Absent if the version declares no secrets. */
  readonly secrets?: { [name: string]: Json }
  readonly reuse?: ExecutionReuse | undefined
  /** The ends of the event streams when it started. Absent if the flow does not listen. */
  readonly since?: StreamOffsets
  /** The number of executions above it; absent for 0. */
  readonly depth?: number
  /** The state of the previous workflow run of the same execution; absent in the first. */
  readonly continued?: ContinuedExecution
}

/** The values of `$workflow` and `$secrets` (flows-dsl/ir.ts). @param started_at ISO 8601 */
export function infoOf({ execution_id, flow, started_by, secrets }: ExecutionInput, started_at: string) {
  return {
    id: execution_id,
    started_at,
    flow,
    started_by,
    ...(secrets !== undefined && { secrets }),
  }
}

/** The state of an execution for continue-as-new. */
interface ContinuedExecution {
  /** The state of the machine. */
  readonly snapshot: readonly Json[]
  readonly gate: GateState
  readonly record: RecordState
  /** Absent if it never yields its slot. */
  readonly slot?: SlotState
  /** The generation of its event subscriptions; absent if it never had any. */
  readonly subscribed?: number
}

/** Suspension and pause of an execution, and for how long it has been stopped. */
export interface GateState {
  readonly seq: number
  readonly suspended: boolean
  readonly paused: boolean
  /** It waits for a concurrency slot. */
  readonly queued?: true
  /** It waits for a repeated approval. */
  readonly approval_reopened?: true
  readonly since_ms?: number
  readonly ended_ms: number
}

/** Progress of the record of an execution. */
export interface RecordState {
  /** The number of the next step. */
  readonly seq: number
  /** Steps that have not ended. */
  readonly open: readonly StepUpdate[]
  /** Changes that are not written yet. */
  readonly changed: readonly StepUpdate[]
  readonly events: readonly ExecutionEventUpdate[]
  /** The `seq` of the newest event. */
  readonly lastEventSeq: number
  readonly status: ExecutionUpdate['status']
}

/** The recorded result or error of a step. For a step that only waits, `output` is null. */
export type ReusedResult = ({ readonly output: Json } | { readonly error: Json }) & {
  /** Set for decisions of people, which are reused only if the digest of the step's data is equal. */
  readonly digest?: string
  /** The execution of the flow that it ran. */
  readonly child?: string
}

/** Results that a rerun reuses. */
export interface ExecutionReuse {
  /** The path of the step from which on nothing is reused; absent if every result is, whenever its step is reached. */
  readonly from?: string
  /** By the paths of steps. */
  readonly results: { readonly [path: string]: ReusedResult }
}

/** An execution that another execution starts. */
export interface Subflow {
  readonly workflow_id: string
  readonly input: ExecutionInput
}

/** A CloudEvent that is sent to an execution. */
export type ExecutionEvent = { [attribute: string]: Json }

/** The decision for a step that waits for an approval, by `pointer#iteration`. */
export interface StepDecision {
  readonly step: string
  readonly decision: { [name: string]: Json }
}

/** The body that was posted to the callback of a step, `pointer#iteration`. */
export interface StepCallback {
  readonly step: string
  readonly callback: { readonly id: string; readonly output: Json }
}

/** How a held step continues: it is retried, skipped or failed. */
export interface StepRelease {
  readonly step: string
  /** `by` is the subject that gave the output, `people` are those behind it. */
  readonly release:
    | { readonly retry: true }
    | { readonly skip: Json; readonly by: string; readonly people: string[] }
    | { readonly fail: true }
}

export interface ExecutionPause {
  readonly paused: boolean
  readonly reason: string | null
}

/** A patch of the data of a paused execution or a held step (flows-dsl/machine/data-patch.ts). */
export interface ExecutionPatch {
  readonly context?: Json
  readonly step?: string
  readonly input?: Json
  /** The subject that patches them. */
  readonly by: string
  /** Those behind the subject, such as the maker of a key. */
  readonly people: string[]
}

/** The result of an update: the reason if the execution rejects it. */
export interface UpdateReply {
  readonly refused?: string
}

/** Types of events of an execution or a step. */
type ExecutionEventType =
  | 'started'
  | 'waiting'
  | 'running'
  | 'suspended'
  | 'resumed'
  | 'retried'
  | 'held'
  | 'completed'
  | 'faulted'
  | 'skipped'
  | 'cancelled'

/** An event of an execution. `seq` starts at 1. */
export interface ExecutionEventUpdate {
  readonly seq: number
  readonly at: string
  /** The `seq` of the step; absent for an event of the execution as a whole. */
  readonly step?: number
  readonly what: ExecutionEventType
  /** The number of attempts of the step, if it is more than one. */
  readonly attempt?: number
  readonly took?: string
  /** A JSON value. */
  readonly error?: unknown
}

/** The kinds of triggers, by the source that fires them. Changes of documents are events, too. */
export type TriggerKind = 'schedule' | 'webhook' | 'event'

/** The target of a trigger: the flow or function that it starts. */
export interface TargetRef {
  readonly kind: string
  readonly id: string
}

/** A due schedule. */
export interface ScheduledStartInput {
  readonly trigger_id: string
  readonly target: TargetRef
  /** How long starting the run is retried. */
  readonly patience_ms: number
  /** When it was due (RFC 3339), from Temporal. It may have waited for an earlier run to end. */
  readonly due_at?: string
}

/** The run that a schedule has started, or the reason why it has started none. */
export type ScheduledStart =
  | {
      readonly run_id: string
      /** Of a run that the schedule waits for: its workflow is still to be started. */
      readonly child?: ScheduledChild
    }
  | { readonly skipped: string }

/** A run that the workflow of a schedule starts as its child and waits for, so that overlap policies apply to runs. */
export type ScheduledChild = Subflow & {
  /** The pause after its end, before the schedule may start the next. */
  readonly pause_ms: number
}

/** A target whose schedules in Temporal are to be synchronised with its rows. */
export interface RegistrationInput {
  readonly target: TargetRef
  /** The ids of its schedules before the change. */
  readonly before: readonly string[]
}
