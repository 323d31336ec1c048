/** The HTTP server for operators, on a port of its own: metrics of the process. It asks for no credential. */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Config } from '../infra/config.ts'
import type { Log } from '../infra/log.ts'

/** Answers `GET` and `HEAD` of one path. If it rejects, the answer is 500. */
type OpsHandler = (request: IncomingMessage, response: ServerResponse) => void | Promise<void>

export class OpsServer {
  readonly #handlers = new Map<string, OpsHandler>()
  readonly #log: Log
  readonly #server: Server

  constructor(log: Log) {
    this.#log = log
    this.#server = createServer((request, response) => void this.#answer(request, response))
  }

  /** @param path without a query */
  handle(path: string, handler: OpsHandler): void {
    this.#handlers.set(path, handler)
  }

  /** Listens on `TENON_OPS_LISTEN`. @returns the port; undefined if the setting is not set */
  async listen({ TENON_OPS_LISTEN: listen }: Config): Promise<number | undefined> {
    if (listen === undefined) return undefined
    const at = listen.lastIndexOf(':')
    const host = listen.slice(0, at).replace(/^\[|\]$/g, '')
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    this.#server.once('error', reject).listen(Number(listen.slice(at + 1)), host, resolve)
    await promise
    const { port } = this.#server.address() as AddressInfo
    this.#log.info({ host, port }, 'ops server listens')
    return port
  }

  close(): void {
    this.#server.close()
    this.#server.closeAllConnections()
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const handler = this.#handlers.get(request.url?.split('?')[0] ?? '')
    const isRead = request.method === 'GET' || request.method === 'HEAD'
    try {
      if (handler !== undefined && isRead) await handler(request, response)
      else response.writeHead(handler === undefined ? 404 : 405).end()
    } catch (err) {
      this.#log.error({ err, path: request.url }, 'ops request failed')
      if (!response.headersSent) response.writeHead(500)
      response.end()
    }
  }
}
