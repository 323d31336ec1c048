/** Supervises named processes: waits until they are ready, restarts them after a crash, and ends them with this process. */

import { setTimeout as delay } from 'node:timers/promises'
import { Launch, type LaunchOptions, Reaper } from './launch.ts'
import type { ProcessIdentity } from './lock.mjs'
import { PortTaken } from './ports.ts'

const STOP_MS = 4_000
/** Time for a stage to stop before the stage below gets its signal. */
const STAGE_MS = 2_000
const READY_MS = 60_000
const CRASH_WINDOW_MS = 60_000
const CRASHES_MAX = 5
const BACKOFF_MS = [100, 500, 1_000, 2_000, 4_000]

export interface RunOptions extends Omit<LaunchOptions, 'args'> {
  readonly name: string
  /** A function is asked before each start. */
  readonly args: LaunchOptions['args'] | (() => Promise<LaunchOptions['args']>)
  /** A probe, repeated until it resolves. */
  readonly ready: () => Promise<void>
  readonly readyTimeoutMs?: number
  /** Ends a process that runs but no longer answers, so that it is restarted. By default, only its exit is noticed. */
  readonly liveness?: Liveness
  /** Time to stop before it is killed. Default and maximum: 4 s. */
  readonly graceMs?: number
  /** Higher stages stop first. Servers of the stack have 0; the default is 1. */
  readonly stage?: number
}

interface Liveness {
  readonly probe: () => Promise<void>
  readonly everyMs: number
  /** As many failures in a row end the process. */
  readonly failuresMax: number
}

export interface SupervisorEvent {
  readonly name: string
  readonly type: 'started' | 'ready' | 'exited' | 'restarting' | 'gave_up'
  readonly detail: string
}

interface Child {
  readonly options: RunOptions
  launch: Launch | undefined
  guard: Promise<void>
  wanted: boolean
  crashes: number[]
}

export class Supervisor {
  readonly #children = new Map<string, Child>()
  readonly #reaper = new Reaper()
  readonly #onEvent: (event: SupervisorEvent) => void
  #stopped: Promise<void> | undefined

  constructor(options: { readonly onEvent?: ((event: SupervisorEvent) => void) | undefined } = {}) {
    this.#onEvent = options.onEvent ?? (() => {})
  }

