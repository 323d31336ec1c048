/** An HTTP/1.1 client with minimal overhead, since it shares the CPU with the measured server. */

import { connect, type Socket } from 'node:net'

export type Send = (
  method: string,
  path: string,
  body?: string,
  /** Of this request, besides those of all. */
  headers?: Readonly<Record<string, string>>,
) => Promise<string>

/** The connection ended before the response was complete. */
export class LostConnection extends Error {}

/**
 * Keep-alive connections to one server, at most `lanes`; further calls wait for one. @param headers sent with
 * every request, in lower case @returns a function that sends; it rejects with the response text if the
 * status is not 2xx, and with {@link LostConnection}
 */
export function sender(url: string, headers: Readonly<Record<string, string>>, lanes: number): Send {
  const { hostname, port, host } = new URL(url)
  const fixed = lines({ host, ...headers })
  const idle: Lane[] = []
  const waiting: ((lane: Lane) => void)[] = []
  let open = 0
  const dial = () => new Lane(connect({ host: hostname, port: Number(port), noDelay: true }))
  const take = (): Lane | Promise<Lane> => {
    for (let lane = idle.pop(); lane !== undefined; lane = idle.pop()) {
      if (lane.usable) return lane
      open -= 1
    }
    if (open === lanes) return new Promise((resolve) => waiting.push(resolve))
    open += 1
    return dial()
  }
  return async (method, path, body, more = {}) => {
    const lane = await take()
    try {
      return await lane.send(`${method} ${path} HTTP/1.1\r\n${fixed}${lines(more)}${tail(body)}`)
    } finally {
      const next = waiting.shift()
      if (next === undefined) idle.push(lane)
      else next(lane.usable ? lane : dial())
    }
  }
}

const lines = (headers: Readonly<Record<string, string>>) =>
  Object.entries(headers)
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('')

const tail = (body: string | undefined) =>
  body === undefined
    ? '\r\n'
    : `content-type: application/json\r\ncontent-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`

/** One connection with one request in flight at a time. */
class Lane {
  readonly #socket: Socket
  #received: Buffer = Buffer.alloc(0)
  #resolve: (text: string) => void = () => {}
  #reject: (error: Error) => void = () => {}

  constructor(socket: Socket) {
    this.#socket = socket
    socket.on('data', (chunk) => this.#take(chunk))
    socket.on('error', ({ message }) => this.#reject(new LostConnection(message)))
    socket.on('close', () => this.#reject(new LostConnection('the server closed the connection')))
  }

  /** False if the server has closed it, as it does with idle connections. */
  get usable(): boolean {
    return this.#socket.writable
  }

  send(request: string): Promise<string> {
    return new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
      this.#socket.write(request)
    })
  }

  #take(chunk: Buffer): void {
    const received = this.#received.length === 0 ? chunk : Buffer.concat([this.#received, chunk])
    const reply = readReply(received)
    this.#received = reply === undefined ? received : Buffer.alloc(0)
    if (reply === undefined) return
    if (reply.status >= 200 && reply.status < 300) this.#resolve(reply.text)
    else this.#reject(new Error(`${reply.status} ${reply.text}`))
  }
}

/** undefined until the response is complete. */
function readReply(received: Buffer): { status: number; text: string } | undefined {
  const end = received.indexOf('\r\n\r\n')
  if (end < 0) return undefined
  const head = received.toString('latin1', 0, end)
  const status = Number(head.slice(9, 12))
  const body = received.subarray(end + 4)
  const length = /^content-length: *([0-9]+)/im.exec(head)?.[1]
  if (length !== undefined) return body.length < Number(length) ? undefined : { status, text: String(body) }
  if (!/^transfer-encoding: *chunked/im.test(head)) return { status, text: '' }
  return body.subarray(-5).equals(LAST_CHUNK) ? { status, text: unchunked(body) } : undefined
}

const LAST_CHUNK = Buffer.from('0\r\n\r\n')

function unchunked(body: Buffer): string {
  const parts: Buffer[] = []
  for (let at = 0; ; ) {
    const line = body.indexOf('\r\n', at)
    const size = Number.parseInt(body.toString('latin1', at, line), 16)
    if (size === 0) return String(Buffer.concat(parts))
    parts.push(body.subarray(line + 2, line + 2 + size))
    at = line + 2 + size + 2
  }
}
