/** The state of an execution as plain JSON, which any later build can continue, and its serialised form. */

import type { ErrorObject, FlowError } from '../errors.ts'
import type { RunInfo } from '../ir.ts'
import { isObject, type Json, type JsonObject, objectOf } from '../json.ts'
import type { Decision } from '../tasks/approve.ts'
import type { Done, InlineOption, StepEvent, StepRef } from '../tasks/task.ts'

/** What a line of tasks sees as `$context`. */
export interface Memory {
  context: Json
  /** Whether `context` was replaced since the line began. */
  isExported: boolean
}

interface Common {
  readonly id: number
  /** The frame that waits for this one; 0 for what nobody in the flow waits for. */
  readonly parent: number
  readonly key: string
  /** In the order in which they began. */
  readonly children: number[]
  /** How many of its name its parent had begun before it; nothing for none. */
  readonly nth?: number
  /** How many it has begun of each name, `/` before each. */
  begun?: Record<string, number>
  /** Where a `$context` of its own begins. */
  memory?: Memory
}

/** A list of tasks under way: which, how far, with which data. */
export interface ListFrame extends Common {
  readonly is: 'list'
  /** Pointer of the task whose list it is, empty for that of the flow; and which of its lists. */
  readonly of: string
  readonly list: string
  readonly variables?: JsonObject
  index: number
  data: Json
}

/** A task under way. */
export interface TaskFrame extends Common {
  readonly is: 'task'
  readonly pointer: string
  /** Before `input.from`. */
  raw: Json
  readonly iteration: number
  readonly startedMs: number
  /** After `input.from`; nothing before. */
  input?: Json
  /** What the kind remembers. */
  own: Json
  /** The extension whose tasks run, counted from the outermost. */
  extension?: number
  /** What the kind has yielded, while extensions run after it. */
  done?: Done
  /** What it faulted with, where it is held until somebody decides. */
  held?: ErrorObject
}

/** An effect that has not ended. */
export interface EffectFrame extends Common {
  readonly is: 'effect'
  readonly effect: Effect
}

export type Frame = ListFrame | TaskFrame | EffectFrame

/** What the outside is asked to do. */
export type Effect =
  | {
      readonly do: 'call'
      readonly function: string
      readonly arguments: JsonObject
      /** Made beside the run: short, and harmless where it is made twice. */
      readonly local?: InlineOption
      /** Of a local one: others go on at the same time, and no order is known among them and it. */
      readonly beside?: true
    }
  | { readonly do: 'sleep'; untilMs: number; readonly limits: boolean; readonly summary?: string }
  | { readonly do: 'await'; readonly what: string; readonly details: JsonObject }

/** A task that has begun several at once, and one of those; both are ids of frames. */
export interface Fork {
  readonly task: number
  readonly branch: number
}

/** An event, its size in characters, and for each task that has taken it the forks that task is below. */
export interface KeptEvent {
  readonly event: JsonObject
  readonly size: number
  readonly taken: Fork[][]
}

/** A completed task that is to be undone if the flow comes to nothing. */
export interface Undo {
  readonly pointer: string
  /** Of its entry. */
  readonly iteration: number
  /** `{input, output}`: what it worked on and what came of it. */
  readonly data: JsonObject
  readonly variables: JsonObject
  readonly context: Json
}

/** What was undone, by `pointer#iteration`, and what could not be. */
interface Compensation {
  readonly undone: string[]
  readonly failures: { readonly step: string; readonly error: ErrorObject }[]
}

export type RunResult =
  | { readonly status: 'completed'; readonly output: Json }
  | { readonly status: 'faulted'; readonly error: ErrorObject; readonly compensation?: Compensation }
  | { readonly status: 'cancelled'; readonly compensation?: Compensation }

/** An approval that was given, and those who may decide it. */
export interface Agreed extends Pick<StepRef, 'pointer' | 'iteration' | 'place' | 'around'> {
  readonly approvers: readonly string[]
}

/** An approval that is asked for again, since data of the run were changed by hand. */
export interface AskedAgain extends Agreed {
  readonly decisions: Decision[]
}

export interface RunState {
  /** Of this format. */
  readonly snapshot: 1
  /** Of the interpreter's rules; never changes within a run. */
  readonly semantics: number
  readonly info: RunInfo
  readonly input: Json
  /** All that is open, by id. */
  readonly frames: Record<string, Frame>
  nextId: number
  /** Tasks entered so far, and how often each. */
  steps: number
  readonly entered: Record<string, number>
  /** Events that somebody may still take, the oldest first. */
  readonly events: KeptEvent[]
  /** `source` and `id` of events that were heard lately. */
  readonly heard: string[]
  readonly undos: Undo[]
  /** Approvals that were given. */
  agreed?: Agreed[]
  /** Of those, the ones that are asked for again: until they are given, nothing is begun. */
  askedAgain?: AskedAgain[]
  /** Subjects that have changed the run's data by hand. */
  changedBy?: string[]
  /** What is being undone, and for what. */
  undoing?: Compensation & {
    readonly because: { readonly error: ErrorObject } | { readonly cancelled: true }
    /** Of the last of `undos`. */
    attempt: number
  }
  result?: RunResult
}

/** To be carried out in the order given. `id` names the effect in what happens later. */
export type Command =
  | { readonly begin: Effect; readonly id: number; readonly step: StepRef }
  | { readonly cancel: Effect['do']; readonly id: number }

/** How an effect has ended. */
export type Happening =
  | { readonly id: number; readonly output: Json }
  | { readonly id: number; readonly error: FlowError }

/** The same at each replay. */
export interface Surroundings {
  nowMs(): number
  /** From 0 to below 1. */
  random(): number
  record(event: StepEvent): void
  /** A collision-resistant digest of a value, the same for equal values; absent where none is wanted. */
  digest?(value: Json): string
}

/** The first is the state. Within a row, `[n]` is the row with that number. */
export type Snapshot = readonly Json[]

/** Of this moment: what becomes of the state afterwards does not change it. */
export function pack(state: RunState): Snapshot {
  const rows: Json[] = []
  const places = new Map<object, number>()
  const put = (value: Json): Json => {
    if (typeof value !== 'object' || value === null) return value
    const known = places.get(value)
    if (known !== undefined) return [known]
    const place = rows.push(null) - 1
    places.set(value, place)
    rows[place] = within(value, put)
    return [place]
  }
  put(state as unknown as Json)
  return rows
}

/** A state of its own: as it was packed, but for nothing that anybody else holds. */
export function unpack(rows: Snapshot): RunState {
  const values: Json[] = []
  // Rows name later ones, or those they stand in: the last is whole first.
  const get = (value: Json): Json => (Array.isArray(value) ? made(Number(value[0])) : value)
  const made = (place: number): Json => {
    const known = values[place]
    if (known !== undefined) return known
    const value = within(rows[place] ?? null, get)
    values[place] = value
    return value
  }
  return made(0) as unknown as RunState
}

/** The same container with each value put through `change`. */
function within(value: Json, change: (value: Json) => Json): Json {
  if (Array.isArray(value)) return value.map(change)
  if (!isObject(value)) return value
  const entries = Object.entries(value as JsonObject).filter(([, field]) => field !== undefined)
  // Not assigned: `__proto__` is a name like any other.
  return objectOf(entries.map(([key, field]) => [key, change(field)]))
}
