/** A gateway in front of the object store that refuses sessions as SeaweedFS does after its signing key was changed, or fails in ways that stores fail. */

import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/**
 * `error`: it answers 500 and does nothing. `late error`: it does the request, and answers 500. `full`: it answers 507 and stores
 * nothing; `full account`: the same with 403, as some stores do. `away`: it closes the connection. `cut`: it closes the connection in the
 * midst of a body of the request, or of the reply. `late cut`: it does the request, and closes the connection. `whole`: it answers a
 * range with 200, as if it were all bytes.
 */
export const STORE_FAULTS = [
  ...['error', 'late error', 'full', 'full account', 'away', 'cut', 'late cut', 'whole'],
] as const
export type StoreFault = (typeof STORE_FAULTS)[number]

export interface RefusingStore {
  readonly url: string
  /** Requests for sessions so far. */
  readonly sessions: number
  /** Other requests so far. */
  readonly requests: number
  /** Bytes of their bodies so far. */
  readonly received: number
  /** Refuses every session that was opened before now. */
  endSessions(): void
  /** What happens to each request from now on; undefined: it is served. */
  fault: StoreFault | undefined
  /** As many requests are served before the fault begins. */
  servedBefore: number
  close(): void
}

const errorOf = (code: string) =>
  `<Error><Code>${code}</Code><Message>We encountered an error.</Message></Error>`

/** Faults that are answers, and do nothing. */
const ANSWERS: Partial<Readonly<Record<StoreFault, readonly [status: number, text: string]>>> = {
  error: [500, errorOf('InternalError')],
  full: [507, errorOf('XMinioStorageFull')],
  'full account': [403, errorOf('QuotaExceeded')],
}

export async function startRefusingStore(origin: URL): Promise<RefusingStore> {
  let ended: string[] = []
  const opened: string[] = []
  const counts = { sessions: 0, requests: 0, received: 0 }
  const faultOf = (isSession: boolean): StoreFault | undefined => {
    if (store.fault === undefined) return undefined
    if (!isSession) store.servedBefore -= 1
    return store.servedBefore < 0 ? store.fault : undefined
  }
  const server = createServer((incoming, outgoing) => {
    const token = String(incoming.headers['x-amz-security-token'] ?? '')
    const isSession = token === '' && incoming.url === '/'
    counts[isSession ? 'sessions' : 'requests'] += 1
    if (token !== '' && !opened.includes(token)) opened.push(token)
    const fault = faultOf(isSession)
    const answer = ended.includes(token)
      ? ([403, errorOf('InvalidAccessKeyId')] as const)
      : fault && ANSWERS[fault]
    incoming.on('data', ({ byteLength }) => {
      counts.received += byteLength
    })
    if (fault === 'away') return void incoming.socket.destroy()
    if (answer === undefined) return forward(origin, incoming, outgoing, fault)
    incoming.resume()
    sendError(incoming, outgoing, answer)
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  const store: RefusingStore = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    get sessions() {
      return counts.sessions
    },
    get requests() {
      return counts.requests
    },
    get received() {
      return counts.received
    },
    endSessions: () => {
      ended = [...opened]
    },
    fault: undefined,
    servedBefore: 0,
    close: () => {
      server.closeAllConnections()
      server.close()
    },
  }
  return store
}

const sendError = (
  { method }: IncomingMessage,
  outgoing: ServerResponse,
  [status, text]: readonly [status: number, text: string],
) => outgoing.writeHead(status, { 'content-type': 'application/xml' }).end(method === 'HEAD' ? '' : text)

function forward(
  origin: URL,
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  fault: StoreFault | undefined,
): void {
  const { method, url, headers } = incoming
  const sent = request({ host: origin.hostname, port: origin.port, method, path: url, headers }, (reply) => {
    if (fault === 'late error' || fault === 'late cut') {
      reply.resume()
      if (fault === 'late cut') return void incoming.socket.destroy()
      return sendError(incoming, outgoing, [500, errorOf('InternalError')])
    }
    const { 'content-range': range, ...others } = reply.headers
    const isWhole = fault === 'whole' && range !== undefined
    outgoing.writeHead(isWhole ? 200 : (reply.statusCode ?? 502), isWhole ? others : reply.headers)
    if (fault === 'cut')
      return cut(
        reply,
        Number(reply.headers['content-length'] ?? 0),
        () => incoming.socket.destroy(),
        outgoing,
      )
    reply.pipe(outgoing)
  })
  sent.on('error', () => outgoing.destroy())
  const length = Number(headers['content-length'] ?? 0)
  if (fault !== 'cut' || length === 0) return void incoming.pipe(sent)
  cut(
    incoming,
    length,
    () => {
      sent.destroy()
      incoming.socket.destroy()
    },
    sent,
  )
}

/** Passes half of a body on. */
function cut(body: IncomingMessage, length: number, end: () => void, to: NodeJS.WritableStream): void {
  let left = Math.floor(length / 2)
  body.on('data', (chunk: Uint8Array) => {
    to.write(chunk.subarray(0, left))
    left -= chunk.byteLength
    if (left <= 0) end()
  })
  if (left === 0) end()
}
