/**
 * Runs invocations in processes that stay warm. A process serves one version of one function, one invocation at a time, and
 * is stopped in between; blank processes take the versions that have none.
 */

import { availableParallelism } from 'node:os'
import { Problem } from '../../../core/problem.ts'
import { KeyedSemaphore } from '../../../infra/keyed-semaphore.ts'
import { FUNCTION_LIMITS } from '../limits.ts'
import { splitSourceMap } from '../source-map.ts'
import { FairSlots, type HeldSlot } from './fair-slots.ts'
import { IdleProcesses, type WarmProcess } from './idle-processes.ts'
import type { Invocation, Outcome } from './invocation.ts'
import { type Described, describeLayers, findIsolation, type Isolation } from './isolation.ts'
import { isFatal, outcomeOf } from './outcome.ts'
import { FunctionProcess } from './process.ts'
import { Reaper } from './reaper.ts'
import { type Report, runInvocation } from './run-invocation.ts'

const { sandbox: limits } = FUNCTION_LIMITS
const SLOTS = availableParallelism() * FUNCTION_LIMITS.slotsPerCore
const SLOTS_OF_TENANT = Math.ceil(SLOTS * limits.tenantShare)
const BUSY = 'All slots for functions are taken. Try again later.'

/** The right to run invocations of a tenant, one at a time. `run` throws as {@link Functions.run} does. */
export interface FunctionSlot {
  run(invocation: Invocation): Promise<Outcome>
  /** Waits for other runs, which may use the slot meanwhile. */
  yieldWhile<T>(work: () => Promise<T>): Promise<T>
  /** Idempotent. */
  release(): void
}

export class Functions {
  readonly #deno: string | undefined
  readonly #slots = new FairSlots(SLOTS, SLOTS_OF_TENANT, FUNCTION_LIMITS.queueMs)
  /** Of these, a tenant's HTTP requests hold a part: slow clients keep a slot for as long as they like. */
  readonly #http = new KeyedSemaphore(Math.ceil(SLOTS_OF_TENANT * limits.httpShare), FUNCTION_LIMITS.queueMs)
  /** The slots in which a tenant's runs have the usual priority. */
  readonly #usual = new KeyedSemaphore(Math.ceil(SLOTS * limits.usualShare), 0)
  readonly #idle = new IdleProcesses()
  readonly #reaper = new Reaper()
  /** Processes without code, of the default size; another size starts a new process. */
  #blank: FunctionProcess[] = []
  readonly #alive = new Set<FunctionProcess>()
  #isolation: Promise<Isolation> | undefined
  #closed = false

  /** @param deno path of the program; undefined if there is none */
  constructor(deno: string | undefined) {
    this.#deno = deno
  }

  /** Starts blank processes, so that the first invocations of a version need not wait for one. */
  async warmUp(): Promise<void> {
    if (this.#deno === undefined) return
    const isolation = await this.#findIsolation(this.#deno)
    while (!this.#closed && this.#blank.length < FUNCTION_LIMITS.warmProcesses) {
      const blank = this.#spawn(this.#deno, FUNCTION_LIMITS.memoryMb.default, isolation)
      this.#blank.push(blank)
      // A process that dies while it waits is not used.
      void blank.gone.then(() => {
        this.#blank = this.#blank.filter((each) => each !== blank)
      })
    }
  }

  /**
   * Runs an invocation as soon as there is a slot.
   * @throws Problem `function_error`, `function_timeout`, `function_out_of_memory`, `function_output_too_large`,
   *   `run_cut_off`; each with the members `logs`, the last lines that it printed, and `usage`, and `function_error` with
   *   `error` {name, line, column, file} if it threw. Before it was run: `overloaded`, `functions_unavailable`,
   *   `run_cut_off`, and what `begin` rejects with.
   */
  async run(invocation: Invocation): Promise<Outcome> {
    const slot = await this.acquire(tenantOf(invocation), invocation.signal)
    return slot.run(invocation).finally(slot.release)
  }

  /**
   * Waits for a slot, for callers that have work to do before they run in it. At once rejected if as many of its tenant wait as
   * there are slots; such a caller asks again.
   * @param isHttp true for an HTTP request; a part of the slots is open to these
   * @throws Problem `overloaded`, `run_cut_off`
   */
  async acquire(tenantId: string, signal: AbortSignal, isHttp = false): Promise<FunctionSlot> {
    const leave = isHttp ? await this.#http.acquire(tenantId, BUSY) : undefined
    try {
      const release = await this.#slots.acquire(tenantId, BUSY, { signal, waitingMax: SLOTS })
      return this.#slotOf(tenantId, release, leave)
    } catch (error) {
      leave?.()
      if (!signal.aborted) throw error
      throw new Problem('run_cut_off', { detail: 'The run was cancelled before it started.', cause: error })
    }
  }

  /** @returns undefined if no slot is free now */
  tryAcquire(tenantId: string, isHttp = false): FunctionSlot | undefined {
    const leave = isHttp ? this.#http.tryAcquire(tenantId) : undefined
    if (isHttp && leave === undefined) return undefined
    const release = this.#slots.tryAcquire(tenantId)
    if (release === undefined) leave?.()
    return release && this.#slotOf(tenantId, release, leave)
  }

  #slotOf(tenantId: string, release: () => void, leave: () => void = () => {}): FunctionSlot {
    const held: HeldSlot = { tenant: tenantId, release, yields: 0, isGivenUp: false }
    return {
      run: (invocation) => this.#runInSlot(invocation),
      yieldWhile: (work) => this.#slots.yieldWhile(held, work),
      release: () => {
        held.isGivenUp = true
        held.release()
        leave()
      },
    }
  }

