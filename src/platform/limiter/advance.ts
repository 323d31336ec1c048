/**
 * Requests that were charged before they came: who asks a lot has some taken ahead, and they cost no round trip. Without it
 * there are 0.81 times as many reads by id (docs/performance.md, measured again in decision 74).
 */

import { LIMITS } from '../../core/limits.ts'
import type { Charge, Found } from './local-ledger.ts'

/** How many may be charged before they come: a small share of what each bucket holds, so none of a small one. */
export const mostAhead = (charges: readonly Charge[]): number =>
  Math.min(...charges.map(({ limit }) => Math.floor(limit.burst / LIMITS.rateAdvance.share)))

export class Advance {
  readonly charges: readonly Charge[]
  readonly #taken: number
  readonly #found: Found
  readonly #sinceUs = nowUs()
  #spent = 0

  /**
   * @param found what the first of these requests finds, now
   * @param taken how many they are
   */
  constructor(charges: readonly Charge[], found: Found, taken: number) {
    this.charges = charges
    this.#found = found
    this.#taken = taken
  }

  get spent(): number {
    return this.#spent
  }

  get left(): number {
    return this.#taken - this.#spent
  }

  /** @returns what a request finds that comes now, as if it were charged now; undefined where there is nothing for it */
  spend(): Found | undefined {
    const lateUs = nowUs() - this.#sinceUs
    if (this.left === 0 || lateUs > LIMITS.rateAdvance.ms * 1_000) return undefined
    const spent = this.#spent++
    const aheadUs = this.#found.aheadUs.map((us, at) =>
      Math.max(us + spent * (this.charges[at]?.limit.intervalUs ?? 0) - lateUs, 0),
    )
    return { nowUs: this.#found.nowUs + lateUs, aheadUs }
  }
}

const nowUs = () => Math.floor(performance.now() * 1_000)
