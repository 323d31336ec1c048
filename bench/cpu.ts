/** Reads the CPU time of processes, which on a shared machine says more than elapsed time. Linux only. */

import { readdirSync, readFileSync } from 'node:fs'

/** Microseconds of a process and its children until now, all threads; 0 if the system does not report it. */
export function usedUs(pid: number | undefined): number {
  if (pid === undefined) return 0
  try {
    return read(pid)
  } catch {
    return 0
  }
}

/**
 * In ticks of 10 ms (proc(5): utime, stime, cutime, cstime), including threads and children that have ended.
 */
function read(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  let us = fields.slice(11, 15).reduce((ticks, field) => ticks + Number(field), 0) * 10_000
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    const children = readFileSync(`/proc/${pid}/task/${thread}/children`, 'utf8')
    for (const child of children.split(' ').filter((text) => text !== '')) us += usedUs(Number(child))
  }
  return us
}

/** Nanoseconds of a process until now, its running threads alone (/proc/pid/task/tid/schedstat): for short turns. */
export function threadsNs(pid: number | undefined): number {
  if (pid === undefined) return 0
  try {
    const tasks = readdirSync(`/proc/${pid}/task`)
    const used = tasks.map(
      (task) => readFileSync(`/proc/${pid}/task/${task}/schedstat`, 'utf8').split(' ', 1)[0],
    )
    return used.reduce((sum, ns) => sum + Number(ns), 0)
  } catch {
    return 0
  }
}
