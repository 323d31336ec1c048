/** Measures durations on machines that are busy or slow, for tests of what must not take long. */

import { threadMs } from './thread-time.ts'

/** CPU time of one sample: several turns of the scheduler, so that a thread that shares its core loses some of them. */
const SAMPLE_MS = 20

/** Time that passes while the calling thread computes, per CPU time that it gets: 1 if it has a core for itself. */
export function slowdown(): number {
  const [beganMs, cpuMs] = [performance.now(), threadMs()]
  while (threadMs() - cpuMs < SAMPLE_MS);
  return Math.max(1, (performance.now() - beganMs) / (threadMs() - cpuMs))
}

/**
 * Starts a stopwatch. What it shows is the time that has passed, in milliseconds, divided by the slowdown of this
 * thread, which it measures at the start and when it is read: half of the time if others used half of each core.
 */
export function stopwatch(): () => number {
  const atStart = slowdown()
  const beganMs = performance.now()
  return () => {
    const passedMs = performance.now() - beganMs
    return passedMs / Math.max(atStart, slowdown())
  }
}
