/** `tenon up` (npm start): servers, platform, first tenant, first flow, a table; then it keeps serving. */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { Ports } from '../../../stack/ports.ts'
import { findRunning, type RunningStack, type Stack, startStack } from '../../../stack/start.ts'
import { type Demo, makeDemo } from '../demo/index.ts'
import { readEnvFile, type Settings, writeEnvFile } from '../settings.ts'
import { currentBuild } from './build.ts'
import { type Launched, launch, masterKeyOf } from './launch.ts'
import { Screen } from './screen.ts'

export interface UpOptions {
  readonly once?: boolean
  readonly ephemeral?: boolean
  readonly port: string
}

/** @returns the exit code */
export async function up(options: UpOptions): Promise<number> {
  const screen = new Screen()
  const dir = options.ephemeral ? await mkdtemp(join(tmpdir(), 'tenon-')) : resolve('.tenon')
  const running = options.ephemeral ? undefined : findRunning(dir)
  if (running !== undefined) return already(running, screen)
  const stopping = stopSignal()
  let stack: Stack | undefined
  // Made while the servers start; whether it could be, launch will say.
  currentBuild().catch(() => {})
  try {
    stack = await startStack({
      dir,
      ephemeral: options.ephemeral ?? false,
      env: process.env,
      onProgress: (event) => screen.server(event),
      onEvent: (event) => screen.event(event),
      signal: stopping,
    })
    if (stack.withoutFunctions !== undefined) screen.line(`  ! functions are off: ${stack.withoutFunctions}`)
    const known = options.ephemeral ? {} : await readEnvFile()
    const { demo, launched } = await start(stack, dir, options, known, screen)
    if (!options.ephemeral) await writeEnvFile(envOf(stack, launched, demo))
    screen.table(stack, launched.url, demo)
    if (options.once) return demo.execution.status === 'completed' ? 0 : 1
    screen.serving()
    await aborted(stopping)
    return 0
  } catch (error) {
    if (stopping.aborted) return 130
    throw error
  } finally {
    screen.end(stopping.aborted)
    await stack?.stop()
    if (options.ephemeral) await rm(dir, { recursive: true, force: true })
  }
}

async function start(
  stack: Stack,
  dir: string,
  options: UpOptions,
  known: Settings,
  screen: Screen,
): Promise<{ demo: Demo; launched: Launched }> {
  const port = await new Ports({ remembered: {}, any: false }).take('api', Number(options.port))
  screen.step('migrating the database, starting the API and the worker')
  const launched = await launch({ stack, dir, port, masterKey: await masterKeyOf(dir) })
  const demo = await makeDemo(launched, known, (line) => screen.step(line))
  return { demo, launched }
}

function envOf(stack: Stack, launched: Launched, demo: Demo): Settings {
  return {
    TENON_URL: launched.url,
    TENON_TENANT_ID: demo.tenantId,
    TENON_WORKSPACE_ID: demo.workspaceId,
    TENON_ANON_KEY: demo.anonKey,
    TENON_SERVICE_KEY: demo.serviceKey,
    TENON_CLIENT_ID: launched.clientId,
    TENON_CLIENT_SECRET: launched.clientSecret,
    TEMPORAL_ADDRESS: stack.env['TEMPORAL_ADDRESS'],
    TEMPORAL_UI_URL: stack.env['TEMPORAL_UI_URL'],
  }
}

/** A second start finds the first, runs the flow there and shows the same table. */
async function already(running: RunningStack, screen: Screen): Promise<number> {
  const known = await readEnvFile()
  const { TENON_URL: url, TENON_CLIENT_ID: clientId, TENON_CLIENT_SECRET: clientSecret } = known
  screen.line(`Tenon is running already, as process ${running.pid}; stop it with Ctrl-C there.`)
  if (!running.ready || !url || !clientId || !clientSecret) {
    screen.line(
      'It is still starting: try again in a moment, or start one beside it: npm start -- --ephemeral',
    )
    return 1
  }
  const demo = await makeDemo({ url, clientId, clientSecret }, known, (line) => screen.step(line))
  screen.table(running, url, demo)
  return demo.execution.status === 'completed' ? 0 : 1
}

/** Aborts at the first Ctrl-C or TERM. A second one ends the process at once; the reaper then ends the servers. */
function stopSignal(): AbortSignal {
  const controller = new AbortController()
  const stop = () => {
    if (controller.signal.aborted) process.exit(130)
    controller.abort()
  }
  process.on('SIGINT', stop)
  process.on('SIGTERM', stop)
  return controller.signal
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((done) => {
    if (signal.aborted) done()
    signal.addEventListener('abort', () => done())
  })
}
