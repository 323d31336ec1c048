/** Buckets in this process's memory: for as long as the shared ones cannot be asked, and for what needs no sharing. */

import { LRUCache } from 'lru-cache'
import { LIMITS } from '../../core/limits.ts'
import type { Limit } from './limit.ts'

/** A bucket by its name, and the limit that it is under. */
export interface Charge {
  readonly bucket: string
  readonly limit: Limit
}

/** What was found, and when by the clock of who keeps the buckets: microseconds. */
export interface Found {
  readonly nowUs: number
  readonly aheadUs: readonly number[]
}

/**
 * The generic cell rate algorithm (ITU-T I.371): of a bucket is kept when it will be full again. How far ahead of now
 * that is says how much has been taken.
 */
export class LocalLedger {
  readonly #nowUs: () => number
  /** When each is full again. Whoever names ever new buckets makes us forget old ones, but takes no more memory. */
  readonly #fullAtUs = new LRUCache<string, number>({ max: LIMITS.rateBucketsMax })

  constructor(nowUs: () => number = () => Math.floor(performance.now() * 1_000)) {
    this.#nowUs = nowUs
  }

  /**
   * Takes one request from every bucket, or from none where one of them has no room.
   * @returns how far ahead each was, before that
   */
  charge(charges: readonly Charge[]): number[] {
    const nowUs = this.#nowUs()
    const aheadUs = charges.map((charge) => this.#ahead(charge, nowUs))
    if (charges.every(({ limit }, at) => hasRoom(limit, aheadUs[at] ?? 0))) {
      for (const [at, { bucket, limit }] of charges.entries())
        this.#fullAtUs.set(bucket, nowUs + (aheadUs[at] ?? 0) + limit.intervalUs)
    }
    return aheadUs
  }

  /** The same without taking anything. */
  look(charges: readonly Charge[]): number[] {
    const nowUs = this.#nowUs()
    return charges.map((charge) => this.#ahead(charge, nowUs))
  }

  #ahead({ bucket, limit }: Charge, nowUs: number): number {
    const aheadUs = (this.#fullAtUs.get(bucket) ?? 0) - nowUs
    return Math.min(Math.max(aheadUs, 0), limit.capacityUs)
  }
}

/** Whether one more request fits. */
export const hasRoom = (limit: Limit, aheadUs: number): boolean =>
  aheadUs + limit.intervalUs <= limit.capacityUs
