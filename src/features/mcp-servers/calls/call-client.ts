/** The client of a call: its capabilities, the requests of a tool to it with their answers, and progress while it waits. */

/** The client that sent a call, as far as the call may use it. */
export interface CallClient {
  /** Capabilities that the client has declared with this request; undefined if it cannot be asked. */
  readonly capabilities?: Readonly<Record<string, unknown>>
  /** The client takes a task for an execution that outlasts the call (extension `io.modelcontextprotocol/tasks`). */
  readonly takesTasks: boolean
  /** The sealed state and the answers that the client sends after it was asked, unverified. */
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

/** The requests of a tool to its client, without whose answers it does not go on. */
export interface Asks {
  readonly requests: Readonly<Record<string, InputRequest>>
  /** Returned to the tool with the answers. */
  readonly state: unknown
  /** The output is also a result, for clients that cannot be asked or have declined. */
  readonly isOptional: boolean
}

/** Valid answers of a client, by the names of the requests. */
export interface Answers {
  readonly responses: Readonly<Record<string, unknown>>
  /** As in {@link Asks}. */
  readonly state: unknown
}

/** How a call waits for the execution that it has started. */
export interface Waiting {
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
