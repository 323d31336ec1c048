/** A request body that is read in pieces of bounded size, and whose end is an end even if its sender breaks off. */

import { type ByteSource, NO_BYTES } from '../../core/bytes.ts'
import { Problem } from '../../core/problem.ts'

const NOTHING = new Uint8Array()

export class BodyPieces {
  /** How many bytes were taken. */
  taken = 0
  /** Why the body ended before its announced end. */
  failure: Problem | undefined
  readonly #source: ByteSource
  readonly #chunks: AsyncIterator<Uint8Array>
  /** Bytes that were read and not yet taken. */
  #rest: Uint8Array = NOTHING

  constructor(source: ByteSource) {
    this.#source = source
    this.#chunks = source.chunks[Symbol.asyncIterator]()
  }

  /** How many bytes are announced and not yet taken; undefined if the sender names no length. */
  get announced(): number | undefined {
    const { length } = this.#source
    return length === undefined ? undefined : length - this.taken
  }

  /** True if there is a byte that was not taken. @throws Problem if the sender has lost its right */
  async hasMore(): Promise<boolean> {
    while (this.#rest.byteLength === 0 && this.failure === undefined) {
      const next = await this.#chunks.next().catch((error: unknown) => this.#broken(error))
      if (next.done === true) {
        if ((this.announced ?? 0) > 0) this.failure ??= new Problem('body_incomplete')
        return false
      }
      this.#rest = next.value
    }
    return this.#rest.byteLength > 0
  }

  /** Takes at most so many bytes. */
  async *take(bytesMax: number): AsyncGenerator<Uint8Array> {
    const until = this.taken + bytesMax
    while (this.taken < until && (await this.hasMore())) {
      const chunk = this.#rest.subarray(0, until - this.taken)
      this.#rest = this.#rest.subarray(chunk.byteLength)
      this.taken += chunk.byteLength
      yield chunk
    }
  }

  /** Reads no more. */
  close(): void {
    void this.#chunks.return?.().catch(() => {})
  }

  /** Keeps the bytes of a body that breaks off; refuses those of a sender without the right. */
  #broken(error: unknown): IteratorReturnResult<undefined> {
    if (!(error instanceof Problem) || error.code !== 'body_incomplete') throw error
    this.failure = error
    return { done: true, value: undefined }
  }
}

/** A body of no bytes. */
export const emptyBody = (): BodyPieces => new BodyPieces({ chunks: NO_BYTES, length: 0 })
