/** Runs a task on one process at a time, elected by an advisory lock of PostgreSQL. */

import { setTimeout as pause } from 'node:timers/promises'
import { Problem } from '../../core/problem.ts'
import { INFRA_LIMITS } from '../limits.ts'
import type { Log } from '../log.ts'
import { Backoff } from '../retry.ts'
import type { Database, PinnedConnection, StatementExecutor } from './database.ts'
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
  /** True once the task is to end, or the leadership is lost. */
  readonly isOver: boolean
  /** Ends early once the leadership is over. */
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
  readonly #backoff = new Backoff(INFRA_LIMITS.leaderRetryMs)

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
    const { signal } = this.#stopped
    while (!signal.aborted) {
      try {
        await this.#runElected(work)
      } catch (error) {
        const retryMs = this.#backoff.next()
        this.#log.warn({ err: error, retryMs }, this.#spec.failureMessage)
        await wait(retryMs, signal)
      }
    }
  }

  async #runElected(work: (leadership: Leadership) => Promise<void>): Promise<void> {
    const session = await this.#database.session()
    const lost = new AbortController()
    const over = AbortSignal.any([this.#stopped.signal, lost.signal])
    const system = new SystemScope(this.#spec.reason, reportingLoss(session, lost))
    const lock = sql`select pg_try_advisory_lock(${this.#spec.lock}) as "isOurs"`
    try {
      while (!over.aborted && !(await system.row<{ isOurs: boolean }>(lock))?.isOurs)
        await wait(INFRA_LIMITS.leaderElectionMs, over)
      void keepAlive(system, over)
      await work({
        system,
        get isOver() {
          return over.aborted
        },
        wait: (ms) => wait(ms, over),
        resetBackoff: () => this.#backoff.reset(),
      })
    } finally {
      lost.abort()
      session.end()
    }
  }
}

/** Passes statements on to the connection, and aborts `lost` if it has broken. */
function reportingLoss(session: PinnedConnection, lost: AbortController): StatementExecutor {
  return {
    batch: (context, statements) =>
      session.batch(context, statements).catch((error: unknown) => {
        if (error instanceof Problem && error.code === 'dependency_unavailable') lost.abort()
        throw error
      }),
  }
}

/** Uses the connection while the work does not: the server ends an idle one, and its lock with it. */
async function keepAlive(system: SystemScope, over: AbortSignal): Promise<void> {
  for (;;) {
    await wait(INFRA_LIMITS.sessionKeepAliveMs, over)
    if (over.aborted) return
    // The statement that fails reports the loss of the connection.
    await system.rows(sql`select 1`).catch(() => {})
  }
}

async function wait(ms: number, over: AbortSignal): Promise<void> {
  await pause(ms, undefined, { signal: over }).catch(() => {})
}
