/** The contract of a task type: how it compiles, what it does when it starts, and when a child ends. */

import type { CompileContext } from '../compile/compile-context.ts'
import { type MapNode, type SourceNode, valueAt } from '../compile/source-nodes.ts'
import type { ErrorObject, FlowError } from '../errors.ts'
import type { FlowDocument, Json, JsonObject, TaskNode, Template } from '../ir.ts'
import type { Expression } from '../jq/expression.ts'
import { fieldOf, isObject } from '../json.ts'

/** One entry into one task. `pointer#iteration` is unique within an execution and stable across replays. */
export interface StepRef {
  readonly pointer: string
  readonly name: string
  readonly kind: string
  /** The number of earlier entries to this pointer. */
  readonly iteration: number
  /** The stable path of the step, the same in every execution that takes the same route (machine/step-path.ts). */
  readonly path: string
  /** `path` without the counts of `try`: equal for all attempts of a call, and different for every other call. */
  readonly callPath: string
  /** The enclosing tasks by name, the outermost first: `each[2] / both`; empty at the top. */
  readonly breadcrumbs: string
  /** One line for people, at most 200 bytes of UTF-8. */
  readonly summary: string
}

/** A change of a step. `at_ms` is the time of the host. */
export interface StepEvent {
  readonly step: StepRef
  /** `cancelled` with the error of a call that was cancelled after it may have been sent; other cancelled steps have no event. */
  readonly phase: 'started' | 'retried' | 'held' | 'completed' | 'faulted' | 'skipped' | 'cancelled'
  readonly at_ms: number
  /** The outcome that the task took, such as the name of a case. */
  readonly took?: string
  /** The input of the task, after `input.from` if it got so far. */
  readonly input?: Json
  readonly output?: Json
  /** The raw result of the effect, before `output.as`. */
  readonly answer?: Json
  readonly error?: ErrorObject
}

/** The means of a task type to compile a task; diagnostics go to `context`. */
export interface TaskCompiler {
  readonly context: CompileContext
  /** Compiles a list of tasks below this one; `variables` are those that only they see. */
  tasks(list: SourceNode, variables?: readonly string[]): readonly TaskNode[] | undefined
  /** Compiles tasks that do not follow each other, so no directive can refer to another of them. */
  branches(list: SourceNode): readonly TaskNode[] | undefined
  /** Checks a flow directive. */
  target(value: SourceNode): string | undefined
}

/** The context in which a task runs. Expressions see the variables of the task, and those given as arguments. */
export interface TaskContext {
  readonly step: StepRef
  /** The input of the task, after `input.from`. */
  readonly input: Json
  readonly run: {
    readonly id: string
    readonly document: FlowDocument
    readonly startedBy?: string
    /** Subjects that have changed the execution's data by hand. */
    readonly changedBy: readonly string[]
  }
  evaluate(template: Template, dot: Json, variables?: JsonObject): Json
  test(condition: Expression, dot: Json, variables?: JsonObject): boolean
  /** Returns the value. @throws FlowError (expression) if the collected values are too large together */
  checkSize(value: Json): Json
  /** Returns the value. @throws FlowError (validation) if it violates the schema */
  validate(schema: Json, value: Json, what: string): Json
  /** Tests if the step budget of expressions is exhausted, which is why the last one failed. */
  isBudgetExhausted(): boolean
  /**
   * A digest of the task's data: its input, variables and `$context`, the input and the version of the flow.
   * @param data more data to include
   * @returns an empty object if the host has no digests
   */
  digest(data: JsonObject): { readonly digest?: string }
  nowMs(): number
  random(): number
  /** Records that the task starts again. */
  recordRetry(): void
  /** Offers the buffered events that the task may still consume, the oldest first. */
  takeBuffered(take: (event: JsonObject) => boolean): void
}

/**
 * Work that a task starts and that ends on its own: a list of tasks, or an effect. `key` identifies it among the task's
 * open children. `isolated` gives tasks a `$context` of their own.
 */
export type Child = { readonly key: string } & (
  | {
      readonly list: string
      readonly input: Json
      readonly variables?: JsonObject
      readonly isolated?: boolean
    }
  | {
      readonly task: readonly [list: string, index: number]
      readonly input: Json
      readonly isolated?: boolean
    }
  | {
      readonly call: string
      readonly arguments: JsonObject
      readonly local?: InlineOption
      /** The `timeout` of the task, set by the machine. */
      readonly timeoutMs?: number
    }
  | { readonly sleepMs: number; readonly summary?: string; readonly limits?: boolean }
  | { readonly await: string; readonly details: JsonObject }
)

/** The result of a child that has completed. */
export interface ChildResult {
  readonly key: string
  readonly output: Json
  /** The directive that left the list before its end. */
  readonly left?: 'exit' | 'end'
  /** `$context` of an isolated child, if it has exported one. */
  readonly context?: Json
}

