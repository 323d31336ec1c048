/** The API process: opens the platform and listens; on SIGTERM or SIGINT it ends its requests and closes both. */

import { once } from 'node:events'
import { type AddressInfo, createServer, type Server } from 'node:net'
import type { FastifyInstance } from 'fastify'
import { openAuthServices } from '../app/auth-services.ts'
import { openOpsServer } from '../app/ops-server.ts'
import { openPlatform } from '../app/platform.ts'
import { exitWithError, logAllOutput } from '../app/process-output.ts'
import { checkApi } from '../app/start-checks/at-start.ts'
import { type Config, parseConfig } from '../infra/config.ts'
import { withMasterKeys } from '../infra/crypto/key-provider.ts'
import { openLog } from '../infra/log.ts'
import { startTracing, stopTracing } from '../infra/tracing.ts'
import { mountMcp } from '../mcp/mount.ts'
import { buildApp } from './app.ts'

async function main(): Promise<void> {
  const config = parseConfig(await withMasterKeys(process.env))
  const log = openLog(config.LOG_LEVEL, 'api')
  logAllOutput(log)
  await startTracing(config.OTEL_EXPORTER_OTLP_ENDPOINT, 'tenon-api', log)
  const { platform, parts } = openPlatform(config, log)
  const authServices = openAuthServices(config, parts)
  const app = await buildApp(platform, authServices)
  mountMcp(app, platform, authServices)
  const ops = await openOpsServer(platform, config.TENON_OPS_LISTEN)
  await checkApi(platform.startChecks, platform.installation, log)
  const others = await listen(app, config)
  platform.health.start()
  const end = async () => {
    const delayMs = config.TENON_DRAIN_DELAY * 1_000
    log.info({ delayMs }, 'draining')
    await platform.drain.run(app.server, { delayMs, limitMs: config.TENON_DRAIN_LIMIT * 1_000 }, others)
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
    end().then(
      () => process.exit(0),
      (error: unknown) => exitWithError('api', error, 'shutdown failed'),
    )
  }
  process.once('SIGTERM', stop)
  process.once('SIGINT', stop)
}

/** `localhost` is both loopback addresses (RFC 6761 §6.3), whatever the name server says of it. */
const addressesOf = (host: string): readonly string[] =>
  host === 'localhost' ? ['127.0.0.1', '::1'] : [host]

/** A machine may have no IPv6. */
const isMissing = ({ code = '' }: NodeJS.ErrnoException) => ['EADDRNOTAVAIL', 'EAFNOSUPPORT'].includes(code)

/**
 * Listens at each address of `TENON_HOST`. There is one HTTP server, so that the drain ends all connections.
 * @returns the servers of further addresses, which hand it their connections
 */
async function listen(app: FastifyInstance, { TENON_HOST, TENON_PORT }: Config): Promise<readonly Server[]> {
  const [host = TENON_HOST, ...others] = addressesOf(TENON_HOST)
  await app.listen({ host, port: TENON_PORT })
  const { port } = app.server.address() as AddressInfo
  const opened: Server[] = []
  for (const other of others) {
    // The options are those of an HTTP server.
    const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) =>
      app.server.emit('connection', socket),
    )
    try {
      await once(server.listen(port, other), 'listening')
      opened.push(server)
    } catch (error) {
      if (!isMissing(error as NodeJS.ErrnoException)) throw error
    }
  }
  return opened
}

main().catch((error: unknown) => exitWithError('api', error))
