/** What a workspace was found to have, remembered for a few seconds and within a bound of memory. */

import { LIMITS } from '../core/limits.ts'
import type { WorkspaceRef } from '../core/tenant.ts'

/** A value with the memory that it takes, about. */
export interface Weighed<T> {
  readonly value: T
  readonly bytes: number
}

/** No id holds a colon, so no key of one workspace is another's. */
export const memoKey = (ref: WorkspaceRef, key: string) => `${ref.tenantId}:${ref.workspaceId}:${key}`

/** Beside its value, an entry takes about this. */
const ENTRY_BYTES = 256

export class Memo {
  readonly #entries = new Map<string, { value: unknown; untilMs: number }>()
  #bytes = 0
  #forgotten = 0

  /** The remembered value, or the loaded one. What was forgotten while it was loaded is not remembered. */
  async of<T>(key: string, load: () => Promise<Weighed<T>>): Promise<T> {
    const entry = this.#entries.get(key)
    if (entry !== undefined && entry.untilMs > Date.now()) return entry.value as T
    const forgotten = this.#forgotten
    const { value, bytes } = await load()
    if (forgotten === this.#forgotten) this.#keep(key, value, bytes + ENTRY_BYTES)
    return value
  }

  forget(key: string): void {
    this.#forgotten += 1
    this.#entries.delete(key)
  }

  /** All goes when it is full: what is in use comes back at the price of one look-up each. */
  #keep(key: string, value: unknown, bytes: number): void {
    if (this.#bytes + bytes > LIMITS.memoBytesMax) {
      this.#entries.clear()
      this.#bytes = 0
    }
    this.#bytes += bytes
    this.#entries.set(key, { value, untilMs: Date.now() + LIMITS.memoMs })
  }
}
