/** One trigger that hears: from where it has come to, in order, again where it could not be done. */

import { LIMITS } from '../../core/limits.ts'
import type { WorkspaceRef } from '../../core/tenant.ts'
import type { Log } from '../log.ts'
import { Backoff } from '../retry.ts'
import { changesOf, type Entry, eventsOf, type StreamKey, type Streams, timeOf } from './streams.ts'
import type { Gap, Progress, Watches, WatchRow } from './watches.ts'

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
