/** How often a thing was tried of late, on this node: bounds guessing, and forgets by itself. */

import { LIMITS } from '../../core/limits.ts'
import { Recent } from '../recent.ts'

export class Attempts {
  /** The oldest goes first: it is the nearest to its end. */
  readonly #entries = new Recent<{ count: number; readonly untilMs: number }>(LIMITS.attemptsRememberedMax)
  readonly #nowMs: () => number

  constructor(nowMs: () => number = () => performance.now()) {
    this.#nowMs = nowMs
  }

  /** Counts one more attempt. @returns whether it is still within `max` of the window */
  admit(name: string, max: number): boolean {
    const known = this.#entries.get(name)
    if (known !== undefined && known.untilMs > this.#nowMs()) {
      known.count += 1
      return known.count <= max
    }
    this.#entries.set(name, { count: 1, untilMs: this.#nowMs() + LIMITS.attemptsWindowMs })
    return true
  }

  /** What succeeded was no guess. */
  forgive(name: string): void {
    this.#entries.delete(name)
  }

  /** The same where others may have guessed: one attempt less. */
  takeBack(name: string): void {
    const known = this.#entries.get(name)
    if (known !== undefined) known.count -= 1
  }
}
