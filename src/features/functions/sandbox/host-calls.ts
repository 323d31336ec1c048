/** Serves the calls that the code of an invocation makes of the worker. The process is not trusted: all of a call is checked. */

import type { ByteReply, ByteSource } from '../../../core/bytes.ts'
import { exceedsDepth, isObject, parseJson } from '../../../core/json.ts'
import { CORE_LIMITS } from '../../../core/limits.ts'
import { Problem } from '../../../core/problem.ts'
import type { Json } from '../../../core/work.ts'
import { KeyedSemaphore } from '../../../infra/keyed-semaphore.ts'
import { FUNCTION_LIMITS } from '../limits.ts'
import { ByteStreams } from './byte-streams.ts'
import type { GuestFrame, HostFrameKind } from './frames.ts'
import {
  Content,
  type GuestRequest,
  type HttpResponseHead,
  type Invocation,
  type InvocationHost,
  REDIRECT_MODES,
} from './invocation.ts'

const { sandbox: limits } = FUNCTION_LIMITS

/** Resolves when the process has taken the frame. */
type Send = (kind: HostFrameKind, id: number, json: Buffer | string, bytes?: Buffer) => Promise<void>

type Reply = readonly [kind: HostFrameKind, json: Buffer | string, bytes?: Buffer]

export class HostCalls {
  readonly #host: InvocationHost
  readonly #isHttp: boolean
  readonly #send: Send
  readonly #open = new Map<number, number>()
  readonly #calls = new KeyedSemaphore(limits.callsAtOnce, Number.POSITIVE_INFINITY)
  readonly #streams = new ByteStreams()
  /** Chunks under way. They wait for no slot: a call that holds one may wait for them. */
  #chunksOpen = 0
  readonly #fetches = new KeyedSemaphore(limits.fetchesAtOnce, Number.POSITIVE_INFINITY)
  #openBytes = 0
  #jsonBytes = 0
  #hasResponded = false
  #isClosed = false
  #requestBody: AsyncIterator<Uint8Array> | undefined

  constructor({ host, kind }: Invocation, send: Send) {
    this.#host = host
    this.#isHttp = kind === 'fetch'
    this.#send = send
  }

  get openCount(): number {
    return this.#open.size + this.#chunksOpen
  }

  /** Ends the invocation: waiting calls are not made, and replies are not sent. */
  close(): void {
    this.#isClosed = true
    this.#streams.close()
  }

  /**
   * Takes a call. Its reply follows.
   * @returns false if the process has broken the protocol
   */
  take(frame: GuestFrame): boolean {
    const moved = this.#chunkOf(frame)
    if (moved !== undefined) return this.#takeChunk(frame, moved)
    const bytes = frame.json.length + frame.bytes.length
    if (this.#open.has(frame.id) || this.#open.size >= limits.callsOpenMax) return false
    if (this.#open.size > 0 && this.#openBytes + bytes > limits.bytesOpenMax) return false
    this.#jsonBytes += frame.json.length
    const isTooMuch = frame.json.length > 0 && this.#jsonBytes > limits.jsonBytesMax
    const work = isTooMuch ? async () => tooMuch() : this.#workOf(frame)
    if (work === undefined) return false
    this.#open.set(frame.id, bytes)
    this.#openBytes += bytes
    void this.#serve(frame, work)
    return true
  }

  #takeChunk({ id }: GuestFrame, move: () => Promise<Reply>): boolean {
    if (this.#chunksOpen >= 2 * (limits.streamsMax + limits.callsOpenMax)) return false
    this.#chunksOpen += 1
    void this.#moveChunk(id, move)
    return true
  }

  async #moveChunk(id: number, move: () => Promise<Reply>): Promise<void> {
    const [kind, json, bytes] = await move().catch(errorReply)
    if (!this.#isClosed) await this.#send(kind, id, json, bytes)
    this.#chunksOpen -= 1
  }

  /** What a frame of {@link ByteStreams} does; undefined for another frame. */
  #chunkOf({ kind, json, bytes }: GuestFrame): (() => Promise<Reply>) | undefined {
    const number = Number(json)
    if (kind === 'push') return async () => done(await this.#streams.write(number, bytes))
    if (kind === 'drop') return async () => done(this.#streams.cancel(number))
    if (kind === 'abandon') return async () => done(this.#streams.abandon(number))
    if (kind !== 'pull') return undefined
    return async () => {
      const chunk = await this.#streams.read(number)
      return chunk === undefined ? ['end', ''] : ['bytes', '', bufferOf(chunk)]
    }
  }

  async #serve({ kind, id }: GuestFrame, work: () => Promise<Reply>): Promise<void> {
    // A slot is held until the process has taken the reply, so a process that does not read gets no more of them.
    const leave = await (kind === 'fetch' ? this.#fetches : this.#calls).acquire(
      'all',
      'Other calls of the run are under way.',
    )
    try {
      if (this.#isClosed) return
      const [replyKind, json, bytes] = await work().catch(errorReply)
      if (this.#isClosed) return
      this.#openBytes -= this.#open.get(id) ?? 0
      this.#open.delete(id)
      await this.#send(replyKind, id, json, bytes)
    } finally {
      leave()
    }
  }

  #workOf({ kind, json, bytes }: GuestFrame): (() => Promise<Reply>) | undefined {
    switch (kind) {
      case 'call':
        return () => this.#call(json, bytes)
      case 'fetch':
        return () => this.#fetch(json, bytes)
      case 'respond':
        if (!this.#isHttp || this.#hasResponded) return undefined
        this.#hasResponded = true
        return () => this.#respond(json)
      case 'write':
        return this.#hasResponded ? () => this.#write(bytes) : undefined
      case 'read':
        return this.#isHttp ? () => this.#read() : undefined
      case 'began':
      case 'log':
      case 'result':
      case 'error':
      case 'pull':
      case 'push':
      case 'drop':
      case 'abandon':
        return undefined
    }
  }

  async #call(json: Buffer, bytes: Buffer): Promise<Reply> {
    const { method, args, content } = parsed(json)
    if (typeof method !== 'string' || !Array.isArray(args)) throw invalid('The message is not a call.')
    // The arguments themselves may be as deep as inputs.
    if (exceedsDepth(args, CORE_LIMITS.valueDepthMax + 1))
      throw invalid(`The arguments are nested deeper than ${CORE_LIMITS.valueDepthMax}.`)
    const given: (Json | ByteSource)[] = args as Json[]
    const { at, stream, length } = isObject(content) ? content : {}
    if (isIndex(at)) given[at] = isIndex(stream) ? this.#received(stream, length) : contentOf(bytes)
    const value = await this.#host.call(method, given).finally(() => {
      if (isIndex(stream)) this.#streams.abandon(stream)
    })
    if (value instanceof Content) return this.#sendContent(value.reply)
    const text = Buffer.from(JSON.stringify(value) ?? 'null')
    if (text.length > limits.replyBytesMax) throw tooLarge('answer', text.length)
    return ['value', text]
  }

  #received(stream: number, length: unknown): ByteSource {
    return this.#streams.receive(stream, isIndex(length) ? length : undefined)
  }

  /** A short content is in the answer; the code reads another piece by piece. */
  async #sendContent({ status, headers, chunks, discard }: ByteReply): Promise<Reply> {
    const head = { status, headers: Object.entries(headers) }
    if (chunks === undefined) return ['bytes', JSON.stringify(head)]
    if (Number(headers['content-length']) <= limits.chunkBytesMax) {
      const parts: Uint8Array[] = []
      for await (const chunk of chunks) parts.push(chunk)
      return ['bytes', JSON.stringify(head), Buffer.concat(parts)]
    }
    const stream = this.#streams.open({ status, headers, chunks, ...(discard && { discard }) })
    return ['bytes', JSON.stringify({ ...head, stream })]
  }

