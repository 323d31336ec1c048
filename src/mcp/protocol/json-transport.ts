/**
 * Transport of SDK 1.x for a request that is answered by one JSON document. That of the SDK makes web requests, responses and
 * streams of each, which takes 0.1 ms of CPU a call (docs/performance.md).
 */

import type { ServerResponse } from 'node:http'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import {
  type JSONRPCMessage,
  type JSONRPCRequest,
  JSONRPCRequestSchema,
  SUPPORTED_PROTOCOL_VERSIONS,
} from '@modelcontextprotocol/sdk/types.js'
import type { Exchange } from './serving.ts'

/**
 * The request of an exchange.
 * @returns undefined for a notification, and for anything that is wrong: the transport of the SDK answers these
 */
export function plainRequest({ request: { headers }, body }: Exchange): JSONRPCRequest | undefined {
  const { accept = '', 'content-type': type, 'mcp-protocol-version': version } = headers
  if (!accept.includes('application/json') || !accept.includes('text/event-stream')) return undefined
  if (type !== 'application/json') return undefined
  if (version !== undefined && !SUPPORTED_PROTOCOL_VERSIONS.includes(String(version))) return undefined
  return JSONRPCRequestSchema.safeParse(body).data
}

export class JsonTransport implements Transport {
  onclose?: () => void
  onmessage?: (message: JSONRPCMessage) => void
  readonly #response: ServerResponse

  /** @param response gets the document; its client may disconnect before that, which cancels the request */
  constructor(response: ServerResponse) {
    this.#response = response
    response.once('close', () => {
      if (!response.writableFinished) void this.close()
    })
  }

  async start(): Promise<void> {}

  receive(request: JSONRPCRequest): void {
    this.onmessage?.(request)
  }

  /** Writes the response. Notifications have no place in it. */
  async send(message: JSONRPCMessage): Promise<void> {
    if ('method' in message || this.#response.writableEnded) return
    const text = JSON.stringify(message)
    this.#response
      .writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) })
      .end(text)
  }

  async close(): Promise<void> {
    this.onclose?.()
  }
}
