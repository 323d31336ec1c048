/**
 * `tenon up` (npm start): starts servers and platform, creates the demo at the first start, prints a table, and serves until
 * Ctrl-C.
 */

import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { onFreePorts, Ports } from '../../../stack/ports.ts'
import {
  findRunning,
  type ProgressEvent,
  type RunningStack,
  type Stack,
  startStack,
} from '../../../stack/start.ts'
import type { SupervisorEvent } from '../../../stack/supervise.ts'
import { UNFINISHED } from '../../backup/restore.ts'
import { type Demo, makeDemo } from '../demo/index.ts'
import { callerPath, readEnvFile, type Settings, writeEnvFile } from '../settings.ts'
import { currentBuild } from './build.ts'
import { readEnvironment } from './environment.ts'
import { codecEndpoint, launchPlatform, provideMasterKey, type RunningPlatform } from './launch-platform.ts'

export interface UpOptions {
  readonly once?: boolean
  readonly ephemeral?: boolean
  readonly port: string
  readonly allowLoopback?: boolean
  /** False: creates neither tenant nor keys, and uses no service. */
  readonly demo: boolean
}

/** @returns the exit code */
export async function up(options: UpOptions): Promise<number> {
  const screen = new Screen()
  const dir = options.ephemeral ? await mkdtemp(join(tmpdir(), 'tenon-')) : resolve('.tenon')
  const running = options.ephemeral ? undefined : findRunning(dir)
  if (running !== undefined) return showRunning(running, options, screen)
  requireRestored(dir)
  const stopping = stopSignal()
  let stack: Stack | undefined
  // Builds while the servers start; launchPlatform reports a failure.
  currentBuild().catch(() => {})
  const ports = new Ports({ remembered: {}, any: false })
  try {
    let port = 0
    const takeApiPort = async () => {
      port = await ports.take('api', Number(options.port))
      return port
    }
    await takeApiPort()
    stack = await startStack({
      dir,
      codecEndpoint: () => codecEndpoint(port, process.env),
      ephemeral: options.ephemeral ?? false,
      env: readEnvironment(callerPath),
      onProgress: (event) => screen.server(event),
      onEvent: (event) => screen.event(event),
      signal: stopping,
    })
    if (stack.withoutFunctions !== undefined) screen.line(`  ! functions are off: ${stack.withoutFunctions}`)
    const known = options.ephemeral ? {} : await readEnvFile()
    const { demo, launched } = await start(stack, dir, { ...options, takeApiPort }, known, screen)
    const file = await writeEnvFile(envOf(launched, demo, known), options.ephemeral ? dir : '')
    screen.table(stack, { url: launched.url, file }, demo)
    if (options.once) return codeOf(demo)
    screen.line('The platform is running. Press Ctrl-C to stop it.')
    if (!stopping.aborted) await once(stopping, 'abort')
    return 0
  } catch (error) {
    if (stopping.aborted) return 130
    throw error
  } finally {
    screen.end(stopping.aborted)
    await stack?.stop()
    ports.release()
    if (options.ephemeral) await rm(dir, { recursive: true, force: true })
  }
}

/** @throws Error if a restore has replaced some of the data, and was interrupted */
function requireRestored(dir: string): void {
  if (existsSync(join(dir, UNFINISHED)))
    throw new Error(
      `A restore of ${dir} was interrupted. Run \`npx tenon restore\` again: until it ends, the data is not that of one time.`,
    )
}

async function start(
  stack: Stack,
  dir: string,
  options: UpOptions & { readonly takeApiPort: () => Promise<number> },
  known: Settings,
  screen: Screen,
): Promise<{ demo: Demo | undefined; launched: RunningPlatform }> {
  screen.step('migrating the database, starting the API and the worker')
  const env = options.allowLoopback ? { TENON_EGRESS_ALLOWLIST: loopbackAllowed() } : {}
  const masterKey = await provideMasterKey(dir)
  const launch = async () => {
    const port = await options.takeApiPort()
    return launchPlatform({ stack, dir, port, masterKey, env })
  }
  const launched = await onFreePorts(launch, (reason) => screen.warn(`the API starts again. ${reason}`))
  const demo = options.demo ? await makeDemo(launched, known, screen) : undefined
  return { demo, launched }
}

const codeOf = (demo: Demo | undefined): number => (demo === undefined || demo.failed.length === 0 ? 0 : 1)

