/** Valkey Streams: builds their keys, appends, and fans entries out from one blocking reader per process. */

import { setTimeout as pause, setImmediate } from 'node:timers/promises'
import type { Redis } from 'ioredis'
import { isBefore } from '../../core/execution.ts'
import type { TenantId, TenantRef, WorkspaceRef } from '../../core/tenant.ts'
import { INFRA_LIMITS } from '../limits.ts'
import { unavailable } from '../unavailable.ts'
import { ConfirmedAppends, PROBE } from './confirmed-appends.ts'
import { mayFailOver, type ValkeyAddress } from './connect.ts'
import {
  appendEntries,
  connectToStreams,
  type DroppedTopics,
  droppedAfter,
  logOf,
  type Message,
  mayHaveDropped,
  type Renaming,
  readReaders,
  renameInStream,
  type StreamFacts,
  type StreamKey,
} from './stream-log.ts'
import { StreamTrimmer } from './stream-trimmer.ts'

/** A message with its id in the stream. One object for all listeners of a process. */
export interface Entry extends Message {
  /** `<milliseconds>-<sequence>`, growing. */
  readonly id: string
  /** Serialised as a server-sent event, shared by all subscribers. */
  readonly frame: string
}

export type { Message, Renaming, StreamKey } from './stream-log.ts'

export type Listener = (entry: Entry) => void

/** Comes before every entry. */
export const START = '0-0'
/** The position in a stream that was empty. It comes before every entry too, but is not {@link START}, which asks for all that is kept. */
const EMPTY = '0-1'
/** Follows every entry of its millisecond. */
const LAST_OF_MS = 9_999_999_999
const BLOCK_MS = 5_000
const RETRY_MS = 500
const UNBLOCK_MS = 10

/** The stream of the events that a tenant's workspaces publish. */
export const eventsOf = (tenantId: TenantId): StreamKey => `tenon:{${tenantId}}:events`

/** The stream of the document changes of one workspace. */
export const changesOf = ({ tenantId, workspaceId }: WorkspaceRef): StreamKey =>
  `tenon:{${tenantId}}:changes:${workspaceId}`

export class Streams {
  readonly #redis: Redis
  readonly #reader: Redis
  /** With Sentinels. */
  readonly #confirmed: ConfirmedAppends | undefined
  readonly #trimmer = new StreamTrimmer(INFRA_LIMITS.eventsKeptBytesMax)
  readonly #onError: (error: Error) => void
  /** Why the connection is lost; a command that it fails says only that it was repeated in vain. */
  #lost: Error | undefined
  readonly #subscriptions = new Map<StreamKey, { last: string; listeners: Set<Listener> }>()
  /** Streams that the reader waits for. */
  #awaited: ReadonlySet<StreamKey> = new Set()
  #readerId: number | undefined
  #reading = false
  #closed = false

