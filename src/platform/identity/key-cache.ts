/** Verified keys, remembered for a few seconds: long enough to save the lookup, short enough for revocation. */

import { LIMITS } from '../../core/limits.ts'

export class KeyCache<T> {
  readonly #entries = new Map<string, { value: T; untilMs: number }>()
  #forgotten = 0

  get(name: string): T | undefined {
    const entry = this.#entries.get(name)
    return entry !== undefined && entry.untilMs > Date.now() ? entry.value : undefined
  }

  /** Where anything was forgotten while this was being read, it may be out of date already: it is not remembered. */
  async load(name: string, read: () => Promise<T>): Promise<T> {
    const known = this.get(name)
    if (known !== undefined) return known
    const before = this.#forgotten
    const value = await read()
    if (before === this.#forgotten) this.set(name, value)
    return value
  }

  set(name: string, value: T): void {
    if (this.#entries.size >= LIMITS.keyCacheEntriesMax) this.#entries.clear()
    this.#entries.set(name, { value, untilMs: Date.now() + LIMITS.keyCacheMs })
  }

  /** Forgets what is remembered under the name. */
  drop(name: string): void {
    this.#forgotten++
    this.#entries.delete(name)
  }

  forget(matches: (value: T) => boolean): void {
    this.#forgotten++
    for (const [name, { value }] of this.#entries) if (matches(value)) this.#entries.delete(name)
  }
}
