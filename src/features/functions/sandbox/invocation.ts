/** One invocation as the sandbox runs it, and the services that its host offers to the code. */

import type { ByteReply, ByteSource } from '../../../core/bytes.ts'
import type { DataRole, EndUser } from '../../../core/policy.ts'
import type { Json } from '../../../core/work.ts'

export interface Invocation {
  /** The code. Processes are reused for the same key alone: it names tenant, workspace, function and version. */
  readonly code: { readonly key: string; readonly compiled: string }
  /** `call`: the default export gets the input. `fetch`: the export `fetch` gets a request (see {@link HttpExchange}). */
  readonly kind: 'call' | 'fetch'
  readonly input: Json
  /** Plain members of the second argument of the code, beside `tenon` and `log`. */
  readonly context: InvocationContext
  readonly timeoutMs: number
  readonly memoryMb: number
  /** Aborts the invocation; the process is killed. */
  readonly signal: AbortSignal
  readonly host: InvocationHost
  /** Called when everything is ready, right before the code gets the input. If it rejects, no code runs. */
  readonly begin?: () => Promise<void>
}

interface InvocationContext {
  readonly run: { readonly id: string; readonly attempt: number }
  readonly caller: CodeCaller
  readonly env: Readonly<Record<string, string>>
  /** Values by name: a string, or an object or list of strings. */
  readonly secrets: Readonly<Record<string, Json>>
  /** For tools: see docs/functions.md. */
  readonly mcp?: Json
}

/**
 * The caller that started the run, without its credential. `user` is the end user on whose behalf the caller acts, with the values that
 * access rules read.
 */
export interface CodeCaller {
  /** `service`, `user`, `anon`: a request with the rights of that role. */
  readonly kind: DataRole | 'flow' | 'function' | 'mcp' | 'schedule' | 'event'
  /** Of the key, account or user; else of the execution, run, server or trigger. */
  readonly id: string
  readonly user?: {
    readonly id: string
    /** Absent if it was not verified. */
    readonly email?: string
    readonly claims: EndUser['claims']
  }
  /** Of a run that a function or a tool has started: the id of the starter of that one. */
  readonly on_behalf_of?: string
}

/** A result that is bytes. */
export class Content {
  readonly reply: ByteReply

  constructor(reply: ByteReply) {
    this.reply = reply
  }
}

/** Services for the code, performed by the worker. The process itself has no network and no credential. */
export interface InvocationHost {
  /**
   * A method of `context.tenon`, such as `collections.create` with `[name, document]`. The content of an object is no JSON.
   * @throws Problem, which the code gets as an Error with `code`, `status` and `detail`
   */
  call(method: string, args: readonly (Json | ByteSource)[]): Promise<Json | Content>
  /** The global `fetch`. @throws Problem, which the code gets as a TypeError with `code` and the detail as its message */
  fetch(request: GuestRequest): Promise<GuestResponse>
  /** A line that the code printed with `console` or `context.log`. */
  log(line: LogLine): void
  /** For `fetch`: the client's connection. */
  readonly http?: HttpExchange
}

export interface GuestRequest {
  readonly method: string
  readonly url: string
  readonly headers: readonly (readonly [name: string, value: string])[]
  readonly body?: Uint8Array
  /** As in the Fetch standard; `follow` by default. */
  readonly redirect?: RedirectMode
}

export const REDIRECT_MODES = ['follow', 'manual', 'error'] as const
type RedirectMode = (typeof REDIRECT_MODES)[number]

export interface GuestResponse {
  readonly status: number
  readonly headers: readonly (readonly [name: string, value: string])[]
  readonly body: Uint8Array
  /** The URL that has answered, if redirects were followed to it. */
  readonly url?: string
}

export interface LogLine {
  /** Milliseconds since the epoch, by the clock of the worker. */
  readonly at: number
  readonly level: 'debug' | 'info' | 'warn' | 'error'
  readonly text: string
}

/** The two bodies of an HTTP request that a function serves. `input` of the invocation is its head. */
export interface HttpExchange {
  /** Chunks of the request's body, read when the code reads them. */
  readonly requestBody: AsyncIterable<Uint8Array>
  /** The head of the response, once. */
  respond(head: HttpResponseHead): Promise<void>
  /** A chunk of the body. Resolves when the client can take more; rejects if it is gone. */
  write(chunk: Uint8Array): Promise<void>
}

/** The `input` of an invocation of kind `fetch`. */
export interface HttpRequestHead {
  readonly method: string
  readonly url: string
  readonly headers: readonly (readonly [name: string, value: string])[]
}

export interface HttpResponseHead {
  readonly status: number
  readonly headers: readonly (readonly [name: string, value: string])[]
}

/** The end of an invocation. */
export interface Outcome {
  /** JSON of the returned value; null for `fetch`. */
  readonly result: Json
  readonly usage: Usage
}

/** As problems show it. */
export interface Usage {
  /** The highest resident memory that was measured while it ran. */
  readonly memory_mb: number
  /** Whole milliseconds from sending the input to the result. */
  readonly duration_ms: number
  /** True if a process was started or got the code for this invocation. */
  readonly cold: boolean
}
