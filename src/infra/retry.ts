/** Retries transient errors with exponential backoff, and supplies the delays of endless loops. */

import { Problem } from '../core/problem.ts'

/** Milliseconds: the first delay, and the longest. */
interface Bounds {
  readonly min: number
  readonly max: number
}

/** Delays that double with each one taken, until they are reset. */
export class Backoff {
  readonly #bounds: Bounds
  #ms: number

  constructor(bounds: Bounds) {
    this.#bounds = bounds
    this.#ms = bounds.min
  }

  /** Returns the delay to wait now, in milliseconds. */
  next(): number {
    const ms = this.#ms
    this.#ms = Math.min(ms * 2, this.#bounds.max)
    return ms
  }

  /** After a success: the next delay is the shortest again. */
  reset(): void {
    this.#ms = this.#bounds.min
  }
}

const TRANSIENT: readonly string[] = ['dependency_unavailable', 'overloaded', 'query_timeout']

const isUnavailable = (error: unknown) => error instanceof Problem && TRANSIENT.includes(error.code)

/**
 * Repeats the work while it fails transiently. Without this, a short outage would use up an attempt of a flow's call.
 * @param budgetMs no attempt starts later than this
 * @throws the last error of `work`: at once if it is not transient, else when the budget is spent
 */
export async function retryTransient<T>(
  budgetMs: number,
  work: () => Promise<T>,
  isTransient: (error: unknown) => boolean | Promise<boolean> = isUnavailable,
  delays: Bounds = { min: 50, max: 1_000 },
): Promise<T> {
  const untilMs = performance.now() + budgetMs
  const backoff = new Backoff(delays)
  for (;;) {
    const waitMs = backoff.next()
    try {
      return await work()
    } catch (error) {
      if (performance.now() + waitMs > untilMs || !(await isTransient(error))) throw error
    }
    await new Promise((over) => setTimeout(over, waitMs))
  }
}
