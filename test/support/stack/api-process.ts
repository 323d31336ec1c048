/** Starts further API processes on the same servers, with settings of their own. */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { inject } from 'vitest'
import { currentBuild } from '../../../src/cli/stack/build.ts'
import { Ports } from '../../../stack/ports.ts'
import { eventually } from '../fixtures/tenants.ts'
import type { Running } from './start.ts'

export interface ApiProcess {
  readonly at: Running
  readonly process: ChildProcess
  stop(): Promise<void>
}

/**
 * Resolves when it answers. Tokens of the first process are valid for it. It gets a free port, unless the settings have one. @param preload path of a module
 * that the process loads first and that a test may send messages to; `stderr` of the process is then a pipe
 * @param program of another build, with its settings
 */
export async function startApi(
  settings: Readonly<Record<string, string>>,
  first: Running = inject('tenon'),
  preload?: string,
  program?: { readonly api: string; readonly env?: Readonly<Record<string, string>> },
): Promise<ApiProcess> {
  const port = settings['TENON_PORT'] ?? (await new Ports({ remembered: {}, any: true }).take('api', 0))
  const at = { ...first, url: `http://127.0.0.1:${port}` }
  const env = { ...process.env, ...first.env, TENON_PUBLIC_URL: first.url, ...program?.env, ...settings }
  const before = preload === undefined ? [] : ['--import', preload]
  const child = spawn(process.execPath, [...before, (program ?? (await currentBuild())).api], {
    env: { ...env, TENON_PORT: String(port) },
    stdio: preload === undefined ? 'ignore' : ['ignore', 'ignore', 'pipe', 'ipc'],
  })
  await eventually(async () => {
    const ready = await fetch(`${at.url}/readyz`).catch(() => undefined)
    return ready?.status === 200 ? true : undefined
  }, 60_000)
  const stop = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return
    // It has nothing to lose, and would wait for idle connections.
    child.kill('SIGKILL')
    await once(child, 'exit')
  }
  return { at, process: child, stop }
}
