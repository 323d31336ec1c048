/** Consumes event streams from stored offsets: in order, at least once, by one process at a time. */

import type { WorkspaceRef } from '../../../core/tenant.ts'
import type { Log } from '../../../infra/log.ts'
import type { Database } from '../../../infra/postgres/database.ts'
import { type Leadership, LeaderTask } from '../../../infra/postgres/leader-task.ts'
import type { SystemScope } from '../../../infra/postgres/system-scope.ts'
import { Backoff } from '../../../infra/retry.ts'
import {
  changesOf,
  type Entry,
  eventsOf,
  type Following,
  gapBetween,
  type StreamGap,
  type StreamKey,
  type Streams,
  timeOf,
} from '../../../infra/valkey/streams.ts'
import type { StreamName } from '../../events/events.ts'
import { TRIGGER_LIMITS } from './limits.ts'

const TASK = {
  reason: 'triggers',
  lock: 7_302_530,
  failureMessage: 'events wait for their consumers',
} as const

/** The offsets of a consumer. */
export interface ConsumerState {
  readonly ref: WorkspaceRef
  /** The streams that it reads. */
  readonly streams: readonly StreamName[]
  readonly events_offset: string
  readonly changes_offset: string
}

/** The result of handling some entries. */
interface Handled<State> {
  /** With what the handler has changed besides offsets. */
  readonly state: State
  /** For how many milliseconds the handler kept the thread busy. */
  readonly busyMs: number
  /** How many of the entries were handled, from the first; the others come again after `TRIGGER_LIMITS.fullPauseMs`. Default: all. */
  readonly count?: number
}

/** Something that handles the entries of streams, and stores how far it has come. */
export interface Consumption<State extends ConsumerState> {
  /** @returns undefined if it was deleted, which ends the consumer */
  load(system: SystemScope): Promise<State | undefined>
  /** True if the state must be loaded again after entries were read. */
  isStale?(state: State): boolean
  /** True if entries of a topic can matter to it: only then their loss is a gap. Default: all. */
  concerns?(state: State, topic: string): boolean
  /**
   * Handles entries of one stream. If it throws, it gets them again after a pause.
   * @param gap entries before these that were dropped unread
   */
  handle(state: State, entries: readonly Entry[], gap: StreamGap | undefined): Promise<Handled<State>>
  /**
   * @param gap as for `handle`
   * @returns false if nothing was stored, since the stored state is no longer `before`; entries are then handled again
   */
  store(system: SystemScope, before: State, after: State, gap: StreamGap | undefined): Promise<boolean>
}

/** A consumption to run. One with a changed `revision` is loaded again. */
interface Listed {
  readonly id: string
  readonly revision: string
}

/** A kind of consumer. */
export interface ConsumerKind {
  readonly kind: string
  list(system: SystemScope): Promise<readonly Listed[]>
  open(id: string): Consumption<ConsumerState>
}

/** Runs one consumer for each consumption, so that none waits for another. */
export class StreamConsumers {
  readonly #task: LeaderTask
  readonly #streams: Streams
  readonly #log: Log
  #running: readonly RunningConsumers[] = []

  constructor(database: Database, streams: Streams, log: Log) {
    this.#task = new LeaderTask(database, TASK, log)
    this.#streams = streams
    this.#log = log
  }

  /** Runs until it is closed. */
  start(kinds: readonly ConsumerKind[]): void {
    this.#task.start((leadership) => this.#run(leadership, kinds))
  }

