/**
 * Starts a second API node in the test's process, which learns of the first one's changes through the servers
 * only.
 */

import { inject } from 'vitest'
import { openAuthServices } from '../../../src/access/authentication/auth-services.ts'
import { buildApp } from '../../../src/api/app.ts'
import { openPlatform } from '../../../src/app/platform.ts'
import { parseConfig } from '../../../src/infra/config.ts'
import { openLog } from '../../../src/infra/log.ts'
import type { Running } from './start.ts'

export interface Node {
  /** For `call`. */
  readonly at: Running
  close(): Promise<void>
}

export async function startInProcessNode(): Promise<Node> {
  const config = parseConfig(inject('tenon').env)
  const { platform, parts } = openPlatform(config, openLog('silent', 'test'))
  const app = await buildApp(platform, openAuthServices(config, parts))
  const url = await app.listen({ port: 0, host: '127.0.0.1' })
  return {
    at: { ...inject('tenon'), url },
    close: async () => {
      await app.close()
      await platform.close()
    },
  }
}
