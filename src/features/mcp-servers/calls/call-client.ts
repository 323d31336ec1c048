/** The client of a call: its capabilities, the requests of a tool to it with their responses, and progress while it waits. */

/** The client that sent a call, as far as the call may use it. */
export interface CallClient {
  /** Capabilities that the client has declared with this request; undefined if it takes no requests. */
  readonly capabilities?: Readonly<Record<string, unknown>>
  /** The client takes a task for an execution that outlasts the call (extension `io.modelcontextprotocol/tasks`). */
  readonly takesTasks: boolean
  /** The sealed state and the responses that the client sends after a result `input_required`, unverified. */
  readonly requestState?: unknown
  readonly inputResponses?: unknown
  readonly signal?: AbortSignal
  readonly onProgress?: (progress: Progress) => void
}

/** A request of a tool to its client (MCP 2026-07-28, "Multi Round-Trip Requests"). */
export interface InputRequest {
  readonly method: 'elicitation/create' | 'sampling/createMessage' | 'roots/list'
  readonly params: Readonly<Record<string, unknown>>
}

/** Requests of a tool to its client, by name. */
export type InputRequests = Readonly<Record<string, InputRequest>>

/** Responses of a client, by the names of the requests. */
export type InputResponses = Readonly<Record<string, unknown>>

/** Input that a tool requests from its client, without which it does not continue. */
export interface RequestedInput {
  readonly requests: InputRequests
  /** Returned to the tool with the responses. */
  readonly state: unknown
  /** The output is also a result, for clients that take no requests or have declined. */
  readonly isOptional: boolean
}

/** Input that a client has sent: a valid response to each request. */
export interface ReceivedInput {
  readonly responses: InputResponses
  /** As in {@link RequestedInput}. */
  readonly state: unknown
}

/** How a call waits for the execution that it has started. */
export interface WaitOptions {
  readonly seconds: number
  /** Ends the waiting, not the execution. */
  readonly signal?: AbortSignal
  readonly onProgress?: (progress: Progress) => void
}

/** `progress` grows with each report; its end is unknown. */
export interface Progress {
  readonly progress: number
  readonly message: string
}
