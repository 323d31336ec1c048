/** A plain HTTP client for the public interface: requests and live streams. Imports no product code. */

import { request } from 'node:http'
import { expect, inject } from 'vitest'

/** One reply, read to its end. `body` is the parsed JSON, or undefined if it was none. */
export interface Reply {
  readonly status: number
  readonly headers: Headers
  readonly bytes: Uint8Array
  readonly text: string
  readonly body: unknown
}

export interface RequestOptions {
  /** Sent as JSON. */
  json?: unknown
  /** Sent unchanged. */
  raw?: string | Uint8Array
  headers?: Record<string, string>
}

export const base = inject('tenon').url

/** Everything sent to one party, so that it can be searched for data of others. */
export class Transcript {
  readonly received: string[] = []

  record(reply: Pick<Reply, 'headers' | 'text'>): void {
    this.received.push(`${JSON.stringify([...reply.headers])}\n${reply.text}`)
  }

  /** A fetch for libraries that bring their own client. */
  readonly fetch: typeof fetch = async (input, init) => {
    const response = await fetch(input, init)
    const copy = response.clone()
    void copy.text().then(
      (text) => this.record({ headers: copy.headers, text }),
      () => undefined,
    )
    return response
  }
}

/** Sends requests with fixed headers; retries only if the rate limit was exceeded. */
export class Caller {
  readonly headers: Readonly<Record<string, string>>
  readonly transcript: Transcript

  constructor(headers: Readonly<Record<string, string>>, transcript = new Transcript()) {
    this.headers = headers
    this.transcript = transcript
  }

  with(headers: Record<string, string>): Caller {
    return new Caller({ ...this.headers, ...headers }, this.transcript)
  }

  async send(method: string, path: string, sent: RequestOptions = {}): Promise<Reply> {
    for (let attempt = 0; ; attempt++) {
      const reply = await send(method, path, { ...sent, headers: { ...this.headers, ...sent.headers } })
      this.transcript.record(reply)
      if (attempt >= 8 || get(reply, 'code') !== 'rate_limited') return reply
      await pause(1000 * Math.min(5, Number(reply.headers.get('retry-after') ?? 1)))
    }
  }

  get(path: string, headers: Record<string, string> = {}): Promise<Reply> {
    return this.send('GET', path, { headers })
  }

  delete(path: string): Promise<Reply> {
    return this.send('DELETE', path)
  }

  post(path: string, json: unknown, headers: Record<string, string> = {}): Promise<Reply> {
    return this.send('POST', path, { json, headers })
  }

  put(path: string, json: unknown, headers: Record<string, string> = {}): Promise<Reply> {
    return this.send('PUT', path, { json, headers })
  }
}

/** One request, sent once. */
export async function send(method: string, path: string, sent: RequestOptions = {}): Promise<Reply> {
  const headers = new Headers(sent.headers)
  if (sent.json !== undefined) headers.set('content-type', headers.get('content-type') ?? 'application/json')
  const body = sent.json === undefined ? sent.raw : JSON.stringify(sent.json)
  const response = await fetch(path.startsWith('http') ? path : base + path, {
    method,
    headers,
    redirect: 'manual',
    ...(body === undefined ? {} : { body: typeof body === 'string' ? body : new Uint8Array(body) }),
  })
  return read(response.status, response.headers, new Uint8Array(await response.arrayBuffer()))
}

function read(status: number, headers: Headers, bytes: Uint8Array): Reply {
  const text = new TextDecoder().decode(bytes)
  let body: unknown
  try {
    body = JSON.parse(text)
  } catch {
    body = undefined
  }
  return { status, headers, bytes, text, body }
}

/** Sends a path unchanged: fetch would resolve `..` first. */
export function sendRawPath(method: string, path: string, headers: Record<string, string>, body = '') {
  const { hostname, port } = new URL(base)
  return new Promise<Reply>((resolve, reject) => {
    const sent = request({ hostname, port, method, path, headers }, (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('end', () => {
        const got = new Headers()
        for (const [name, value] of Object.entries(response.headers)) got.set(name, String(value))
        resolve(read(response.statusCode ?? 0, got, Buffer.concat(chunks)))
      })
    })
    sent.on('error', reject)
    sent.end(body)
  })
}

/** One event of a live stream. */
export interface Frame {
  readonly event: string
  readonly id: string | undefined
  readonly data: unknown
}

/** Reads server-sent events as a browser does; `close` ends the stream. */
export class Stream {
  readonly frames: Frame[] = []
  readonly reply: Response
  readonly #stop: AbortController

  private constructor(reply: Response, stop: AbortController) {
    this.reply = reply
    this.#stop = stop
  }

