/** Ends an API process without an error for its clients: balancers notice first, running requests finish, and streams say that they end. */

import type { Server } from 'node:http'
import type { Server as NetServer } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { Connections } from '../infra/connections.ts'
import { INFRA_LIMITS } from '../infra/limits.ts'
import type { Health } from './health.ts'

interface DrainTimes {
  /** Milliseconds for which everything is served, while the process is not ready and each response ends its connection. */
  readonly delayMs: number
  /** Milliseconds that running requests have after that. */
  readonly limitMs: number
}

const { pollMs, firstRequestMs } = INFRA_LIMITS.drain

const close = (server: NetServer) => new Promise<void>((done) => server.close(() => done()))

/** The time after which a client of a stream that ended connects again, in milliseconds. They differ, so that not all come at once. */
export function reconnectMs(): number {
  const { min, max } = INFRA_LIMITS.drain.reconnectMs
  return Math.round(min + (max - min) * Math.random())
}

export class Drain {
  readonly #health: Health
  readonly #streams = new Set<() => void>()
  readonly #connections = new Connections()
  #hasEndedStreams = false

  constructor(health: Health) {
    this.#health = health
  }

  /**
   * Registers a stream, which has no end of its own.
   * @param end ends it, and tells the client why; called at once, in a later turn, if the process is about to end
   * @returns forgets it; call it when the stream has ended
   */
  addStream(end: () => void): () => void {
    this.#streams.add(end)
    if (this.#hasEndedStreams) setImmediate(() => this.#streams.has(end) && end())
    return () => void this.#streams.delete(end)
  }

  /** Knows the connections of a server from now on. */
  watch(server: Server): void {
    this.#connections.watch(server)
  }

  /**
   * Resolves when all connections of the server are closed, those of requests that take too long by force.
   * @param others servers that hand their connections to the first
   */
  async run(
    server: Server,
    { delayMs, limitMs }: DrainTimes,
    others: readonly NetServer[] = [],
  ): Promise<void> {
    this.#health.drain()
    // At once: a client that sends no probes also leaves before its idle connection is closed, if it asks within the delay.
    this.#connections.endAfterResponse()
    await pause(delayMs)
    this.#hasEndedStreams = true
    const closed = Promise.all([server, ...others].map(close))
    for (const end of this.#streams) end()
    const over = new AbortController()
    void this.#closeUnused(server, over.signal)
    await Promise.race([closed, pause(limitMs, undefined, { ref: false })])
    over.abort()
    server.closeAllConnections()
    await closed
  }

  /** Closes connections without a request, which would keep the process: those that are kept alive, and those that never sent any. */
  async #closeUnused(server: Server, signal: AbortSignal): Promise<void> {
    const startedMs = performance.now()
    while (!signal.aborted) {
      server.closeIdleConnections()
      if (performance.now() - startedMs >= firstRequestMs) this.#connections.closeUnused()
      await pause(pollMs, undefined, { signal }).catch(() => {})
    }
  }
}
