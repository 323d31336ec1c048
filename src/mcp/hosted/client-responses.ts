/**
 * Responses of clients up to MCP 2025-11-25 to requests of the server. Such a request is sent in the stream of a call, and its
 * response is a POST of its own, which may reach another process: responses go to all processes, and the one that waits takes it.
 * Cancellations of calls go the same way.
 */

import { MCP_LIMITS } from '../../features/mcp-servers/limits.ts'
import type { Notifier } from '../../infra/valkey/notifier.ts'
import type { ClientResponse } from '../protocol/mcp-server.ts'

export const RESPONSES_CHANNEL = 'tenon:mcp-responses'

/** A message on the channel. */
interface Sent {
  readonly key: string
  readonly response: ClientResponse
}

export class ClientResponses {
  readonly #waiting = new Map<string, (response: ClientResponse) => void>()
  readonly #notifier: Notifier

  constructor(notifier: Notifier) {
    this.#notifier = notifier
  }

  /**
   * Waits for one response, up to {@link MCP_LIMITS.answerWaitMs}.
   * @param key the random id of the request, and the client that may respond to it
   * @returns undefined if the time is over or the signal aborts
   */
  async wait(key: string, signal: AbortSignal): Promise<ClientResponse | undefined> {
    this.#notifier.subscribe((text) => this.#receive(text))
    // A signal that has aborted emits no further event.
    if (signal.aborted) return undefined
    const { promise, resolve } = Promise.withResolvers<ClientResponse | undefined>()
    const giveUp = () => resolve(undefined)
    const timer = setTimeout(giveUp, MCP_LIMITS.answerWaitMs)
    signal.addEventListener('abort', giveUp, { once: true })
    this.#waiting.set(key, resolve)
    try {
      return await promise
    } finally {
      this.#waiting.delete(key)
      signal.removeEventListener('abort', giveUp)
      clearTimeout(timer)
    }
  }

  /** Delivers a response to the process that waits for it. A response without a waiting call has no effect, nor has one above `mcpAnswerCharsMax`. */
  deliver(key: string, response: ClientResponse): void {
    const text = JSON.stringify({ key, response } satisfies Sent)
    if (text.length > MCP_LIMITS.answerCharsMax) return
    const waiting = this.#waiting.get(key)
    if (waiting === undefined) this.#notifier.publish(text)
    else waiting(response)
  }

  close(): void {
    this.#notifier.close()
  }

  #receive(text: string): void {
    const { key, response } = JSON.parse(text) as Sent
    this.#waiting.get(key)?.(response)
  }
}
