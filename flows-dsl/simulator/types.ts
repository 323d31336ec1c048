/** Input and output of a simulation: plain JSON, the same for HTTP, CLI and tests. */

import type { ErrorObject } from '../errors.ts'
import type { Json, JsonObject } from '../ir.ts'
import type { LifecycleEvent } from '../lifecycle-events.ts'
import type { FlowResult } from '../machine/state.ts'
import type { StepEvent } from '../tasks/task.ts'

/** The answer of a call or a sub-flow; `after` is a duration, by default none. */
export type Answer =
  | { readonly output: Json; readonly after?: Json }
  | { readonly error: JsonObject; readonly after?: Json }

/** Answers by the pointer or name of the task, the function, or the flow (`namespace/name`). Each call uses the next of a list. */
export type Mocks = Readonly<Record<string, Answer | readonly Answer[]>>

/** A CloudEvent that arrives during the execution; `after` counts from its start. */
interface PlannedEvent {
  readonly event: JsonObject
  readonly after?: Json
}

/** A decision about the steps of a task (its name or pointer) that wait for one at that time. */
export interface PlannedDecision {
  readonly task: string
  readonly decision: JsonObject
  readonly after?: Json
}

export interface Simulation {
  readonly input?: Json
  readonly mocks?: Mocks
  /** Answers of an execution, used where `mocks` have none of the same key; it is no fault if one is not used. */
  readonly recorded?: Mocks
  readonly events?: readonly PlannedEvent[]
  readonly decisions?: readonly PlannedDecision[]
  readonly options?: {
    /** Start time (RFC 3339), by default the start of 2026. */
    readonly start?: string
    /** The result of every random number, from 0 to below 1, by default 0.5. */
    readonly random?: number
    /** `$workflow.id`, by default `simulation`. */
    readonly id?: string
    readonly started_by?: string
    /** If true, the result has the lifecycle events of the execution. */
    readonly lifecycle?: boolean
  }
}

/** One line of the trace. */
export type TraceEntry = Omit<StepEvent, 'step' | 'at_ms' | 'answer' | 'input'> & {
  /** RFC 3339, in virtual time. */
  readonly at: string
  readonly pointer: string
  readonly iteration: number
  readonly name: string
  readonly kind: string
  readonly asks?: JsonObject
  /** The output or the request is left out, because the trace is limited to a few MiB. */
  readonly cut?: true
}

/** The reason why an execution that has not ended waits: the answer that a step needs. */
export interface MissingAnswer {
  readonly step: string
  readonly what: string
  readonly hint: string
}

/** A mock of which an answer was not used: why, and the name that was meant. */
export interface UnusedMock {
  readonly mock: string
  readonly reason: string
  readonly hint?: string
}

export interface Coverage {
  readonly tasks: { readonly entered: number; readonly total: number; readonly missed: readonly string[] }
  /** Cases, conditions, handlers: `pointer: way`. */
  readonly ways: { readonly taken: number; readonly total: number; readonly missed: readonly string[] }
}

export interface Simulated {
  readonly status: FlowResult['status'] | 'waiting' | 'suspended'
  readonly output?: Json
  readonly error?: ErrorObject
  readonly compensation?: Json
  /** Errors of the tasks under `onError` and `finally`. */
  readonly handlerErrors?: Json
  readonly wanted?: readonly MissingAnswer[]
  readonly unused?: readonly UnusedMock[]
  /** Errors of steps that are held, by `pointer#iteration`. */
  readonly held?: Readonly<Record<string, ErrorObject>>
  readonly trace: readonly TraceEntry[]
  readonly coverage: Coverage
  /** In virtual time. */
  readonly duration_ms: number
  /** The approximate number of events in the Temporal history of such an execution. */
  readonly history_events: number
  readonly lifecycle?: readonly LifecycleEvent[]
}

/** The simulation is invalid; `pointer` is a JSON pointer into it. */
export class SimulationInvalid extends Error {
  readonly pointer: string

  constructor(pointer: string, message: string) {
    super(message)
    this.name = 'SimulationInvalid'
    this.pointer = pointer
  }
}
