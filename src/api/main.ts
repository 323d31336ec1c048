/** The API process: opens the platform and listens; on SIGTERM or SIGINT it ends its requests and closes both. */

import { openAuthServices } from '../app/auth-services.ts'
import { openOpsServer } from '../app/ops-server.ts'
import { openPlatform } from '../app/platform.ts'
import { exitWithError, logAllOutput } from '../app/process-output.ts'
import { checkApi } from '../app/start-checks/at-start.ts'
import { parseConfig } from '../infra/config.ts'
import { openLog } from '../infra/log.ts'
import { startTracing, stopTracing } from '../infra/tracing.ts'
import { mountMcp } from '../mcp/mount.ts'
import { buildApp } from './app.ts'

async function main(): Promise<void> {
  const config = parseConfig(process.env)
  const log = openLog(config.LOG_LEVEL, 'api')
  logAllOutput(log)
  await startTracing(config.OTEL_EXPORTER_OTLP_ENDPOINT, 'tenon-api', log)
  const { platform, parts } = openPlatform(config, log)
  const authServices = openAuthServices(config, parts)
  const app = await buildApp(platform, authServices)
  mountMcp(app, platform, authServices)
  const ops = await openOpsServer(platform, config.TENON_OPS_LISTEN)
  await checkApi(platform.startChecks, platform.installation, log)
  platform.drain.watch(app.server)
  await app.listen({ host: config.TENON_HOST, port: config.TENON_PORT })
  platform.health.start()
  const end = async () => {
    const delayMs = config.TENON_DRAIN_DELAY * 1_000
    log.info({ delayMs }, 'draining')
    await platform.drain.run(app.server, { delayMs, limitMs: config.TENON_DRAIN_LIMIT * 1_000 })
    // After the requests: what these hooks close is what requests use.
    await app.close()
    await platform.close()
    await stopTracing()
    ops?.close()
  }
  let isEnding = false
  const stop = () => {
    if (isEnding) return
    isEnding = true
    void end().finally(() => process.exit(0))
  }
  process.once('SIGTERM', stop)
  process.once('SIGINT', stop)
}

main().catch((error: unknown) => exitWithError('api', error))