  constructor(at: ValkeyAddress | string, onError: (error: Error) => void) {
    const options = {
      maxRetriesPerRequest: 1,
      connectTimeout: 2_000,
      commandTimeout: 5_000,
    }
    this.#redis = connectToStreams(at, options)
    // It blocks inside the server, so it has its own connection and time limit.
    this.#reader = connectToStreams(at, { ...options, commandTimeout: BLOCK_MS * 2 })
    this.#onError = onError
    this.#redis.on('error', (error) => {
      this.#lost = error
      onError(error)
    })
    this.#redis.on('ready', () => {
      this.#lost = undefined
    })
    this.#reader.on('error', onError)
    if (!mayFailOver(this.#redis)) return
    const own = connectToStreams(at, options)
    own.on('error', onError)
    this.#confirmed = new ConfirmedAppends(own)
  }

  /** The keys of a tenant, or those that name one of its workspaces, but for rates, which expire within a minute. @throws Problem `dependency_unavailable` */
  ownedKeys({ tenantId, workspaceId }: TenantRef) {
    const pattern = workspaceId === '-' ? `tenon:{${tenantId}}:*` : `tenon:{${tenantId}}:*:${workspaceId}*`
    const find = async () => {
      const found = new Set<string>()
      for await (const keys of this.#redis.scanStream({ match: pattern, count: 1_000 }))
        for (const key of keys as string[]) if (!key.includes(':rate:')) found.add(key)
      return [...found]
    }
    return {
      count: async (): Promise<number> => (await this.#call(find)).length,
      removeAll: async (): Promise<void> => {
        const keys = await this.#call(find)
        if (keys.length > 0) await this.#call(() => this.#redis.unlink(...keys))
      },
    }
  }

  /**
   * Replaces a person in all entries of a stream, which keep their ids, so that readers notice nothing.
   * @throws Problem `dependency_unavailable`; then nothing is replaced
   */
  async rename(key: StreamKey, person: Renaming): Promise<void> {
    await this.#call(() => renameInStream(this.#redis, key, person))
  }

  /** Appends to the stream, and drops its oldest entries if it takes too much memory. @returns the entry's id */
  async publish(key: StreamKey, message: Message): Promise<string> {
    const addition = { key, messages: [message], lengthMax: INFRA_LIMITS.eventsKeptPerTenantMax }
    const id = await this.#call(
      () => this.#confirmed?.append(addition) ?? appendEntries(this.#redis, addition),
    )
    // The entry is stored, so its publisher must not publish it again.
    await this.#trimmer.added(this.#redis, key, [message.text]).catch(this.#onError)
    return id ?? START
  }

  /**
   * Calls the listener for each entry from now on.
   * @returns the id after which the listener gets every entry, and how to stop
   */
  async listen(key: StreamKey, listener: Listener): Promise<{ after: string; stop: () => void }> {
    const last = await this.lastId(key)
    // A listener that joins others gets their next entry, which may be later than `last`.
    const known = this.#subscriptions.get(key) ?? { last, listeners: new Set() }
    known.listeners.add(listener)
    this.#subscriptions.set(key, known)
    this.#wake(key)
    const stop = () => {
      known.listeners.delete(listener)
      if (known.listeners.size === 0 && this.#subscriptions.get(key) === known)
        this.#subscriptions.delete(key)
    }
    return { after: known.last, stop }
  }

  /**
   * Entries after a position, oldest first; only the first few. After a position ahead of the stream, which it cannot have
   * given: from the oldest on.
   * @returns the entries; `dropped` names the topics of which entries in between were dropped, if any
   */
  async following(key: StreamKey, after: string): Promise<Following> {
    const read = (from: string) => [key, from, '+', 'COUNT', INFRA_LIMITS.eventsReadAtOnceMax + 1] as const
    const rows = await this.#call(() => this.#redis.xrange(...read(after)))
    if (rows[0]?.[0] === after) return { entries: rows.slice(1).map(toEntry) }
    if (rows.length === 0 && isFirst(after)) return { entries: [] }
    // Read again, so that the entries and the log of the dropped ones are of the same time.
    const replies = await this.#call(() =>
      this.#redis
        .multi()
        .xrange(...read(after))
        .hgetall(logOf(key))
        .xinfo('STREAM', key)
        .time()
        .exec(),
    )
    const [found, log, info, time] = (replies ?? []).map(([, reply]) => reply)
    const entries = ((found ?? []) as [string, string[]][]).map(toEntry)
    const isAhead = entries.length === 0 && timeOf(after) > msOf(time as readonly (string | number)[])
    if (isAhead) return { ...(await this.following(key, START)), dropped: 'any' }
    const dropped = droppedAfter(after, isFirst(after), factsOf(log, info))
    return { entries, ...(dropped !== undefined && { dropped }) }
  }

  /**
   * The present position of a stream: the id of its newest entry, and positions that name no entry, since a subscriber may not know when
   * others publish. Entries from now on follow `now`; those that are kept follow `earliest`.
   */
  async locate(key: StreamKey): Promise<StreamLocation> {
    const [nowMs, first, last] = await this.#call(() => this.#redis.locateStream(key, logOf(key)))
    const before = (ms: number) => `${ms - 1}-${LAST_OF_MS}`
    // If the clock of the server was set back, entries continue at the newest id.
    const isLate = last !== null && timeOf(last) >= nowMs
    const now = last === null ? EMPTY : isLate ? last : before(nowMs)
    return { nowMs, last: last ?? START, now, earliest: first === null ? now : before(timeOf(first)) }
  }

  /** Writes, since a server whose memory is full still answers a ping. @throws the error of the server or of the connection */
  async ping(): Promise<void> {
    await this.#orWhyLost(this.#redis.set(...PROBE))
  }

  /** Commands that the server has not answered yet, with the one that waits for entries. */
  get pending(): number {
    const appends = this.#confirmed?.pending ?? 0
    return this.#redis.commandQueue.length + this.#reader.commandQueue.length + appends
  }

  /** The number of listeners of all streams. */
  get listeners(): number {
    return [...this.#subscriptions.values()].reduce((sum, { listeners }) => sum + listeners.size, 0)
  }

  /** Read from INFO, since managed servers refuse CONFIG. @throws the error of the server or of the connection */
  memory(): Promise<ValkeyMemory> {
    return this.#orWhyLost(readMemory(this.#redis))
  }

  /** @throws why the connection is lost, rather than that the command was repeated in vain */
  async #orWhyLost<T>(answer: Promise<T>): Promise<T> {
    return answer.catch((error: Error) => {
      throw this.#lost ?? error
    })
  }

  close(): void {
    this.#closed = true
    this.#redis.disconnect()
    this.#reader.disconnect()
    this.#confirmed?.close()
  }

  /** The id of the newest entry. */
  async lastId(key: StreamKey): Promise<string> {
    const [last] = await this.#call(() => this.#redis.xrevrange(key, '+', '-', 'COUNT', 1))
    return last?.[0] ?? START
  }

  /** Starts the reader, or unblocks it so that it reads the new stream as well. */
  #wake(key: StreamKey): void {
    if (this.#reading) {
      this.#unblock(key).catch(this.#onError)
      return
    }
    this.#reading = true
    void this.#read()
  }

  /** Repeated, since a read that has not reached the server yet cannot be unblocked there. */
  async #unblock(key: StreamKey): Promise<void> {
    while (this.#subscriptions.has(key) && !this.#awaited.has(key) && !this.#closed) {
      if (this.#readerId !== undefined) await this.#redis.client('UNBLOCK', this.#readerId)
      await pause(UNBLOCK_MS)
    }
  }

  /**
   * Reads all subscribed streams at once, as long as there are any. While Valkey is away, subscriptions stay, and the next read
   * continues after the last entry of each stream. Never rejects.
   */
  async #read(): Promise<void> {
    while (this.#subscriptions.size > 0 && !this.#closed) {
      try {
        this.#readerId ??= await this.#reader.client('ID')
        await this.#readOnce()
      } catch (error) {
        this.#readerId = undefined
        if (!this.#closed) this.#onError(error as Error)
        await pause(RETRY_MS)
      }
    }
    this.#reading = false
  }

  async #readOnce(): Promise<void> {
    const waiting = [...this.#subscriptions]
    const keys = waiting.map(([key]) => key)
    this.#awaited = new Set(keys)
    const lastIds = waiting.map(([, { last }]) => last)
    const count = INFRA_LIMITS.eventsReadAtOnceMax
    const answer = await this.#reader.xread('COUNT', count, 'BLOCK', BLOCK_MS, 'STREAMS', ...keys, ...lastIds)
    const read = (answer ?? []) as [StreamKey, [string, string[]][]][]
    await deliver(read.map(([key, rows]) => this.#deliveries(key, rows)))
  }

  /** The calls that pass entries on, one for each listener of the stream. Who subscribes from now on gets later entries. */
  #deliveries(key: StreamKey, rows: readonly [string, string[]][]): readonly (() => void)[] {
    const subscribed = this.#subscriptions.get(key)
    if (subscribed === undefined) return []
    const { listeners, last } = subscribed
    // A listener that subscribed during this read may be further on.
    const entries = rows.map(toEntry).filter(({ id }) => isBefore(last, id))
    subscribed.last = entries.at(-1)?.id ?? last
    return [...listeners].map((listener) => () => {
      // It may have stopped meanwhile, and may do so at any of its entries.
      for (const entry of entries) if (listeners.has(listener)) listener(entry)
    })
  }

  async #call<T>(work: () => Promise<T>): Promise<T> {
    return work().catch((cause: unknown) => {
      throw unavailable('valkey', cause)
    })
  }
}

