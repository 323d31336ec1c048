/** Slots for running invocations, shared fairly by tenants: a released slot goes to the waiting tenant that holds the fewest. */

import { Problem } from '../../../core/problem.ts'

interface Waiting {
  /** Takes the slot over. */
  readonly proceed: () => void
}

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

export class FairSlots {
  readonly #max: number
  readonly #maxOfTenant: number
  readonly #waitMs: number
  readonly #held = new Map<string, number>()
  /** The tenant that was served last is the last. */
  readonly #waiting = new Map<string, Waiting[]>()
  #total = 0
  #yielded = 0

  constructor(max: number, maxOfTenant: number, waitMs: number) {
    this.#max = max
    this.#maxOfTenant = maxOfTenant
    this.#waitMs = waitMs
  }

  /**
   * Yields a slot during work for which its holder only waits. The holder gets it back at once when the work ends,
   * so that for a while more than `max` may be held. The process of the holder stays, so their number is limited.
   * @throws Problem `overloaded`
   */
  async yieldWhile<T>(slot: HeldSlot, work: () => Promise<T>): Promise<T> {
    if (slot.yields === 0) {
      if (this.#yielded >= YIELDED_PER_SLOT_MAX * this.#max)
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
        if (!slot.isGivenUp) slot.release = this.#hold(slot.tenant)
      }
    }
  }

  /** @returns releases the slot; idempotent. Undefined if none is free now */
  tryAcquire(tenant: string): (() => void) | undefined {
    if (this.#total >= this.#max || !this.#mayHold(tenant)) return undefined
    return this.#hold(tenant)
  }

  /**
   * Waits for a slot.
   * @param waitingMax of the tenant: above it, the caller does not wait
   * @throws Problem `overloaded` with the detail if none was released in time, or too many wait; `run_cut_off` if it
   *   was aborted meanwhile
   */
  acquire(
    tenant: string,
    detail: string,
    signal: AbortSignal,
    waitingMax = Number.POSITIVE_INFINITY,
  ): Promise<() => void> {
    const free = this.tryAcquire(tenant)
    if (free !== undefined) return Promise.resolve(free)
    if ((this.#waiting.get(tenant)?.length ?? 0) >= waitingMax)
      return Promise.reject(new Problem('overloaded', { detail }))
    return new Promise((resolve, reject) => {
      const leave = () => {
        clearTimeout(timer)
        signal.removeEventListener('abort', abort)
        this.#leave(tenant, waiting)
      }
      const waiting = {
        proceed: () => {
          leave()
          resolve(this.#hold(tenant))
        },
      }
      const end = (problem: Problem) => {
        leave()
        reject(problem)
      }
      const timer = setTimeout(() => end(new Problem('overloaded', { detail })), this.#waitMs)
      const abort = () =>
        end(new Problem('run_cut_off', { detail: 'The run was cancelled before it started.' }))
      this.#waiting.set(tenant, [...(this.#waiting.get(tenant) ?? []), waiting])
      signal.addEventListener('abort', abort)
      if (signal.aborted) abort()
    })
  }

  #mayHold(tenant: string): boolean {
    return (this.#held.get(tenant) ?? 0) < this.#maxOfTenant
  }

  #hold(tenant: string): () => void {
    this.#total += 1
    this.#held.set(tenant, (this.#held.get(tenant) ?? 0) + 1)
    let isReleased = false
    return () => {
      if (isReleased) return
      isReleased = true
      this.#total -= 1
      const left = (this.#held.get(tenant) ?? 1) - 1
      if (left > 0) this.#held.set(tenant, left)
      else this.#held.delete(tenant)
      this.#serveNext()
    }
  }

  #serveNext(): void {
    if (this.#total >= this.#max) return
    const tenants = [...this.#waiting.keys()].filter((tenant) => this.#mayHold(tenant))
    const heldBy = (tenant: string) => this.#held.get(tenant) ?? 0
    const [next] = tenants.toSorted((a, b) => heldBy(a) - heldBy(b))
    if (next === undefined) return
    const queue = this.#waiting.get(next) ?? []
    this.#waiting.delete(next)
    this.#waiting.set(next, queue)
    queue[0]?.proceed()
  }

  #leave(tenant: string, waiting: Waiting): void {
    const left = (this.#waiting.get(tenant) ?? []).filter((each) => each !== waiting)
    if (left.length > 0) this.#waiting.set(tenant, left)
    else this.#waiting.delete(tenant)
  }
}
