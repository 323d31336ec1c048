/** Knows the compiled form of a flow: plain JSON with every expression parsed and every target checked. */

import type { Expression } from './expression/expression.ts'
import { compareText, type Json } from './json.ts'

export type { Json, JsonObject } from './json.ts'

/** A value with expressions in it. Only these are evaluated; what they yield never is. */
export type Template =
  | { readonly literal: Json }
  | { readonly expression: Expression }
  | { readonly object: readonly (readonly [key: string, value: Template])[] }
  | { readonly array: readonly Template[] }

/** One task. What all kinds share stands here; `body` belongs to the kind (tasks/<kind>.ts). */
export interface TaskNode<Body = unknown> {
  readonly kind: string
  readonly name: string
  /** JSON pointer into the definition, such as `/do/0/hello`. */
  readonly pointer: string
  readonly if?: Expression
  readonly input?: { readonly from: Template }
  readonly output?: { readonly as: Template }
  readonly export?: { readonly as: Template }
  /** The flow directive `then`: `continue`, `exit`, `end`, or the name of a task in the same list. */
  readonly next?: string
  readonly timeoutMs?: number
  readonly extensions?: readonly Extension[]
  /** Undoes the task once it has completed, if the flow comes to nothing. Sees `{input, output}` of the task. */
  readonly compensate?: readonly TaskNode[]
  /** Of this task and those within it: whether an error that nothing catches waits for somebody to decide. */
  readonly onFault?: 'hold' | 'fail'
  readonly body: Body
}

/** What `use.extensions` puts around a task (OWS 1.0 "Extension"). */
interface Extension {
  readonly when?: Expression
  readonly before?: readonly TaskNode[]
  readonly after?: readonly TaskNode[]
}

/** A flow, ready to run. `semantics` never changes within a run: recorded histories depend on it. */
export interface FlowIR {
  readonly ir_version: 1
  readonly semantics: number
  readonly document: FlowDocument
  readonly input?: { readonly from?: Template }
  readonly output?: { readonly as?: Template }
  readonly timeoutMs?: number
  readonly onFault?: 'hold' | 'fail'
  readonly do: readonly TaskNode[]
  /** What can be said without running it. `functions` are the names it calls, sorted. */
  readonly facts: { readonly functions: readonly string[] }
}

export interface FlowDocument {
  readonly dsl: string
  readonly namespace: string
  readonly name: string
  readonly version: string
  readonly title?: string
  readonly summary?: string
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
