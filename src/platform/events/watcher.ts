/** Shows triggers the events of their tenant and the changes of their workspace: at least once, by one process at a time. */

import { LIMITS } from '../../core/limits.ts'
import type { TenantId, WorkspaceId, WorkspaceRef } from '../../core/tenant.ts'
import type { Log } from '../log.ts'
import type { Database } from '../pg/database.ts'
import { sql } from '../pg/sql.ts'
import { Backoff } from '../retry.ts'
import type { SystemScope } from '../system.ts'
import { type Held, Turn } from '../turn.ts'
import { changesOf, type Entry, eventsOf, type StreamKey, type Streams, timeOf } from './streams.ts'

const DUTY = { reason: 'triggers', lock: 7_302_530, waits: 'events wait for their triggers' } as const

/** A trigger that is heard for. */
interface Open {
  readonly standing: string
  readonly watching: Watching
}

export class Watcher {
  readonly #turn: Turn
  readonly #streams: Streams
  readonly #log: Log

  constructor(database: Database, streams: Streams, log: Log) {
    this.#turn = new Turn(database, DUTY, log)
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
  async #watch(held: Held, hear: Hear): Promise<void> {
    const watches = new Watches(held.system)
    const open = new Map<string, Open>()
    try {
      while (!held.isOver) {
        await this.#follow(watches, open, hear)
        held.wentWell()
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

/** What a trigger is, to whoever acts for it. */
export interface Watch {
  readonly ref: WorkspaceRef
  readonly triggerId: string
  /** Of its flow: the one whose filters these are. */
  readonly version: number
  readonly paused: boolean
  /** As its kind has declared it. */
  readonly spec: unknown
  /** What it gave the last time. */
  readonly gathered: unknown
}

interface Heard {
  /** Kept with the place. */
  readonly gathered: unknown
  /** For how long the thread was busy with it. */
  readonly busyMs: number
}

/** Acts on entries of one stream. Where it throws, it is shown them again a while later. */
export type Hear = (watch: Watch, entries: readonly Entry[]) => Promise<Heard>

export interface Parts {
  readonly watches: Watches
  readonly streams: Streams
  readonly hear: Hear
  readonly log: Log
}

const PLACES = ['events_after', 'changes_after'] as const
type Place = (typeof PLACES)[number]

export class Watching {
  readonly #id: string
  readonly #parts: Parts
  readonly #done: Promise<void>
  readonly #listeners = new Map<StreamKey, () => void>()
  #row: WatchRow | undefined
  #closed = false
  /** Whether something came since it last looked. */
  #isTold = false
  #wake: () => void = () => {}

  private constructor(id: string, parts: Parts, before: Watching | undefined) {
    this.#id = id
    this.#parts = parts
    this.#done = this.#run(before)
  }

  /** @param before the same trigger as it was: what that has begun, it ends first */
  static open(id: string, parts: Parts, before?: Watching): Watching {
    return new Watching(id, parts, before)
  }

  /** What is being heard is heard to its end. Never rejects. */
  async close(): Promise<void> {
    this.#closed = true
    this.#wake()
    await this.#done
  }

  async #run(before: Watching | undefined): Promise<void> {
    await before?.close()
    const backoff = new Backoff(LIMITS.watchRetryMs)
    while (!this.#closed) {
      try {
        const restMs = await this.#look()
        backoff.reset()
        if (restMs > 0) await this.#wait(restMs)
      } catch (error) {
        const retryMs = backoff.next()
        this.#parts.log.warn({ err: error, trigger: this.#id, retryMs }, 'a trigger hears no events')
        await this.#wait(retryMs)
      }
    }
    for (const stop of this.#listeners.values()) stop()
  }

  /** @returns for how long it then rests, so that the thread is there for others */
  async #look(): Promise<number> {
    this.#row ??= await this.#find()
    const row = this.#row
    if (row === undefined) return 0
    this.#isTold = false
    await this.#listen(row)
    let busyMs = 0
    let count = 0
    for (const place of PLACES) {
      const key = keyOf(row, place)
      if (key === undefined || this.#closed) continue
      const { entries, isWhole } = await this.#parts.streams.following(key, row[place])
      if (entries.length > 0) busyMs += await this.#hear(place, entries, isWhole)
      count += entries.length
    }
    if (count === 0) await this.#untilTold(LIMITS.watchIdleMs)
    return busyMs * LIMITS.watchRestFactor
  }

  async #find(): Promise<WatchRow | undefined> {
    const row = await this.#parts.watches.find(this.#id)
    if (row === undefined) this.#closed = true
    return row
  }

  /**
   * Shows them, and keeps how far it has come.
   * @param isWhole whether nothing before them was dropped unheard
   */
  async #hear(place: Place, entries: readonly Entry[], isWhole: boolean): Promise<number> {
    // Who is resumed hears what comes from then on: so it is asked after the entries were read.
    const row = this.#row?.paused === true ? await this.#find() : this.#row
    if (row === undefined) return 0
    const { gathered, busyMs } = await this.#parts.hear(watchOf(row), entries)
    const progress: Progress = { ...row, gathered, [place]: entries.at(-1)?.id ?? row[place] }
    const gap = isWhole ? undefined : gapBetween(row[place], entries)
    const kept = await this.#parts.watches.keep(row, progress, gap)
    // Of another version by now: that one hears it again.
    if (kept === undefined) this.#closed = true
    else this.#row = { ...row, ...progress }
    // While it is paused, events pass by.
    if (kept?.paused === false && gap !== undefined) this.#tell(place, gap)
    return busyMs
  }

  #tell(place: Place, { fromMs, toMs }: Gap): void {
    const [from, to] = [fromMs, toMs].map((ms) => new Date(ms).toISOString())
    const what = { trigger: this.#id, stream: place, from, to }
    this.#parts.log.warn(what, 'a stream has dropped events that a trigger had not heard')
  }

  /** To be told, and not to ask all the time. */
  async #listen(row: WatchRow): Promise<void> {
    for (const place of PLACES) {
      const key = keyOf(row, place)
      if (key === undefined || this.#listeners.has(key)) continue
      const { stop } = await this.#parts.streams.listen(key, () => {
        this.#isTold = true
        this.#wake()
      })
      this.#listeners.set(key, stop)
    }
  }

