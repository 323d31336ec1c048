/** The state of an execution as plain JSON, which any later build can continue, and its serialised form. */

import type { ErrorObject, FlowError } from '../errors.ts'
import type { ExecutionInfo } from '../ir.ts'
import { isObject, type Json, type JsonObject, objectOf } from '../json.ts'
import type { Decision } from '../tasks/approve.ts'
import type { InlineOption, StepEvent, StepRef, TaskResult } from '../tasks/task.ts'

/** `$context` of the flow or of a concurrent branch. */
export interface BranchContext {
  context: Json
  /** True if a task has replaced it since the branch started. */
  isExported: boolean
}

interface Common {
  readonly id: number
  /** The frame that waits for this one; 0 for the flow, its timeout and compensation. */
  readonly parent: number
  readonly key: string
  /** Ids, in the order in which they started. */
  readonly children: number[]
  /** How many children of this name its parent had started before; absent for 0. */
  readonly occurrence?: number
  /** How many children were started, by path segment. */
  childCounts?: Record<string, number>
  /** A `$context` of its own. */
  branchContext?: BranchContext
}

/** A list of tasks that runs, with its position and data. */
export interface ListFrame extends Common {
  readonly is: 'list'
  /** Pointer of the task that contains the list (empty for the flow), and the name of the list there. */
  readonly of: string
  readonly list: string
  readonly variables?: JsonObject
  position: number
  data: Json
}

/** A task that runs. */
export interface TaskFrame extends Common {
  readonly is: 'task'
  readonly pointer: string
  /** Before `input.from`. */
  raw: Json
  readonly iteration: number
  readonly startedMs: number
  /** After `input.from`; absent before. */
  input?: Json
  /** The private state of the task type. */
  taskState: Json
  /** Index of the extension whose tasks run; 0 is the outermost. */
  extension?: number
  /** The result of the task type, while `after` lists of extensions run. */
  done?: TaskResult
  /** The error of a task that is held until an operator decides. */
  held?: ErrorObject
  /** Of a task that can be compensated: its call was answered, or, without `output`, may have had its effect. */
  called?: { readonly output?: Json; readonly isKeyed: boolean }
}

/** An effect that has not ended. */
export interface EffectFrame extends Common {
  readonly is: 'effect'
  readonly effect: Effect
}

export type Frame = ListFrame | TaskFrame | EffectFrame

/** Work outside of the machine. */
export type Effect =
  | {
      readonly do: 'call'
      readonly function: string
      readonly arguments: JsonObject
      /** Runs inline in the workflow worker: short, and safe to repeat. */
      readonly local?: InlineOption
      /** The `timeout` of its task, in milliseconds. */
      readonly timeoutMs?: number
      /** Its task can be compensated: once it was sent, its outcome is awaited even if it is cancelled. */
      readonly finishes?: true
      /** An inline call in a concurrent branch, so its order among other calls is undefined. */
      readonly isConcurrent?: true
    }
  | { readonly do: 'sleep'; untilMs: number; readonly limits: boolean; readonly summary?: string }
  | { readonly do: 'await'; readonly what: string; readonly details: JsonObject }

/** A task that runs branches concurrently, and one of its branches, by frame ids. */
export interface Fork {
  readonly task: number
  readonly branch: number
}

/** An event, its size in characters, and for each task that consumed it the forks above that task. */
export interface BufferedEvent {
  readonly event: JsonObject
  readonly size: number
  readonly consumedBy: Fork[][]
}

/** A task to compensate if the flow faults or is cancelled: it has completed, or its call has had its effect or may have. */
export interface CompletedTask {
  readonly pointer: string
  readonly iteration: number
  /** `{input, output, outcome_unknown?}` of the task. */
  readonly data: JsonObject
  /** Of a call with an `Idempotency-Key` whose task has not completed (`StepRef.callPath`). */
  readonly callPath?: string
  readonly variables: JsonObject
  readonly context: Json
}

/** A call that was cancelled after it may have been sent, with what it needs when its outcome is known. */
export interface UnsettledCall
  extends Pick<StepRef, 'pointer' | 'iteration' | 'path' | 'callPath' | 'breadcrumbs'> {
  readonly input: Json
  readonly startedMs: number
  readonly variables: JsonObject
  readonly context: Json
  readonly isKeyed: boolean
  /** The record shows the step as running. */
  readonly isOpen?: true
  /** It belongs to the tasks of the flow, not to a compensation or a handler. */
  readonly isUndoable?: true
}

/** Steps that were compensated, by `pointer#iteration`, and those whose compensation failed. */
interface Compensation {
  readonly undone: string[]
  readonly failures: { readonly step: string; readonly error: ErrorObject }[]
}

/** Errors of the tasks under `onError` and `finally`, which do not change the result. */
export interface HandlerErrors {
  readonly onError?: ErrorObject
  readonly finally?: ErrorObject
}

export type FlowResult = { readonly compensation?: Compensation; readonly handlerErrors?: HandlerErrors } & (
  | { readonly status: 'completed'; readonly output: Json }
  | { readonly status: 'faulted'; readonly error: ErrorObject }
  | { readonly status: 'cancelled' }
)

