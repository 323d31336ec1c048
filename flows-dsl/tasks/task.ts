/** The contract of a task type: how it compiles, what it does when it starts, and what it does when a child ends. */

import { booleanBelow, type Checker } from '../checker.ts'
import type { ErrorObject, FlowError } from '../errors.ts'
import type { Expression } from '../expression/expression.ts'
import type { FlowDocument, Json, JsonObject, TaskNode, Template } from '../ir.ts'
import { entryOf, type Located, type LocatedMap } from '../located.ts'

/** One entry into one task. `pointer#iteration` is unique within a run and the same at each replay. */
export interface StepRef {
  readonly pointer: string
  readonly name: string
  readonly kind: string
  /** How often this pointer was entered before. */
  readonly iteration: number
  /** The same in every run that takes the same way (machine/places.ts). */
  readonly place: string
  /** The tasks around it by their names, the outermost first: `each[2] / both`; empty at the top. */
  readonly around: string
  /** One line for people, at most 200 bytes of UTF-8. */
  readonly summary: string
}

/** What happened to a step. `at_ms` is the time of the surroundings. */
export interface StepEvent {
  readonly step: StepRef
  readonly phase: 'started' | 'retried' | 'held' | 'completed' | 'faulted' | 'skipped'
  readonly at_ms: number
  /** Which of its ways the task took, such as the name of a case. */
  readonly took?: string
  readonly output?: Json
  /** What the outside answered, before anything was made of it. */
  readonly answer?: Json
  readonly error?: ErrorObject
}

/** What a kind of task is given to compile with; faults go to `checker`. */
export interface Compiling {
  readonly checker: Checker
  /** Compiles a list of tasks that stands below this one; `variables` are those that only they see. */
  tasks(list: Located, variables?: readonly string[]): readonly TaskNode[] | undefined
  /** Compiles tasks that do not follow each other, so that none can name another. */
  branches(list: Located): readonly TaskNode[] | undefined
  /** Checks a flow directive. */
  target(value: Located): string | undefined
}

/** What a kind of task is given to run with. Expressions see the task's variables, and those given here. */
export interface Running {
  readonly step: StepRef
  /** What the task works on: its input, after `input.from`. */
  readonly input: Json
  /** The run and the flow it is of. */
  readonly run: {
    readonly id: string
    readonly document: FlowDocument
    readonly startedBy?: string
    /** Subjects that have changed the run's data by hand. */
    readonly changedBy: readonly string[]
  }
  evaluate(template: Template, dot: Json, variables?: JsonObject): Json
  test(condition: Expression, dot: Json, variables?: JsonObject): boolean
  /** The same value. @throws FlowError (expression) where many together have made it too large */
  bounded(value: Json): Json
  /** The same value, if it is as the schema says. @throws FlowError (validation), with what is not */
  checked(schema: Json, value: Json, what: string): Json
  /** Whether expressions have taken as many steps as they may, which is why the last has failed. */
  isSpent(): boolean
  /**
   * A digest of what the task works on: its input, variables and `$context`, the input and the version of the flow.
   * @param shown what counts besides; an empty object where the host has no digests
   */
  digest(shown: JsonObject): { readonly digest?: string }
  nowMs(): number
  random(): number
  /** Notes that the task begins again. */
  retried(): void
  /** Goes through the events that came before and that the task may still take, the oldest first. */
  early(take: (event: JsonObject) => boolean): void
}

/**
 * Something that a task begins and that ends by itself: tasks of its own, or an effect outside. `key` names it among
 * all that the task has open. `apart` gives tasks a `$context` of their own.
 */
export type Child = { readonly key: string } & (
  | {
      readonly list: string
      readonly input: Json
      readonly variables?: JsonObject
      readonly apart?: boolean
    }
  | { readonly task: readonly [list: string, index: number]; readonly input: Json; readonly apart?: boolean }
  | { readonly call: string; readonly arguments: JsonObject; readonly local?: Local }
  | { readonly sleepMs: number; readonly summary?: string; readonly limits?: boolean }
  | { readonly await: string; readonly details: JsonObject }
)