  /** Milliseconds since the oldest event that was read and is not handled was published; 0 if there is none. */
  get lagMs(): number {
    return Math.max(0, ...this.#running.map((consumers) => consumers.lagMs))
  }

  /** Waits for handlers under way. */
  close(): Promise<void> {
    return this.#task.close()
  }

  async #run(leadership: Leadership, kinds: readonly ConsumerKind[]): Promise<void> {
    const services = { system: leadership.system, streams: this.#streams, log: this.#log }
    this.#running = kinds.map((kind) => new RunningConsumers(kind, services))
    try {
      while (!leadership.isOver) {
        for (const consumers of this.#running) await consumers.refresh()
        leadership.resetBackoff()
        await leadership.wait(TRIGGER_LIMITS.refreshMs)
      }
    } finally {
      const ending = this.#running
      this.#running = []
      await Promise.all(ending.map((consumers) => consumers.close()))
    }
  }
}

interface ConsumerServices {
  readonly system: SystemScope
  readonly streams: Streams
  readonly log: Log
}

/** The consumers of one kind that run. */
class RunningConsumers {
  readonly #kind: ConsumerKind
  readonly #services: ConsumerServices
  readonly #consumers = new Map<string, { readonly revision: string; readonly consumer: StreamConsumer }>()

  constructor(kind: ConsumerKind, services: ConsumerServices) {
    this.#kind = kind
    this.#services = services
  }

  get lagMs(): number {
    return Math.max(0, ...[...this.#consumers.values()].map(({ consumer }) => consumer.lagMs))
  }

  /** Starts and ends consumers, so that those run that are listed now. */
  async refresh(): Promise<void> {
    const found = new Map(
      (await this.#kind.list(this.#services.system)).map(({ id, revision }) => [id, revision]),
    )
    for (const [id, { consumer }] of this.#consumers) {
      if (found.has(id)) continue
      this.#consumers.delete(id)
      void consumer.close()
    }
    for (const [id, revision] of found) {
      const before = this.#consumers.get(id)
      if (before?.revision === revision && !before.consumer.isClosed) continue
      const about = { [this.#kind.kind]: id }
      const consumer = new StreamConsumer(about, this.#kind.open(id), this.#services, before?.consumer)
      this.#consumers.set(id, { revision, consumer })
    }
  }

  async close(): Promise<void> {
    await Promise.all([...this.#consumers.values()].map(({ consumer }) => consumer.close()))
  }
}

/** Consumes the streams of one consumption from its stored offsets. */
class StreamConsumer {
  readonly #about: object
  readonly #consumption: Consumption<ConsumerState>
  readonly #services: ConsumerServices
  readonly #done: Promise<void>
  readonly #listeners = new Map<StreamKey, () => void>()
  #state: ConsumerState | undefined
  #closed = false
  /** True if an entry came since the streams were last read. */
  #hasNewEntry = false
  #wake: () => void = () => {}
  /** True while a new entry ends the wait. */
  #wakesOnEntry = true
  /** The id of the oldest entry, by stream, that was read and is not handled. */
  readonly #unhandled = new Map<StreamName, string>()

  /**
   * @param about fields of log lines
   * @param before the consumer of the same consumption at an earlier revision; it is closed first
   */
  constructor(
    about: object,
    consumption: Consumption<ConsumerState>,
    services: ConsumerServices,
    before?: StreamConsumer,
  ) {
    this.#about = about
    this.#consumption = consumption
    this.#services = services
    this.#done = this.#run(before)
  }

  get isClosed(): boolean {
    return this.#closed
  }

  /** As of {@link StreamConsumers}. */
  get lagMs(): number {
    return Math.max(0, ...[...this.#unhandled.values()].map((id) => Date.now() - timeOf(id)))
  }

  /** Waits for the handler if it runs. Never rejects. */
  async close(): Promise<void> {
    this.#closed = true
    this.#wake()
    await this.#done
  }

  async #run(before: StreamConsumer | undefined): Promise<void> {
    await before?.close()
    const backoff = new Backoff(TRIGGER_LIMITS.retryMs)
    while (!this.#closed) {
      try {
        const restMs = await this.#consume()
        backoff.reset()
        if (restMs > 0) await this.#wait(restMs)
      } catch (error) {
        const retryMs = backoff.next()
        this.#services.log.warn({ err: error, ...this.#about, retryMs }, 'event consumer failed')
        await this.#wait(retryMs)
      }
    }
    for (const stop of this.#listeners.values()) stop()
  }

  /** @returns the pause in milliseconds, so that other consumers get the thread */
  async #consume(): Promise<number> {
    this.#state ??= await this.#load()
    if (this.#state === undefined) return 0
    const { ref, streams } = this.#state
    this.#hasNewEntry = false
    let busyMs = 0
    let count = 0
    let isFull = false
    for (const stream of streams) await this.#listen(streamKey(ref, stream))
    for (const stream of streams) {
      if (this.#closed || this.#state === undefined) continue
      const offset = this.#state[`${stream}_offset`]
      const following = await this.#services.streams.following(streamKey(ref, stream), offset)
      const [oldest] = following.entries
      if (oldest === undefined) continue
      this.#unhandled.set(stream, oldest.id)
      const handled = await this.#handle(stream, following)
      busyMs += handled.busyMs
      isFull ||= handled.isFull
      count += following.entries.length
    }
    if (isFull) await this.#wait(TRIGGER_LIMITS.fullPauseMs, false)
    if (count === 0 && !this.#hasNewEntry) await this.#wait(TRIGGER_LIMITS.idleMs)
    return busyMs * TRIGGER_LIMITS.pauseFactor
  }

  /** @returns the stored state; undefined if it was deleted, which closes the consumer */
  async #load(): Promise<ConsumerState | undefined> {
    const state = await this.#consumption.load(this.#services.system)
    this.#closed ||= state === undefined
    return state
  }

  /** Handles entries and stores the offset. */
  async #handle(
    stream: StreamName,
    following: Following,
  ): Promise<{ readonly busyMs: number; readonly isFull: boolean }> {
    const offset = `${stream}_offset` as const
    const known = this.#state
    const state = known !== undefined && this.#consumption.isStale?.(known) ? await this.#load() : known
    if (state === undefined) return { busyMs: 0, isFull: false }
    const { entries } = following
    const gap = this.#gapFor(state, state[offset], following)
    const handled = await this.#consumption.handle(state, entries, gap)
    const { count = entries.length, busyMs } = handled
    const isFull = count < entries.length
    if (count === 0) return { busyMs, isFull }
    const after = { ...handled.state, [offset]: entries[count - 1]?.id ?? state[offset] }
    const isStored = await this.#consumption.store(this.#services.system, state, after, gap)
    // Another process has changed the stored state: it is loaded, and the entries are handled again.
    this.#state = isStored ? after : undefined
    const next = entries[count]
    if (isStored && next !== undefined) this.#unhandled.set(stream, next.id)
    else if (isStored) this.#unhandled.delete(stream)
    if (isStored && gap !== undefined)
      this.#services.log.warn({ ...this.#about, stream, ...gap }, 'event consumer missed dropped events')
    return { busyMs, isFull }
  }

  #gapFor(state: ConsumerState, after: string, following: Following): StreamGap | undefined {
    return gapBetween(after, following, (topic) => this.#consumption.concerns?.(state, topic) ?? true)
  }

  /** Wakes the consumer when the stream gets an entry. */
  async #listen(key: StreamKey): Promise<void> {
    if (this.#listeners.has(key)) return
    const { stop } = await this.#services.streams.listen(key, () => {
      this.#hasNewEntry = true
      if (this.#wakesOnEntry) this.#wake()
    })
    this.#listeners.set(key, stop)
  }

  /** Ends early if the consumer is closed, or if an entry comes, unless `wakesOnEntry` is false. */
  #wait(ms: number, wakesOnEntry = true): Promise<void> {
    if (this.#closed) return Promise.resolve()
    this.#wakesOnEntry = wakesOnEntry
    return new Promise((done) => {
      const timer = setTimeout(done, ms)
      this.#wake = () => {
        clearTimeout(timer)
        done()
      }
    })
  }
}

const streamKey = (ref: WorkspaceRef, stream: StreamName): StreamKey =>
  stream === 'events' ? eventsOf(ref.tenantId) : changesOf(ref)
