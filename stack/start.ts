/** Starts, finds and stops the stack: four servers in parallel, each embedded, or external by its URL. */

import { chmod, mkdir, mkdtemp, readdir, rm, stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { type BinaryUnavailable, binary } from './binaries.mjs'
import { isAlive, lockOwner, tryLock } from './lock.mjs'
import { BINARIES } from './pins.mjs'
import { Ports } from './ports.ts'
import { postgres } from './postgres.ts'
import { seaweedfs } from './seaweedfs.ts'
import {
  describeFailure,
  loadSecrets,
  type Phase,
  readState,
  type Server,
  type ServerInfo,
  type ServerName,
  type StackState,
  type StartContext,
  type Started,
  writeState,
} from './server.ts'
import { Supervisor, type SupervisorEvent } from './supervise.ts'
import { temporal } from './temporal.ts'
import { valkey } from './valkey.ts'

/** In the order in which they are shown. */
const SERVERS: readonly Server[] = [postgres, temporal, seaweedfs, valkey]

const REAPER_MS = 6_000
/** After the first failure, time for the others to report theirs. */
const GRACE_MS = 15_000
const LEFTOVER_AGE_MS = 60_000

export interface StackOptions {
  /** Data folder; an ephemeral stack creates a temporary folder in it. */
  readonly dir: string
  readonly ephemeral: boolean
  /** Random free ports instead of the preferred or remembered ones. Default: `ephemeral`. */
  readonly anyPorts?: boolean
  readonly env: NodeJS.ProcessEnv
  /** URL of the codec server, with which the Temporal UI decrypts payloads. It is asked for with each request. */
  readonly codecEndpoint?: () => string
  readonly onProgress: (event: ProgressEvent) => void
  /** Called for events of all processes of the supervisor. */
  readonly onEvent?: (event: SupervisorEvent) => void
  /** Aborts the start, and stops what has started. */
  readonly signal?: AbortSignal
}

export interface Stack {
  readonly dir: string
  readonly servers: readonly ServerInfo[]
  /** Settings for the platform's processes, credentials included. */
  readonly env: Readonly<Record<string, string>>
  /** Why functions cannot run; absent if they can. */
  readonly withoutFunctions?: string
  readonly supervisor: Supervisor
  stop(): Promise<void>
}

export interface RunningStack {
  readonly pid: number
  /** False while it is still starting. */
  readonly ready: boolean
  readonly servers: readonly ServerInfo[]
  readonly env: Readonly<Record<string, string>>
}

/** Another process runs the stack of this data folder. */
export class StackRunning extends Error {
  readonly running: RunningStack
  constructor(running: RunningStack) {
    super(`The stack is ${running.ready ? 'running' : 'being started'} already, by process ${running.pid}`)
    this.name = 'StackRunning'
    this.running = running
  }
}

/** Finds the stack that runs with this data folder. */
export function findRunning(dir: string): RunningStack | undefined {
  const owner = lockOwner(join(resolve(dir), 'stack.lock'))
  if (owner === undefined) return undefined
  const { running } = readState(resolve(dir))
  return {
    pid: owner.pid,
    ready: running !== undefined,
    servers: running?.servers ?? [],
    env: running?.env ?? {},
  }
}

/**
 * Starts the stack and resolves when every server answers.
 * @throws StackRunning if another process runs it
 * @throws Error with one line per server that did not start; nothing is left running
 */
export async function startStack(options: StackOptions): Promise<Stack> {
  const dir = await dataDir(options)
  const lock = tryLock(join(dir, 'stack.lock'))
  if ('owner' in lock) {
    throw new StackRunning(findRunning(dir) ?? { pid: lock.owner.pid, ready: false, servers: [], env: {} })
  }
  const release = async (): Promise<void> => {
    lock.release()
    if (options.ephemeral) await rm(dir, { recursive: true, force: true })
  }
  try {
    return await startLocked(options, dir, release)
  } catch (error) {
    await release()
    throw error
  }
}

async function startLocked(options: StackOptions, dir: string, release: () => Promise<void>): Promise<Stack> {
  const before = readState(dir)
  await waitForReaper(before)
  const supervisor = new Supervisor({ onEvent: options.onEvent })
  const reaper = supervisor.reaper()
  const ports = new Ports({ remembered: before.ports, any: options.anyPorts ?? options.ephemeral })
  const state = (running?: StackState['running']): StackState => ({
    ports: ports.reserved(),
    ...(reaper !== undefined && { reaper }),
    ...(running !== undefined && { running }),
  })
  writeState(dir, state())
  const started: Started[] = []
  const stop = async (): Promise<void> => {
    await supervisor.stop()
    for (const server of started) await server.dispose?.()
    writeState(dir, { ports: ports.reserved() })
    ports.release()
  }
  const failed = new AbortController()
  const functions = findDeno(options.env, AbortSignal.any([failed.signal, ...givenSignal(options)]))
  try {
    const shared = { ...options, dir, supervisor, ports, secrets: loadSecrets(dir) }
    await startServers(shared, started, options)
  } catch (error) {
    failed.abort()
    await stop()
    throw error
  }
  const servers = SERVERS.flatMap(({ name }) =>
    started.map(({ info }) => info).filter((info) => info.name === name),
  )
  const { env: program, missing } = await functions
  const env = Object.assign({}, program, ...started.map((server) => server.env)) as Record<string, string>
  writeState(dir, state({ startedAt: new Date().toISOString(), servers, env }))
  let stopped: Promise<void> | undefined
  const stopOnce = (): Promise<void> => {
    stopped ??= stop().then(release)
    return stopped
  }
  const without = missing !== undefined && { withoutFunctions: missing }
  return { dir, servers, env, supervisor, stop: stopOnce, ...without }
}

const givenSignal = ({ signal }: StackOptions): AbortSignal[] => (signal === undefined ? [] : [signal])

type Shared = Omit<StartContext, 'progress' | 'signal'>

async function startServers(shared: Shared, started: Started[], options: StackOptions): Promise<void> {
  const abort = new AbortController()
  const signal = AbortSignal.any([abort.signal, ...givenSignal(options)])
  const progress = new Progress(options.onProgress)
  const starts = SERVERS.map(async (server) => {
    const report: StartContext['progress'] = (phase, detail) => progress.report(server.name, phase, detail)
    started.push(await startOne(server, { ...shared, signal, progress: report }))
  })
  try {
    await Promise.race([Promise.all(starts), aborted(signal)])
  } catch {
    await Promise.race([
      Promise.allSettled(starts),
      delay(GRACE_MS, undefined, { ref: false }),
      aborted(signal).catch(() => {}),
    ])
    const failures = await failuresSoFar(starts)
    abort.abort()
    await shared.supervisor.stop()
    await Promise.allSettled(starts)
    throw new Error(failures.length > 0 ? failures.join('\n') : 'The start was given up')
  } finally {
    progress.close()
  }
}

async function startOne(server: Server, context: StartContext): Promise<Started> {
  const url = context.env[server.urlVariable]
  try {
    const started = url ? await inspectExternal(server, url, context) : await server.start(context)
    context.progress(url ? 'external' : 'ready', `${started.info.title} ${started.info.version}`)
    return started
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    throw new Error(`${server.title}: ${message}`, { cause: error })
  }
}

async function inspectExternal(server: Server, url: string, context: StartContext): Promise<Started> {
  try {
    return await server.inspect(url, context.env)
  } catch (cause) {
    throw new Error(
      `${server.urlVariable} is set, but what it names does not answer: ${describeFailure(cause)}. Unset it, and the server is started here.`,
      { cause },
    )
  }
}

async function failuresSoFar(starts: readonly Promise<void>[]): Promise<string[]> {
  const pending = Symbol('pending')
  const outcomes = await Promise.allSettled(
    starts.map((start) => Promise.race([start, Promise.resolve(pending)])),
  )
  return outcomes.flatMap((outcome) =>
    outcome.status === 'rejected' ? [(outcome.reason as Error).message] : [],
  )
}

function aborted(signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(new Error('The start was given up'))
    signal.addEventListener('abort', () => reject(new Error('The start was given up')), { once: true })
  })
}

