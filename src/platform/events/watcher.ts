/** Shows triggers the events of their tenant and the changes of their workspace: at least once, by one process at a time. */

import { LIMITS } from '../../core/limits.ts'
import type { Log } from '../log.ts'
import type { Database } from '../pg/database.ts'
import { LeaderTask, type Lease } from '../turn.ts'
import type { Streams } from './streams.ts'
import { Watches } from './watches.ts'
import { type Hear, Watching } from './watching.ts'

const DUTY = { reason: 'triggers', lock: 7_302_530, waits: 'events wait for their triggers' } as const

/** A trigger that is heard for. */
interface Open {
  readonly standing: string
  readonly watching: Watching
}

export class Watcher {
  readonly #turn: LeaderTask
  readonly #streams: Streams
  readonly #log: Log

  constructor(database: Database, streams: Streams, log: Log) {
    this.#turn = new LeaderTask(database, DUTY, log)
    this.#streams = streams
    this.#log = log
  }

  /** Runs until it is closed. @param hear what is done with what a trigger hears */
  start(hear: Hear): void {
    this.#turn.start((held) => this.#watch(held, hear))
  }

  /** What is being heard is heard to its end. */
  close(): Promise<void> {
    return this.#turn.close()
  }

  /** Each trigger is heard for by itself, so that none waits for another. */
  async #watch(held: Lease, hear: Hear): Promise<void> {
    const watches = new Watches(held.system)
    const open = new Map<string, Open>()
    try {
      while (!held.isOver) {
        await this.#follow(watches, open, hear)
        held.resetBackoff()
        await held.wait(LIMITS.watchRefreshMs)
      }
    } finally {
      await Promise.all([...open.values()].map(({ watching }) => watching.close()))
    }
  }

  /** Begins to hear for what is new or changed, and ends it for what is gone. */
  async #follow(watches: Watches, open: Map<string, Open>, hear: Hear): Promise<void> {
    const found = await watches.list()
    const there = new Set(found.map(({ id }) => id))
    for (const [id, { watching }] of open) {
      if (there.has(id)) continue
      open.delete(id)
      void watching.close()
    }
    for (const { id, standing } of found) {
      const before = open.get(id)
      if (before?.standing === standing) continue
      const parts = { watches, streams: this.#streams, hear, log: this.#log }
      open.set(id, { standing, watching: Watching.open(id, parts, before?.watching) })
    }
  }
}
