/** Slots of running invocations, which tenants share, the last one for a tenant that holds none; a holder that waits for other runs yields its slot meanwhile. */

import { Problem } from '../../../core/problem.ts'
import { KeyedSemaphore } from '../../../infra/keyed-semaphore.ts'

/** So many holders per slot may have yielded theirs. */
const YIELDED_PER_SLOT_MAX = 4

/** A slot that its holder may yield. */
export interface HeldSlot {
  readonly tenant: string
  /** Idempotent. */
  release: () => void
  /** The calls under way during which it is yielded. */
  yields: number
  /** True once the holder needs it no more. */
  isGivenUp: boolean
}

export class FairSlots extends KeyedSemaphore {
  readonly #yieldedMax: number
  #yielded = 0

  constructor(max: number, ofTenantMax: number, waitMs: number) {
    super(ofTenantMax, waitMs, max, max > 1 ? 1 : 0)
    this.#yieldedMax = YIELDED_PER_SLOT_MAX * max
  }

  /**
   * Yields a slot during work for which its holder only waits. The holder gets it back at once when the work ends,
   * so that for a while more than `max` may be held. The process of the holder stays, so their number is limited.
   * @throws Problem `overloaded`
   */
  async yieldWhile<T>(slot: HeldSlot, work: () => Promise<T>): Promise<T> {
    if (slot.yields === 0) {
      if (this.#yielded >= this.#yieldedMax)
        throw new Problem('overloaded', { detail: 'Too many runs wait for runs that they have started.' })
      this.#yielded += 1
      slot.release()
    }
    slot.yields += 1
    try {
      return await work()
    } finally {
      slot.yields -= 1
      if (slot.yields === 0) {
        this.#yielded -= 1
        if (!slot.isGivenUp) slot.release = this.take(slot.tenant)
      }
    }
  }
}