  async #fetch(json: Buffer, bytes: Buffer): Promise<Reply> {
    const { method, url, headers, hasBody, redirect } = parsed(json)
    if (typeof method !== 'string' || typeof url !== 'string' || !isHeaders(headers))
      throw invalid('The message is not a request.')
    const mode = REDIRECT_MODES.find((each) => each === redirect) ?? 'follow'
    const body = hasBody === true && { body: bytes }
    const request: GuestRequest = { method, url, headers, redirect: mode, ...body }
    const response = await this.#host.fetch(request)
    if (response.body.length > limits.replyBytesMax) throw tooLarge('response', response.body.length)
    const head = { status: response.status, headers: response.headers, url: response.url }
    return ['bytes', JSON.stringify(head), bufferOf(response.body)]
  }

  async #respond(json: Buffer): Promise<Reply> {
    const { status, headers } = parsed(json)
    if (!isStatus(status) || !isHeaders(headers))
      throw new Problem('function_error', { detail: 'A Response needs a status of 200 to 599.' })
    const head: HttpResponseHead = { status, headers }
    await this.#host.http?.respond(head)
    return ['value', 'null']
  }

  async #write(bytes: Buffer): Promise<Reply> {
    await this.#host.http?.write(bytes)
    return ['value', 'null']
  }

  async #read(): Promise<Reply> {
    this.#requestBody ??= this.#host.http?.requestBody[Symbol.asyncIterator]()
    const next = await this.#requestBody?.next()
    return next === undefined || next.done === true ? ['end', ''] : ['bytes', '', bufferOf(next.value)]
  }
}

const bufferOf = (bytes: Uint8Array) => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)

const done = (_nothing: unknown): Reply => ['value', 'null']

const isIndex = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) >= 0

function contentOf(bytes: Buffer): ByteSource {
  const chunks = (async function* () {
    yield bytes
  })()
  return { chunks, length: bytes.byteLength }
}

const isStatus = (value: unknown): value is number =>
  Number.isInteger(value) && Number(value) >= 200 && Number(value) <= 599

type Headers = readonly (readonly [string, string])[]
const isHeaders = (value: unknown): value is Headers =>
  Array.isArray(value) &&
  value.every(
    (pair) => Array.isArray(pair) && pair.length === 2 && pair.every((text) => typeof text === 'string'),
  )

function parsed(json: Buffer): Readonly<Record<string, unknown>> {
  const value = parseJson(json.toString())
  return isObject(value) ? value : {}
}

const invalid = (detail: string) => new Problem('validation_failed', { detail })
const tooLarge = (what: string, bytes: number) =>
  new Problem('body_too_large', {
    detail: `The ${what} has ${bytes} bytes; the maximum is ${limits.replyBytesMax}.`,
  })

function tooMuch(): never {
  throw new Problem('quota_exceeded', {
    detail: `The calls of a run have at most ${limits.jsonBytesMax} bytes of JSON together.`,
  })
}

/** Other errors than problems may name things of the platform. */
function errorReply(error: unknown): Reply {
  const problem = error instanceof Problem ? error : new Problem('internal')
  const { code, status, detail, message } = problem
  return ['error', JSON.stringify({ code, status, detail, message })]
}
