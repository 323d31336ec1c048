/** A budget of CPU time for one request, which yields the thread to other requests. */

import { setImmediate } from 'node:timers/promises'
import { Problem } from '../core/problem.ts'
import { INFRA_LIMITS } from './limits.ts'

/** Yields are resumed one by one, so that a new request waits for one of them, and not for all. */
let lastYield: Promise<unknown> = Promise.resolve()

const WALL_CLOCK_MS = 100

/**
 * Measures CPU time, so that a caller does not pay for others. The kernel reports it late, so a request that has used little
 * yet is measured by the wall clock, and charged no more than that little.
 */
function startStopwatch(byWallClock: boolean): () => number {
  if (byWallClock) {
    const startMs = performance.now()
    return () => Math.min(performance.now() - startMs, WALL_CLOCK_MS)
  }
  const before = process.cpuUsage()
  return () => {
    const { user, system } = process.cpuUsage(before)
    return (user + system) / 1_000
  }
}

/** For a loop over what a caller sent, whose steps may each take long. */
export class CpuBudget {
  readonly #maxMs: number
  #spentMs = 0
  #sinceYieldMs = 0

  /** @param maxMs CPU time of all steps */
  constructor(maxMs: number = INFRA_LIMITS.writeCpuBudgetMs) {
    this.#maxMs = maxMs
  }

  /** @throws Problem `validation_too_costly` if the budget is spent; and as `work` does */
  run<T>(work: () => T): T {
    if (this.#spentMs > this.#maxMs)
      throw new Problem('validation_too_costly', {
        detail: `The documents before this one took more than ${this.#maxMs / 1_000} s of the processor.`,
        hint: 'Send fewer documents at a time, or simplify patterns and alternatives of the schema.',
      })
    const elapsedMs = startStopwatch(this.#spentMs < WALL_CLOCK_MS)
    try {
      return work()
    } finally {
      const ms = elapsedMs()
      this.#spentMs += ms
      this.#sinceYieldMs += ms
    }
  }

  /** Adds CPU time that another thread used for the caller, in milliseconds. */
  charge(cpuMs: number): void {
    this.#spentMs += cpuMs
  }

  /** Lets other requests go first; undefined if this one has not held the thread for long. */
  yield(): Promise<void> | undefined {
    if (this.#sinceYieldMs < INFRA_LIMITS.yieldEveryMs) return undefined
    this.#sinceYieldMs = 0
    const mine = lastYield.then(() => setImmediate())
    lastYield = mine
    return mine
  }
}
