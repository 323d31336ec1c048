/** Input and output of a simulation: plain JSON, the same for HTTP, CLI and tests. */

import type { ErrorObject } from '../errors.ts'
import type { Json, JsonObject } from '../ir.ts'
import type { LifecycleEvent } from '../lifecycle-events.ts'
import type { RunResult } from '../machine/state.ts'
import type { StepEvent } from '../tasks/task.ts'

/** What one call, or one sub-flow, answers; `after` is a duration, none if not given. */
export type Answer =
  | { readonly output: Json; readonly after?: Json }
  | { readonly error: JsonObject; readonly after?: Json }

/** Answers of what a flow asks for, by the task's pointer or name, the function, or the flow (`namespace/name`); of a list, one each time. */
export type Mocks = Readonly<Record<string, Answer | readonly Answer[]>>

/** A CloudEvent that comes while the run goes on; `after` counts from its start. */
interface PlannedEvent {
  readonly event: JsonObject
  readonly after?: Json
}

/** A decision that somebody makes, about whatever entry into that task (its name or pointer) waits for one then. */
export interface PlannedDecision {
  readonly task: string
  readonly decision: JsonObject
  readonly after?: Json
}

export interface Simulation {
  readonly input?: Json
  readonly mocks?: Mocks
  readonly events?: readonly PlannedEvent[]
  readonly decisions?: readonly PlannedDecision[]
  readonly options?: {
    /** When it begins, RFC 3339; the start of 2026 if not given. */
    readonly start?: string
    /** What chance yields each time, from 0 to below 1; 0.5 if not given. */
    readonly random?: number
    readonly started_by?: string
    /** Whether the lifecycle events of the run are answered too. */
    readonly lifecycle?: boolean
  }
}

/** One line of the trace. */
export type TraceEntry = Omit<StepEvent, 'step' | 'at_ms' | 'answer'> & {
  /** RFC 3339, in virtual time. */
  readonly at: string
  readonly pointer: string
  readonly iteration: number
  readonly name: string
  readonly kind: string
  /** What the step asks of the outside. */
  readonly asks?: JsonObject
  /** What it yielded, or asks, is left out: the trace holds a few MiB in all. */
  readonly cut?: true
}

/** Why a run that is neither ended nor held does not go on: what each step that waits would need. */
export interface Wanted {
  readonly step: string
  readonly what: string
  readonly hint: string
}

export interface Coverage {
  readonly tasks: { readonly entered: number; readonly total: number; readonly missed: readonly string[] }
  /** Cases, conditions, handlers: `pointer: way`. */
  readonly ways: { readonly taken: number; readonly total: number; readonly missed: readonly string[] }
}

export interface Simulated {
  readonly status: RunResult['status'] | 'waiting' | 'suspended'
  readonly output?: Json
  readonly error?: ErrorObject
  readonly compensation?: Json
  readonly wanted?: readonly Wanted[]
  /** Errors of steps that are held, by `pointer#iteration`. */
  readonly held?: Readonly<Record<string, ErrorObject>>
  readonly trace: readonly TraceEntry[]
  readonly coverage: Coverage
  /** In virtual time. */
  readonly duration_ms: number
  /** Events that such a run writes into its Temporal history, about. */
  readonly history_events: number
  readonly lifecycle?: readonly LifecycleEvent[]
}

/** What is wrong with a simulation; `pointer` is a JSON pointer into it. */
export class SimulationInvalid extends Error {
  readonly pointer: string

  constructor(pointer: string, message: string) {
    super(message)
    this.name = 'SimulationInvalid'
    this.pointer = pointer
  }
}
