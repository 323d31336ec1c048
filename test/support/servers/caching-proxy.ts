/**
 * A shared cache in front of the API, as greedy as RFC 9111 lets it be: what may be stored is stored, and what has no lifetime of
 * its own is served for an hour. As common proxies do, it drops headers whose name has `_`.
 */

import { createServer, type IncomingHttpHeaders, type OutgoingHttpHeaders, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { buffer } from 'node:stream/consumers'

interface Stored {
  readonly url: string
  readonly requested: IncomingHttpHeaders
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
  readonly untilMs: number
}

export interface CachingProxy {
  readonly url: string
  /** The addresses of the replies that it has kept. */
  readonly kept: readonly string[]
  /** The addresses that it has answered without the API, or after the API has said 304. */
  readonly hits: readonly string[]
  close(): void
}

/** Statuses that a cache may store without a lifetime (RFC 9110 §15.1). */
const HEURISTIC = new Set([200, 203, 204, 300, 301, 308, 404, 405, 410, 414, 501])
const HEURISTIC_SECONDS = 3_600
/** Headers of the connection (RFC 9110 §7.6.1). */
const OF_CONNECTION = ['connection', 'keep-alive', 'transfer-encoding', 'te', 'trailer', 'upgrade']

export async function startCachingProxy(origin: string): Promise<CachingProxy> {
  const stored: Stored[] = []
  const hits: string[] = []
  const forward = async (method: string, url: string, headers: OutgoingHttpHeaders, body: Buffer) => {
    const { promise, resolve, reject } = Promise.withResolvers<Omit<Stored, 'requested' | 'untilMs'>>()
    const sent = request(`${origin}${url}`, { method, headers }, (response) => {
      buffer(response).then((bytes) => {
        resolve({ url, status: response.statusCode ?? 0, headers: response.headers, body: bytes })
      }, reject)
    })
    sent.on('error', reject).end(body)
    return promise
  }
  const answer = async (method: string, url: string, requested: IncomingHttpHeaders, body: Buffer) => {
    const known =
      method === 'GET' ? stored.findLast((one) => one.url === url && isSelected(one, requested)) : undefined
    if (known !== undefined && known.untilMs > Date.now()) return hit(known)
    const etag = known?.headers.etag
    const conditional = { ...passed(requested), ...(etag !== undefined && { 'if-none-match': etag }) }
    const fresh = await forward(method, url, conditional, body)
    if (known !== undefined && fresh.status === 304) return hit(known)
    const seconds = method === 'GET' ? lifetime(fresh, requested) : undefined
    if (seconds !== undefined) stored.push({ ...fresh, requested, untilMs: Date.now() + seconds * 1_000 })
    return fresh
  }
  const hit = (known: Stored) => {
    hits.push(known.url)
    return known
  }
  const server = createServer((incoming, outgoing) => {
    const { method = 'GET', url = '/', headers } = incoming
    buffer(incoming)
      .then((body) => answer(method, url, headers, body))
      .then(({ status, headers: received, body }) => outgoing.writeHead(status, passed(received)).end(body))
      .catch(() => outgoing.destroy())
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    get kept() {
      return stored.map(({ url }) => url)
    },
    hits,
    close: () => {
      server.closeAllConnections()
      server.close()
    },
  }
}

const passed = (headers: IncomingHttpHeaders): OutgoingHttpHeaders =>
  Object.fromEntries(
    Object.entries(headers).filter(([name]) => !OF_CONNECTION.includes(name) && !name.includes('_')),
  )

/** True if the stored reply varies by nothing that differs between the two requests (RFC 9111 §4.1). */
function isSelected({ headers, requested: before }: Stored, requested: IncomingHttpHeaders): boolean {
  const names = (headers.vary ?? '').toLowerCase().split(/\s*,\s*/)
  return names.every((name) => name !== '*' && before[name] === requested[name])
}

/** @returns for how many seconds the reply may be served from a shared cache; 0 if it is validated first; undefined if it is not stored (RFC 9111 §3) */
function lifetime(
  { status, headers }: Pick<Stored, 'status' | 'headers'>,
  requested: IncomingHttpHeaders,
): number | undefined {
  const control = directives(headers['cache-control'])
  if (
    control.has('no-store') ||
    control.has('private') ||
    directives(requested['cache-control']).has('no-store')
  )
    return undefined
  const isShared = ['public', 's-maxage', 'must-revalidate'].some((name) => control.has(name))
  if (requested.authorization !== undefined && !isShared) return undefined
  const explicit = control.get('s-maxage') ?? control.get('max-age')
  if (explicit === undefined && !control.has('public') && !HEURISTIC.has(status)) return undefined
  return control.has('no-cache') ? 0 : Number(explicit ?? HEURISTIC_SECONDS)
}

const directives = (text = ''): Map<string, string | undefined> =>
  new Map(
    text
      .toLowerCase()
      .split(/\s*,\s*/)
      .map((one) => [one.split('=')[0] ?? '', one.split('=')[1]]),
  )
