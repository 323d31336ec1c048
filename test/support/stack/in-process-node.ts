/**
 * Starts another API node in the test's process, which learns of the first one's changes through the servers only. A process
 * of its own takes 3 s of processor time to start: `startApi` is for tests that kill or measure it.
 */

import { inject } from 'vitest'
import { buildApp } from '../../../src/api/app.ts'
import { openAuthServices } from '../../../src/app/auth-services.ts'
import { openPlatform, type Platform } from '../../../src/app/platform.ts'
import { parseConfig } from '../../../src/infra/config.ts'
import { openLog } from '../../../src/infra/log.ts'
import { mountMcp } from '../../../src/mcp/mount.ts'
import type { Running } from './start.ts'

export interface Node {
  readonly platform: Platform
  /** For `call`. */
  readonly at: Running
  /** Ends its requests and streams, as SIGTERM does in a process; close it afterwards. */
  drain(): Promise<void>
  close(): Promise<void>
}

/**
 * Tokens of the first node are valid for it.
 * @param settings of its own; for clients it is the same server as the first
 * @param replaced parts of its platform
 */
export async function startInProcessNode(
  settings: Readonly<Record<string, string>> = {},
  first: Running = inject('tenon'),
  replaced: Partial<Platform> = {},
): Promise<Node> {
  const config = parseConfig({ ...first.env, TENON_PUBLIC_URL: first.url, ...settings })
  const { platform: usual, parts } = openPlatform(config, openLog('silent', 'test'))
  const platform = { ...usual, ...replaced }
  const authServices = openAuthServices(config, parts)
  const app = await buildApp(platform, authServices)
  mountMcp(app, platform, authServices)
  const url = await app.listen({ port: 0, host: '127.0.0.1' })
  return {
    platform,
    at: { ...first, url },
    drain: () => platform.drain.run(app.server, { delayMs: 0, limitMs: 10_000 }),
    close: async () => {
      const closed = app.close()
      // Event streams have no end.
      app.server.closeAllConnections()
      await closed
      await platform.close()
    },
  }
}
