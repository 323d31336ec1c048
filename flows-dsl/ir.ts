/** The compiled form of a flow: plain JSON with every expression parsed and every target checked. */

import type { Expression } from './jq/expression.ts'
import { compareText, type Json, type JsonObject, objectOf } from './json.ts'

export type { Json, JsonObject } from './json.ts'

/** A value that contains expressions. Only these are evaluated; their results never are. */
export type Template =
  | { readonly literal: Json }
  | { readonly expression: Expression }
  | { readonly object: readonly (readonly [key: string, value: Template])[] }
  | { readonly array: readonly Template[] }

/** One task: the fields that all task types share; `body` belongs to the type (tasks/<kind>.ts). */
export interface TaskNode<Body = unknown> {
  readonly kind: string
  readonly name: string
  /** JSON pointer into the definition, such as `/do/0/hello`. */
  readonly pointer: string
  readonly if?: Expression
  readonly input?: Input
  readonly output?: Output
  readonly export?: { readonly schema?: Json; readonly as: Template }
  readonly timeoutMs?: Timeout
  /** What runs before and after it, in the order of declaration. */
  readonly extensions?: readonly Extension[]
  /** Whatever the author says of the task; nothing here depends on it. */
  readonly metadata?: Json
  /** The flow directive `then`: `continue`, `exit`, `end`, or the name of a task in the same list. */
  readonly next?: string
  /** Undoes the task once it has completed, if the flow comes to nothing. Sees `{input, output}` of the task. */
  readonly compensate?: readonly TaskNode[]
  /** Whether an uncaught error of this task, or of one within it, suspends it until an operator decides. */
  readonly onFault?: 'hold' | 'fail'
  readonly body: Body
}

/** `schema` is asked on the raw input (`schemaErrors` in json-schema/validate.ts), then `from` makes what the task gets. */
export interface Input {
  readonly schema?: Json
  readonly from?: Template
}

/** `as` makes the output of the raw one, then `schema` is asked. */
export interface Output {
  readonly as?: Template
  readonly schema?: Json
}

/** A value that events that belong together share. */
export interface Correlation {
  readonly name: string
  /** Reads the value from the event. */
  readonly from: Expression
  /** What it must be; without it, what it was in the first event that was taken. */
  readonly expect?: Template
}

export interface EventFilter {
  /** Attributes, by their names in a CloudEvent. */
  readonly with: readonly (readonly [attribute: string, value: Template])[]
  readonly correlate: readonly Correlation[]
}

/** Which events are taken. `any` without filters takes every event. */
export interface EventStrategy {
  readonly mode: 'one' | 'any' | 'all'
  readonly filters: readonly EventFilter[]
}

/** When a flow runs by itself (OWS 1.0 "Schedule"); what is there counts each for itself. */
export interface Schedule {
  readonly everyMs?: number
  /** Five fields each: minute, hour, day of the month, month, day of the week. */
  readonly cron?: readonly string[]
  /** From the end of one run to the start of the next. */
  readonly afterMs?: number
  /** Events that start a run, whose input is the list of them. */
  readonly on?: EventStrategy
  /** What the run gets of each event. */
  readonly read?: 'data' | 'envelope' | 'raw'
  /** Of `cron`: an IANA name; UTC without one. */
  readonly timezone?: string
  /** Of `cron` and `every`: what becomes of a start whose time comes while an earlier run goes on; `skip` without it. */
  readonly overlap?: 'skip' | 'buffer_one' | 'buffer_all' | 'cancel_other' | 'allow_all'
  /** A start that is late by more than this, since the platform was away, is left out. */
  readonly catchUpMs?: number
  /** Each start is late by a random time, at most this. */
  readonly jitterMs?: number
  /** What others call, each with its own address and secret. */
  readonly webhooks?: readonly Webhook[]
}

/** A way for others to start a run. */
export interface Webhook {
  /** Unique in the flow. */
  readonly name: string
  /** Headers that the run is shown besides `content-type` and `user-agent`, in small letters. */
  readonly headers?: readonly string[]
}

/** How many executions of a flow may run at the same time; with a key, of those whose input yields the same one. */
export interface Concurrency {
  readonly limit: number
  readonly key?: Template
  /** What becomes of one more: it waits its turn, is refused, or starts when the oldest has been cancelled. */
  readonly onLimit: 'queue' | 'refuse' | 'cancel_running'
  /** One that waits gives its place back, and queues for it before it goes on. */
  readonly holdWhileWaiting?: false
}

