/** Long work on the one thread of the process, in turns with everybody else's. */

import { setImmediate } from 'node:timers/promises'
import { LIMITS } from '../core/limits.ts'

/** Whoever waits goes on one by one, so that between two requests of others there is one step, not one of each. */
let last: Promise<unknown> = Promise.resolve()

/**
 * For a loop whose steps may each take long, over what callers have sent.
 * @returns to be awaited before each step: others go first once the loop has had the thread for `turnMs`
 */
export function inTurns(): () => Promise<void> | undefined {
  let since = performance.now()
  return () => {
    if (performance.now() - since < LIMITS.turnMs) return undefined
    const mine = last.then(() => setImmediate())
    last = mine
    return mine.then(() => {
      since = performance.now()
    })
  }
}
