/** Starts a second API process of the same platform, for tests of consistency between nodes. */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { inject } from 'vitest'
import { currentBuild } from '../../../src/cli/stack/build.ts'
import { Ports } from '../../../stack/ports.ts'
import { eventually } from '../fixtures/tenants.ts'
import type { Running } from './start.ts'

export interface SecondApiNode {
  readonly at: Running
  stop(): Promise<void>
}

/** @param env settings of its own; for clients it is the same server as the first */
export async function startSecondApiNode(env: Readonly<Record<string, string>> = {}): Promise<SecondApiNode> {
  const running = inject('tenon')
  const port = await new Ports({ remembered: {}, any: true }).take('api', 0)
  const at = { ...running, url: `http://127.0.0.1:${port}` }
  const settings = { TENON_PUBLIC_URL: running.url, ...env, TENON_PORT: String(port) }
  const api = spawn(process.execPath, [(await currentBuild()).api], {
    env: { ...process.env, ...running.env, ...settings },
    stdio: 'ignore',
  })
  const ended = once(api, 'exit')
  await eventually(async () => {
    const ready = await fetch(`${at.url}/readyz`).catch(() => undefined)
    return ready?.status === 200 ? true : undefined
  }, 60_000)
  return {
    at,
    stop: async () => {
      api.kill('SIGTERM')
      await ended
    },
  }
}
