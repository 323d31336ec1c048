/** Answers TXT queries over UDP (RFC 1035 §4.1), in place of the DNS of the world. */

import { createSocket } from 'node:dgram'

export interface DnsServer {
  /** `127.0.0.1:<port>` */
  readonly address: string
  /** The records by name, in lower case. A name without an entry does not exist. */
  readonly texts: Map<string, readonly string[]>
  /** While true, queries get no reply. */
  isSilent: boolean
  /** Queries wait until there are so many of them. 1: each is answered at once. */
  answersAfter: number
  close(): Promise<void>
}

const NO_SUCH_NAME = 3
const STRING_BYTES_MAX = 255

export async function startDnsServer(): Promise<DnsServer> {
  const socket = createSocket('udp4')
  await new Promise<void>((done) => socket.bind(0, '127.0.0.1', done))
  // It ends with its process at the latest.
  socket.unref()
  const server: DnsServer = {
    address: `127.0.0.1:${socket.address().port}`,
    texts: new Map(),
    isSilent: false,
    answersAfter: 1,
    close: () => new Promise((done) => socket.close(done)),
  }
  let waiting: (() => void)[] = []
  socket.on('message', (query, { port }) => {
    if (server.isSilent) return
    waiting.push(() => socket.send(answerTo(query, server.texts), port))
    if (waiting.length < server.answersAfter) return
    for (const answer of waiting) answer()
    waiting = []
  })
  return server
}

function answerTo(query: Buffer, records: DnsServer['texts']): Buffer {
  const labels: string[] = []
  let at = 12
  for (let length = query[at] ?? 0; length > 0; length = query[at] ?? 0) {
    labels.push(query.toString('ascii', at + 1, at + 1 + length))
    at += 1 + length
  }
  const question = query.subarray(12, at + 5)
  const found = records.get(labels.join('.').toLowerCase())
  const code = found === undefined ? NO_SUCH_NAME : 0
  const head = Buffer.from([
    ...query.subarray(0, 2),
    ...[0x81, 0x80 | code, 0, 1, 0, found?.length ?? 0, 0, 0, 0, 0],
  ])
  return Buffer.concat([head, question, ...(found ?? []).map(recordOf)])
}

/** A record of the name in the question, with a TTL of zero; a long text is several strings. */
function recordOf(text: string): Buffer {
  const strings = text.match(new RegExp(`.{1,${STRING_BYTES_MAX}}`, 'g')) ?? ['']
  const data = Buffer.concat(strings.map((part) => Buffer.from([part.length, ...Buffer.from(part)])))
  return Buffer.concat([
    Buffer.from([0xc0, 12, 0, 16, 0, 1, 0, 0, 0, 0, data.length >> 8, data.length & 255]),
    data,
  ])
}
