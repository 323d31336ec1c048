/** How one request uses the thread that serves everybody: in short turns, and not without end. */

import { setImmediate } from 'node:timers/promises'
import { LIMITS } from '../core/limits.ts'
import { Problem } from '../core/problem.ts'

/** Whoever rests goes on one by one, so that between two requests of others there is one turn, not one of each. */
let last: Promise<unknown> = Promise.resolve()

const BY_THE_CLOCK_MS = 100

/**
 * What counts is time of the processor: what others had of it is not the caller's fault. But the kernel takes a while
 * to tell it, so a request that has done little yet is measured by the clock, and charged no more than that little.
 */
function stopwatch(byTheClock: boolean): () => number {
  if (byTheClock) {
    const begunMs = performance.now()
    return () => Math.min(performance.now() - begunMs, BY_THE_CLOCK_MS)
  }
  const before = process.cpuUsage()
  return () => {
    const { user, system } = process.cpuUsage(before)
    return (user + system) / 1_000
  }
}

/** For a loop whose steps may each take long, over what a caller has sent. */
export class Turns {
  readonly #mostMs: number
  #spentMs = 0
  #turnMs = 0

  /** @param mostMs of the processor, for all of it */
  constructor(mostMs: number = LIMITS.planningMs) {
    this.#mostMs = mostMs
  }

  /** @throws Problem `validation_too_costly` where what was done before took too long; and as `work` does */
  take<T>(work: () => T): T {
    if (this.#spentMs > this.#mostMs) throw tooCostly(this.#mostMs)
    const spentMs = stopwatch(this.#spentMs < BY_THE_CLOCK_MS)
    try {
      return work()
    } finally {
      const ms = spentMs()
      this.#spentMs += ms
      this.#turnMs += ms
    }
  }

  /** Adds CPU time that another thread used for the caller, in milliseconds. */
  charge(cpuMs: number): void {
    this.#spentMs += cpuMs
  }

  /** Lets others go first, where this one has held the thread for a while. */
  rest(): Promise<void> | undefined {
    if (this.#turnMs < LIMITS.turnMs) return undefined
    this.#turnMs = 0
    const mine = last.then(() => setImmediate())
    last = mine
    return mine
  }
}

const tooCostly = (mostMs: number) =>
  new Problem('validation_too_costly', {
    detail: `The documents before this one took more than ${mostMs / 1_000} s of the processor.`,
    hint: 'Send fewer documents at a time, or simplify patterns and alternatives of the schema.',
  })
