/**
 * One end of an HTTP request that a function serves. The API process has the connection of the client, and the worker the
 * code. They exchange the head of the response and chunks of both bodies; an end sends a chunk only if the other has asked
 * for it, so that neither process, nor Valkey between them, holds more than a few chunks of a direction.
 */

import { Problem } from '../../../core/problem.ts'
import { isProblemCode } from '../../../core/problem-catalogue.ts'
import type { WorkspaceRef } from '../../../core/tenant.ts'
import type { Channels } from '../channels.ts'
import { FUNCTION_LIMITS } from '../limits.ts'
import type { HttpResponseHead } from '../sandbox/invocation.ts'

const { http: limits } = FUNCTION_LIMITS

/** `client`: in the API process. `code`: in the worker. */
export type Side = 'client' | 'code'

/** First byte of a message. After it follow the number of the message, 32 bits, and its content. */
const FRAME_TYPES = {
  /** Asks for an answer, which is an abort if the receiver has given up. */
  ping: 0x70,
  pong: 0x71,
  /** JSON of the head of the response. */
  head: 0x68,
  chunk: 0x63,
  /** The body is complete. */
  end: 0x65,
  /** The number of further chunks that the sender takes. */
  more: 0x6d,
  /** JSON of a problem: the sender gives the exchange up. */
  abort: 0x78,
} as const
const HEADER_BYTES = 5

const channelOf = ({ tenantId, workspaceId }: WorkspaceRef, runId: string, side: Side) =>
  `tenon:{${tenantId}}:http:${workspaceId}:${runId}:${side}`

export class StreamConnection {
  readonly #channels: Channels
  readonly #to: string
  readonly #failed = new AbortController()
  readonly #head = Promise.withResolvers<HttpResponseHead>()
  readonly #inbox: Buffer[] = []
  #sent = 0
  #received = 0
  /** Chunks that the other end takes. */
  #credit = 0
  /** Chunks that this end has asked for, and that have not come. */
  #awaited = 0
  #hasEnded = false
  #isClosed = false
  /** Why this end has given up. */
  #reason: Problem | undefined
  #wake: (() => void)[] = []
  #closeChannel = () => {}

  private constructor(channels: Channels, to: string) {
    this.#channels = channels
    this.#to = to
    this.#head.promise.catch(() => {})
  }

