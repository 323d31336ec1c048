/** Runs CPU-heavy tasks of tenants in worker threads: one task of a tenant at a time, each with a limit of CPU time. */

import { Worker } from 'node:worker_threads'
import { Problem } from '../core/problem.ts'
import { INFRA_LIMITS } from './limits.ts'

const {
  threadsMax: size,
  tasksWaitingMax: waitingMax,
  waitMs,
  pollMs,
  elapsedFactor: wallFactor,
  elapsedBaseMs: wallBaseMs,
  memoryMb,
  stackMb,
} = INFRA_LIMITS.threads

/** The outcome of a task: its value, or that it was stopped at its limit. */
export type Ran<T> = { readonly cpuMs: number } & ({ readonly value: T } | { readonly stopped: true })

/** A task to run. `cpuMs` is the CPU time after which it is stopped. */
export interface ThreadTask {
  readonly name: string
  readonly input: unknown
  readonly cpuMs: number
}

interface Job extends ThreadTask {
  readonly end: (ran: Ran<unknown>) => void
  readonly fail: (error: unknown) => void
  /** Ends its wait for a thread. */
  readonly late: NodeJS.Timeout
}

interface Queue {
  isRunning: boolean
  readonly waiting: Job[]
}

/** The messages of a thread: that it is ready; then the outcome of each task. */
type Message = { readonly ready: true } | { readonly value: unknown } | { readonly error: unknown }

export class ThreadPool {
  readonly #idle: Thread[] = []
  readonly #all = new Set<Thread>()
  /** By tenant, in the order of their turns. */
  readonly #queues = new Map<string, Queue>()
  #isClosed = false

