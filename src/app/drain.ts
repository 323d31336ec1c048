/** Ends an API process without an error for its clients: balancers notice first, running requests finish, and streams say that they end. */

import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { INFRA_LIMITS } from '../infra/limits.ts'
import type { Health } from './health.ts'

interface DrainTimes {
  /** Milliseconds for which everything is served as before, while the process is not ready. */
  readonly delayMs: number
  /** Milliseconds that running requests have after that. */
  readonly limitMs: number
}

const { pollMs, firstRequestMs } = INFRA_LIMITS.drain

/** The time after which a client of a stream that ended connects again, in milliseconds. They differ, so that not all come at once. */
export function reconnectMs(): number {
  const { min, max } = INFRA_LIMITS.drain.reconnectMs
  return Math.round(min + (max - min) * Math.random())
}

export class Drain {
  readonly #health: Health
  readonly #streams = new Set<() => void>()
  readonly #sockets = new Set<Socket>()
  #isClosing = false

  constructor(health: Health) {
    this.#health = health
  }

  /** True once clients are to connect elsewhere: responses then carry `Connection: close`. */
  get isClosing(): boolean {
    return this.#isClosing
  }

  /**
   * Registers a stream, which has no end of its own.
   * @param end ends it, and tells the client why; called at once, in a later turn, if the process is about to end
   * @returns forgets it; call it when the stream has ended
   */
  addStream(end: () => void): () => void {
    this.#streams.add(end)
    if (this.#isClosing) setImmediate(() => this.#streams.has(end) && end())
    return () => void this.#streams.delete(end)
  }

  /** Knows the connections of a server from now on. */
  watch(server: Server): void {
    server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket)
      socket.once('close', () => this.#sockets.delete(socket))
    })
  }

  /** Resolves when all connections of the server are closed, those of requests that take too long by force. */
  async run(server: Server, { delayMs, limitMs }: DrainTimes): Promise<void> {
    this.#health.drain()
    await pause(delayMs)
    this.#isClosing = true
    const closed = new Promise<void>((done) => server.close(() => done()))
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
      if (performance.now() - startedMs >= firstRequestMs)
        for (const socket of this.#sockets) if (socket.bytesRead === 0) socket.destroy()
      await pause(pollMs, undefined, { signal }).catch(() => {})
    }
  }
}
