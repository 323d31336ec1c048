/** The connections of HTTP servers: tells when a response has no connection any more, and lets connections end after their response. */

import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'

/** @param callback called once the connection has closed, or at once if it has; idempotent, since it may be called twice */
export function onClose(response: ServerResponse, callback: () => void): void {
  response.once('close', callback)
  // A connection that has closed before emits no further event.
  if (response.destroyed) callback()
}

/** Knows the open connections, with the responses that each of them owes. */
export class Connections {
  readonly #owed = new Map<Socket, Set<ServerResponse>>()
  #endsAfterResponse = false

  /** Knows the connections of a server from now on. Every response of it then emits `close`. */
  watch(server: Server): void {
    server.on('connection', (socket: Socket) => {
      this.#owed.set(socket, new Set())
      socket.once('close', () => this.#closeOwed(socket))
    })
    // Before the listener that answers, which may do so at once.
    server.prependListener('request', (request, response) => this.#add(request, response))
  }

  /** From now on each response says `Connection: close`, also that of a request under way, and its connection ends after it. */
  endAfterResponse(): void {
    this.#endsAfterResponse = true
    for (const responses of this.#owed.values()) for (const one of responses) one.shouldKeepAlive = false
  }

  /** Closes connections that have never sent anything, which Node does not count as idle. */
  closeUnused(): void {
    for (const socket of this.#owed.keys()) if (socket.bytesRead === 0) socket.destroy()
  }

  #add({ socket }: IncomingMessage, response: ServerResponse): void {
    if (this.#endsAfterResponse) response.shouldKeepAlive = false
    const owed = this.#owed.get(socket)
    owed?.add(response)
    response.once('close', () => owed?.delete(response))
  }

  /**
   * Node emits no `close` for a response that waited behind another one of its connection (pipelining, RFC 9112 §9.3.2): a stream would
   * be open for ever. The one at the front has the socket, and Node closes it.
   */
  #closeOwed(socket: Socket): void {
    const owed = this.#owed.get(socket) ?? []
    this.#owed.delete(socket)
    for (const response of owed) if (response.socket === null) response.destroy().emit('close')
  }
}
