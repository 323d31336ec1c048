/** Work that one process at a time does for all: every worker waits for its turn, which a lock of its session says. */

import { setTimeout as pause } from 'node:timers/promises'
import { LIMITS } from '../core/limits.ts'
import type { Log } from './log.ts'
import type { Database } from './pg/database.ts'
import { sql } from './pg/sql.ts'
import { Backoff } from './retry.ts'
import { type Reason, SystemScope } from './system.ts'

/** A kind of such work. */
interface Duty {
  readonly reason: Reason
  /** An arbitrary number of ours, unlike all others. */
  readonly lock: number
  /** What waits where it cannot be done, for the log. */
  readonly waits: string
}

/** For as long as it is our turn. */
export interface Held {
  /** On the connection that has the lock: when that is lost, so is the turn, and what it is asked fails. */
  readonly system: SystemScope
  /** Whether it is to end. */
  readonly isOver: boolean
  /** Ends early where the work is to end. */
  wait(ms: number): Promise<void>
  /** Something was done: what fails next is tried again soon. */
  wentWell(): void
}

export class Turn {
  readonly #database: Database
  readonly #duty: Duty
  readonly #log: Log
  readonly #stopped = new AbortController()
  #running: Promise<void> | undefined
  readonly #backoff = new Backoff(LIMITS.relayRetryMs)

  constructor(database: Database, duty: Duty, log: Log) {
    this.#database = database
    this.#duty = duty
    this.#log = log
  }

  /** Does the work whenever it is our turn, until it is closed. */
  start(work: (held: Held) => Promise<void>): void {
    this.#running ??= this.#run(work)
  }

  /** The work ends what it has begun. */
  async close(): Promise<void> {
    this.#stopped.abort()
    await this.#running
  }

  /** Tries again for as long as a server is away. */
  async #run(work: (held: Held) => Promise<void>): Promise<void> {
    while (!this.#hasStopped) {
      try {
        await this.#take(work)
      } catch (error) {
        const retryMs = this.#backoff.next()
        this.#log.warn({ err: error, retryMs }, this.#duty.waits)
        await this.#wait(retryMs)
      }
    }
  }

  async #take(work: (held: Held) => Promise<void>): Promise<void> {
    const session = await this.#database.session()
    try {
      const system = new SystemScope(this.#duty.reason, session)
      while (!this.#hasStopped && !(await this.#isOurs(system))) await this.#wait(LIMITS.relayTurnMs)
      await work(this.#held(system))
    } finally {
      session.end()
    }
  }

  /** Until the session ends. */
  async #isOurs(system: SystemScope): Promise<boolean> {
    const row = await system.row<{ ours: boolean }>(
      sql`select pg_try_advisory_lock(${this.#duty.lock}) as ours`,
    )
    return row?.ours === true
  }

  #held(system: SystemScope): Held {
    const hasStopped = () => this.#hasStopped
    return {
      system,
      get isOver() {
        return hasStopped()
      },
      wait: (ms) => this.#wait(ms),
      wentWell: () => this.#backoff.reset(),
    }
  }

  get #hasStopped(): boolean {
    return this.#stopped.signal.aborted
  }

  async #wait(ms: number): Promise<void> {
    await pause(ms, undefined, { signal: this.#stopped.signal }).catch(() => {})
  }
}