/**
 * Calls listeners of all streams in turns, a few in each turn of the event loop: a stream with many listeners delays neither other
 * streams nor requests.
 * @param streams the calls of each stream
 */
async function deliver(streams: readonly (readonly (() => void)[])[]): Promise<void> {
  const most = Math.max(0, ...streams.map(({ length }) => length))
  let called = 0
  for (let at = 0; at < most; at += 1)
    for (const calls of streams) {
      const call = calls[at]
      if (call === undefined) continue
      if (called === INFRA_LIMITS.listenersPerTurnMax) {
        await setImmediate()
        called = 0
      }
      call()
      called += 1
    }
}

/** How much memory the server uses, its limit, and what it does there. */
export interface ValkeyMemory {
  readonly usedBytes: number
  /** 0: without limit. */
  readonly maxBytes: number
  /** Keys dropped for lack of memory since the server was started. */
  readonly evictedKeys: number
  /** `noeviction`, or one that deletes keys when the limit is reached. */
  readonly policy: string
}

async function readMemory(redis: Redis): Promise<ValkeyMemory> {
  const info = (await Promise.all([redis.info('memory'), redis.info('stats')])).join('\n')
  const field = (name: string) => new RegExp(`^${name}:(\\S+)`, 'm').exec(info)?.[1]
  return {
    usedBytes: Number(field('used_memory') ?? 0),
    maxBytes: Number(field('maxmemory') ?? 0),
    evictedKeys: Number(field('evicted_keys') ?? 0),
    policy: field('maxmemory_policy') ?? 'noeviction',
  }
}

