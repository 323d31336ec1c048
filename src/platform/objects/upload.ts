/** A body on its way to the store, counted as it passes. */

import { Readable } from 'node:stream'
import { type ByteSource, counted } from '../../core/bytes.ts'
import type { Reservation } from './reservation.ts'

/** The SDK does not hear of a stream that breaks: it would wait without end. */
export class Upload {
  bytes = 0
  readonly #source: ByteSource
  readonly #max: number
  readonly #room: Reservation

  constructor(source: ByteSource, max: number, room: Reservation) {
    this.#source = source
    this.#max = max
    this.#room = room
  }

  get length(): number | undefined {
    return this.#source.length
  }

  /** @throws what broke the stream, else what the store refused */
  async send<T>(put: (body: Readable, signal: AbortSignal) => Promise<T>): Promise<T> {
    const broken = new AbortController()
    const body = Readable.from(this.#measured(), { objectMode: false })
    body.once('error', (error) => broken.abort(error))
    try {
      return await put(body, broken.signal)
    } catch (error) {
      throw broken.signal.aborted ? broken.signal.reason : error
    } finally {
      body.destroy()
    }
  }

  async *#measured(): AsyncGenerator<Uint8Array> {
    for await (const chunk of counted(this.#source, this.#max)) {
      this.bytes += chunk.byteLength
      await this.#room.cover(this.bytes)
      yield chunk
    }
  }
}
