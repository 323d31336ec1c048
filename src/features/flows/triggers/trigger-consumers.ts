/** Delivers events and document changes to the event triggers of all tenants: in order, at least once, by one process at a time. */

import { LIMITS } from '../../../core/limits.ts'
import type { TenantId, WorkspaceId, WorkspaceRef } from '../../../core/tenant.ts'
import type { Log } from '../../../infra/log.ts'
import type { Database } from '../../../infra/postgres/database.ts'
import { type Leadership, LeaderTask } from '../../../infra/postgres/leader-task.ts'
import { sql } from '../../../infra/postgres/sql.ts'
import type { SystemScope } from '../../../infra/postgres/system-scope.ts'
import { Backoff } from '../../../infra/retry.ts'
import {
  changesOf,
  type Entry,
  eventsOf,
  type StreamKey,
  type Streams,
  timeOf,
} from '../../../infra/valkey/streams.ts'

const TASK = {
  reason: 'triggers',
  lock: 7_302_530,
  failureMessage: 'events wait for their triggers',
} as const

/** Handles entries of one stream. If it throws, it gets them again after a pause. */
export type EntryHandler = (trigger: TriggerState, entries: readonly Entry[]) => Promise<HandlerResult>

interface HandlerResult {
  /** The new state of the correlation, stored with the offset. */
  readonly gathered: unknown
  /** How long the handler kept the thread busy. */
  readonly busyMs: number
}

/** An event trigger with its offsets in both streams. */
export interface TriggerState {
  readonly ref: WorkspaceRef
  readonly triggerId: string
  /** The version of the flow that declares its filters. */
  readonly version: number
  readonly paused: boolean
  /** The spec of its kind. */
  readonly spec: unknown
  /** The state of partial correlations, as the handler returned it. */
  readonly gathered: unknown
  readonly events_offset: string
  readonly changes_offset: string
}

/** The interval in which a stream has dropped events, RFC 3339. */
interface StreamGap {
  readonly from: string
  readonly to: string
}

/** Runs one consumer for each event trigger. */
export class TriggerConsumers {
  readonly #task: LeaderTask
  readonly #streams: Streams
  readonly #log: Log

  constructor(database: Database, streams: Streams, log: Log) {
    this.#task = new LeaderTask(database, TASK, log)
    this.#streams = streams
    this.#log = log
  }

  /** Runs until it is closed. */
  start(handle: EntryHandler): void {
    this.#task.start((leadership) => this.#run(leadership, handle))
  }

  /** Waits for handlers under way. */
  close(): Promise<void> {
    return this.#task.close()
  }

  /** Each trigger has a consumer of its own, so that none waits for another. */
  async #run(leadership: Leadership, handle: EntryHandler): Promise<void> {
    const { system } = leadership
    const services = { system, streams: this.#streams, handle, log: this.#log }
    const consumers = new Map<string, { readonly revision: string; readonly consumer: TriggerConsumer }>()
    try {
      while (!leadership.isOver) {
        const found = new Map((await listRevisions(system)).map(({ id, revision }) => [id, revision]))
        for (const [id, { consumer }] of consumers) {
          if (found.has(id)) continue
          consumers.delete(id)
          void consumer.close()
        }
        for (const [id, revision] of found) {
          const before = consumers.get(id)
          if (before?.revision === revision) continue
          consumers.set(id, { revision, consumer: new TriggerConsumer(id, services, before?.consumer) })
        }
        leadership.resetBackoff()
        await leadership.wait(LIMITS.watchRefreshMs)
      }
    } finally {
      await Promise.all([...consumers.values()].map(({ consumer }) => consumer.close()))
    }
  }
}

interface ConsumerServices {
  readonly system: SystemScope
  readonly streams: Streams
  readonly handle: EntryHandler
  readonly log: Log
}

const OFFSETS = ['events_offset', 'changes_offset'] as const
type Offset = (typeof OFFSETS)[number]

/** Consumes the streams of one trigger from its stored offsets. */
class TriggerConsumer {
  readonly #id: string
  readonly #services: ConsumerServices
  readonly #done: Promise<void>
  readonly #listeners = new Map<StreamKey, () => void>()
  #state: TriggerState | undefined
  #closed = false
  /** True if an entry came since the streams were last read. */
  #hasNewEntry = false
  #wake: () => void = () => {}

  /** @param before the consumer of the same trigger at an earlier revision; it is closed first */
  constructor(id: string, services: ConsumerServices, before?: TriggerConsumer) {
    this.#id = id
    this.#services = services
    this.#done = this.#run(before)
  }

  /** Waits for the handler if it runs. Never rejects. */
  async close(): Promise<void> {
    this.#closed = true
    this.#wake()
    await this.#done
  }

  async #run(before: TriggerConsumer | undefined): Promise<void> {
    await before?.close()
    const backoff = new Backoff(LIMITS.watchRetryMs)
    while (!this.#closed) {
      try {
        const restMs = await this.#consume()
        backoff.reset()
        if (restMs > 0) await this.#wait(restMs)
      } catch (error) {
        const retryMs = backoff.next()
        this.#services.log.warn({ err: error, trigger: this.#id, retryMs }, 'event trigger consumer failed')
        await this.#wait(retryMs)
      }
    }
    for (const stop of this.#listeners.values()) stop()
  }

