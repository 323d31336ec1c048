/** A run of a flow, as it travels: what it is given and told, what it carries elsewhere, what it has recorded. */

import type { Json } from './work.ts'

/** What a run is told of its workspace; of two, the one with the greater number is true. */
export interface RunStanding {
  readonly seq: number
  readonly suspended: boolean
}

/** One line of an execution's steps, as it stands now. `seq` is its place in the run. */
export interface StepUpdate {
  readonly seq: number
  readonly name: string
  readonly kind: string
  readonly pointer: string
  readonly iteration: number
  readonly summary: string
  readonly status: 'running' | 'completed' | 'faulted' | 'skipped' | 'cancelled'
  /** How often it has begun, where that is more than once. */
  readonly attempt?: number
  /** It is known to wait. */
  readonly waits?: true
  readonly error?: Json
  /** What the outside answered it, where that is not large. */
  readonly answer?: Json
  /** It was too large to be kept, or a secret is in it. */
  readonly cut?: true
  /** The same in every run that takes the same way (flows-dsl/machine/step-path.ts). */
  readonly place: string
  /** Answered by the run that this one repeats. */
  readonly reused?: true
  /** Of what an approval, or a flow that is run, was asked about (SHA-256, hexadecimal). */
  readonly digest?: string
  /** The execution of the flow that it runs. */
  readonly child?: string
  readonly started_at: string
  readonly ended_at?: string
}

/** What has changed of a run since the update before. */
export interface RunUpdate {
  readonly execution_id: string
  readonly status: 'running' | 'waiting' | 'suspended' | 'cancelled' | 'faulted' | 'completed'
  readonly steps: readonly StepUpdate[]
  /** What happened meanwhile, for those who watch; nothing in runs from before there were any. */
  readonly events?: readonly RunEventUpdate[]
  readonly output?: Json
  readonly error?: Json
  readonly ended_at?: string
  /** Whether somebody has paused it, where that has changed, and what he has said of it. */
  readonly paused?: boolean
  readonly pause_reason?: string | null
  /** It has heard that it has its place again: the turn ({@link PlaceTurn}). */
  readonly placed?: number
}

/** Which place is meant: the one that an execution has given back for the nth time. */
export interface PlaceTurn {
  readonly execution_id: string
  readonly turn: number
}

/** How a run stands that gives its place back while it waits. */
export interface PlaceState {
  readonly turn: number
  readonly is: 'taken' | 'away' | 'wanted'
}

/** What can have started a run. */
export const TRIGGER_KINDS = ['manual', 'schedule', 'webhook', 'event', 'flow', 'rerun'] as const

export interface RunTrigger {
  readonly kind: (typeof TRIGGER_KINDS)[number]
  /** Of the trigger, where it is a record: a schedule, a webhook; of the execution that runs it as a flow. */
  readonly id?: string
  /** Of an event: how many runs began one by the event of another, this one among them. */
  readonly hops?: number
}

/** The Temporal header with the hops of a run, where there are some. */
export const HOPS_HEADER = 'tenon-chain-depth'

/** A run of a flow: which version, on what. */
export interface FlowRunInput {
  readonly execution_id: string
  readonly flow: { readonly id: string; readonly name: string; readonly version: number }
  /** The compiled flow. */
  readonly ir: unknown
  readonly input: Json
  /** Subject of the caller that started the execution. */
  readonly started_by: string
  readonly trigger: RunTrigger
  readonly correlation_key?: string
  /** What `$secrets` shows: handles by the names that the version declares; nothing where it declares none. */
  readonly secrets?: { [name: string]: Json }
  readonly reuse?: RunReuse | undefined
  /** How many runs are above it; nothing for none. */
  readonly depth?: number
  /** Where the run has been before, under the same id; nothing where it begins. */
  readonly continued?: RunContinued
}

/** What `$workflow` and `$secrets` show of a run (flows-dsl/descriptors.ts). @param started_at ISO 8601 */
export function infoOf({ execution_id, flow, started_by, secrets }: FlowRunInput, started_at: string) {
  return {
    id: execution_id,
    started_at,
    flow,
    started_by,
    ...(secrets !== undefined && { secrets }),
  }
}

