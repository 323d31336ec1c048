/** Knows what a kind of task is, and what a task may ask of the world while it runs. */

import type { Checker } from '../checker.ts'
import type { ErrorObject } from '../errors.ts'
import type { Expression } from '../expression/expression.ts'
import type { Json, JsonObject, TaskNode, Template } from '../ir.ts'
import type { Located, LocatedMap } from '../located.ts'

/** One entry into one task. `pointer#iteration` is unique within a run and the same at each replay. */
export interface StepRef {
  readonly pointer: string
  readonly name: string
  readonly kind: string
  /** How often this pointer was entered before. */
  readonly iteration: number
  /** One line for people, at most 200 bytes of UTF-8. */
  readonly summary: string
}

/** What happened to a step. `at_ms` is the time of `Effects.nowMs`. */
export interface StepEvent {
  readonly step: StepRef
  readonly phase: 'started' | 'completed' | 'faulted' | 'skipped'
  readonly at_ms: number
  readonly output?: Json
  readonly error?: ErrorObject
}

/** A function of the catalogue, or `http`, with arguments that hold no expressions any more. */
export interface CallRequest {
  readonly function: string
  readonly arguments: JsonObject
  readonly step: StepRef
}

/** The whole world of a flow. A FlowError that is thrown here faults the flow; all else passes through. */
export interface Effects {
  call(request: CallRequest): Promise<Json>
  sleep(durationMs: number, step: StepRef): Promise<void>
  record(event: StepEvent): void
  nowMs(): number
}

/** What a kind of task is given to compile with; faults go to `checker`. */
export interface Compiling {
  readonly checker: Checker
  /** The places that `then` can name: the tasks of the list that the task stands in. */
  readonly names: readonly string[]
  /** Compiles a list of tasks that stands below this one. */
  tasks(list: Located): readonly TaskNode[] | undefined
  /** Checks a flow directive. */
  target(value: Located): string | undefined
}

/** What a kind of task is given to run with. Expressions see the task's variables. */
export interface Running {
  readonly step: StepRef
  evaluate(template: Template, dot: Json): Json
  test(condition: Expression, dot: Json): boolean
  call(name: string, args: JsonObject): Promise<Json>
  sleep(durationMs: number): Promise<void>
  /** Runs a list of tasks; `ended` says that one of them ended the flow. */
  tasks(nodes: readonly TaskNode[], input: Json): Promise<{ readonly output: Json; readonly ended: boolean }>
}

/** What a task yields; `next` is a flow directive that goes before the task's own. */
export interface Outcome {
  readonly output: Json
  readonly next?: string
}

/**
 * A kind of task, whole. Methods are written as methods so that the list of all kinds can hold them without
 * casts (a body is only ever given to the kind that made it).
 */
export interface TaskType<Body = unknown> {
  readonly kind: string
  /** Keys of its own, the one that names it first. */
  readonly keys: readonly [string, ...string[]]
  compile(task: LocatedMap, compiling: Compiling): Body | undefined
  run(body: Body, input: Json, running: Running): Promise<Outcome>
  /** One line that says what it will do. */
  summary(body: Body): string
}