  /**
   * Runs a task in the share of a tenant.
   * @param holder the id of the tenant
   * @throws Problem `overloaded` if the tenant has too many tasks, or waits too long; Error as the task does
   */
  run<T>(holder: string, task: ThreadTask): Promise<Ran<T>> {
    const queue = this.#queues.get(holder) ?? { isRunning: false, waiting: [] }
    if (queue.waiting.length >= waitingMax || this.#isClosed) return Promise.reject(full())
    this.#queues.set(holder, queue)
    return new Promise<Ran<T>>((resolve, reject) => {
      const late = setTimeout(() => this.#giveUp(holder, job), waitMs)
      const job: Job = { ...task, end: resolve as (ran: Ran<unknown>) => void, fail: reject, late }
      // Validations do not wait for the simulations of the same tenant.
      const longer = queue.waiting.findIndex(({ cpuMs }) => cpuMs > job.cpuMs)
      queue.waiting.splice(longer < 0 ? queue.waiting.length : longer, 0, job)
      this.#dispatch()
    })
  }

  /** Ends all threads; tasks under way fail. */
  close(): void {
    this.#isClosed = true
    for (const { waiting } of this.#queues.values())
      for (const job of waiting.splice(0)) {
        clearTimeout(job.late)
        job.fail(full())
      }
    for (const thread of this.#all) void thread.end()
  }

  #giveUp(holder: string, job: Job): void {
    const queue = this.#queues.get(holder)
    const at = queue?.waiting.indexOf(job) ?? -1
    if (queue === undefined || at < 0) return
    queue.waiting.splice(at, 1)
    this.#forget(holder, queue)
    job.fail(full())
  }

  /** Gives free threads to tenants in turn. */
  #dispatch(): void {
    for (const [holder, queue] of [...this.#queues]) {
      if (this.#idle.length === 0 && this.#all.size >= size) return
      const job = queue.isRunning ? undefined : queue.waiting.shift()
      if (job === undefined) continue
      clearTimeout(job.late)
      queue.isRunning = true
      // The tenant moves to the end of the queue.
      this.#queues.delete(holder)
      this.#queues.set(holder, queue)
      void this.#start(holder, queue, job)
    }
  }

  async #start(holder: string, queue: Queue, job: Job): Promise<void> {
    const thread = this.#idle.pop() ?? new Thread()
    this.#all.add(thread)
    try {
      job.end(await thread.run(job))
    } catch (error) {
      job.fail(error)
    }
    if (thread.isOver) this.#all.delete(thread)
    else this.#idle.push(thread)
    queue.isRunning = false
    this.#forget(holder, queue)
    this.#dispatch()
  }

  #forget(holder: string, { isRunning, waiting }: Queue): void {
    if (!isRunning && waiting.length === 0) this.#queues.delete(holder)
  }
}

const full = () =>
  new Problem('overloaded', {
    detail: `The tenant has ${waitingMax} compilations, simulations and large validations waiting, or one has waited ${waitMs / 1_000} s.`,
    headers: { 'retry-after': '1' },
  })

/** One worker thread, which runs one task at a time. */
class Thread {
  readonly #worker = openWorker()
  readonly #ready: Promise<void>
  #isOver = false
  /** The error that ended it. */
  #error: unknown

  constructor() {
    this.#worker.once('exit', () => {
      this.#isOver = true
    })
    // A waiting task learns of it by `#next`.
    this.#worker.on('error', (error) => {
      this.#isOver = true
      this.#error = error
    })
    this.#ready = this.#next().then((message) => {
      if (message !== undefined && 'ready' in message) return
      throw new Error('A worker thread ended before it was ready.', { cause: this.#error })
    })
    this.#ready.catch(() => {})
  }

  get isOver(): boolean {
    return this.#isOver
  }

  async end(): Promise<void> {
    this.#isOver = true
    await this.#worker.terminate()
  }

  /** @throws Error as the task does */
  async run({ name, input, cpuMs }: ThreadTask): Promise<Ran<unknown>> {
    this.#worker.ref()
    await this.#ready
    const clock = await this.#startClock(cpuMs)
    try {
      const next = this.#next()
      this.#worker.postMessage({ name, input })
      const message = await next
      if (message === undefined) return { stopped: true, cpuMs: clock.cpuMs }
      if ('error' in message) throw message.error
      await clock.read()
      return { value: 'value' in message ? message.value : undefined, cpuMs: clock.cpuMs }
    } finally {
      clock.stop()
      this.#worker.unref()
      // The memory of a stopped thread is free before the next one starts.
      if (this.#isOver) await this.#worker.terminate()
    }
  }

  /** Stops the thread by CPU time; by the wall clock only if far more time has passed than a busy machine explains. */
  async #startClock(maxMs: number) {
    const before = await this.#worker.cpuUsage()
    const endMs = performance.now() + wallBaseMs + wallFactor * maxMs
    const clock = {
      cpuMs: 0,
      // Fails if the thread has ended meanwhile.
      read: () =>
        this.#worker.cpuUsage(before).then(
          ({ user, system }) => {
            clock.cpuMs = (user + system) / 1_000
          },
          () => {},
        ),
      stop: () => clearInterval(timer),
    }
    const timer = setInterval(() => {
      void clock.read()
      if (clock.cpuMs > maxMs || performance.now() > endMs) void this.end()
    }, pollMs)
    return clock
  }

  /** @returns undefined if the thread ends instead: it was stopped, or had too little memory */
  #next(): Promise<Message | undefined> {
    return new Promise((resolve) => {
      const worker = this.#worker
      const end = () => done(undefined)
      const done = (message: Message | undefined) => {
        worker.off('message', done).off('error', end).off('exit', end)
        resolve(message)
      }
      worker.once('message', done).once('error', end).once('exit', end)
    })
  }
}

/** In the bundle, the program of the threads lies next to that of the process. */
function openWorker(): Worker {
  const options = {
    execArgv: [],
    resourceLimits: { maxOldGenerationSizeMb: memoryMb, stackSizeMb: stackMb },
    // The thread sees no setting and no secret of the process.
    env: {},
  }
  const program = import.meta.url.endsWith('.ts') ? '../features/threads/main.ts' : 'threads.mjs'
  return new Worker(new URL(program, import.meta.url), options)
}