  /** @throws Problem `dependency_unavailable` */
  static async open(
    channels: Channels,
    ref: WorkspaceRef,
    runId: string,
    side: Side,
  ): Promise<StreamConnection> {
    const other = side === 'client' ? 'code' : 'client'
    const peer = new StreamConnection(channels, channelOf(ref, runId, other))
    peer.#closeChannel = await channels.open(channelOf(ref, runId, side), {
      message: (bytes) => peer.#take(bytes),
      lost: () =>
        peer.fail(new Problem('dependency_unavailable', { detail: 'The exchange was interrupted.' })),
    })
    return peer
  }

  /** Aborted when the exchange cannot go on: the reason is what the other end, or {@link fail}, gave. */
  get failed(): AbortSignal {
    return this.#failed.signal
  }

  /** True once it receives nothing more. */
  get isClosed(): boolean {
    return this.#isClosed
  }

  /** The head that the other end sends. @throws the reason of a failure */
  head(): Promise<HttpResponseHead> {
    return this.#head.promise
  }

  async sendHead(head: HttpResponseHead): Promise<void> {
    await this.#send('head', Buffer.from(JSON.stringify(head)))
  }

  /**
   * Asks the other end for an answer. A number of receivers, which Valkey returns, would not do: on a cluster it counts those
   * at one node.
   * @returns whether anything came from it within `answerMs`
   * @throws the reason of a failure
   */
  async isThere(): Promise<boolean> {
    const before = this.#received
    let isLate = false
    const end = () => {
      isLate = true
      this.#wakeAll()
    }
    // After a pause of this process, the timer runs before the socket is read, and `setImmediate` after it.
    const timer = setTimeout(() => setImmediate(end), limits.answerMs)
    try {
      await this.#send('ping')
      await this.#until(() => isLate || this.#received > before)
    } finally {
      clearTimeout(timer)
    }
    return this.#received > before
  }

  /** Waits until the other end takes a chunk. @throws the reason of a failure */
  async awaitCredit(): Promise<void> {
    await this.#until(() => this.#credit > 0)
  }

  /** Sends bytes as fast as the other end takes them. @throws the reason of a failure */
  async write(bytes: Uint8Array): Promise<void> {
    for (let from = 0; from < bytes.byteLength; from += limits.chunkBytesMax) {
      await this.awaitCredit()
      this.#credit -= 1
      await this.#send('chunk', bytes.subarray(from, from + limits.chunkBytesMax))
    }
  }

  async end(): Promise<void> {
    await this.#send('end')
  }

  /** The chunks of the other end, which sends them as they are read. @throws the reason of a failure */
  async *chunks(): AsyncGenerator<Buffer> {
    for (;;) {
      await this.#ask()
      await this.#until(() => this.#inbox.length > 0 || this.#hasEnded)
      const chunk = this.#inbox.shift()
      if (chunk === undefined) return
      yield chunk
    }
  }

  /**
   * Gives up. The other end is told now, or when it asks for an answer: before that it may not receive anything yet.
   * @returns whether it was told now
   */
  async abort({ code, detail }: Problem): Promise<boolean> {
    this.#reason = new Problem(code, { ...(detail !== undefined && { detail }) })
    this.fail(this.#reason)
    if (this.#received === 0) return false
    return this.#sendAbort(this.#reason).then(
      () => true,
      () => false,
    )
  }

  /** Ends whatever waits for the other end. The first reason counts. */
  fail(reason: unknown): void {
    this.#failed.abort(reason)
    this.#head.reject(this.#failed.signal.reason)
    this.#wakeAll()
  }

  /** Receives nothing more. */
  close(): void {
    this.#isClosed = true
    this.#closeChannel()
    this.#inbox.length = 0
    this.#wakeAll()
  }

  /** Asks for as many chunks as may be under way, once half of them have been read. */
  async #ask(): Promise<void> {
    const share = Math.floor(
      limits.bytesUnderWayMax / limits.chunkBytesMax / Math.max(1, this.#channels.size),
    )
    const window = Math.min(limits.windowChunks, Math.max(1, share))
    const more = window - this.#awaited - this.#inbox.length
    if (this.#hasEnded || more < Math.ceil(window / 2)) return
    this.#awaited += more
    const content = Buffer.alloc(4)
    content.writeUInt32BE(more)
    await this.#send('more', content)
  }

  async #answer(): Promise<void> {
    await (this.#reason === undefined ? this.#send('pong') : this.#sendAbort(this.#reason))
  }

  async #sendAbort({ code, detail }: Problem): Promise<void> {
    await this.#send('abort', Buffer.from(JSON.stringify({ code, detail })))
  }

  async #send(kind: keyof typeof FRAME_TYPES, content: Uint8Array = Buffer.alloc(0)): Promise<void> {
    const bytes = Buffer.allocUnsafe(HEADER_BYTES + content.byteLength)
    bytes.writeUInt8(FRAME_TYPES[kind])
    bytes.writeUInt32BE(this.#sent++, 1)
    bytes.set(content, HEADER_BYTES)
    try {
      await this.#channels.send(this.#to, bytes)
    } catch (error) {
      this.fail(error)
      throw error
    }
  }

  #take(bytes: Buffer): void {
    const content = bytes.subarray(HEADER_BYTES)
    if (bytes.length < HEADER_BYTES || bytes.readUInt32BE(1) !== this.#received++) {
      this.fail(new Problem('dependency_unavailable', { detail: 'A part of the exchange was lost.' }))
      return
    }
    switch (bytes.readUInt8()) {
      case FRAME_TYPES.ping:
        // If it cannot be sent, the exchange has failed.
        this.#answer().catch(() => {})
        break
      case FRAME_TYPES.head:
        this.#head.resolve(JSON.parse(content.toString()) as HttpResponseHead)
        break
      case FRAME_TYPES.chunk:
        this.#awaited -= 1
        this.#inbox.push(content)
        break
      case FRAME_TYPES.end:
        this.#hasEnded = true
        break
      case FRAME_TYPES.more:
        this.#credit += content.readUInt32BE()
        break
      case FRAME_TYPES.abort:
        this.fail(problemIn(content))
        break
      default:
    }
    this.#wakeAll()
  }

  async #until(isMet: () => boolean): Promise<void> {
    for (;;) {
      this.failed.throwIfAborted()
      if (this.#isClosed) throw new Problem('run_cut_off', { detail: 'The exchange has ended.' })
      if (isMet()) return
      await new Promise<void>((wake) => this.#wake.push(wake))
    }
  }

  #wakeAll(): void {
    for (const wake of this.#wake.splice(0)) wake()
  }
}

function problemIn(content: Buffer): Problem {
  const { code, detail } = JSON.parse(content.toString()) as { code: unknown; detail?: string }
  return new Problem(isProblemCode(code) ? code : 'run_cut_off', { ...(detail !== undefined && { detail }) })
}
