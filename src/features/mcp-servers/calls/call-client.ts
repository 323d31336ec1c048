/** The client at the other end of a call: what it can do, what it is asked and answers, what it hears while it waits. */

/** The client at the other end of a call, as far as a call may use it. */
export interface CallClient {
  /** Capabilities that the client has declared with this request; undefined if it cannot be asked. */
  readonly capabilities?: Readonly<Record<string, unknown>>
  /** Returns an execution as a task if it goes on (extension `io.modelcontextprotocol/tasks`). */
  readonly takesTasks: boolean
  /** What the client answers to {@link Asked}, unverified. */
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

/** What a tool asks its client before it goes on. */
export interface Asks {
  readonly requests: Readonly<Record<string, InputRequest>>
  /** What the tool wants to have back with the answers. */
  readonly state: unknown
  /** The output is a result, too, for clients that cannot be asked. */
  readonly isOptional: boolean
}

/** Valid answers of a client, by the names of the requests. */
export interface Answers {
  readonly responses: Readonly<Record<string, unknown>>
  /** As in {@link Asks}. */
  readonly state: unknown
}

/** How a call waits for what it has started. */
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
