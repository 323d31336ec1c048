/** Knows what a kind of task is, and what a task may ask of the world while it runs. */

import type { Checker } from '../checker.ts'
import type { ErrorObject } from '../errors.ts'
import type { Expression } from '../expression/expression.ts'
import type { FlowDocument, Json, JsonObject, TaskNode, Template } from '../ir.ts'
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
  /** @param options.limits it is to end other work: of time for which that may not go on, nothing is counted */
  sleep(durationMs: number, step: StepRef, options?: { limits: boolean }): Promise<void>
  record(event: StepEvent): void
  nowMs(): number
  /** From 0 to below 1, the same at each replay. */
  random(): number
  /**
   * Begins the work, which never rejects, before it answers. `cancel` makes every call and sleep that is pending
   * or begun within it reject, and cancels the scopes within it.
   */
  scope(work: () => Promise<void>): { cancel(): void }
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

/** How a list of tasks went; `ended` says that one of them ended the flow. */
export interface Ending {
  readonly output: Json
  readonly ended: boolean
}

/** What a kind of task is given to run with. Expressions see the task's variables, and those given here. */
export interface Running {
  readonly step: StepRef
  /** The run and the flow it is of. */
  readonly run: { readonly id: string; readonly document: FlowDocument }
  evaluate(template: Template, dot: Json): Json
  test(condition: Expression, dot: Json, variables?: JsonObject): boolean
  nowMs(): number
  random(): number
  call(name: string, args: JsonObject): Promise<Json>
  /** `summary` says what the time is for, where that is not the task itself. */
  sleep(durationMs: number, summary?: string): Promise<void>
  tasks(nodes: readonly TaskNode[], input: Json, variables?: JsonObject): Promise<Ending>
  /** Runs a list of tasks and gives it up after so long. @throws FlowError (timeout) */
  tasksWithin(limitMs: number, nodes: readonly TaskNode[], input: Json): Promise<Ending>
  /** Runs tasks at the same time. The output is that of the first to end, or the list of all. */
  branches(nodes: readonly TaskNode[], input: Json, options: { compete: boolean }): Promise<Ending>
}

/** What a task yields; `next` is a flow directive that goes before the task's own. */
export interface Outcome {
  readonly output: Json
  readonly next?: string
}

/** What a task yields that has run a list. */
export function outcomeOf({ output, ended }: Ending): Outcome {
  return ended ? { output, next: 'end' } : { output }
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
