/** Counts attempts within a time window on this node, to bound guessing. */

import { LRUCache } from 'lru-cache'
import { ACCESS_LIMITS } from '../limits.ts'

export class AttemptThrottle {
  readonly #counts: LRUCache<string, { count: number }>

  /** @param nowMs a clock that never goes back, and is never 0 */
  constructor(
    windowMs: number = ACCESS_LIMITS.attemptsWindowMs,
    nowMs: () => number = () => performance.now(),
  ) {
    const clock = { perf: { now: nowMs }, ttlResolution: 0 }
    this.#counts = new LRUCache({ max: ACCESS_LIMITS.attemptsCountedMax, ttl: windowMs, ...clock })
  }

  /** Counts an attempt. @returns false if there were more than `max` in the window */
  admit(name: string, max: number): boolean {
    const known = this.#counts.get(name)
    if (known === undefined) this.#counts.set(name, { count: 1 })
    else known.count += 1
    return known === undefined || known.count <= max
  }

  /** Resets the count after a success. */
  reset(name: string): void {
    this.#counts.delete(name)
  }

  /** Uncounts one successful attempt; failures of other clients stay counted. */
  uncount(name: string): void {
    const known = this.#counts.get(name)
    if (known !== undefined) known.count -= 1
  }

  /** Uncounts attempts whose check rejects: the client learned nothing of what it guessed, since too many wait, or a server is away. */
  async uncountIfFailed<T>(names: readonly string[], check: Promise<T>): Promise<T> {
    try {
      return await check
    } catch (error) {
      for (const name of names) this.uncount(name)
      throw error
    }
  }
}
