/** A balancer that probes `/readyz` as HAProxy does, and passes requests to the servers that are ready, in turn. */

import {
  Agent,
  createServer,
  type IncomingMessage,
  request,
  type Server,
  type ServerResponse,
} from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'

const PROBE_MS = 200
/** Failures in a row after which a server gets no more requests. */
const FALL = 2

interface Backend {
  readonly url: string
  readonly agent: Agent
  failures: number
}

export interface Balancer {
  readonly url: string
  /** Servers that get requests now, by their URLs. */
  ready(): readonly string[]
  /** Requests that no server has answered: none was ready, or a connection broke. */
  readonly errors: readonly string[]
  close(): Promise<void>
}

/**
 * @param urls of the servers, which may come and go
 * @param probeMs the time in which a server must answer a probe
 */
export async function startBalancer(urls: readonly string[], probeMs = 2_000): Promise<Balancer> {
  const backends = urls.map(
    (url): Backend => ({ url, agent: new Agent({ keepAlive: true }), failures: FALL }),
  )
  const errors: string[] = []
  const isOver = new AbortController()
  let turn = 0
  const ready = () => backends.filter(({ failures }) => failures < FALL)
  const server: Server = createServer((incoming, response) => {
    const all = ready()
    const backend = all[turn++ % Math.max(1, all.length)]
    if (backend !== undefined) return pass(backend, { incoming, response, errors })
    errors.push(`${incoming.method} ${incoming.url}: no server is ready`)
    response.writeHead(503).end()
  })
  // Clients close connections that are idle: one that the balancer closes may be one on which a request is on its way.
  server.keepAliveTimeout = 0
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  for (const backend of backends) void probe(backend, probeMs, isOver.signal)
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    ready: () => ready().map(({ url }) => url),
    errors,
    close: async () => {
      isOver.abort()
      server.closeAllConnections()
      await new Promise((done) => server.close(done))
      for (const { agent } of backends) agent.destroy()
    },
  }
}

async function probe(backend: Backend, probeMs: number, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const status = await fetch(`${backend.url}/readyz`, { signal: AbortSignal.timeout(probeMs) }).then(
      async (reply) => {
        await reply.arrayBuffer()
        return reply.status
      },
      () => 0,
    )
    backend.failures = status === 200 ? 0 : backend.failures + 1
    await pause(PROBE_MS, undefined, { signal }).catch(() => {})
  }
}

interface Exchange {
  readonly incoming: IncomingMessage
  readonly response: ServerResponse
  readonly errors: string[]
}

/** No request is sent twice: a connection that breaks is an error of the client. */
function pass({ url, agent }: Backend, { incoming, response, errors }: Exchange): void {
  const { method, headers, url: path } = incoming
  const fail = (error: Error) => {
    if (response.writableEnded || response.destroyed) return
    errors.push(`${method} ${path}: ${error.message}`)
    if (response.headersSent) response.destroy()
    else response.writeHead(502).end()
  }
  const sent = request(`${url}${path}`, { method, headers, agent }, (answer) => {
    // The connection to the client is another one.
    const { connection: _hop, 'keep-alive': _lasts, ...others } = answer.headers
    response.writeHead(answer.statusCode ?? 502, others)
    response.flushHeaders()
    answer.on('error', fail)
    answer.pipe(response)
  })
  sent.on('error', fail)
  response.once('close', () => response.writableFinished || sent.destroy())
  incoming.pipe(sent)
}
