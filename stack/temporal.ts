/** Starts Temporal's dev server, closed to web pages, with its UI behind a proxy and our search attributes. */

import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { Connection } from '@temporalio/client'
import { SEARCH_ATTRIBUTES } from '../src/core/work.ts'
import { clientOptions, readTemporal, type TemporalAddress } from '../src/infra/temporal/connection.ts'
import { ensureNamespace } from '../src/infra/temporal/namespace.ts'
import { execute } from './binaries.mjs'
import { embedded, program, repeatedly, type Server, type StartContext, type Started } from './server.ts'
import { startUiProxy } from './temporal-ui.ts'

const NAMESPACE = 'default'
const PREFERRED_PORT = 7_233
const PREFERRED_UI_PORT = 8_233
/**
 * Ports that no browser connects to (https://fetch.spec.whatwg.org/#port-blocking, without 4190 and 6679, which Chromium
 * lets pass). The UI and the metrics of the dev server answer under any host name, and have no setting against it.
 */
export const UI_PORTS = [6_665, 6_666, 6_667, 6_668, 6_669, 6_697, 6_566, 10_080, 5_060, 5_061]
export const METRICS_PORTS = [1_719, 1_720, 1_723, 3_659, 6_000]
const PROBE_MS = 3_000
/** Also for a namespace that is made: other parts of Temporal learn of it within some 10 s. */
const ENSURE_MS = 60_000

/**
 * The default of 20 polls per second and shard costs 50 ms a step on the one shard of the dev server. The default shift
 * of timers is 1 s: a wait of 200 ms took 1.2 s. By default the dev server reads search attributes from its database each
 * time, a fifth of the time of a start; here they are registered before it listens. A workflow is deleted once the queues have
 * acknowledged its end, which they do every 30 s by default: each of several purges waited for the ones before it. deploy/temporal/dynamicconfig.yaml has the same
 * settings but the last default, which the server of the compose file does not need.
 */
export const DYNAMIC_CONFIG = [
  'matching.enableFairness=true',
  'history.transferProcessorMaxPollRPS=2000',
  'history.timerProcessorMaxPollRPS=2000',
  'history.timerProcessorMaxTimeShift="20ms"',
  'history.transferProcessorUpdateAckInterval="1s"',
  'history.visibilityProcessorUpdateAckInterval="1s"',
  'system.forceSearchAttributesCacheRefreshOnRead=false',
  // The HTTP API cannot be switched off: it accepts requests only for this host name, which does not exist.
  'frontend.httpAllowedHosts=["closed.invalid"]',
]

export const temporal: Server = {
  name: 'temporal',
  title: 'Temporal',
  urlVariable: 'TEMPORAL_ADDRESS',
  start,
  inspect: async (address, env) => {
    const uiUrl = env['TEMPORAL_UI_URL']
    return {
      info: {
        name: 'temporal',
        title: 'Temporal',
        version: await inspect(readTemporal(env), true),
        address,
        origin: 'external',
      },
      env: { TEMPORAL_ADDRESS: address, ...(uiUrl ? { TEMPORAL_UI_URL: uiUrl } : {}) },
    }
  },
}

async function start(context: StartContext): Promise<Started> {
  const command = await program('temporal', context)
  const dir = join(context.dir, 'temporal')
  await mkdir(dir, { recursive: true, mode: 0o700 })
  const cli = parseVersions(await execute(command, ['--version'], { timeoutMs: 60_000 }))
  const { address, version, ui } = await repeatedly(context, 'Temporal', () =>
    runServer(context, command, dir),
  )
  const proxy = await repeatedly(context, 'the Temporal UI', () => startProxy(context, ui))
  return {
    info: embedded(context, { name: 'temporal', title: 'Temporal', version: `${version}${cli}`, address }),
    env: { TEMPORAL_ADDRESS: address, TEMPORAL_UI_URL: proxy.url },
    dispose: () => proxy.close(),
  }
}

