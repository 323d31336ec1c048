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
  readonly timeoutMs?: Duration
  /** The extensions around the task, in the order of declaration. */
  readonly extensions?: readonly Extension[]
  readonly metadata?: Json
  /** The flow directive `then`: `continue`, `exit`, `end`, or the name of a task in the same list. */
  readonly next?: string
  /** Undoes the completed task if the flow fails. Sees `{input, output}` of the task. */
  readonly compensate?: readonly TaskNode[]
  /** `hold`: an uncaught error of this task, or of one within it, suspends it until an operator decides. */
  readonly onFault?: 'hold' | 'fail'
  readonly body: Body
}

/** The raw input is validated against `schema`, then `from` makes the input of the task. */
export interface Input {
  readonly schema?: Json
  readonly from?: Template
}

/** `as` makes the output of the raw output, which is then validated against `schema`. */
export interface Output {
  readonly as?: Template
  readonly schema?: Json
}

/** A value that correlated events share. */
export interface Correlation {
  readonly name: string
  /** Reads the value from the event. */
  readonly from: Expression
  /** The expected value; by default that of the first matched event. */
  readonly expect?: Template
}

export interface EventFilter {
  /** Attributes, by their names in a CloudEvent. */
  readonly with: readonly (readonly [attribute: string, value: Template])[]
  readonly correlate: readonly Correlation[]
}

/** The events to match. `any` without filters matches every event. */
export interface EventStrategy {
  readonly mode: 'one' | 'any' | 'all'
  readonly filters: readonly EventFilter[]
}

/** The triggers of a flow (OWS 1.0 "Schedule"). They are independent of each other. */
export interface Schedule {
  readonly everyMs?: number
  /** Five fields each: minute, hour, day of the month, month, day of the week. */
  readonly cron?: readonly string[]
  /** From the end of one run to the start of the next. */
  readonly afterMs?: number
  /** Events that start an execution; its input is the list of them. */
  readonly on?: EventStrategy
  /** The part of each event that the execution gets. */
  readonly read?: 'data' | 'envelope' | 'raw'
  /** Of `cron`: an IANA name, by default UTC. */
  readonly timezone?: string
  /** Of `cron` and `every`: the policy for a start during an earlier execution, by default `skip`. */
  readonly overlap?: 'skip' | 'buffer_one' | 'buffer_all' | 'cancel_other' | 'allow_all'
  /** A start that is later than this after an outage is skipped. */
  readonly catchUpMs?: number
  /** Each start is late by a random time, at most this. */
  readonly jitterMs?: number
  readonly webhooks?: readonly Webhook[]
}

/** A webhook that starts executions, with its own address and secret. */
export interface Webhook {
  /** Unique in the flow. */
  readonly name: string
  /** Lower-case names of headers in the input, besides `content-type` and `user-agent`. */
  readonly headers?: readonly string[]
  /** How deliveries prove their sender; absent for Standard Webhooks. */
  readonly verify?: WebhookVerification
  /** Further members of the input: the query parameters, and the body as text. */
  readonly include?: readonly ('query' | 'raw')[]
  /** A query parameter that the response to a GET request echoes, to prove that the address is ours. */
  readonly challenge?: string
  /** The sender gets the result of the execution instead of its id. */
  readonly respond?: WebhookResponse
}

export type WebhookVerification =
  | { readonly scheme: 'github' | 'stripe' | 'slack' | 'shopify' | 'twilio' | 'bearer' | 'url' }
  | {
      readonly scheme: 'hmac'
      readonly header: string
      readonly algorithm: 'sha256' | 'sha1' | 'sha512'
      readonly encoding: 'hex' | 'base64'
      readonly prefix?: string
    }

/** `output`: the output as JSON. `response`: the output is `{status?, headers?, body?}`. */
export interface WebhookResponse {
  readonly with: 'output' | 'response'
  readonly withinMs: number
}

/** The maximum of concurrent executions of a flow; with a key, of those whose input yields the same key. */
export interface Concurrency {
  readonly limit: number
  readonly key?: Template
  /** The policy for a further execution: wait, be refused, or start after the oldest is cancelled. */
  readonly onLimit: 'queue' | 'refuse' | 'cancel_running'
  /** A waiting execution releases its slot, and queues for it before it continues. */
  readonly holdWhileWaiting?: false
}

/** Times whose excess is an event of the platform. Executions do not read them. */
export interface Expectations {
  /** From the start of an execution to its end. */
  readonly durationMs?: number
  /** From one start of the flow to the next. */
  readonly intervalMs?: number
}

/** Milliseconds, or what yields a duration when the execution comes to it (`durationOf`). */
export type Duration = number | Template

/** Tasks around a task (OWS 1.0 "Extension"). */
export interface Extension {
  readonly name: string
  readonly when?: Expression
  readonly before?: readonly TaskNode[]
  readonly after?: readonly TaskNode[]
}

/** A compiled flow. `semantics` never changes within an execution: recorded histories depend on it. */
export interface FlowIR {
  readonly ir_version: 1
  readonly semantics: number
  readonly document: FlowDocument
  readonly input?: Input
  readonly output?: Output
  readonly timeoutMs?: Duration
  readonly schedule?: Schedule
  readonly concurrency?: Concurrency
  /** The maximum of tasks that an execution may enter. */
  readonly limits?: { readonly tasks: number }
  readonly expect?: Expectations
  readonly secrets?: readonly string[]
  readonly onFault?: 'hold' | 'fail'
  readonly do: readonly TaskNode[]
  /** Run if the execution faults, after the compensation, with `$error`. `end` makes their output that of the flow. */
  readonly onError?: readonly TaskNode[]
  /** Run at the end of every execution, also of one that is cancelled. */
  readonly finally?: readonly TaskNode[]
  readonly facts: Facts
}

/** Static facts of a flow, with sorted names. Flows of older compilers have `functions` only. */
export interface Facts {
  /** Functions of the platform that it calls, and `http`. */
  readonly functions: readonly string[]
  readonly secrets?: readonly string[]
  readonly kinds?: readonly string[]
  readonly events?: EventEstimate
  /** The maximum of concurrent tasks. */
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

/** The canonical text of a compiled flow: JSON without spaces, keys in code point order. Equal flows have equal texts. */
export function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const fields = Object.entries(value).filter(([, field]) => field !== undefined)
  fields.sort(([a], [b]) => compareText(a, b))
  return `{${fields.map(([key, field]) => `${JSON.stringify(key)}:${canonical(field)}`).join(',')}}`
}

/** The execution as `$workflow` describes it. `started_at` is an ISO 8601 time. */
export interface ExecutionInfo {
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
export function describeFlow(
  { document }: FlowIR,
  input: Json,
  { id, started_at }: ExecutionInfo,
): JsonObject {
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
