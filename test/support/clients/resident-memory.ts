/** What a process has in memory, as Linux counts it. */

import { readFile, writeFile } from 'node:fs/promises'

const MIB = 1_024

async function field(pid: number, name: string): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  const [, kib] = new RegExp(`^${name}:\\s+(\\d+) kB$`, 'm').exec(status) ?? []
  return Math.round(Number(kib) / MIB)
}

/** MiB that are resident now. */
export const residentMb = (pid: number): Promise<number> => field(pid, 'VmRSS')

/** MiB that were resident at most since the last {@link forgetPeak}. */
export const peakMb = (pid: number): Promise<number> => field(pid, 'VmHWM')

/** proc(5), `clear_refs`: 5 sets the peak to what is resident now. */
export const forgetPeak = (pid: number): Promise<void> => writeFile(`/proc/${pid}/clear_refs`, '5')