async function startProxy(context: StartContext, upstream: RunningServer['ui']) {
  const port = await context.ports.take('temporal-ui', PREFERRED_UI_PORT)
  const url = `http://127.0.0.1:${port}`
  const { close } = await startUiProxy({
    listen: { host: '127.0.0.1', port },
    upstream,
    url: new URL(url),
    namespace: NAMESPACE,
    ...(context.codecEndpoint !== undefined && { codecEndpoint: context.codecEndpoint }),
  })
  return { url, close }
}

interface RunningServer {
  readonly address: string
  readonly version: string
  /** Where its UI listens: on another port after a restart, if another process has taken the one before. */
  readonly ui: { readonly host: string; readonly port: number }
}

async function runServer(context: StartContext, command: string, dir: string): Promise<RunningServer> {
  const port = await context.ports.take('temporal', PREFERRED_PORT)
  const address = `127.0.0.1:${port}`
  const ui = { host: '127.0.0.1', port: 0 }
  let version = ''
  await context.supervisor.run({
    name: 'temporal',
    command,
    args: async () => {
      ui.port = await takeUiPort(context)
      // Metrics contain no data of a tenant: any port will do if none of these is free.
      const metricsPort = (await context.ports.takeAny('temporal-metrics', METRICS_PORTS)) ?? 0
      return [
        ...['server', 'start-dev', '--ip', '127.0.0.1', '--port', String(port)],
        ...['--ui-port', String(ui.port), '--metrics-port', String(metricsPort)],
        ...settings(context, dir),
      ]
    },
    env: { HOME: dir },
    logFile: join(context.dir, 'logs', 'temporal.log'),
    stage: 0,
    ready: async () => {
      version = await inspect(
        readTemporal({ TEMPORAL_ADDRESS: address, TEMPORAL_NAMESPACE: NAMESPACE }),
        false,
      )
    },
  })
  return { address, version, ui }
}

/** @throws Error if none is free */
async function takeUiPort({ ports }: StartContext): Promise<number> {
  const port = await ports.takeAny('temporal-ui-inner', UI_PORTS)
  if (port !== undefined) return port
  throw new Error(
    `none of the ports for its UI is free, which are ${UI_PORTS.join(', ')}: stop what uses one`,
  )
}

function settings({ env, ephemeral }: StartContext, dir: string): string[] {
  return [
    ...['--log-level', 'warn', '--ui-disable-news-fetch', '--disable-config-file', '--disable-config-env'],
    ...[...DYNAMIC_CONFIG, ...userConfig(env)].flatMap((value) => ['--dynamic-config-value', value]),
    ...Object.entries(SEARCH_ATTRIBUTES).flatMap(([name, type]) => ['--search-attribute', `${name}=${type}`]),
    ...(ephemeral ? [] : ['--db-filename', join(dir, 'temporal.db')]),
  ]
}

/** Further dynamic config of the user: `name=value`, separated by spaces. */
function userConfig({ TEMPORAL_DYNAMIC_CONFIG = '' }: NodeJS.ProcessEnv): string[] {
  return TEMPORAL_DYNAMIC_CONFIG.split(/\s+/).filter((setting) => setting !== '')
}

/** `temporal version 1.9.1 (Server 1.32.0, UI 2.54.1)` → `, UI 2.54.1` */
function parseVersions(text: string): string {
  const match = /version \S+ .*UI ([^),\s]+)/.exec(text)
  return match === null ? '' : `, UI ${match[1]}`
}

/** Checks the namespace and returns the version; makes what an external server lacks of namespace and search attributes. */
async function inspect(at: TemporalAddress, isExternal: boolean): Promise<string> {
  const { namespace } = at
  const connection = await Connection.connect({ ...clientOptions(at), connectTimeout: PROBE_MS })
  try {
    if (isExternal)
      await connection.withDeadline(Date.now() + ENSURE_MS, () => ensureNamespace(connection, namespace))
    return await connection.withDeadline(Date.now() + PROBE_MS, async () => {
      await connection.workflowService.describeNamespace({ namespace })
      const info = await connection.workflowService.getSystemInfo({})
      return info.serverVersion ?? ''
    })
  } finally {
    await connection.close()
  }
}
