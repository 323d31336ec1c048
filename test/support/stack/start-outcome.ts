/** Starts API and worker in the test's process up to their checks, and tells what these have found. */

import { checkApi, checkWorker, StartRefused } from '../../../src/app/start-checks/at-start.ts'
import { type Checked, runChecks } from '../../../src/app/start-checks/start-check.ts'
import { openLog } from '../../../src/infra/log.ts'
import { openInProcessPlatform } from './in-process-platform.ts'

type Settings = Readonly<Record<string, string>>

const SILENT = openLog('silent', 'test')

/** The message with which a process with these settings refuses to start; '' if it starts. */
export async function refusalOf(process: 'api' | 'worker', env: Settings): Promise<string> {
  const platform = openInProcessPlatform(env)
  const { startChecks, installation } = platform
  const { signal } = new AbortController()
  try {
    await (process === 'api'
      ? checkApi(startChecks, installation, SILENT)
      : checkWorker(startChecks, installation, { log: SILENT, signal, connect: async () => true }))
    return ''
  } catch (error) {
    if (!(error instanceof StartRefused)) throw error
    return error.message
  } finally {
    await platform.close()
  }
}

/** What `tenon doctor` would print of a check. */
export async function runCheckNamed(
  name: string,
  env: Settings,
): Promise<Pick<Checked, 'is' | 'detail'> | undefined> {
  const platform = openInProcessPlatform(env)
  try {
    const found = await runChecks(platform.startChecks)
    return found.find(({ check }) => check.name === name)
  } finally {
    await platform.close()
  }
}
