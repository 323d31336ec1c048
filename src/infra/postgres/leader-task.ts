/** Runs a task on one process at a time, elected by an advisory lock of PostgreSQL. */

import { setTimeout as pause } from 'node:timers/promises'
import { LIMITS } from '../../core/limits.ts'
import type { Log } from '../log.ts'
import { Backoff } from '../retry.ts'
import type { Database } from './database.ts'
import { sql } from './sql.ts'
import { type Reason, SystemScope } from './system-scope.ts'

interface LeaderTaskSpec {
  readonly reason: Reason
  /** A number of our own for `pg_advisory_lock`, unlike all others. */
  readonly lock: number
  /** The log event of a failure. */
  readonly failureMessage: string
}

/** Held by the elected process while it does the work. */
export interface Leadership {
  /** Uses the connection that holds the lock: if it breaks, its statements fail, and the leadership is lost. */
  readonly system: SystemScope
  /** True once the task is to end. */
  readonly isOver: boolean
  /** Ends early if the task is to end. */
  wait(ms: number): Promise<void>
  /** After progress: the next failure is retried soon. */
  resetBackoff(): void
}

export class LeaderTask {
  readonly #database: Database
  readonly #spec: LeaderTaskSpec
  readonly #log: Log
  readonly #stopped = new AbortController()
  #running: Promise<void> | undefined
  readonly #backoff = new Backoff(LIMITS.relayRetryMs)

  constructor(database: Database, spec: LeaderTaskSpec, log: Log) {
    this.#database = database
    this.#spec = spec
    this.#log = log
  }

  /** Does the work whenever this process is elected, until it is closed. */
  start(work: (leadership: Leadership) => Promise<void>): void {
    this.#running ??= this.#run(work)
  }

  /** Waits for the work in progress to finish. */
  async close(): Promise<void> {
    this.#stopped.abort()
    await this.#running
  }

  async #run(work: (leadership: Leadership) => Promise<void>): Promise<void> {
    while (!this.#isOver) {
      try {
        await this.#runElected(work)
      } catch (error) {
        const retryMs = this.#backoff.next()
        this.#log.warn({ err: error, retryMs }, this.#spec.failureMessage)
        await this.#wait(retryMs)
      }
    }
  }

  async #runElected(work: (leadership: Leadership) => Promise<void>): Promise<void> {
    const session = await this.#database.session()
    const system = new SystemScope(this.#spec.reason, session)
    const lock = sql`select pg_try_advisory_lock(${this.#spec.lock}) as "isOurs"`
    const isOver = () => this.#isOver
    try {
      while (!this.#isOver && !(await system.row<{ isOurs: boolean }>(lock))?.isOurs)
        await this.#wait(LIMITS.relayTurnMs)
      await work({
        system,
        get isOver() {
          return isOver()
        },
        wait: (ms) => this.#wait(ms),
        resetBackoff: () => this.#backoff.reset(),
      })
    } finally {
      session.end()
    }
  }

  get #isOver(): boolean {
    return this.#stopped.signal.aborted
  }

  async #wait(ms: number): Promise<void> {
    await pause(ms, undefined, { signal: this.#stopped.signal }).catch(() => {})
  }
}
