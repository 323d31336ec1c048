/** The check of what runs functions: Deno, and the layers that isolate a function from the host. */

import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { describeLayers, findIsolation } from '../../features/functions/sandbox/isolation.ts'
import type { StartCheck, Verdict } from './start-check.ts'

const VERSION_MS = 5_000

/** @param deno the path of Deno, if it is installed */
export const functionsCheck = (deno: string | undefined): StartCheck => ({
  name: 'functions',
  stops: [],
  isOfWorker: true,
  run: async () => {
    if (deno === undefined) {
      const detail = 'Deno is not installed: functions answer 503. Set TENON_DENO_BIN to the path of Deno 2.'
      return { is: 'wrong', detail }
    }
    const { stdout } = await promisify(execFile)(deno, ['--version'], { timeout: VERSION_MS })
    const version = /^deno (\S+)/.exec(stdout)?.[1] ?? ''
    if (!version.startsWith('2.'))
      return { is: 'wrong', detail: `${deno} is Deno ${version}. Set TENON_DENO_BIN to the path of Deno 2.` }
    return isolationVerdict(deno, version)
  },
})

async function isolationVerdict(deno: string, version: string): Promise<Verdict> {
  const { layers } = await findIsolation(deno)
  const { active, missing } = describeLayers(layers)
  const wanting = missing.length === 0 ? '' : `; missing: ${missing.join('; ')}`
  const detail = `Deno ${version}, isolated by ${active.join(', ')}${wanting}`
  // Each of them protects the platform from a function that has escaped Deno; other systems than Linux have neither.
  const isSafe = layers.ownUser || layers.sandbox?.name === 'bwrap' || process.platform !== 'linux'
  return { is: isSafe ? 'good' : 'warning', detail }
}
