/**
 * A semaphore that keys share, such as tenants: no key occupies all of a resource. A released slot goes to the waiting key that
 * holds the fewest, and of one key to the caller that has waited longest.
 */

import { Problem } from '../core/problem.ts'

interface WaitOptions {
  /** Ends the wait with its reason. */
  readonly signal?: AbortSignal
  /** As many callers of the key may wait; the next one is refused at once. Default: no limit. */
  readonly waitingMax?: number
}

interface Key {
  held: number
  /** Each takes a slot over. */
  readonly waiting: (() => void)[]
}

export class KeyedSemaphore {
  #ofKeyMax: number
  #totalMax: number
  readonly #waitMs: number
  readonly #reserved: number
  /** Keys that hold a slot or wait for one. Of keys that hold equally many, the first is served first. */
  readonly #keys = new Map<string, Key>()
  #total = 0

  /**
   * @param ofKeyMax slots that one key may hold
   * @param waitMs how long a caller waits at most; `Infinity`: without limit
   * @param totalMax slots of all keys together
   * @param reserved slots of these that only a key gets that holds none
   */
  constructor(ofKeyMax: number, waitMs: number, totalMax = Number.POSITIVE_INFINITY, reserved = 0) {
    this.#ofKeyMax = ofKeyMax
    this.#waitMs = waitMs
    this.#totalMax = totalMax
    this.#reserved = reserved
  }

  /** Slots that are held, of all keys. */
  get held(): number {
    return this.#total
  }

  /** Callers that wait for a slot, of all keys. */
  get waiting(): number {
    return [...this.#keys.values()].reduce((sum, { waiting }) => sum + waiting.length, 0)
  }

  /** Changes the numbers of slots. Those that are held stay held; callers that wait get those that are added. */
  resize(ofKeyMax: number, totalMax = Number.POSITIVE_INFINITY): void {
    this.#ofKeyMax = ofKeyMax
    this.#totalMax = totalMax
    let next = this.#nextKey()
    while (next !== undefined && this.#total < totalMax) {
      this.#serve(next)
      next = this.#nextKey()
    }
  }

  /**
   * Waits for a slot of the key.
   * @returns releases the slot; idempotent
   * @throws Problem `overloaded`, with this detail, if no slot was released in time, or too many wait; the reason of the signal
   */
  async acquire(
    key: string,
    detail: string,
    { signal, waitingMax = Number.POSITIVE_INFINITY }: WaitOptions = {},
  ): Promise<() => void> {
    signal?.throwIfAborted()
    const release = this.tryAcquire(key)
    if (release !== undefined) return release
    if ((this.#keys.get(key)?.waiting.length ?? 0) >= waitingMax) throw new Problem('overloaded', { detail })
    return this.#wait(key, detail, signal)
  }

  /** @returns releases the slot; undefined if none is free now */
  tryAcquire(key: string): (() => void) | undefined {
    return this.#isOpenTo(this.#keys.get(key)?.held ?? 0) ? this.take(key) : undefined
  }

  /** @param held slots of the key that asks */
  #isOpenTo(held: number): boolean {
    const reserved = held > 0 ? this.#reserved : 0
    return held < this.#ofKeyMax && this.#total + reserved < this.#totalMax
  }

  /** Takes a slot whether or not one is free. @returns releases the slot; idempotent */
  take(key: string): () => void {
    this.#total += 1
    this.#stateOf(key).held += 1
    let isReleased = false
    return () => {
      if (isReleased) return
      isReleased = true
      this.#total -= 1
      this.#stateOf(key).held -= 1
      this.#serveNext(key)
      this.#forgetIdle(key)
    }
  }

  #stateOf(key: string): Key {
    const known = this.#keys.get(key)
    if (known !== undefined) return known
    const fresh = { held: 0, waiting: [] }
    this.#keys.set(key, fresh)
    return fresh
  }

  #forgetIdle(key: string): void {
    const state = this.#keys.get(key)
    if (state?.held === 0 && state.waiting.length === 0) this.#keys.delete(key)
  }

  /** Before a later caller can overtake the one that waits. */
  #serveNext(released: string): void {
    const key = this.#totalMax === Number.POSITIVE_INFINITY ? released : this.#nextKey()
    if (key !== undefined) this.#serve(key)
  }

  /** Gives a slot to the caller of the key that has waited longest, if there is one and the key may hold another. */
  #serve(key: string): void {
    const state = this.#keys.get(key)
    if (state === undefined || !this.#isOpenTo(state.held)) return
    const [proceed] = state.waiting
    if (proceed === undefined) return
    this.#keys.delete(key)
    this.#keys.set(key, state)
    proceed()
  }

  /** The waiting key that holds the fewest, and may hold another one. */
  #nextKey(): string | undefined {
    let next: { readonly key: string; readonly held: number } | undefined
    for (const [key, { held, waiting }] of this.#keys)
      if (waiting.length > 0 && this.#isOpenTo(held) && held < (next?.held ?? this.#ofKeyMax))
        next = { key, held }
    return next?.key
  }

  #wait(key: string, detail: string, signal: AbortSignal | undefined): Promise<() => void> {
    const { waiting } = this.#stateOf(key)
    return new Promise((resolve, reject) => {
      const leave = () => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', abort)
        waiting.splice(waiting.indexOf(proceed), 1)
      }
      const proceed = () => {
        leave()
        resolve(this.take(key))
      }
      const end = (reason: unknown) => {
        leave()
        this.#forgetIdle(key)
        reject(reason)
      }
      const abort = () => end(signal?.reason)
      const late = () => end(new Problem('overloaded', { detail }))
      const timer = Number.isFinite(this.#waitMs) ? setTimeout(late, this.#waitMs) : undefined
      waiting.push(proceed)
      signal?.addEventListener('abort', abort)
    })
  }
}
