/** Reads the CPU time of the calling thread. */

import { readFileSync } from 'node:fs'

/**
 * CPU time of the calling thread, in milliseconds since it started. Other threads of the process, for garbage
 * collection or compilation, count only if the system does not tell them apart (Linux does: proc(5),
 * `schedstat`). Reading it takes some 15 µs.
 */
export function threadMs(): number {
  try {
    return Number(readFileSync('/proc/thread-self/schedstat', 'latin1').split(' ')[0]) / 1_000_000
  } catch {
    const { user, system } = process.cpuUsage()
    return (user + system) / 1_000
  }
}
