/** Temporal's dev server with its UI, from its official command; fairness is on, the search attributes are there. */

import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { Connection } from '@temporalio/client'
import { program, type Server, type StartContext, type Started } from './server.ts'
import { execute } from './wheel.mjs'

const PREFERRED_PORT = 7_233
const PREFERRED_UI_PORT = 8_233
const PROBE_MS = 3_000
const KEYWORD = 2

/** What the Temporal UI can be searched by. */
const SEARCH_ATTRIBUTES = [
  'TenantId',
  'WorkspaceId',
  'FlowId',
  'FlowVersion',
  'TriggerKind',
  'CorrelationKey',
  'ErrorType',
]

/**
 * The default of 20 polls per second and shard costs 50 ms a step on the one shard of the dev server, and timers
 * may be late by the default shift of a second: a wait of 200 ms took 1.2 s. Unlike a server, the dev server reads its search attributes
 * from its database whenever it needs one, a fifth of its time for a start; ours are there before it listens.
 */
const DYNAMIC_CONFIG = [
  'matching.enableFairness=true',
  'history.transferProcessorMaxPollRPS=2000',
  'history.timerProcessorMaxPollRPS=2000',
  'history.timerProcessorMaxTimeShift="20ms"',
  'system.forceSearchAttributesCacheRefreshOnRead=false',
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
        version: await inspect(address, env['TEMPORAL_NAMESPACE'] ?? 'default', true),
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
  const port = await context.ports.take('temporal', PREFERRED_PORT)
  const uiPort = await context.ports.take('temporal-ui', PREFERRED_UI_PORT)
  const address = `127.0.0.1:${port}`
  const cli = parseVersions(await execute(command, ['--version'], { timeoutMs: 60_000 }))
  let version = ''
  await context.supervisor.run({
    name: 'temporal',
    command,
    args: [
      ...['server', 'start-dev', '--ip', '127.0.0.1', '--port', String(port), '--ui-port', String(uiPort)],
      ...['--log-level', 'warn', '--ui-disable-news-fetch', '--disable-config-file', '--disable-config-env'],
      ...[...DYNAMIC_CONFIG, ...ownConfig(context.env)].flatMap((value) => ['--dynamic-config-value', value]),
      ...SEARCH_ATTRIBUTES.flatMap((name) => ['--search-attribute', `${name}=Keyword`]),
      ...(context.ephemeral ? [] : ['--db-filename', join(dir, 'temporal.db')]),
    ],
    env: { HOME: dir },
    logFile: join(context.dir, 'logs', 'temporal.log'),
    stage: 0,
    ready: async () => {
      version = await inspect(address, 'default', false)
    },
  })
  const pid = context.supervisor.pid('temporal')
  return {
    info: {
      name: 'temporal',
      title: 'Temporal',
      version: `${version}${cli}`,
      address,
      origin: 'embedded',
      ...(pid !== undefined && { pid }),
    },
    env: { TEMPORAL_ADDRESS: address, TEMPORAL_UI_URL: `http://127.0.0.1:${uiPort}` },
  }
}

/** Settings of the server that somebody wants besides: `name=value` with spaces between. */
function ownConfig({ TEMPORAL_DYNAMIC_CONFIG = '' }: NodeJS.ProcessEnv): string[] {
  return TEMPORAL_DYNAMIC_CONFIG.split(/\s+/).filter((setting) => setting !== '')
}

/** `temporal version 1.9.1 (Server 1.32.0, UI 2.54.1)` → `, UI 2.54.1` */
function parseVersions(text: string): string {
  const match = /version \S+ .*UI ([^),\s]+)/.exec(text)
  return match === null ? '' : `, UI ${match[1]}`
}

/** Asks for the namespace and the version, and adds search attributes to a server that we did not start. */
async function inspect(address: string, namespace: string, addAttributes: boolean): Promise<string> {
  const connection = await Connection.connect({ address, connectTimeout: PROBE_MS })
  try {
    return await connection.withDeadline(Date.now() + PROBE_MS, async () => {
      await connection.workflowService.describeNamespace({ namespace })
      if (addAttributes) await addSearchAttributes(connection, namespace)
      const info = await connection.workflowService.getSystemInfo({})
      return info.serverVersion ?? ''
    })
  } finally {
    await connection.close()
  }
}

async function addSearchAttributes(connection: Connection, namespace: string): Promise<void> {
  const { customAttributes } = await connection.operatorService.listSearchAttributes({ namespace })
  const missing = SEARCH_ATTRIBUTES.filter((name) => !(name in (customAttributes ?? {})))
  if (missing.length === 0) return
  const searchAttributes = Object.fromEntries(missing.map((name) => [name, KEYWORD]))
  await connection.operatorService.addSearchAttributes({ namespace, searchAttributes })
}
