/** The HTTP server for operators, on a port of its own: probes, and what others add. It takes no credentials. */

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Log } from '../infra/log.ts'
import type { Metrics } from '../infra/metrics/metrics.ts'
import type { Health } from './health.ts'
import { probesOf } from './probes.ts'

type Handler = (request: IncomingMessage, response: ServerResponse) => Promise<void>

export class OpsServer {
  readonly #handlers = new Map<string, Handler>()
  readonly #server: Server

  constructor(health: Health) {
    this.#server = createServer((request, response) => void this.#answer(request, response))
    for (const [path, probe] of Object.entries(probesOf(health, true)))
      this.handle(path, async (_request, response) => {
        const { status, body } = await probe()
        sendJson(response, status, body)
      })
  }

  /** Answers GET and HEAD of a path. An error of the handler is answered with 500. */
  handle(path: string, handler: Handler): void {
    this.#handlers.set(path, handler)
  }

  /** @param at `host:port` of `TENON_OPS_LISTEN` @returns the address that it listens on @throws the error of the system */
  async listen(at: string): Promise<AddressInfo> {
    const [, host = '', port = ''] = /^\[?([^\]]*)\]?:(\d+)$/.exec(at) ?? []
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject).listen(Number(port), host, resolve)
    })
    return this.#server.address() as AddressInfo
  }

  close(): void {
    this.#server.close()
    this.#server.closeAllConnections()
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const handler = this.#handlers.get(request.url?.split('?', 1)[0] ?? '')
    const isRead = request.method === 'GET' || request.method === 'HEAD'
    if (handler === undefined || !isRead)
      return sendJson(response, handler === undefined ? 404 : 405, { paths: [...this.#handlers.keys()] })
    await handler(request, response).catch((error: unknown) => {
      if (!response.headersSent) sendJson(response, 500, { error: String(error) })
      else response.destroy()
    })
  }
}

function sendJson(response: ServerResponse, status: number, body: object): void {
  const text = JSON.stringify(body)
  const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }
  response.writeHead(status, { ...headers, 'cache-control': 'no-store' }).end(text)
}

interface Served {
  readonly health: Health
  readonly metrics: Metrics
  readonly log: Log
}

const TEXT_FORMAT = 'text/plain; version=0.0.4; charset=utf-8'

/** Opens the server, with the metrics, if the setting names an address for it. */
export async function openOpsServer(
  { health, metrics, log }: Served,
  at: string | undefined,
): Promise<OpsServer | undefined> {
  if (at === undefined) return undefined
  const server = new OpsServer(health)
  server.handle('/metrics', async (_request, response) => {
    const text = await metrics.scrape()
    response.writeHead(200, { 'content-type': TEXT_FORMAT, 'cache-control': 'no-store' }).end(text)
  })
  const { address, port } = await server.listen(at)
  log.info({ address, port }, 'ops server listens')
  return server
}
