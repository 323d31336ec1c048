/** The interface between the MCP wire and a server, for both generations of the protocol: one request, one server. */

import type { IncomingMessage, ServerResponse } from 'node:http'

export interface WireTool {
  readonly name: string
  readonly title: string
  readonly description: string
  readonly inputSchema: Readonly<Record<string, unknown>>
  readonly outputSchema?: Readonly<Record<string, unknown>>
  readonly annotations: Readonly<Record<string, boolean>>
}

export interface WireResult {
  readonly content: { type: 'text'; text: string }[]
  readonly structuredContent?: Record<string, unknown>
  readonly isError: boolean
}

export interface WireServer {
  readonly name: string
  readonly version: string
  readonly instructions?: string
  readonly tools: readonly WireTool[]
  /** Undefined where there is no such tool. Never throws: what goes wrong is a result, without detail. */
  readonly call: (tool: string, args: Record<string, unknown>) => Promise<WireResult | undefined>
}

/**
 * For the SDKs, which would otherwise build a schema compiler of their own for each request: it is for what servers ask
 * of clients, and ours ask nothing.
 */
export const ASKS_NOTHING = {
  getValidator: () => () =>
    ({ valid: false, data: undefined, errorMessage: 'This server asks nothing.' }) as const,
}

/** A POST whose body has been read; whoever serves it writes the whole response. */
interface Exchange {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly body: unknown
}

/** An era of the protocol. */
export type Serve = (exchange: Exchange, server: WireServer) => Promise<void>