/** A child that has ended well. */
export interface Ended {
  readonly key: string
  readonly output: Json
  /** The directive by which it was left before its end. */
  readonly left?: 'exit' | 'end'
  /** Of a child apart: its `$context`, where it has exported one. */
  readonly context?: Json
}

/** A child that has faulted. */
interface Failed {
  readonly key: string
  readonly error: FlowError
}

/** The task's own output. */
export interface Done {
  readonly done: Json
  /** A flow directive that goes before the task's own. */
  readonly next?: string
  /** Replaces `$context`. */
  readonly context?: Json
  /** Which of its ways it took, for those who watch. */
  readonly took?: string
  /** Of an approval that was given: the names of those who may decide it. */
  readonly agreed?: readonly string[]
}

/** The task waits. `own` is all that it remembers, and its own to change. */
interface Waiting {
  readonly own: Json
  /** Begun in this order, each as far as it can go before the next. */
  readonly begin?: readonly Child[]
  /** Keys of children that are given up. */
  readonly drop?: readonly string[]
}

/** What a task does next. A FlowError that it throws instead faults the task. */
export type Move = Done | Waiting

/** What the outside says to a task that waits for it. */
export type Message = { readonly event: JsonObject } | { readonly decision: JsonObject }

/**
 * A kind of task, whole. Methods are written as methods so that the list of all kinds can hold them without
 * casts (a body is only ever given to the kind that made it).
 */
export interface TaskType<Body = unknown> {
  readonly kind: string
  /** Keys of its own, the one that names it first. */
  readonly keys: readonly [string, ...string[]]
  compile(task: LocatedMap, compiling: Compiling): Body | undefined
  /** One line that says what it will do. */
  summary(body: Body): string
  /** Its own output is what the outside has answered. */
  readonly isAnswered?: true
  /** The ways it may take, by the names that `took` uses. */
  ways?(body: Body): readonly string[]
  /** The lists of tasks within it, by the names its children use. */
  lists?(body: Body): Readonly<Record<string, readonly TaskNode[]>>
  start(body: Body, running: Running): Move
  /** A child has ended. */
  next?(body: Body, own: Json, ended: Ended, running: Running): Move
  /** A child has faulted; without this the task faults with it. */
  failed?(body: Body, own: Json, failed: Failed, running: Running): Move
  /** Whether `failed` would go on from this error of that child. Changes nothing. */
  catches?(body: Body, own: Json, failed: Failed, running: Running): boolean
  /** Data of the run were changed by hand while it waits. @returns its new `own` @throws FlowError */
  changed?(body: Body, own: Json, running: Running): Json
  /** Hears what it may wait for: undefined where that is nothing to it, a text where it is refused. */
  told?(body: Body, own: Json, message: Message, running: Running): Move | string | undefined
}

/** Ends a task as a list of its own has ended. */
export function doneAs({ output, left }: Ended): Done {
  return left === 'end' ? { done: output, next: 'end' } : { done: output }
}

/** `brief`: only as long as it is, and otherwise with a task of its own; whoever is asked may not be ours. */
export type Local = boolean | 'brief'

/**
 * `metadata: { tenon: { local: … } }` decides, where the author says so.
 * @param call whether it may be local, and whether it is where nobody says anything
 */
export function compileLocal(
  task: LocatedMap,
  call: { readonly may: boolean; readonly does: boolean },
  checker: Checker,
): boolean {
  const metadata = entryOf(task, 'metadata')?.value
  const own = metadata?.kind === 'map' ? entryOf(metadata, 'tenon')?.value : undefined
  const map = own && checker.map(own, '`tenon`')
  if (map === undefined) return call.does
  checker.keys(map, '`tenon`', ['local'])
  const local = booleanBelow(map, 'local', call.does, checker) ?? call.does
  const given = entryOf(map, 'local')
  if (!local || call.may || given === undefined) return local
  const hint = 'Calls that read may be, and those that make a document or publish an event.'
  checker.fault('value_invalid', given.value, 'This call must not be local: it may be made twice.', hint)
  return false
}
