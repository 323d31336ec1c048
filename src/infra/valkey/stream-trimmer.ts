/** Bounds the memory of streams, whose entries differ in size by a thousand times. */

import type { Redis } from 'ioredis'
import { LRUCache } from 'lru-cache'
import { logOf, type StreamKey } from './stream-log.ts'

/** How often a stream is measured while as many bytes go into it as it may hold. */
const MEASUREMENTS = 16
const STREAMS_KNOWN = 10_000

export class StreamTrimmer {
  readonly #bytesMax: number
  /** Bytes that this process has added to a stream since it last measured it. */
  readonly #unmeasured = new LRUCache<string, number>({ max: STREAMS_KNOWN })

  /** @param bytesMax memory of one stream; each process that adds to it may exceed this by 1/16 */
  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  /** Call after the texts were added to the stream: drops its oldest entries if it takes too much memory. */
  async added(redis: Redis, key: StreamKey, texts: readonly string[]): Promise<void> {
    if (!this.#shouldMeasure(key, texts)) return
    const [bytes, length] = await Promise.all([redis.memory('USAGE', key, 'SAMPLES', 0), redis.xlen(key)])
    const share = this.#bytesMax / (bytes ?? 1)
    if (share < 1) await redis.keepNewest(key, logOf(key), Math.floor(length * share))
  }

  /** Measuring is too expensive after every addition. */
  #shouldMeasure(key: string, texts: readonly string[]): boolean {
    const added = texts.reduce((sum, text) => sum + Buffer.byteLength(text), 0)
    const bytes = added + (this.#unmeasured.get(key) ?? 0)
    const isDue = bytes >= this.#bytesMax / MEASUREMENTS
    this.#unmeasured.set(key, isDue ? 0 : bytes)
    return isDue
  }
}
