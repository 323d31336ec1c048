/** Retries transient errors with exponential backoff, and supplies the delays of endless loops. */

import { Problem } from '../core/problem.ts'
import { INFRA_LIMITS } from './limits.ts'

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

/** Bounds of attempts at a change that other writers may overtake. */
interface ContentionBounds {
  /** No attempt starts later than this. */
  readonly attemptsMs: number
  readonly attemptsMax: number
  readonly pauseMs: Bounds
}

/**
 * Repeats an attempt that other writers have overtaken, after pauses that grow and differ from writer to writer.
 * @param attempt returns undefined if it is to be repeated
 * @throws Problem `overloaded` with the detail if the bounds are reached; and as `attempt` does
 */
export async function retryContended<T>(
  detail: string,
  attempt: () => Promise<T | undefined>,
  { attemptsMs, attemptsMax, pauseMs }: ContentionBounds = INFRA_LIMITS.contention,
): Promise<T> {
  const untilMs = performance.now() + attemptsMs
  const backoff = new Backoff(pauseMs)
  for (let attempts = 1; ; attempts++) {
    const result = await attempt()
    if (result !== undefined) return result
    const waitMs = backoff.next() * Math.random()
    if (attempts >= attemptsMax || performance.now() + waitMs > untilMs)
      throw new Problem('overloaded', { detail })
    await new Promise((over) => setTimeout(over, waitMs))
  }
}

const TRANSIENT: readonly string[] = ['dependency_unavailable', 'overloaded', 'query_timeout']

/** True if a server is away, overloaded or slow: the work may succeed later, unchanged. */
export const isUnavailable = (error: unknown): boolean =>
  error instanceof Problem && TRANSIENT.includes(error.code)

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

/** Repeats a step until it has nothing more to do, or for so many milliseconds. @returns true if there may be more */
export async function repeatFor(ms: number, step: () => Promise<boolean>): Promise<boolean> {
  const until = performance.now() + ms
  while (await step()) if (performance.now() > until) return true
  return false
}