/** Entries of a stream after a position. */
export interface Following {
  readonly entries: readonly Entry[]
  readonly dropped?: DroppedTopics
}

export interface StreamLocation {
  readonly nowMs: number
  readonly last: string
  readonly now: string
  readonly earliest: string
}

const isFirst = (position: string) => position === START || position === EMPTY

const msOf = ([seconds = 0, us = 0]: readonly (string | number)[]): number =>
  Number(seconds) * 1_000 + Math.floor(Number(us) / 1_000)

/** @param info reply of XINFO STREAM; an error if there is no such stream */
function factsOf(log: unknown, info: unknown): StreamFacts {
  const facts = Array.isArray(info) ? info : []
  const of = (name: string): unknown => facts[facts.indexOf(name) + 1]
  const [first] = (of('first-entry') ?? []) as string[]
  return {
    log: (log ?? {}) as Record<string, string>,
    added: Number(of('entries-added') ?? 0),
    length: Number(of('length') ?? 0),
    first,
  }
}

/** The fields are in the order in which `appendEntries` writes them. */
function toEntry([id, fields]: [string, string[]]): Entry {
  const [, topic = '', , source = '', , text = '', , causedBy = '', , readers, , deleted] = fields
  const frame = `id: ${id}\ndata: ${text}\n\n`
  const entry = { id, topic, source, text, frame, ...(causedBy !== '' && { causedBy }) }
  if (readers === undefined) return entry
  return { ...entry, ...readReaders(readers), ...(deleted !== undefined && { deleted }) }
}

/** The interval in which a stream has dropped entries, RFC 3339, and their topics. */
export interface StreamGap {
  readonly from: string
  readonly to: string
  readonly dropped: DroppedTopics
}

/**
 * The gap between the last entry that was read and the oldest that the stream still has.
 * @returns undefined if nothing was dropped of a topic that concerns the reader
 */
export const gapBetween = (
  after: string,
  { entries, dropped }: Following,
  concerns: (topic: string) => boolean,
): StreamGap | undefined =>
  dropped !== undefined && mayHaveDropped(dropped, concerns)
    ? { from: timeTextOf(after), to: timeTextOf(entries[0]?.id ?? after), dropped }
    : undefined

const timeTextOf = (id: string): string => new Date(timeOf(id)).toISOString()

/** When the entry of this id was added. */
export const timeOf = (id: string): number => Number(id.split('-')[0])
