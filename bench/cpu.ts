/** The processor's time that processes have used: on a machine that is shared, it says more than the clock. Linux alone. */

import { readdirSync, readFileSync } from 'node:fs'

/** Microseconds of a process and its children until now, all threads; 0 where the system does not tell. */
export function usedUs(pid: number | undefined): number {
  if (pid === undefined) return 0
  try {
    return read(pid)
  } catch {
    return 0
  }
}

function read(pid: number): number {
  let us = 0
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    const [ns] = readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')
    us += Number(ns) / 1_000
    const children = readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8')
    for (const child of children.split(' ').filter((text) => text !== '')) us += usedUs(Number(child))
  }
  return us
}
