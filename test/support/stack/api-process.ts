/** Starts further API processes on the same servers, with settings of their own. */

import { type ChildProcess, type StdioOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { inject } from 'vitest'
import { currentBuild } from '../../../src/cli/stack/build.ts'
import { Ports } from '../../../stack/ports.ts'
import { eventually } from '../fixtures/tenants.ts'
import type { Machine } from '../servers/network.ts'
import type { Running } from './start.ts'

export interface ApiProcess {
  readonly at: Running
  readonly process: ChildProcess
  stop(): Promise<void>
}

/** The program of a process, if it is of another build, with its settings; and where it runs, if not here. */
export interface Program {
  readonly api: string
  readonly worker: string
  readonly env?: Readonly<Record<string, string>>
  readonly on?: Machine
  /** Path of its log. Default: it has none. */
  readonly log?: string
}

/** Starts a Node of this version on the machine of a program. */
export function spawnNode(
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  { on, log }: Pick<Program, 'on' | 'log'> = {},
  stdio: StdioOptions = 'ignore',
): ChildProcess {
  const [command = '', ...words] = [...(on?.command ?? []), process.execPath, ...args]
  const file = log === undefined ? undefined : openSync(log, 'a')
  try {
    return spawn(command, words, { env, stdio: file === undefined ? stdio : ['ignore', file, file] })
  } finally {
    if (file !== undefined) closeSync(file)
  }
}

/**
 * Resolves when it answers. Tokens of the first process are valid for it. It gets a free port, unless the settings have one. @param preload path of a module
 * that the process loads first and that a test may send messages to; `stderr` of the process is then a pipe
 * @param program another than this build has, or elsewhere than here
 */
export async function startApi(
  settings: Readonly<Record<string, string>>,
  first: Running = inject('tenon'),
  preload?: string,
  program?: Omit<Program, 'worker'>,
): Promise<ApiProcess> {
  const port = settings['TENON_PORT'] ?? (await new Ports({ remembered: {}, any: true }).take('api', 0))
  const at = { ...first, url: `http://${program?.on?.address ?? '127.0.0.1'}:${port}` }
  const env = { ...process.env, ...first.env, TENON_PUBLIC_URL: first.url, ...program?.env, ...settings }
  const before = preload === undefined ? [] : ['--import', preload]
  const child = spawnNode(
    [...before, (program ?? (await currentBuild())).api],
    { ...env, TENON_PORT: String(port) },
    program,
    preload === undefined ? 'ignore' : ['ignore', 'ignore', 'pipe', 'ipc'],
  )
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