/** The allowlist of the environment, and all ports of this machine by its loopback names. */
function loopbackAllowed(): string {
  const allowlist = process.env['TENON_EGRESS_ALLOWLIST']
  return [...(allowlist ? [allowlist] : []), 'localhost:*', '127.0.0.1:*', '[::1]:*'].join(',')
}

/**
 * What the demo does not know stays as it is in the file. Addresses of servers are not in it: a start in a shell that has read
 * the file would take its own servers for external ones.
 */
function envOf(launched: RunningPlatform, demo: Demo | undefined, known: Settings): Settings {
  return {
    TENON_URL: launched.url,
    TENON_TENANT_ID: demo?.tenantId ?? known['TENON_TENANT_ID'],
    TENON_WORKSPACE_ID: demo?.workspaceId ?? known['TENON_WORKSPACE_ID'],
    TENON_ANON_KEY: demo?.anonKey ?? known['TENON_ANON_KEY'],
    TENON_SERVICE_KEY: demo?.serviceKey ?? known['TENON_SERVICE_KEY'],
    TENON_BUCKET: demo?.bucket ?? known['TENON_BUCKET'],
    TENON_S3_ENDPOINT: `${launched.url}/s3`,
    TENON_LOGIN_CLIENT_ID: demo?.loginClientId ?? known['TENON_LOGIN_CLIENT_ID'],
    TENON_CLIENT_ID: launched.clientId,
    TENON_CLIENT_SECRET: launched.clientSecret,
  }
}

/** Shows the table of the platform that runs already. */
async function showRunning(running: RunningStack, options: UpOptions, screen: Screen): Promise<number> {
  const known = await readEnvFile()
  const { TENON_URL: url, TENON_CLIENT_ID: clientId, TENON_CLIENT_SECRET: clientSecret } = known
  screen.line(`Tenon is already running as process ${running.pid}. Stop it with Ctrl-C in its terminal.`)
  if (!running.ready || !url || !clientId || !clientSecret) {
    screen.line(
      'The process is still starting. Try again in a few seconds, or start a second platform: npm start -- --ephemeral',
    )
    return 1
  }
  const demo = options.demo ? await makeDemo({ url, clientId, clientSecret }, known, screen) : undefined
  screen.table(running, { url, file: '.env.local' }, demo)
  return codeOf(demo)
}

/** Aborts at the first SIGINT or SIGTERM. A second one exits at once; then the reaper ends the servers. */
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

/** A platform as its table shows it. */
interface Shown {
  readonly url: string
  /** The file with its keys. */
  readonly file: string
}

const QUIET_MS = 2_000
const TITLE_CHARS = 14

class Screen {
  readonly #startedMs = performance.now()
  #waiting: NodeJS.Timeout | undefined
  readonly #down = new Set<string>()

  line(text: string): void {
    process.stdout.write(`${text}\n`)
  }

  /** Shows a step, and every 2 s that it still lasts. */
  step(what: string): void {
    this.#startTicker(what)
    this.line(`  · ${what}`)
  }

  /** Shows that a step failed; the start goes on. */
  warn(line: string): void {
    this.line(`  ! ${line.replaceAll('\n', '\n  ')}`)
  }

  /** Shows the progress of a server. */
  server({ server, phase, detail, elapsedMs }: ProgressEvent): void {
    const mark = phase === 'ready' || phase === 'external' ? '✓' : '·'
    const when = elapsedMs < 100 ? '' : ` (${seconds(elapsedMs)})`
    this.line(`  ${mark} ${server.padEnd(TITLE_CHARS)} ${phase} ${detail}${when}`)
  }

