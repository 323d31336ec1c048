/** Valkey Streams: builds their keys, appends, and fans entries out from one blocking reader per process. */

import { setTimeout as pause } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'
import { isBefore } from '../../core/run.ts'
import type { TenantId, WorkspaceRef } from '../../core/tenant.ts'
import { StreamTrimmer } from './stream-trimmer.ts'

/** A published event. Listeners filter by the fields beside the text, so that it is not parsed. */
export interface Message {
  readonly topic: string
  readonly source: string
  readonly text: string
  /** For a change: the roles that could read documents of the collection then. */
  readonly readers?: { readonly anon: boolean; readonly user: boolean }
  /** The deleted document as JSON, if rules decide who may know of it. Subscribers do not receive it. */
  readonly deleted?: string
}

/** A message with its id in the stream. One object for all listeners of a process. */
export interface Entry extends Message {
  /** `<milliseconds>-<sequence>`, growing. */
  readonly id: string
  /** Serialised as a server-sent event, shared by all subscribers. */
  readonly frame: string
}

export type Listener = (entry: Entry) => void

/** Comes before every entry. */
export const START = '0-0'
const BLOCK_MS = 5_000
const RETRY_MS = 500
const UNBLOCK_MS = 10

/** Key of a stream. One read covers the streams of several tenants, so Valkey must be a single node, not a cluster. */
export type StreamKey = `tenon:{${TenantId}}:${string}`

/** The stream of the events that a tenant's workspaces publish. */
export const eventsOf = (tenantId: TenantId): StreamKey => `tenon:{${tenantId}}:events`

/** The stream of the document changes of one workspace. */
export const changesOf = ({ tenantId, workspaceId }: WorkspaceRef): StreamKey =>
  `tenon:{${tenantId}}:changes:${workspaceId}`

export class Streams {
  readonly #redis: Redis
  readonly #reader: Redis
  readonly #trimmer = new StreamTrimmer(LIMITS.eventsBytesMax)
  readonly #onError: (error: Error) => void
  readonly #subscriptions = new Map<StreamKey, { last: string; listeners: Set<Listener> }>()
  /** Streams that the reader waits for. */
  #awaited: ReadonlySet<StreamKey> = new Set()
  #readerId: number | undefined
  #reading = false
  #closed = false

  constructor(url: string, onError: (error: Error) => void) {
    const options = {
      lazyConnect: true,
      maxRetriesPerRequest: 1,
      connectTimeout: 2_000,
      commandTimeout: 5_000,
    }
    this.#redis = new Redis(url, options)
    // It blocks inside the server, so it has its own connection and time limit.
    this.#reader = new Redis(url, { ...options, commandTimeout: BLOCK_MS * 2 })
    this.#onError = onError
    this.#redis.on('error', onError)
    this.#reader.on('error', onError)
  }

  /** Appends to the stream, and drops its oldest entries if it takes too much memory. @returns the entry's id */
  async publish(key: StreamKey, message: Message): Promise<string> {
    const id = await this.#call(() => this.#redis.xadd(...addition(key, message, LIMITS.eventsKeptPerTenant)))
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
   * Entries after one that was there, oldest first; only the first few.
   * @returns the entries; `isWhole` is false if entries in between were dropped
   */
  async following(key: StreamKey, after: string): Promise<{ entries: Entry[]; isWhole: boolean }> {
    const rows = await this.#call(() =>
      this.#redis.xrange(key, after, '+', 'COUNT', LIMITS.eventsReadAtOnce + 1),
    )
    const isThere = rows[0]?.[0] === after
    const entries = rows.slice(isThere ? 1 : 0).map(toEntry)
    const isWhole = isThere || entries.length === 0 || (after === START && (await this.#hasAll(key)))
    return { entries, isWhole }
  }

  /** True if the stream has never dropped an entry. */
  async #hasAll(key: StreamKey): Promise<boolean> {
    const facts = await this.#call(() => this.#redis.xinfo('STREAM', key))
    const of = (name: string) => (facts as unknown[])[(facts as unknown[]).indexOf(name) + 1]
    return of('entries-added') === of('length')
  }

  async ping(): Promise<void> {
    await this.#redis.ping()
  }

  close(): void {
    this.#closed = true
    this.#redis.disconnect()
    this.#reader.disconnect()
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
    const count = LIMITS.eventsReadAtOnce
    const answer = await this.#reader.xread('COUNT', count, 'BLOCK', BLOCK_MS, 'STREAMS', ...keys, ...lastIds)
    for (const [key, rows] of (answer ?? []) as [StreamKey, [string, string[]][]][]) {
      const subscribed = this.#subscriptions.get(key)
      for (const entry of rows.map(toEntry)) {
        // A listener that subscribed during this read may be further on.
        if (subscribed === undefined || !isBefore(subscribed.last, entry.id)) continue
        subscribed.last = entry.id
        for (const listener of subscribed.listeners) listener(entry)
      }
    }
  }

  async #call<T>(work: () => Promise<T>): Promise<T> {
    return work().catch((cause: unknown) => {
      throw new Problem('dependency_unavailable', { detail: 'The event stream does not answer.', cause })
    })
  }
}

/** Arguments of XADD, with an approximate maximum length. */
export function addition(key: StreamKey, message: Message, lengthMax: number) {
  const { topic, source, text, readers, deleted } = message
  const fields = ['topic', topic, 'source', source, 'event', text]
  if (readers !== undefined) fields.push('readers', READER_NAMES.filter((name) => readers[name]).join(' '))
  if (deleted !== undefined) fields.push('deleted', deleted)
  return [key, 'MAXLEN', '~', lengthMax, '*', ...fields] as const
}

/** The fields are in the order in which {@link addition} writes them. */
function toEntry([id, fields]: [string, string[]]): Entry {
  const [, topic = '', , source = '', , text = '', , readers, , deleted] = fields
  const entry = { id, topic, source, text, frame: `id: ${id}\ndata: ${text}\n\n` }
  if (readers === undefined) return entry
  const names = readers.split(' ')
  return {
    ...entry,
    readers: { anon: names.includes('anon'), user: names.includes('user') },
    ...(deleted !== undefined && { deleted }),
  }
}

const READER_NAMES = ['anon', 'user'] as const

/** The interval in which a stream has dropped entries, RFC 3339. */
export interface StreamGap {
  readonly from: string
  readonly to: string
}

/** The gap between the last entry that was read and the oldest that the stream still has. */
export const gapBetween = (after: string, [first]: readonly Entry[]): StreamGap => ({
  from: timeTextOf(after),
  to: timeTextOf(first?.id ?? after),
})

const timeTextOf = (id: string): string => new Date(timeOf(id)).toISOString()

/** When the entry of this id was added. */
export const timeOf = (id: string): number => Number(id.split('-')[0])
