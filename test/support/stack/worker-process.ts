/** Starts further worker processes on the same servers, which poll the same task queues. */

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { currentBuild } from '../../../src/cli/stack/build.ts'
import { Ports } from '../../../stack/ports.ts'
import { eventually } from '../fixtures/tenants.ts'
import type { Running } from './start.ts'

/** Resolves when it polls. Executions start at it through Temporal alone. @param program of another build, with its settings */
export async function startWorker(
  first: Running,
  program?: { readonly worker: string; readonly env?: Readonly<Record<string, string>> },
): Promise<ChildProcess> {
  const ops = `127.0.0.1:${await new Ports({ remembered: {}, any: true }).take('ops', 0)}`
  const own = { TENON_EAGER_START_SOCKET: '', TENON_OPS_LISTEN: ops }
  const child = spawn(process.execPath, [(program ?? (await currentBuild())).worker], {
    env: { ...process.env, ...first.env, ...program?.env, ...own },
    stdio: 'ignore',
  })
  const failed = once(child, 'exit').then(([code]) =>
    Promise.reject(new Error(`the worker ended with ${code}`)),
  )
  const ready = eventually(async () => {
    const reply = await fetch(`http://${ops}/readyz`).catch(() => undefined)
    return reply?.status === 200 ? true : undefined
  }, 60_000)
  await Promise.race([ready, failed])
  failed.catch(() => {})
  return child
}
