/** The API process: opens the platform and listens; on SIGTERM or SIGINT it closes both. */

import { openAuthServices } from '../app/auth-services.ts'
import { mountMetrics } from '../app/observe.ts'
import { OpsServer } from '../app/ops-server.ts'
import { openPlatform } from '../app/platform.ts'
import { ConfigError, parseConfig } from '../infra/config.ts'
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
  const ops = new OpsServer(log)
  mountMetrics(ops, platform.metrics)
  await ops.listen(config)
  await app.listen({ host: config.TENON_HOST, port: config.TENON_PORT })
  void parts.documents
    ?.findFaults()
    .then((faults) => faults.forEach((fault) => void log.warn({ fault }, 'document store is not reliable')))
    .catch((err: unknown) => log.warn({ err }, 'document store was not checked'))
  const stop = () => {
    // Requests may finish; idle connections and streams are closed after a delay.
    setTimeout(() => app.server.closeAllConnections(), API_LIMITS.drainMs).unref()
    void app
      .close()
      .then(() => ops.close())
      .then(() => platform.close())
      .finally(() => process.exit(0))
  }
  process.once('SIGTERM', stop)
  process.once('SIGINT', stop)
}

main().catch((error: unknown) => {
  process.stderr.write(`${error instanceof ConfigError ? error.message : (error as Error).stack}\n`)
  process.exit(1)
})