  async #untilTold(ms: number): Promise<void> {
    if (!this.#isTold) await this.#wait(ms)
  }

  /** Ends early where it is closed, or told of something. */
  #wait(ms: number): Promise<void> {
    if (this.#closed) return Promise.resolve()
    return new Promise((done) => {
      const timer = setTimeout(done, ms)
      this.#wake = () => {
        clearTimeout(timer)
        done()
      }
    })
  }
}

/** The stream of such a place, where the trigger takes anything of it. */
function keyOf(row: WatchRow, place: Place): StreamKey | undefined {
  const { streams } = row.spec as { streams: readonly string[] }
  const { ref } = watchOf(row)
  if (place === 'events_after') return streams.includes('events') ? eventsOf(ref.tenantId) : undefined
  return streams.includes('changes') ? changesOf(ref) : undefined
}

/** From what was heard last to what there is now. */
const gapBetween = (after: string, [first]: readonly Entry[]): Gap => ({
  fromMs: timeOf(after),
  toMs: timeOf(first?.id ?? after),
})

const watchOf = (row: WatchRow): Watch => ({
  ref: { tenantId: row.tenant_id, workspaceId: row.workspace_id },
  triggerId: row.id,
  version: row.version,
  paused: row.paused,
  spec: row.spec,
  gathered: row.gathered,
})

/** A trigger that is there, as it stands: where this is another text, it is to be read anew. */
export interface Standing {
  readonly id: string
  readonly standing: string
}

/** A trigger with all that is needed to hear for it. */
export interface WatchRow {
  readonly tenant_id: TenantId
  readonly workspace_id: WorkspaceId
  readonly id: string
  readonly version: number
  readonly paused: boolean
  readonly spec: unknown
  readonly events_after: string
  readonly changes_after: string
  readonly gathered: unknown
}

/** Between which points in time a stream has dropped events. */
export interface Gap {
  readonly fromMs: number
  readonly toMs: number
}

/** How far a trigger has heard, and what waits for others. */
export type Progress = Pick<WatchRow, 'events_after' | 'changes_after' | 'gathered'>

export class Watches {
  readonly #system: SystemScope

  constructor(system: SystemScope) {
    this.#system = system
  }

  list(): Promise<Standing[]> {
    return this.#system.rows<Standing>(
      sql`select id, version || ' ' || paused as standing from flow_triggers where kind = 'event' order by id`,
    )
  }

  find(id: string): Promise<WatchRow | undefined> {
    return this.#system.row<WatchRow>(sql`
      select t.tenant_id, t.workspace_id, t.id, t.version, t.paused, t.spec, w.events_after, w.changes_after, w.gathered
      from flow_triggers t join event_watches w
        on w.tenant_id = t.tenant_id and w.workspace_id = t.workspace_id and w.trigger_id = t.id
      where t.id = ${id} and t.kind = 'event'`)
  }

  /**
   * @param gap what was dropped before it was heard: told of the time since the trigger is there, unless it is paused
   * @returns nothing where it was not kept: the trigger is gone, or of another version by now; that one may have moved the
   *   places while this waited for its lock, and its version is seen too late then
   */
  async keep(
    row: WatchRow,
    { events_after, changes_after, gathered }: Progress,
    gap: Gap | undefined,
  ): Promise<Pick<WatchRow, 'paused'> | undefined> {
    const missed =
      gap === undefined
        ? sql``
        : sql`, gap_from = case when t.paused then w.gap_from
            else greatest(to_timestamp(${gap.fromMs}::double precision / 1000), t.created_at) end,
          gap_to = case when t.paused then w.gap_to else to_timestamp(${gap.toMs}::double precision / 1000) end`
    return this.#system.row(sql`
      update event_watches w set events_after = ${events_after}, changes_after = ${changes_after},
        gathered = ${JSON.stringify(gathered)}::jsonb ${missed}
      from flow_triggers t
      where w.tenant_id = ${row.tenant_id} and w.workspace_id = ${row.workspace_id} and w.trigger_id = ${row.id}
        and t.tenant_id = w.tenant_id and t.workspace_id = w.workspace_id and t.id = w.trigger_id
        and t.version = ${row.version}
        and w.events_after = ${row.events_after} and w.changes_after = ${row.changes_after}
      returning t.paused`)
  }
}
