/** Contents of objects on their way between the code of an invocation and the worker: a chunk at a time, when the reader asks for it. */

import type { ByteReply, ByteSource } from '../../../core/bytes.ts'
import { Problem } from '../../../core/problem.ts'
import { FUNCTION_LIMITS } from '../limits.ts'

const { streamsMax, callsOpenMax } = FUNCTION_LIMITS.sandbox

/** A content that the code reads. */
interface Outgoing {
  readonly chunks: AsyncIterator<Uint8Array>
  readonly discard: () => void
}

/** Hands the chunks of a writer to one reader, each when the reader asks for it. */
class Handoff {
  readonly chunks: AsyncIterable<Uint8Array> = { [Symbol.asyncIterator]: () => this.#iterator() }
  /** What the writer has written; no chunk is the end. */
  #written: { readonly chunk: Uint8Array | undefined; readonly taken: PromiseWithResolvers<void> } | undefined
  #asked: PromiseWithResolvers<IteratorResult<Uint8Array, undefined>> | undefined
  #failure: Problem | undefined

  /** Resolves when the reader has taken it. @throws Problem if the reader or the writer has given up, or writes twice at once */
  async write(chunk: Uint8Array | undefined): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure
    if (this.#written !== undefined) throw notRead()
    const taken = Promise.withResolvers<void>()
    this.#written = { chunk, taken }
    this.#move()
    await taken.promise
  }

  /** Ends both sides; the first reason counts. */
  fail(reason: Problem): void {
    this.#failure ??= reason
    this.#written?.taken.reject(this.#failure)
    this.#asked?.reject(this.#failure)
    this.#written = this.#asked = undefined
  }

  #iterator(): AsyncIterator<Uint8Array, undefined> {
    return {
      next: async () => {
        if (this.#failure !== undefined) throw this.#failure
        const asked = Promise.withResolvers<IteratorResult<Uint8Array, undefined>>()
        this.#asked = asked
        this.#move()
        return asked.promise
      },
      return: async () => {
        this.fail(notRead())
        return { done: true, value: undefined }
      },
    }
  }

  #move(): void {
    const [written, asked] = [this.#written, this.#asked]
    if (written === undefined || asked === undefined) return
    this.#written = this.#asked = undefined
    const { chunk, taken } = written
    asked.resolve(chunk === undefined ? { done: true, value: undefined } : { done: false, value: chunk })
    taken.resolve()
  }
}

export class ByteStreams {
  /** By the number that the code has given them. Its first chunk may come before the call that reads it is made. */
  readonly #incoming = new Map<number, Handoff>()
  /** Numbers of those that are over. */
  readonly #ended = new Set<number>()
  readonly #outgoing = new Map<number, Outgoing>()
  #lastOutgoing = 0
  #isClosed = false

  /**
   * A content that the code writes by {@link write}.
   * @param length in bytes, if the code knows it
   */
  receive(number: number, length: number | undefined): ByteSource {
    const { chunks } = this.#incomingOf(number)
    return { chunks, ...(length !== undefined && { length }) }
  }

  /** Resolves when the reader has taken the chunk; no bytes are the end. @throws Problem if nothing reads it now */
  async write(number: number, bytes: Uint8Array): Promise<void> {
    await this.#incomingOf(number).write(bytes.byteLength === 0 ? undefined : bytes)
  }

  /** Ends a content, which is cut off if it is not complete. */
  abandon(number: number): void {
    this.#ended.add(number)
    this.#incoming.get(number)?.fail(new Problem('body_incomplete'))
    this.#incoming.delete(number)
  }

  #incomingOf(number: number): Handoff {
    const known = this.#incoming.get(number)
    if (known !== undefined) return known
    if (this.#isClosed || this.#ended.has(number)) throw notRead()
    // The process makes no more calls at once.
    if (this.#incoming.size >= callsOpenMax) throw notRead()
    const incoming = new Handoff()
    this.#incoming.set(number, incoming)
    return incoming
  }

  /** Lets the code read a content. @returns its number @throws Problem `overloaded` if too many are open */
  open({ chunks, discard }: ByteReply & { readonly chunks: AsyncIterable<Uint8Array> }): number {
    const stream = { chunks: chunks[Symbol.asyncIterator](), discard: () => discard?.() }
    try {
      if (this.#isClosed) throw notRead()
      if (this.#outgoing.size >= streamsMax) throw tooMany()
    } catch (error) {
      stream.discard()
      throw error
    }
    this.#outgoing.set(++this.#lastOutgoing, stream)
    return this.#lastOutgoing
  }

  /** The next chunk; undefined at the end. */
  async read(number: number): Promise<Uint8Array | undefined> {
    const stream = this.#outgoing.get(number)
    if (stream === undefined) return undefined
    try {
      const next = await stream.chunks.next()
      if (next.done !== true) return next.value
      this.#outgoing.delete(number)
      return undefined
    } catch (error) {
      this.cancel(number)
      throw error
    }
  }

  /** Reads a content no further. */
  cancel(number: number): void {
    const stream = this.#outgoing.get(number)
    this.#outgoing.delete(number)
    stream?.discard()
  }

  /** Ends all of them. */
  close(): void {
    this.#isClosed = true
    for (const number of this.#incoming.keys()) this.abandon(number)
    for (const number of this.#outgoing.keys()) this.cancel(number)
  }
}

// Each holds a connection to the object store, of which a tenant has a share.
const tooMany = () =>
  new Problem('overloaded', {
    detail: `The run has ${streamsMax} contents of objects open. Read or cancel some of them first.`,
  })
const notRead = () => new Problem('state_conflict', { detail: 'Nothing reads the content now.' })