/** What a run carries into a history of its own (continue-as-new). */
interface RunContinued {
  /** Of the interpreter. */
  readonly snapshot: readonly Json[]
  readonly hold: HoldState
  readonly record: RecordState
  /** Nothing where it keeps its place. */
  readonly place?: PlaceState
}

/** What a run has heard of its workspace, whether somebody has paused it, and for how long it has stood still. */
export interface HoldState {
  readonly seq: number
  readonly suspended: boolean
  readonly paused: boolean
  /** It waits for a place; nothing where it does not. */
  readonly queued?: true
  /** It waits until an approval is given again; nothing where it does not. */
  readonly asked?: true
  readonly since_ms?: number
  readonly ended_ms: number
}

/** How far the record of a run has come. */
export interface RecordState {
  /** Of the next step. */
  readonly seq: number
  /** Steps that have begun and not ended. */
  readonly open: readonly StepUpdate[]
  /** What is not written yet. */
  readonly changed: readonly StepUpdate[]
  readonly events: readonly RunEventUpdate[]
  /** Of the newest event. */
  readonly told: number
  readonly status: RunUpdate['status']
}

/** What the outside has answered a step, or that it has faulted with; of one that only waits, `output` is null. */
export type Reused = ({ readonly output: Json } | { readonly error: Json }) & {
  /** People have decided it: it is taken over only where the step is asked about the same (`digest` of a step). */
  readonly digest?: string
  /** The execution of the flow that it ran. */
  readonly child?: string
}

/** What a run takes over from the one that it repeats. */
export interface RunReuse {
  /** Place of the step from which on it asks the outside for everything again. */
  readonly from: string
  /** By the places of steps. */
  readonly answers: { readonly [place: string]: Reused }
}

/** A run that another run begins. */
export interface Subflow {
  readonly workflow_id: string
  readonly run: FlowRunInput
}

/** A CloudEvent for a run. */
export type RunEvent = { [attribute: string]: Json }

/** What somebody decides for a step that waits for it, by `pointer#iteration`. */
export interface RunDecision {
  readonly step: string
  readonly decision: { [name: string]: Json }
}

/** What becomes of a step that is held. */
export interface RunRelease {
  readonly step: string
  /** `by` is the subject whose output it is. */
  readonly release:
    | { readonly retry: true }
    | { readonly skip: Json; readonly by: string }
    | { readonly fail: true }
}

export interface RunPause {
  readonly paused: boolean
  readonly reason: string | null
}

/** How the data of a run that stands still is mended: see flows-dsl/machine/data-patch.ts. */
export interface RunPatch {
  readonly context?: Json
  readonly step?: string
  readonly input?: Json
  /** The subject that mends them. */
  readonly by: string
}

/** Why a run has refused what it was told, if it has. */
export interface RunAnswer {
  readonly refused?: string
}

/** What can happen to a run or to one of its steps. */
type RunHappening =
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

/** Something that happened in a run; `seq` counts through the whole run, from 1. */
export interface RunEventUpdate {
  readonly seq: number
  readonly at: string
  /** Of a step, by its `seq`; of the run as a whole where there is none. */
  readonly step?: number
  readonly what: RunHappening
  /** How often the step has begun, where that is more than once. */
  readonly attempt?: number
  readonly took?: string
  /** As JSON has it. */
  readonly error?: unknown
}

/** A trigger of a flow whose time has come. */
export interface FlowTriggerInput {
  readonly trigger_id: string
  /** For how long it is tried to begin a run. */
  readonly patience_ms: number
  /** RFC 3339: when it came, which its workflow is told by Temporal; it may have waited for the end of an earlier run. */
  readonly due_at?: string
}

/** What a trigger begins: a run, and how long to wait when that has ended; or nothing, and why. */
export type Triggered = (Subflow & { readonly after_ms: number }) | { readonly skipped: string }

/** Triggers of a flow whose outside is to follow their rows, and those that it had before. */
export interface RegistrationInput {
  readonly flow_id: string
  readonly before: readonly { readonly id: string; readonly kind: 'schedule' | 'webhook' | 'event' }[]
}
