/** Helpers shared by the stack tests. They need no running platform. */

import { createServer, type Server } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { identify } from '../../../stack/lock.mjs'

/** Polls until the condition holds. */
export async function eventually(ask: () => boolean | Promise<boolean>, timeoutMs = 5_000): Promise<void> {
  const deadline = Date.now() + timeoutMs
  for (;;) {
    const answer = await Promise.resolve()
      .then(ask)
      .catch((error: unknown) => error)
    if (answer === true) return
    if (Date.now() > deadline) throw new Error(`Not within ${timeoutMs} ms`, { cause: answer })
    await delay(50)
  }
}

/** A zombie counts as dead. */
export function isDead(pid: number): boolean {
  return identify(pid) === undefined
}

/** An environment without external servers. */
export function withoutServers(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  const { DATABASE_URL: _d, TEMPORAL_ADDRESS: _t, S3_ENDPOINT: _s, REDIS_URL: _r, ...rest } = env
  return rest
}

/** Takes a port of 127.0.0.1, as another process does; 0 is any free one. @throws if it is taken */
export function listenOn(port: number, server = createServer()): Promise<Server> {
  return new Promise((listening, failed) => {
    server.once('error', failed).listen(port, '127.0.0.1', () => listening(server))
  })
}