/** Waits until the reaper of a killed stack has ended the servers, which still use the data. */
export async function waitForReaper(before: StackState): Promise<void> {
  const deadline = Date.now() + REAPER_MS
  while (isAlive(before.reaper) && Date.now() < deadline) await delay(50)
}

async function dataDir(options: StackOptions): Promise<string> {
  const dir = resolve(options.dir)
  await mkdir(dir, { recursive: true, mode: 0o711 })
  if (!options.ephemeral) return dir
  await removeLeftovers(dir)
  const own = await mkdtemp(join(dir, 'ephemeral-'))
  // The user of PostgreSQL, which is not root, must be able to enter.
  await chmod(own, 0o711)
  return own
}

/** Removes folders of ephemeral stacks that were killed. */
async function removeLeftovers(dir: string): Promise<void> {
  for (const name of (await readdir(dir)).filter((entry) => entry.startsWith('ephemeral-'))) {
    const folder = join(dir, name)
    const age = Date.now() - (await stat(folder)).mtimeMs
    const { running, reaper } = readState(folder)
    const used = lockOwner(join(folder, 'stack.lock')) !== undefined || isAlive(reaper)
    if (!used && age > LEFTOVER_AGE_MS && (running ?? reaper) !== undefined)
      await rm(folder, { recursive: true, force: true })
  }
}

const NEVER_SILENT_MS = 2_000

export interface ProgressEvent {
  readonly server: ServerName
  readonly phase: Phase
  readonly detail: string
  /** Since the start of the stack. */
  readonly elapsedMs: number
}

/** Reports each phase of a server once, and again every 2 s while it lasts. */
class Progress {
  readonly #startedAt = Date.now()
  readonly #current = new Map<ServerName, { phase: Phase; detail: string }>()
  readonly #timer: NodeJS.Timeout
  readonly #onProgress: (event: ProgressEvent) => void

  constructor(onProgress: (event: ProgressEvent) => void) {
    this.#onProgress = onProgress
    this.#timer = setInterval(() => {
      for (const server of this.#current.keys()) this.#emit(server)
    }, NEVER_SILENT_MS)
  }

  report(server: ServerName, phase: Phase, detail: string): void {
    this.#current.set(server, { phase, detail })
    this.#emit(server)
    if (phase === 'ready' || phase === 'external') this.#current.delete(server)
  }

  close(): void {
    clearInterval(this.#timer)
  }

  #emit(server: ServerName): void {
    const current = this.#current.get(server)
    if (current !== undefined)
      this.#onProgress({ server, ...current, elapsedMs: Date.now() - this.#startedAt })
  }
}

/** Limit of the download of Deno, without which everything but functions works. */
const DENO_TIMEOUT_MS = 60_000

/** Finds or fetches Deno for functions. Never rejects: `missing` says why there is none. */
async function findDeno(
  env: NodeJS.ProcessEnv,
  signal: AbortSignal,
): Promise<{ readonly env: Readonly<Record<string, string>>; readonly missing?: string }> {
  const { pathVariable } = BINARIES.deno
  const either = AbortSignal.any([signal, AbortSignal.timeout(DENO_TIMEOUT_MS)])
  try {
    const path = await binary('deno', { env, signal: either })
    return { env: { [pathVariable]: path } }
  } catch (error) {
    return { env: {}, missing: (error as BinaryUnavailable).message }
  }
}