/** Milliseconds, or what yields a duration when the task begins (`millisecondsOf` in duration.ts). */
export type Timeout = number | { readonly expression: Expression }

/** Tasks around a task (OWS 1.0 "Extension"): how they run is in machine/extensions.ts. */
export interface Extension {
  readonly name: string
  readonly when?: Expression
  readonly before?: readonly TaskNode[]
  readonly after?: readonly TaskNode[]
}

/** A flow, ready to run. `semantics` never changes within a run: recorded histories depend on it. */
export interface FlowIR {
  readonly ir_version: 1
  readonly semantics: number
  readonly document: FlowDocument
  readonly input?: Input
  readonly output?: Output
  readonly timeoutMs?: number
  readonly schedule?: Schedule
  readonly concurrency?: Concurrency
  /** Names of the secrets that it declares. */
  readonly secrets?: readonly string[]
  readonly onFault?: 'hold' | 'fail'
  readonly do: readonly TaskNode[]
  /** What can be said without running it. */
  readonly facts: Facts
}

/** Names are sorted. A flow that an older compiler has made has `functions` alone. */
export interface Facts {
  /** Functions of the platform that it calls, and `http`. */
  readonly functions: readonly string[]
  readonly secrets?: readonly string[]
  readonly kinds?: readonly string[]
  readonly events?: EventEstimate
  /** How many of its tasks go on at the same time, at most. */
  readonly fanOut?: number
}

/**
 * About how many events a run in which nothing fails leaves in the history of Temporal; `perItem` for each item that a
 * loop goes through whose items only the run knows.
 */
export interface EventEstimate {
  readonly fixed: number
  readonly perItem: number
}

export interface FlowDocument {
  readonly dsl: string
  readonly namespace: string
  readonly name: string
  readonly version: string
  readonly title?: string
  readonly summary?: string
}

/** About how many characters the compiled form has as JSON; the count ends soon after `max`. */
export function sizeOf(ir: Omit<FlowIR, 'facts'>, max: number): number {
  const open: unknown[] = [ir]
  let size = 0
  while (open.length > 0 && size <= max) {
    const value = open.pop()
    size += typeof value === 'string' ? value.length + 3 : 5
    if (typeof value !== 'object' || value === null) continue
    for (const [key, inner] of Object.entries(value)) {
      if (!Array.isArray(value)) size += key.length + 3
      open.push(inner)
    }
  }
  return size
}

/**
 * The one text of a compiled flow: JSON without spaces, keys in code point order. Equal flows, equal text.
 */
export function canonical(ir: FlowIR): string {
  return write(ir)
}

function write(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(write).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const fields = Object.entries(value).filter(([, field]) => field !== undefined)
  fields.sort(([a], [b]) => compareText(a, b))
  return `{${fields.map(([key, field]) => `${JSON.stringify(key)}:${write(field)}`).join(',')}}`
}

/** The execution as `$workflow` describes it. `started_at` is an ISO 8601 time. */
export interface RunInfo {
  readonly id: string
  readonly started_at: string
  readonly flow?: { readonly id: string; readonly name: string; readonly version: number }
  /** The subject that started the execution. */
  readonly started_by?: string
  /** The value of `$secrets`: handles. The secret values never reach the interpreter. */
  readonly secrets?: JsonObject
  /** The maximum of steps; beyond it the execution faults as an endless loop. */
  readonly stepsMax?: number
}

/** The workflow descriptor; `definition` has the document only, since a run carries the compiled form. */
export function describeFlow({ document }: FlowIR, input: Json, { id, started_at }: RunInfo): JsonObject {
  return { id, definition: { document: { ...document } }, input, startedAt: timeOf(Date.parse(started_at)) }
}

/** A date and time descriptor (OWS 1.0 "Runtime expression arguments"). */
export function timeOf(ms: number): JsonObject {
  const epoch = { seconds: Math.floor(ms / 1000), milliseconds: ms }
  return { iso8601: new Date(ms).toISOString(), epoch }
}

/**
 * Evaluates a template. Results of expressions are inserted verbatim: text in data that looks like an expression is not
 * evaluated.
 */
export function fill(template: Template, evaluate: (expression: Expression) => Json): Json {
  if ('literal' in template) return template.literal
  if ('expression' in template) return evaluate(template.expression)
  if ('array' in template) return template.array.map((item) => fill(item, evaluate))
  return objectOf(template.object.map(([key, value]) => [key, fill(value, evaluate)]))
}