/** An approval that was granted, with the subjects who may decide it. */
export interface GrantedApproval extends Pick<StepRef, 'pointer' | 'iteration' | 'path' | 'breadcrumbs'> {
  readonly approvers: readonly string[]
}

/** A granted approval that must be granted again, since data were changed by hand. */
export interface ReopenedApproval extends GrantedApproval {
  readonly decisions: Decision[]
}

/** The state of one execution. Field names are persisted: snapshots of running executions hold them. */
export interface FlowState {
  /** The version of this format. */
  readonly snapshot: 1
  /** The version of the interpreter's rules; an execution keeps it. */
  readonly semantics: number
  readonly info: ExecutionInfo
  readonly input: Json
  /** Open frames by id. */
  readonly frames: Record<string, Frame>
  nextId: number
  /** Number of tasks entered so far, in total and by pointer. */
  steps: number
  readonly entered: Record<string, number>
  /** Buffered events that a task may still consume, the oldest first. */
  readonly events: BufferedEvent[]
  /** `source` and `id` of the latest events, to drop duplicates. */
  readonly knownEventIds: string[]
  readonly completed: CompletedTask[]
  /** Calls that were cancelled and whose outcome is not known, by the id of the effect. The execution ends after them. */
  unsettled?: Record<string, UnsettledCall>
  /** Granted approvals. */
  grantedApprovals?: GrantedApproval[]
  /** Reopened approvals: until they are granted again, no task starts. */
  reopenedApprovals?: ReopenedApproval[]
  /** Subjects that have changed the execution's data by hand. */
  changedBy?: string[]
  /** The compensation that runs, and its reason. */
  compensation?: Compensation & {
    readonly because: { readonly error: ErrorObject } | { readonly cancelled: true }
    /** Number of attempts to compensate the last of `undos`. */
    attempt: number
    /** It goes on when no call is unsettled any more. */
    isWaiting?: true
  }
  /** `$context` of the flow when its tasks ended, for `onError` and `finally`. */
  lastContext?: Json
  /** The result of tasks that have completed, while an approval must be granted again before `finally` may run. */
  completion?: FlowResult
  /** The tasks that run at the end, and the result so far. */
  ending?: {
    readonly list: 'onError' | 'finally'
    readonly result: FlowResult
    /** They have ended; the execution ends when no call is unsettled any more. */
    readonly isWaiting?: true
  }
  result?: FlowResult
}

/** A command for the driver, carried out in order. `id` identifies the effect in its result. */
export type Command =
  | { readonly begin: Effect; readonly id: number; readonly step: StepRef }
  | {
      readonly cancel: Effect['do']
      readonly id: number
      /** The machine is to be told what becomes of it ({@link UnsettledCall}). */
      readonly settles?: true
    }

export type EffectOutcome = { readonly output: Json } | { readonly error: FlowError }

/** The result of an effect. */
export type EffectResult = { readonly id: number } & EffectOutcome

/** Services of the host. They return the same values at each replay. */
export interface Environment {
  nowMs(): number
  /** From 0 to below 1. */
  random(): number
  record(event: StepEvent): void
  /** Called when data of a pending approval were changed, with its new details. */
  approvalChanged?(step: StepRef, details: JsonObject): void
  /** A collision-resistant digest, equal for equal values; absent if the host has none. */
  digest?(value: Json): string
}

/** Rows of plain JSON, the first of which is the state. Within a row, `[n]` refers to row n. */
export type Snapshot = readonly Json[]

/** Serialises the state; shared containers become one row. Later changes of the state do not affect the snapshot. */
export function pack(state: FlowState): Snapshot {
  const rows: Json[] = []
  const rowOf = new Map<object, number>()
  const put = (value: Json): Json => {
    if (typeof value !== 'object' || value === null) return value
    const known = rowOf.get(value)
    if (known !== undefined) return [known]
    const row = rows.push(null) - 1
    rowOf.set(value, row)
    rows[row] = mapContainer(value, put)
    return [row]
  }
  put(state as unknown as Json)
  return rows
}

/** Restores a state, which shares nothing with the snapshot. */
export function unpack(rows: Snapshot): FlowState {
  const values: Json[] = []
  const get = (value: Json): Json => (Array.isArray(value) ? restore(Number(value[0])) : value)
  const restore = (row: number): Json => {
    const known = values[row]
    if (known !== undefined) return known
    const value = mapContainer(rows[row] ?? null, get)
    values[row] = value
    return value
  }
  return restore(0) as unknown as FlowState
}

/** The same container with each value put through `change`. */
function mapContainer(value: Json, change: (value: Json) => Json): Json {
  if (Array.isArray(value)) return value.map(change)
  if (!isObject(value)) return value
  const entries = Object.entries(value as JsonObject).filter(([, field]) => field !== undefined)
  // From entries, not by assignment: `__proto__` is an ordinary name here.
  return objectOf(entries.map(([key, field]) => [key, change(field)]))
}