  /** Shows crashes and restarts of a process. */
  event({ name, type, detail }: SupervisorEvent): void {
    if (type === 'exited') this.#down.add(name)
    if (type === 'exited' || type === 'gave_up') this.line(`  ! ${name} ${type.replace('_', ' ')}: ${detail}`)
    if (type === 'ready' && this.#down.delete(name)) this.line(`  ✓ ${name} is back`)
  }

  table(stack: Pick<Stack, 'servers' | 'env'>, platform: Shown, demo: Demo | undefined): void {
    const { url } = platform
    this.#stopTicker()
    const { execution, flow, version } = demo?.run ?? {}
    if (execution !== undefined) {
      this.line(`\nFlow ${flow} v${version}: ${execution.status}`)
      this.line(indent(JSON.stringify(execution.output, null, 2)))
    }
    if (demo !== undefined && demo.results.length > 0) this.line('\nServices, each called once')
    for (const { title, text } of demo?.results ?? []) this.#row(title, text)
    this.line('\nServers')
    for (const { title, version: running, address, origin } of stack.servers) {
      this.line(`  ${title.padEnd(TITLE_CHARS)} ${running.padEnd(20)} ${address.padEnd(18)} ${origin}`)
    }
    this.line('\nPlatform')
    this.#row('API', url)
    this.#row('Documentation', `${url}/docs`)
    this.#row('Temporal UI', stack.env['TEMPORAL_UI_URL'] ?? '(set TEMPORAL_UI_URL)')
    if (execution?.temporal_url) this.#row('this run', execution.temporal_url)
    if (demo !== undefined) this.#demo(platform, demo)
    this.line(`\nReady in ${seconds(performance.now() - this.#startedMs)}`)
  }

  #demo(platform: Shown, demo: Demo): void {
    const { tenantId, workspaceId, suspended } = demo
    if (tenantId !== undefined) this.#row('tenant', tenantId)
    if (workspaceId !== undefined) this.#row('workspace', workspaceId)
    const noun = suspended === tenantId ? 'tenant' : 'workspace'
    if (suspended !== undefined) this.#row('suspended', `npx tenon ${noun} resume ${suspended}`)
    this.#keys(platform, demo)
    if (demo.run !== undefined) this.#examples(platform, demo)
    if (demo.failed.length === 0) return
    this.line('\nThe platform is running, but these steps failed')
    for (const line of demo.failed) this.warn(line)
  }

  end(byRequest: boolean): void {
    this.#stopTicker()
    if (byRequest) this.line('\nStopping.')
  }

  #row(name: string, value: string): void {
    this.line(`  ${name.padEnd(TITLE_CHARS)} ${value}`)
  }

  #keys({ file }: Shown, demo: Demo): void {
    if (!demo.fresh) {
      this.#row('keys', `in ${file}, as before`)
      return
    }
    this.line(`\nKeys (shown once, saved to ${file})`)
    this.#row('anon', demo.anonKey ?? '')
    // What is no terminal may be the log of a service, which more people read than may have the key.
    const isPrivate = process.stdout.isTTY === true
    this.#row('service', isPrivate ? (demo.serviceKey ?? '') : `grep TENON_SERVICE_KEY ${file}`)
  }

  #examples({ url, file }: Shown, { workspaceId, run, results }: Demo): void {
    const textOf = (wanted: string) => results.find(({ title }) => title === wanted)?.text ?? ''
    const server = textOf('MCP server')
    const [bucket] = textOf('object').split('/')
    this.line(`
Try it
  set -a; . ${file.includes('/') ? file : `./${file}`}; set +a
  curl -s ${url}/v1/collections/scratch/documents -H "apikey: $TENON_SERVICE_KEY" \\
    -H 'content-type: application/json' -d '{"title":"buy milk","done":false}'
  curl -s '${url}/v1/collections/scratch/documents?done=eq.false' -H "apikey: $TENON_ANON_KEY"
  curl -N '${url}/v1/events/subscribe?topic=orders.*&apikey='$TENON_ANON_KEY
  npx tenon event publish orders.created '{"n":1}'
  npx tenon object put ${bucket}/readme README.md && npx tenon object get ${bucket}/readme
  npx tenon fn deploy examples/greet.ts && npx tenon fn invoke greet --input '{"name":"Lin"}'
  curl -s ${url}/v1/flows/workspaces/${workspaceId}/definitions/${run?.flow}/executions \\
    -H "Authorization: Bearer $(npx tenon token)" -H 'Prefer: wait=10' \\
    -H 'content-type: application/json' -d '{"input":{"name":"Grace"}}'
For an agent (the token: npx tenon mcp token demo; it is valid for 10 minutes)
  {"mcpServers":{"tenon-demo":{"type":"http","url":"${server}","headers":{"Authorization":"Bearer …"}}}}
  Clients that sign in need no header. Create an account for them: npx tenon account invite you@example.com`)
  }

  #startTicker(what: string): void {
    this.#stopTicker()
    const since = performance.now()
    this.#waiting = setInterval(
      () => this.line(`    … ${what} (${seconds(performance.now() - since)})`),
      QUIET_MS,
    ).unref()
  }

  #stopTicker(): void {
    clearInterval(this.#waiting)
  }
}

const seconds = (ms: number) => `${(ms / 1_000).toFixed(1)} s`
const indent = (text: string) => text.replaceAll(/^/gm, '  ')
