/** CPU time of requests and of threads: a budget for loops over what a caller sent, with yields, and clocks of single threads. */

import { readFileSync, readlinkSync } from 'node:fs'
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

/**
 * Of the calling thread, in milliseconds since it began. What others of the process use meanwhile, collecting garbage or compiling, is
 * counted only where the system does not tell them apart (Linux does: proc(5), `schedstat`). Reading it takes some 15 µs.
 */
export function threadMs(): number {
  try {
    return Number(readFileSync('/proc/thread-self/schedstat', 'latin1').split(' ')[0]) / 1_000_000
  } catch {
    const { user, system } = process.cpuUsage()
    return (user + system) / 1_000
  }
}

/** The calling thread's id at the system, as {@link threadMsOf} takes it; empty if the system does not tell. */
export function systemThreadId(): string {
  try {
    return readlinkSync('/proc/thread-self').split('/').at(-1) ?? ''
  } catch {
    return ''
  }
}

/**
 * Measures another thread of the process from now on.
 * @param id as `systemThreadId` gave it
 * @returns its CPU time in milliseconds since this call; the time that has passed, if the system does not tell
 */
export function threadMsOf(id: string): () => number {
  const now = () => {
    try {
      return Number(readFileSync(`/proc/self/task/${id}/schedstat`, 'latin1').split(' ')[0]) / 1_000_000
    } catch {
      return undefined
    }
  }
  const [before, begunMs] = [id === '' ? undefined : now(), performance.now()]
  if (before === undefined) return () => performance.now() - begunMs
  let last = 0
  return () => {
    last = Math.max(last, (now() ?? 0) - before)
    return last
  }
}