  /**
   * Starts a process and resolves when it is ready.
   * @throws PortTaken if it exits because another process listens on one of its ports
   * @throws Error with the last log lines if it exits before for another reason, or is not ready in time
   */
  async run(options: RunOptions): Promise<void> {
    if (this.#stopped !== undefined) throw new Error(`${options.name} is not started: everything is stopping`)
    if (this.#children.has(options.name)) throw new TypeError(`The process ${options.name} already exists`)
    const child: Child = { options, launch: undefined, guard: Promise.resolve(), wanted: true, crashes: [] }
    this.#children.set(options.name, child)
    await this.#begin(child)
  }

  /** Returns the current pid; undefined while it is down. */
  pid(name: string): number | undefined {
    return this.#children.get(name)?.launch?.pid
  }

  /** Identifies the process that ends the children if this one dies. */
  reaper(): ProcessIdentity | undefined {
    return this.#reaper.identity()
  }

  /** Restarts a process, even after `gave_up`. Resolves when it is ready. */
  async restart(name: string): Promise<void> {
    const child = this.#children.get(name)
    if (child === undefined) throw new TypeError(`The process ${name} does not exist`)
    await this.#end(child, Date.now() + STOP_MS)
    if (this.#stopped !== undefined) throw new Error(`${name} is not started: everything is stopping`)
    child.wanted = true
    child.crashes = []
    await this.#begin(child)
  }

  /** Ends a process and forgets it, so that another one can have its name. Does nothing if there is none. */
  async end(name: string): Promise<void> {
    const child = this.#children.get(name)
    if (child === undefined) return
    await this.#end(child, Date.now() + STOP_MS)
    this.#children.delete(name)
  }

  /** Ends all processes, higher stages first. Resolves when they are dead, after at most 5 s. */
  stop(): Promise<void> {
    this.#stopped ??= this.#stopAll()
    return this.#stopped
  }

  async #stopAll(): Promise<void> {
    const deadline = Date.now() + STOP_MS
    const children = [...this.#children.values()].reverse()
    for (const child of children) child.wanted = false
    const stages = [...new Set(children.map(stageOf))].sort((a, b) => b - a)
    const ending: Promise<void>[] = []
    for (const stage of stages) {
      const ended = Promise.all(
        children.filter((child) => stageOf(child) === stage).map((child) => this.#end(child, deadline)),
      ).then(() => {})
      ending.push(ended)
      await Promise.race([ended, delay(STAGE_MS, undefined, { ref: false })])
    }
    await Promise.all(ending)
    await this.#reaper.close()
  }

  /** The first start is not repeated: if it fails, the caller decides. */
  async #begin(child: Child): Promise<void> {
    try {
      await this.#launch(child)
    } catch (error) {
      await this.#end(child, Date.now() + STOP_MS)
      this.#children.delete(child.options.name)
      throw error
    }
    child.guard = this.#guard(child)
  }

  async #launch(child: Child): Promise<void> {
    const { options } = child
    const args = typeof options.args === 'function' ? await options.args() : options.args
    if (!child.wanted) throw new Error(`${options.name} is not started: everything is stopping`)
    const launch = new Launch({ ...options, args })
    child.launch = launch
    const pid = launch.pid
    const signal = options.stopSignal ?? 'SIGTERM'
    if (pid !== undefined) {
      this.#reaper.add(pid, signal)
      this.#emit(child, 'started', `pid ${pid}`)
      void launch.exited.then(() => this.#reaper.remove(pid))
    }
    await waitUntilReady(options, launch)
    this.#emit(child, 'ready', `pid ${pid}`)
  }

  /** Restarts a process after each exit, until it is stopped or crashes too often. Never rejects. */
  async #guard(child: Child): Promise<void> {
    while (child.wanted) {
      void this.#watch(child)
      const detail = await child.launch?.exited
      if (!child.wanted) return
      this.#emit(child, 'exited', detail ?? 'it was not running')
      if (!(await this.#restartCrashed(child))) return
    }
  }

  /** Kills a process that fails its probe of liveness too often in a row: {@link #guard} restarts it. */
  async #watch(child: Child): Promise<void> {
    const { launch, options } = child
    if (launch === undefined || options.liveness === undefined) return
    const { probe, everyMs, failuresMax } = options.liveness
    let isOver = false
    void launch.exited.then(() => {
      isOver = true
    })
    for (let failures = 0; failures < failuresMax; ) {
      await delay(everyMs, undefined, { ref: false })
      if (isOver || !child.wanted) return
      failures = await probe().then(
        () => 0,
        () => failures + 1,
      )
    }
    if (!isOver && child.wanted) await launch.end('SIGKILL', Date.now())
  }

  async #restartCrashed(child: Child): Promise<boolean> {
    for (;;) {
      const now = Date.now()
      child.crashes = [...child.crashes.filter((at) => at > now - CRASH_WINDOW_MS), now]
      if (child.crashes.length >= CRASHES_MAX) {
        const detail = `${child.options.name} crashed ${CRASHES_MAX} times in 60 s; its log is ${child.options.logFile}`
        this.#emit(child, 'gave_up', detail)
        return false
      }
      const pauseMs = BACKOFF_MS[child.crashes.length - 1] ?? 0
      this.#emit(child, 'restarting', `in ${pauseMs} ms`)
      await delay(pauseMs)
      if (!child.wanted) return false
      try {
        await this.#launch(child)
        return true
      } catch (error) {
        if (!child.wanted) return false
        await child.launch?.end('SIGKILL', Date.now())
        this.#emit(child, 'exited', error instanceof Error ? error.message : String(error))
      }
    }
  }

  async #end(child: Child, deadline: number): Promise<void> {
    child.wanted = false
    const killAt = Math.min(deadline, Date.now() + (child.options.graceMs ?? STOP_MS))
    await child.launch?.end(child.options.stopSignal ?? 'SIGTERM', killAt)
    await child.guard
    // A restart may have been under way when the first signal was sent.
    await child.launch?.end('SIGKILL', deadline)
  }

  #emit(child: Child, type: SupervisorEvent['type'], detail: string): void {
    this.#onEvent({ name: child.options.name, type, detail })
  }
}

const stageOf = ({ options }: Child): number => options.stage ?? 1

async function waitUntilReady(options: RunOptions, launch: Launch): Promise<void> {
  const timeoutMs = options.readyTimeoutMs ?? READY_MS
  const deadline = Date.now() + timeoutMs
  const exited = launch.exited.then((detail) => ({ exited: detail }))
  for (;;) {
    const left = deadline - Date.now()
    const probe = options.ready().then(
      () => true,
      () => false,
    )
    const timeout = delay(Math.max(left, 0), false, { ref: false })
    const outcome = await Promise.race([exited, probe, timeout])
    if (outcome === true) return
    if (outcome !== false) throw portTaken(options, launch) ?? failure(options, outcome.exited, launch)
    if (left <= 0) throw failure(options, `was not ready after ${timeoutMs / 1000} s`, launch)
    await Promise.race([exited, delay(50)])
  }
}

/** How servers name the port beside the text of the system's error: before it, after it, or in the line below as PostgreSQL does. */
const TAKEN =
  /(?:127\.0\.0\.1:(\d+)[^\n]*)?address already in use(?:[^\n]*127\.0\.0\.1:(\d+)|[^\n]*\n[^\n]* port (\d+))?/i

function portTaken({ name }: RunOptions, launch: Launch): PortTaken | undefined {
  const found = TAKEN.exec(launch.lastLines(Number.POSITIVE_INFINITY))
  if (found === null) return undefined
  const [, before, after, below] = found
  return new PortTaken(name, before ?? after ?? below)
}

function failure({ name }: RunOptions, what: string, launch: Launch): Error {
  const lines = launch.lastLines(12)
  return new Error(`${name} ${what}${lines === '' ? '' : `. Its last log lines:\n${lines}`}`)
}
