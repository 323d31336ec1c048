/** The process of the shared API, as the system describes it in `/proc`. */

import { readdir, readFile } from 'node:fs/promises'
import { inject } from 'vitest'

let found: Promise<string> | undefined

/** A file of the API's process in `/proc`, such as `status`. */
export async function readApiProcess(file: string): Promise<string> {
  found ??= findPid()
  return readFile(`/proc/${await found}/${file}`, 'utf8')
}

async function findPid(): Promise<string> {
  const { port } = new URL(inject('tenon').url)
  for (const pid of await readdir('/proc')) {
    const read = (file: string) => readFile(`/proc/${pid}/${file}`, 'utf8').catch(() => '')
    if (!(await read('cmdline')).includes('api.mjs')) continue
    if ((await read('environ')).split('\0').includes(`TENON_PORT=${port}`)) return pid
  }
  throw new Error('The process of the API was not found.')
}

/** CPU time of all its threads, in ticks of the system (proc(5), `stat`: utime and stime). */
export async function apiCpuTicks(): Promise<number> {
  const fields = (await readApiProcess('stat')).split(') ').at(-1)?.split(' ') ?? []
  return Number(fields[11]) + Number(fields[12])
}