  static async open(path: string, caller: Caller, headers: Record<string, string> = {}): Promise<Stream> {
    const stop = new AbortController()
    const response = await fetch(base + path, {
      headers: { accept: 'text/event-stream', ...caller.headers, ...headers },
      signal: stop.signal,
    })
    const stream = new Stream(response, stop)
    void stream.#pump(caller.transcript).catch(() => undefined)
    return stream
  }

  async #pump(transcript: Transcript): Promise<void> {
    let rest = ''
    const decoder = new TextDecoder()
    for await (const chunk of this.reply.body ?? []) {
      const text = decoder.decode(chunk, { stream: true })
      transcript.record({ headers: this.reply.headers, text })
      const blocks = (rest + text).split(/\r?\n\r?\n/)
      rest = blocks.pop() ?? ''
      this.frames.push(...blocks.flatMap(frame))
    }
  }

  /** The first matching event, among those read or to come. Fails after `ms` milliseconds. */
  async next(wanted: (frame: Frame) => boolean, ms = 8000): Promise<Frame> {
    const until = Date.now() + ms
    for (;;) {
      const found = this.frames.find(wanted)
      if (found) return found
      if (Date.now() > until) {
        throw new Error(`no such frame; status ${this.reply.status}, read ${JSON.stringify(this.frames)}`)
      }
      await pause(25)
    }
  }

  messages(): Frame[] {
    return this.frames.filter(({ event }) => event === 'message')
  }

  close(): void {
    this.#stop.abort()
  }
}

function frame(block: string): Frame[] {
  const lines = block.split(/\r?\n/).filter((line) => line !== '' && !line.startsWith(':'))
  const field = (name: string) =>
    lines.filter((line) => line.startsWith(`${name}:`)).map((line) => line.slice(name.length + 1).trimStart())
  const data = field('data').join('\n')
  if (data === '') return []
  return [{ event: field('event')[0] ?? 'message', id: field('id')[0], data: parsed(data) }]
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

/** The value at `path`, segments separated by a slash, in the reply's body or in a value. */
export function get(from: Reply | unknown, path: string): unknown {
  let value: unknown = isReply(from) ? from.body : from
  for (const part of path.split('/')) {
    value = value !== null && typeof value === 'object' ? Reflect.get(value, part) : undefined
  }
  return value
}

/** The text at `path`; fails and shows the reply if there is none. */
export function str(from: Reply | unknown, path: string): string {
  const value = get(from, path)
  const excerpt = isReply(from) ? `${from.status} ${from.text.slice(0, 600)}` : JSON.stringify(from)
  if (typeof value !== 'string' || value === '') throw new Error(`no text at ${path} in: ${excerpt}`)
  return value
}

/** The list at `path` (`data` in pages). */
export function list(from: Reply | unknown, path = 'data'): unknown[] {
  const value = get(from, path)
  const excerpt = isReply(from) ? `${from.status} ${from.text.slice(0, 600)}` : JSON.stringify(from)
  if (!Array.isArray(value)) throw new Error(`no list at ${path} in: ${excerpt}`)
  return value
}

function isReply(from: unknown): from is Reply {
  return from !== null && typeof from === 'object' && 'status' in from && 'bytes' in from
}

/** Fails and shows the reply unless the status is the expected one. */
export function expectStatus(reply: Reply, ...statuses: number[]): void {
  expect(statuses, `${reply.status} ${reply.text.slice(0, 800)}`).toContain(reply.status)
}

/** Fails unless the reply is a problem document (RFC 9457) with this status and, if given, this code. */
export function expectProblem(reply: Reply, status: number, code?: string): void {
  expectStatus(reply, status)
  // A missing route would make many tests of refusals pass.
  expect(get(reply, 'code'), reply.text).not.toBe('route_not_found')
  expect(reply.headers.get('content-type')).toMatch(/^application\/problem\+json/)
  expect(reply.body).toMatchObject({
    type: expect.stringMatching(/\S/),
    title: expect.stringMatching(/\S/),
    status,
    code: code ?? expect.stringMatching(/^\w+$/),
    request_id: expect.stringMatching(/^req_/),
  })
  expect(reply.text).not.toMatch(/\bat .+\.(ts|js):\d+|node_modules|select .+ from |insert into|SQLSTATE/i)
}

/** A problem without the members that differ per request. */
export function anonymous(reply: Reply, ...words: string[]): string {
  let text = reply.text.replaceAll(/req_\w+/g, 'req')
  for (const word of words.filter((word) => word !== '')) text = text.replaceAll(word, '<id>')
  return `${reply.status} ${text}`
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

export async function expectAlive(): Promise<void> {
  for (const path of ['/healthz', '/readyz']) expectStatus(await send('GET', path, {}), 200)
}
