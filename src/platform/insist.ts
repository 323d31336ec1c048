/** Asks again for a while where a server is away: a worker that gave up at once would spend an attempt of somebody's call. */

import { Problem } from '../core/problem.ts'

const FIRST_MS = 50
const LONGEST_MS = 1_000
const PASSING: readonly string[] = ['dependency_unavailable', 'overloaded', 'query_timeout']

/** @throws what `work` throws: at once where asking again is of no use, else when `patienceMs` are over */
export async function insist<T>(
  patienceMs: number,
  work: () => Promise<T>,
  isPassing: (error: unknown) => boolean = isAway,
): Promise<T> {
  const untilMs = performance.now() + patienceMs
  for (let waitMs = FIRST_MS; ; waitMs = Math.min(waitMs * 2, LONGEST_MS)) {
    try {
      return await work()
    } catch (error) {
      if (!isPassing(error) || performance.now() + waitMs > untilMs) throw error
    }
    await new Promise((over) => setTimeout(over, waitMs))
  }
}

const isAway = (error: unknown) => error instanceof Problem && PASSING.includes(error.code)
