/** A gateway in front of the object store that refuses sessions as SeaweedFS does after its signing key was changed, or answers 500. */

import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'

/** `error`: it answers 500 and does nothing. `late error`: it does the request, and answers 500. */
export type StoreFault = 'error' | 'late error'

export interface RefusingStore {
  readonly url: string
  /** Requests for sessions so far. */
  readonly sessions: number
  /** Refuses every session that was opened before now. */
  endSessions(): void
  /** What happens to each request from now on; undefined: it is served. */
  fault: StoreFault | undefined
  close(): void
}

const ERROR = '<Error><Code>InternalError</Code><Message>We encountered an internal error.</Message></Error>'
const REFUSAL = '<Error><Code>InvalidAccessKeyId</Code><Message>No such access key.</Message></Error>'

export async function startRefusingStore(origin: URL): Promise<RefusingStore> {
  let ended: string[] = []
  const opened: string[] = []
  let sessions = 0
  const server = createServer((incoming, outgoing) => {
    const token = String(incoming.headers['x-amz-security-token'] ?? '')
    if (token === '' && incoming.url === '/') sessions++
    if (token !== '' && !opened.includes(token)) opened.push(token)
    const { fault } = store
    const answer = (status: number, text: string) =>
      outgoing
        .writeHead(status, { 'content-type': 'application/xml' })
        .end(incoming.method === 'HEAD' ? '' : text)
    if (ended.includes(token) || fault === 'error') {
      incoming.resume()
      return fault === 'error' ? answer(500, ERROR) : answer(403, REFUSAL)
    }
    const { method, url, headers } = incoming
    const sent = request(
      { host: origin.hostname, port: origin.port, method, path: url, headers },
      (reply) => {
        if (fault === 'late error') {
          reply.resume()
          return answer(500, ERROR)
        }
        outgoing.writeHead(reply.statusCode ?? 502, reply.headers)
        reply.pipe(outgoing)
      },
    )
    sent.on('error', () => outgoing.destroy())
    incoming.pipe(sent)
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  const store: RefusingStore = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    get sessions() {
      return sessions
    },
    endSessions: () => {
      ended = [...opened]
    },
    fault: undefined,
    close: () => {
      server.closeAllConnections()
      server.close()
    },
  }
  return store
}