  /** How many slots are held, how many there are, and how many runs wait for one. */
  get use(): { readonly used: number; readonly max: number; readonly waiting: number } {
    return { used: this.#slots.held, max: SLOTS, waiting: this.#slots.waiting }
  }

  /** Ends all processes. */
  async close(): Promise<void> {
    this.#closed = true
    this.#idle.close()
    const alive = [...this.#alive]
    for (const each of alive) each.kill()
    await Promise.all(alive.map((each) => each.gone))
    this.#reaper.close()
  }

  /** A description of the layers around each process; undefined without Deno. */
  async layers(): Promise<Described | undefined> {
    return this.#deno === undefined
      ? undefined
      : describeLayers((await this.#findIsolation(this.#deno)).layers)
  }

  async #runInSlot(invocation: Invocation): Promise<Outcome> {
    const release = this.#usual.tryAcquire(tenantOf(invocation))
    const niceness = release === undefined ? limits.niceness.beyond : limits.niceness.usual
    try {
      return await this.#runWithNiceness(niceness, invocation)
    } finally {
      release?.()
      // After the invocation, since a starting process would compete with it.
      void this.warmUp()
    }
  }

  async #runWithNiceness(niceness: number, invocation: Invocation): Promise<Outcome> {
    const idle = this.#idle.take(keyOf(invocation), niceness)
    const warm = idle ?? (await this.#start(invocation))
    warm.process.setNiceness(niceness)
    await begin(warm, invocation)
    const report = await this.#runIn(warm, invocation)
    if (idle === undefined || !diedUnbegun(report) || this.#closed)
      return this.#outcomeOf(report, idle === undefined, invocation)
    // Code of an earlier invocation has ended the process; no code of this invocation has run.
    const timeoutMs = Math.max(1, invocation.timeoutMs - report.durationMs)
    const fresh = await this.#start(invocation)
    fresh.process.setNiceness(niceness)
    return this.#outcomeOf(await this.#runIn(fresh, { ...invocation, timeoutMs }), true, invocation)
  }

  async #runIn(warm: WarmProcess, invocation: Invocation): Promise<Report> {
    const report = await runInvocation(warm.process, invocation)
    if (report.isClean && !isFatal(report) && !this.#closed) this.#idle.put(warm, report.durationMs)
    else warm.process.kill()
    return report
  }

  #outcomeOf(report: Report, cold: boolean, invocation: Invocation): Outcome {
    const usage = { memory_mb: report.memoryMb, duration_ms: Math.round(report.durationMs), cold }
    const cutOff = { ...report, ending: { kind: 'given_up' } } as const
    const isCutOff = this.#closed && report.ending.kind === 'died'
    return outcomeOf(isCutOff ? cutOff : report, usage, invocation)
  }

  /** Gives the code to a process without code. */
  async #start(invocation: Invocation): Promise<WarmProcess> {
    const { code, memoryMb } = invocation
    if (this.#deno === undefined) throw functionsUnavailable('there is no Deno on this worker')
    const blank = memoryMb === FUNCTION_LIMITS.memoryMb.default ? this.#blank.shift() : undefined
    const process = blank ?? this.#spawn(this.#deno, memoryMb, await this.#findIsolation(this.#deno))
    await process.ready.catch((cause: unknown) => {
      throw functionsUnavailable(cause instanceof Error ? cause.message : 'Deno does not start')
    })
    const { base64, map } = splitSourceMap(code.compiled)
    void process.send('code', 0, map, base64)
    return { key: keyOf(invocation), process, calls: 0, busyMs: 0, startedMs: performance.now() }
  }

  /** Determined when the first process starts, then cached. */
  #findIsolation(deno: string): Promise<Isolation> {
    this.#isolation ??= findIsolation(deno)
    return this.#isolation
  }

  #spawn(deno: string, memoryMb: number, isolation: Isolation): FunctionProcess {
    if (this.#closed) throw new Problem('run_cut_off', { detail: 'The worker is stopping.' })
    const made = new FunctionProcess(deno, memoryMb, isolation)
    this.#alive.add(made)
    this.#reaper.watch(made.pid)
    void made.gone.then(() => {
      this.#alive.delete(made)
      this.#reaper.forget(made.pid)
    })
    return made
  }
}

/** A process whose invocation does not begin is given up: it has code, and no invocation to be kept after. */
async function begin({ process }: WarmProcess, invocation: Invocation): Promise<void> {
  if (invocation.signal.aborted) return
  await invocation.begin?.().catch((error: unknown) => {
    process.kill()
    throw error
  })
}

const keyOf = ({ code, memoryMb }: Invocation) => `${code.key}:${memoryMb}`

const diedUnbegun = ({ hasBegun, ending }: Report) =>
  !hasBegun && (ending.kind === 'died' || ending.kind === 'memory')

const tenantOf = ({ code }: Invocation) => code.key.slice(0, code.key.indexOf(':'))

const functionsUnavailable = (why: string) =>
  new Problem('functions_unavailable', { detail: `Functions cannot be run: ${why}.` })
