/** Passes changes of documents on, from the outbox to the streams: in order, at least once, by one process at a time. */

import { LIMITS } from '../../core/limits.ts'
import type { Log } from '../log.ts'
import type { Database } from '../pg/database.ts'
import { Backoff } from '../retry.ts'
import { LeaderTask, type Lease } from '../turn.ts'
import { Appender } from './appender.ts'
import { Outbox, type Taken } from './outbox.ts'

const DUTY = {
  reason: 'relay',
  lock: 7_302_517,
  waits: 'changes of documents wait in the outbox',
} as const

export class Relay {
  readonly #turn: LeaderTask
  readonly #appender: Appender

  constructor(database: Database, valkeyUrl: string, log: Log) {
    this.#turn = new LeaderTask(database, DUTY, log)
    this.#appender = new Appender(valkeyUrl, (error) =>
      log.debug({ err: error }, 'valkey connection of the relay'),
    )
  }

  /** Runs until it is closed. Nothing leaves the outbox before the stream has taken it. */
  start(): void {
    this.#turn.start((held) => this.#passOn(new Outbox(held.system), held))
  }

  /** Finishes what it has begun to pass on. */
  async close(): Promise<void> {
    await this.#turn.close()
    this.#appender.close()
  }

  /** Looks seldom where nothing happens; where something does, it lets a few come together, since each look has a price. */
  async #passOn(outbox: Outbox, held: Lease): Promise<void> {
    const backoff = new Backoff(LIMITS.relayPollMs)
    let passedOn: readonly Taken[] = []
    while (!held.isOver) {
      const taken = await outbox.next(passedOn)
      passedOn = []
      if (taken.length > 0) {
        await this.#appender.append(taken)
        passedOn = taken
        held.resetBackoff()
        backoff.reset()
      }
      if (taken.length < LIMITS.relayChangesMax / 2) await held.wait(backoff.next())
    }
    if (passedOn.length > 0) await outbox.forget(passedOn)
  }
}
