/** Starts further worker processes on the same servers, which poll the same task queues. */

import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { currentBuild } from '../../../src/cli/stack/build.ts'
import { Ports } from '../../../stack/ports.ts'
import { eventually } from '../fixtures/tenants.ts'
import { type Program, spawnNode } from './api-process.ts'
import type { Running } from './start.ts'

/** Resolves when it polls. Executions start at it through Temporal alone. @param program another than this build has, or elsewhere than here */
export async function startWorker(first: Running, program?: Omit<Program, 'api'>): Promise<ChildProcess> {
  const ops = `${program?.on?.address ?? '127.0.0.1'}:${await new Ports({ remembered: {}, any: true }).take('ops', 0)}`
  const own = { TENON_EAGER_START_SOCKET: '', TENON_OPS_LISTEN: ops }
  const env = { ...process.env, ...first.env, ...program?.env, ...own }
  const child = spawnNode([(program ?? (await currentBuild())).worker], env, program)
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