/** A child that has faulted. */
interface ChildError {
  readonly key: string
  readonly error: FlowError
}

/** The result of a task that completes. */
export interface TaskResult {
  readonly done: Json
  /** A flow directive that overrides the task's own. */
  readonly next?: string
  /** Replaces `$context`. */
  readonly context?: Json
  /** The outcome that it took, for monitoring. */
  readonly took?: string
  /** The approvers of an approval that was granted. */
  readonly approvers?: readonly string[]
}

/** The task waits. `taskState` is its private state. */
interface Waiting {
  readonly taskState: Json
  /** Children to start in this order, each as far as it gets before the next. */
  readonly start?: readonly Child[]
  /** Keys of children to cancel. */
  readonly cancel?: readonly string[]
}

/** The next step of a task. If the task type throws a FlowError instead, the task faults. */
export type Transition = TaskResult | Waiting

/** A message that the host delivers to a waiting task. */
export type Message =
  | { readonly event: JsonObject }
  | { readonly decision: JsonObject }
  | { readonly callback: CallbackMessage }

/** The body that was posted to the URL of a callback. */
export interface CallbackMessage {
  /** The id of the callback. */
  readonly id: string
  readonly output: Json
}

/**
 * A task type. The members are declared as methods so that the list of all types can hold them without casts; a body
 * is only ever passed to the type that compiled it.
 */
export interface TaskType<Body = unknown> {
  readonly kind: string
  /** The keys of this type, the one that identifies it first. */
  readonly keys: readonly [string, ...string[]]
  compile(task: MapNode, compiler: TaskCompiler): Body | undefined
  /** One line that describes the task. */
  summary(body: Body): string
  /** The raw output is the result of an effect. */
  readonly returnsEffectResult?: true
  /**
   * The names besides its own by which a simulation may answer what it asks of its environment, the first that is
   * given; absent if it asks nothing.
   */
  answeredBy?(body: Body): readonly string[]
  /** The outcomes that the task may take, by the names in `took`. */
  outcomes?(body: Body): readonly string[]
  /** The lists of tasks within it, by the names that its children use. */
  lists?(body: Body): Readonly<Record<string, readonly TaskNode[]>>
  start(body: Body, task: TaskContext): Transition
  /** Handles the result of a child. */
  onChildEnd?(body: Body, taskState: Json, ended: ChildResult, task: TaskContext): Transition
  /** Handles a child that has faulted; without this the task faults with it. */
  onChildError?(body: Body, taskState: Json, failed: ChildError, task: TaskContext): Transition
  /** Tests if `failed` would handle this error. Changes nothing. */
  catches?(body: Body, taskState: Json, failed: ChildError, task: TaskContext): boolean
  /**
   * Handles data that were changed by hand while it waits.
   * @returns the new private state, and details for the host
   * @throws FlowError
   */
  onDataChanged?(
    body: Body,
    taskState: Json,
    task: TaskContext,
  ): { readonly taskState: Json; readonly details: JsonObject }
  /** Handles a message: undefined if it does not consume it, a text if it rejects it. */
  onMessage?(
    body: Body,
    taskState: Json,
    message: Message,
    task: TaskContext,
  ): Transition | string | undefined
}

/** Completes a task with the result of its own list. */
export function resultOf({ output, left }: ChildResult): TaskResult {
  return left === 'end' ? { done: output, next: 'end' } : { done: output }
}

/** Names of tasks for a summary. */
export function namesOf(tasks: readonly { readonly name: string }[]): string {
  return tasks.map(({ name }) => name).join(', ')
}

/** The literal value of a field of a template, for a summary. */
export function literalField(template: Template, key: string): Json | undefined {
  if ('literal' in template) return isObject(template.literal) ? fieldOf(template.literal, key) : undefined
  const field = 'object' in template ? template.object.find(([name]) => name === key)?.[1] : undefined
  return field !== undefined && 'literal' in field ? field.literal : undefined
}

/** If a call runs inline in the workflow worker. `brief`: only if it ends soon, else as an activity task. */
export type InlineOption = boolean | 'brief'

/**
 * Tests if a call runs inline: `metadata: { tenon: { local: … } }`, by default yes if it is idempotent.
 * @param isIdempotent calls that are not must not run inline, because inline calls may be repeated
 */
export function compileInlineOption(task: MapNode, isIdempotent: boolean, context: CompileContext): boolean {
  const metadata = valueAt(task, 'metadata')
  const map = metadata?.kind === 'map' ? context.optionalMap(metadata, 'tenon', ['local']) : undefined
  if (map === undefined) return isIdempotent
  const isInline = context.boolean(map, 'local', isIdempotent) ?? isIdempotent
  if (!isInline || isIdempotent) return isInline
  const hint = 'Only calls that read, create a document or publish an event can be local.'
  const message = 'This call cannot be local, because a local call may run twice.'
  context.report('value_invalid', valueAt(map, 'local') ?? map, message, hint)
  return false
}
