/** Reads the resident memory of a process from /proc. Linux only. */

import { readFile, writeFile } from 'node:fs/promises'

const MIB = 1_024

async function field(pid: number, name: string): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  const [, kib] = new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(status) ?? []
  return Math.round(Number(kib) / MIB)
}

/** Resident memory now, in MiB. */
export const residentMb = (pid: number): Promise<number> => field(pid, 'VmRSS')

/** Resident memory that the process shares with no other, in MiB. */
export const privateMb = (pid: number): Promise<number> => field(pid, 'RssAnon')

/** Peak of the resident memory since the last {@link forgetPeak}, in MiB. */
export const peakMb = (pid: number): Promise<number> => field(pid, 'VmHWM')

/** proc(5), `clear_refs`: 5 resets the peak to the current value. */
export const forgetPeak = (pid: number): Promise<void> => writeFile(`/proc/${pid}/clear_refs`, '5')
