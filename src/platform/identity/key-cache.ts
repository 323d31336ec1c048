/** Verified keys, remembered for a few seconds: long enough to save the lookup, short enough for revocation. */

import { LIMITS } from '../../core/limits.ts'

export class KeyCache<T> {
  readonly #entries = new Map<string, { value: T; untilMs: number }>()

  get(name: string): T | undefined {
    const entry = this.#entries.get(name)
    return entry !== undefined && entry.untilMs > Date.now() ? entry.value : undefined
  }

  set(name: string, value: T): void {
    if (this.#entries.size >= LIMITS.keyCacheEntriesMax) this.#entries.clear()
    this.#entries.set(name, { value, untilMs: Date.now() + LIMITS.keyCacheMs })
  }

  forget(matches: (value: T) => boolean): void {
    for (const [name, { value }] of this.#entries) if (matches(value)) this.#entries.delete(name)
  }
}