  /** @returns the pause in milliseconds, so that other triggers get the thread */
  async #consume(): Promise<number> {
    this.#state ??= await this.#load()
    const state = this.#state
    if (state === undefined) return 0
    this.#hasNewEntry = false
    let busyMs = 0
    let count = 0
    const streams = OFFSETS.flatMap((offset) => {
      const key = keyOf(state, offset)
      return key === undefined ? [] : [{ offset, key }]
    })
    for (const { key } of streams) await this.#listen(key)
    for (const { offset, key } of streams) {
      if (this.#closed) continue
      const { entries, isWhole } = await this.#services.streams.following(key, state[offset])
      if (entries.length > 0) busyMs += await this.#handle(offset, entries, isWhole)
      count += entries.length
    }
    if (count === 0 && !this.#hasNewEntry) await this.#wait(LIMITS.watchIdleMs)
    return busyMs * LIMITS.consumerIdleFactor
  }

  /** @returns the stored state; undefined if the trigger was deleted, which closes the consumer */
  async #load(): Promise<TriggerState | undefined> {
    const state = await findTrigger(this.#services.system, this.#id)
    this.#closed ||= state === undefined
    return state
  }

  /**
   * Hands entries to the handler and stores the offset.
   * @param isWhole false if entries before these were dropped unread
   */
  async #handle(offset: Offset, entries: readonly Entry[], isWhole: boolean): Promise<number> {
    // A resumed trigger gets events from then on, so its state is read after the entries.
    const state = this.#state?.paused === true ? await this.#load() : this.#state
    if (state === undefined) return 0
    const { gathered, busyMs } = await this.#services.handle(state, entries)
    const progress = { ...state, gathered, [offset]: entries.at(-1)?.id ?? state[offset] }
    const gap = isWhole ? undefined : gapBetween(state[offset], entries)
    const stored = await storeProgress(this.#services.system, state, progress, gap)
    // The trigger has a newer version by now, which gets these entries again.
    if (stored === undefined) this.#closed = true
    else this.#state = progress
    // A paused trigger skips events, so it has missed none.
    if (stored?.paused === false && gap !== undefined)
      this.#services.log.warn(
        { trigger: this.#id, stream: offset, ...gap },
        'event trigger missed dropped events',
      )
    return busyMs
  }

  /** Wakes the consumer when the stream gets an entry. */
  async #listen(key: StreamKey): Promise<void> {
    if (this.#listeners.has(key)) return
    const { stop } = await this.#services.streams.listen(key, () => {
      this.#hasNewEntry = true
      this.#wake()
    })
    this.#listeners.set(key, stop)
  }

  /** Ends early if the consumer is closed or woken. */
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

/** The stream of an offset; undefined if the trigger does not consume it. */
function keyOf({ ref, spec }: TriggerState, offset: Offset): StreamKey | undefined {
  const { streams } = spec as { streams: readonly string[] }
  if (offset === 'events_offset') return streams.includes('events') ? eventsOf(ref.tenantId) : undefined
  return streams.includes('changes') ? changesOf(ref) : undefined
}

/** The gap between the last handled entry and the oldest that the stream still has. */
const gapBetween = (after: string, [first]: readonly Entry[]): StreamGap => ({
  from: timeTextOf(after),
  to: timeTextOf(first?.id ?? after),
})

const timeTextOf = (id: string): string => new Date(timeOf(id)).toISOString()

/** All event triggers. A trigger with a changed `revision` must be loaded again. */
function listRevisions(system: SystemScope): Promise<{ id: string; revision: string }[]> {
  return system.rows(
    sql`select id, version || ' ' || paused as revision from flow_triggers where kind = 'event' order by id`,
  )
}

async function findTrigger(system: SystemScope, id: string): Promise<TriggerState | undefined> {
  const row = await system.row<
    Omit<TriggerState, 'ref' | 'triggerId'> & { tenant_id: TenantId; workspace_id: WorkspaceId }
  >(sql`
    select t.tenant_id, t.workspace_id, t.version, t.paused, t.spec, w.events_offset, w.changes_offset, w.correlation_state as gathered
    from flow_triggers t join trigger_offsets w
      on w.tenant_id = t.tenant_id and w.workspace_id = t.workspace_id and w.trigger_id = t.id
    where t.id = ${id} and t.kind = 'event'`)
  if (row === undefined) return undefined
  const { tenant_id: tenantId, workspace_id: workspaceId, ...rest } = row
  return { ...rest, ref: { tenantId, workspaceId }, triggerId: id }
}

/**
 * Stores offsets and correlation state.
 * @param gap events that were dropped unread; recorded unless the trigger is paused, at the earliest from its creation
 * @returns undefined if nothing was stored, since the trigger is deleted or has a newer version. That version may have moved
 *   the offsets while this statement waited for its lock, so they are compared too
 */
function storeProgress(
  system: SystemScope,
  { ref, triggerId, version, ...before }: TriggerState,
  { events_offset, changes_offset, gathered }: TriggerState,
  gap: StreamGap | undefined,
): Promise<Pick<TriggerState, 'paused'> | undefined> {
  const missed =
    gap &&
    sql`, gap_from = case when t.paused then w.gap_from
      else greatest(${gap.from}::timestamptz, t.created_at) end,
    gap_to = case when t.paused then w.gap_to else ${gap.to}::timestamptz end`
  return system.row(sql`
    update trigger_offsets w set events_offset = ${events_offset}, changes_offset = ${changes_offset},
      correlation_state = ${JSON.stringify(gathered)}::jsonb ${missed ?? sql``}
    from flow_triggers t
    where w.tenant_id = ${ref.tenantId} and w.workspace_id = ${ref.workspaceId} and w.trigger_id = ${triggerId}
      and t.tenant_id = w.tenant_id and t.workspace_id = w.workspace_id and t.id = w.trigger_id
      and t.version = ${version}
      and w.events_offset = ${before.events_offset} and w.changes_offset = ${before.changes_offset}
    returning t.paused`)
}
