/** A gateway in front of the object store that refuses sessions as SeaweedFS does after its signing key was changed. */

import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface RefusingStore {
  readonly url: string
  /** Requests for sessions so far. */
  readonly sessions: number
  /** Refuses every session that was opened before now. */
  endSessions(): void
  close(): void
}

const REFUSAL = '<Error><Code>InvalidAccessKeyId</Code><Message>No such access key.</Message></Error>'

export async function startRefusingStore(origin: URL): Promise<RefusingStore> {
  let ended: string[] = []
  const opened: string[] = []
  let sessions = 0
  const server = createServer((incoming, outgoing) => {
    const token = String(incoming.headers['x-amz-security-token'] ?? '')
    if (token === '' && incoming.url === '/') sessions++
    if (token !== '' && !opened.includes(token)) opened.push(token)
    if (ended.includes(token)) {
      incoming.resume()
      return outgoing
        .writeHead(403, { 'content-type': 'application/xml' })
        .end(incoming.method === 'HEAD' ? '' : REFUSAL)
    }
    const { method, url, headers } = incoming
    const sent = request(
      { host: origin.hostname, port: origin.port, method, path: url, headers },
      (reply) => {
        outgoing.writeHead(reply.statusCode ?? 502, reply.headers)
        reply.pipe(outgoing)
      },
    )
    sent.on('error', () => outgoing.destroy())
    incoming.pipe(sent)
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    get sessions() {
      return sessions
    },
    endSessions: () => {
      ended = [...opened]
    },
    close: () => {
      server.closeAllConnections()
      server.close()
    },
  }
}
