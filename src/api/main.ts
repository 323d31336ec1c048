/** The API process: opens the platform and listens; on SIGTERM or SIGINT it closes both. */

import { openAuthServices } from '../app/auth-services.ts'
import { openPlatform } from '../app/platform.ts'
import { exitWithError, logAllOutput } from '../app/process-output.ts'
import { parseConfig } from '../infra/config.ts'
import { openLog } from '../infra/log.ts'
import { startTracing, stopTracing } from '../infra/tracing.ts'
import { mountMcp } from '../mcp/mount.ts'
import { buildApp } from './app.ts'
import { API_LIMITS } from './limits.ts'

async function main(): Promise<void> {
  const config = parseConfig(process.env)
  const log = openLog(config.LOG_LEVEL, 'api')
  logAllOutput(log)
  await startTracing(config.OTEL_EXPORTER_OTLP_ENDPOINT, 'tenon-api', log)
  const { platform, parts } = openPlatform(config, log)
  const authServices = openAuthServices(config, parts)
  const app = await buildApp(platform, authServices)
  mountMcp(app, platform, authServices)
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
      .then(() => platform.close())
      .then(stopTracing)
      .finally(() => process.exit(0))
  }
  process.once('SIGTERM', stop)
  process.once('SIGINT', stop)
}

main().catch((error: unknown) => exitWithError('api', error))
