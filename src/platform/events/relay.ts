/** Passes changes of documents on, from the outbox to the streams: in order, at least once, by one process at a time. */

import { setTimeout as pause } from 'node:timers/promises'
import { LIMITS } from '../../core/limits.ts'
import type { Log } from '../log.ts'
import type { Database } from '../pg/database.ts'
import { SystemScope } from '../system.ts'
import { Appender } from './appender.ts'
import { Outbox, type Taken } from './outbox.ts'

export class Relay {
  readonly #database: Database
  readonly #log: Log
  readonly #appender: Appender
  readonly #stopped = new AbortController()
  #running: Promise<void> | undefined

  constructor(database: Database, valkeyUrl: string, log: Log) {
    this.#database = database
    this.#log = log
    this.#appender = new Appender(valkeyUrl, (error) =>
      log.debug({ err: error }, 'valkey connection of the relay'),
    )
  }

  /** Runs until it is closed. Every worker does so; the others wait for their turn. */
  start(): void {
    this.#running ??= this.#run()
  }

  /** Finishes what it has begun to pass on. */
  async close(): Promise<void> {
    this.#stopped.abort()
    await this.#running
    this.#appender.close()
  }

  /** Tries again for as long as a server is away: nothing leaves the outbox before the stream has taken it. */
  async #run(): Promise<void> {
    const { min, max } = LIMITS.relayRetryMs
    let retryMs: number = min
    const wentWell = () => {
      retryMs = min
    }
    while (!this.#hasStopped) {
      try {
        await this.#takeTurn(wentWell)
      } catch (error) {
        this.#log.warn({ err: error, retryMs }, 'changes of documents wait in the outbox')
        await this.#wait(retryMs)
        retryMs = Math.min(retryMs * 2, max)
      }
    }
  }

  async #takeTurn(wentWell: () => void): Promise<void> {
    const session = await this.#database.session()
    try {
      const outbox = new Outbox(new SystemScope('relay', session))
      while (!this.#hasStopped && !(await outbox.isOurs())) await this.#wait(LIMITS.relayTurnMs)
      await this.#passOn(outbox, wentWell)
    } finally {
      session.end()
    }
  }

  /** Looks seldom where nothing happens; where something does, it lets a few come together, since each look has a price. */
  async #passOn(outbox: Outbox, wentWell: () => void): Promise<void> {
    const { min, max } = LIMITS.relayPollMs
    let passedOn: readonly Taken[] = []
    let pollMs: number = min
    while (!this.#hasStopped) {
      const taken = await outbox.next(passedOn)
      passedOn = []
      if (taken.length > 0) {
        await this.#appender.append(taken)
        passedOn = taken
        wentWell()
      }
      pollMs = taken.length === 0 ? Math.min(pollMs * 2, max) : min
      if (taken.length < LIMITS.relayChangesMax / 2) await this.#wait(pollMs)
    }
    if (passedOn.length > 0) await outbox.forget(passedOn)
  }

  get #hasStopped(): boolean {
    return this.#stopped.signal.aborted
  }

  async #wait(ms: number): Promise<void> {
    await pause(ms, undefined, { signal: this.#stopped.signal }).catch(() => {})
  }
}
