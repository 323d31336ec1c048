/** The API process: opens the platform and listens; on SIGTERM or SIGINT it closes both. */

import { openAuthServices } from '../app/auth-services.ts'
import { openPlatform } from '../app/platform.ts'
import { checkApi, endMessage } from '../app/start-checks/at-start.ts'
import { parseConfig } from '../infra/config.ts'
import { openLog } from '../infra/log.ts'
import { mountMcp } from '../mcp/mount.ts'
import { buildApp } from './app.ts'
import { API_LIMITS } from './limits.ts'

async function main(): Promise<void> {
  const config = parseConfig(process.env)
  const log = openLog(config.LOG_LEVEL, 'api')
  const { platform, parts } = openPlatform(config, log)
  const authServices = openAuthServices(config, parts)
  const app = await buildApp(platform, authServices)
  mountMcp(app, platform, authServices)
  await checkApi(platform.startChecks, platform.installation, log)
  await app.listen({ host: config.TENON_HOST, port: config.TENON_PORT })
  const stop = () => {
    // Requests may finish; idle connections and streams are closed after a delay.
    setTimeout(() => app.server.closeAllConnections(), API_LIMITS.drainMs).unref()
    void app
      .close()
      .then(() => platform.close())
      .finally(() => process.exit(0))
  }
  process.once('SIGTERM', stop)
  process.once('SIGINT', stop)
}

main().catch((error: unknown) => {
  process.stderr.write(`${endMessage(error)}\n`)
  process.exit(1)
})
