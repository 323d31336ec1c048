/**
 * Bounds the requests of a process to Temporal, in total and per tenant, and lowers the bound while Temporal is overloaded: additive
 * increase, multiplicative decrease, as TCP does (RFC 5681 §3.1).
 */

import { Problem } from '../../core/problem.ts'
import { KeyedSemaphore } from '../keyed-semaphore.ts'
import { INFRA_LIMITS } from '../limits.ts'
import { Backoff } from '../retry.ts'

const BUSY = 'Too many requests wait for Temporal at present.'
const RETRY_AFTER_S = 2

/** As `INFRA_LIMITS.temporalCalls`. */
interface CallLimits {
  readonly atOnce: { readonly min: number; readonly max: number }
  readonly tenantShare: number
  readonly waitMs: number
  readonly startsPerRequest: number
  readonly pauseMs: { readonly min: number; readonly max: number }
}

interface Call {
  readonly tenantId: string
  /** True for an error by which the server says, or shows by its silence, that it has too much to do. */
  readonly isOverload: (error: unknown) => boolean
}

/** The place of a start among those of its tenant. */
export interface StartReservation {
  /**
   * Gives the place up during work that asks Temporal for nothing, such as the wait for a slot. Afterwards the start has a place in any
   * case, also beyond the bound: it is recorded, so it is not refused any more.
   */
  yieldWhile<T>(work: () => Promise<T>): Promise<T>
  /** Idempotent. */
  end(): void
}

const UNBOUNDED: StartReservation = { yieldWhile: (work) => work(), end: () => {} }

export class CallLimiter {
  readonly #limits: CallLimits
  readonly #refusesStarts: boolean
  readonly #slots: KeyedSemaphore
  /** Starts from before their record is written until their answer, by tenant. */
  readonly #starts = new KeyedSemaphore(0, 0)
  readonly #pause: Backoff
  /** The number of slots; a fraction of one is what answers have added so far. */
  #size: number
  /** Counts the decreases: of the requests that were under way at one, only the first lowers the bound. */
  #generation = 0
  #pauseMs = 0

  /** @param refusesStarts false in a process whose work is bounded elsewhere: there a start waits as long as it takes */
  constructor(refusesStarts: boolean, limits: CallLimits = INFRA_LIMITS.temporalCalls) {
    this.#limits = limits
    this.#refusesStarts = refusesStarts
    this.#size = limits.atOnce.max
    this.#slots = new KeyedSemaphore(0, limits.waitMs)
    this.#pause = new Backoff(limits.pauseMs)
    this.#resize()
  }

  /** Requests that may be under way at a time now. */
  get atOnce(): number {
    return Math.floor(this.#size)
  }

  /**
   * Reserves a start, before the record of what is started is written: a start that is refused leaves nothing behind.
   * @returns the reservation, which the caller ends after the answer to the start
   * @throws Problem `rate_limited` if the tenant has too many starts under way
   */
  reserveStart(tenantId: string): StartReservation {
    if (!this.#refusesStarts) return UNBOUNDED
    const release = this.#starts.tryAcquire(tenantId)
    if (release !== undefined) return this.#reservation(tenantId, release)
    throw new Problem('rate_limited', {
      detail: 'Too many starts of the tenant wait for Temporal, which is busy. Nothing was started.',
      hint: `Repeat the request after ${RETRY_AFTER_S} s.`,
      headers: { 'retry-after': String(RETRY_AFTER_S) },
    })
  }

  #reservation(tenantId: string, end: () => void): StartReservation {
    let endPlace = end
    return {
      end: () => endPlace(),
      yieldWhile: async (work) => {
        endPlace()
        return work().finally(() => {
          endPlace = this.#starts.take(tenantId)
        })
      },
    }
  }

  /**
   * Makes a request when there is a slot for it.
   * @throws Problem `overloaded` if there is none for `waitMs`: then the request was not made. Else as `work` does
   */
  async run<T>({ tenantId, isOverload }: Call, work: () => Promise<T>): Promise<T> {
    const release = await this.#slots.acquire(tenantId, BUSY)
    const generation = this.#generation
    try {
      const answer = await work()
      this.#grow()
      release()
      return answer
    } catch (error) {
      if (isOverload(error)) {
        this.#shrink(generation)
        setTimeout(release, this.#pauseMs).unref()
      } else {
        this.#grow()
        release()
      }
      throw error
    }
  }

  #grow(): void {
    this.#pause.reset()
    const before = this.atOnce
    this.#size = Math.min(this.#size + 1 / this.#size, this.#limits.atOnce.max)
    if (this.atOnce > before) this.#resize()
  }

  #shrink(generation: number): void {
    if (generation !== this.#generation) return
    this.#generation += 1
    this.#pauseMs = this.#pause.next()
    this.#size = Math.max(this.#size / 2, this.#limits.atOnce.min)
    this.#resize()
  }

  #resize(): void {
    const ofTenant = Math.max(1, Math.floor(this.atOnce * this.#limits.tenantShare))
    this.#slots.resize(ofTenant, this.atOnce)
    this.#starts.resize(ofTenant * this.#limits.startsPerRequest)
  }
}
