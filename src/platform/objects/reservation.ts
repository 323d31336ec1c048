/** The room of one upload in a workspace whose objects are limited: it grows with what comes, and is given back. */

import { randomUUID } from 'node:crypto'
import { LIMITS } from '../../core/limits.ts'

/** An object as the store names it. */
export interface Stored {
  readonly bucket: string
  readonly key: string
}

/** Where room is reserved and given back. */
interface Ledger {
  reserve(object: Stored, upload: string, bytes: number): Promise<boolean>
  settle(object: Stored, upload: string): Promise<void>
}

export class Reservation {
  readonly #ledger: Ledger
  readonly #object: Stored
  readonly #upload = randomUUID()
  #bytes = 0
  #untilMs = 0
  #limited: boolean

  constructor(ledger: Ledger, object: Stored, limited: boolean) {
    this.#limited = limited
    this.#ledger = ledger
    this.#object = object
  }

  /**
   * Before bytes are passed on, and again from time to time while they are.
   * @param bytes of the upload up to there
   * @throws Problem `quota_exceeded`
   */
  async cover(bytes: number): Promise<void> {
    if (!this.#limited || (bytes <= this.#bytes && Date.now() < this.#untilMs)) return
    const wanted = Math.max(bytes, this.#bytes)
    this.#limited = await this.#ledger.reserve(this.#object, this.#upload, wanted)
    this.#bytes = wanted
    this.#untilMs = Date.now() + LIMITS.uploadLeaseMs / 2
  }

  /**
   * The upload, for which there is room from its beginning and which is settled however it ends.
   * @param bytes that were announced
   * @throws Problem `quota_exceeded`, and what `work` throws
   */
  async during<T>(bytes: number, work: () => Promise<T>): Promise<T> {
    await this.cover(bytes)
    const settle = () => this.#ledger.settle(this.#object, this.#upload)
    const made = await work().catch(async (error: unknown) => {
      // The store may be what failed: then the room stays taken until its lease runs out, and the store is asked again.
      await settle().catch(() => {})
      throw error
    })
    await settle()
    return made
  }
}
