/** Valkey Streams: one stream per tenant, one reader per process, and the fan-out to whoever subscribed. */

import { Redis } from 'ioredis'
import { LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'
import type { TenantId } from '../../core/tenant.ts'

/** What is published: what listeners choose by stands beside the text, so that nobody has to parse it. */
export interface Message {
  readonly topic: string
  readonly source: string
  readonly text: string
}

/** A message in its place in the order. One object for all listeners of a process. */
export interface Entry extends Message {
  /** `<milliseconds>-<sequence>`, growing. */
  readonly id: string
  /** As a server-sent event: written once, however many hear it. */
  readonly frame: string
}

export type Listener = (entry: Entry) => void

/** Comes before every entry. */
export const START = '0-0'
const BLOCK_MS = 5_000
const RETRY_MS = 500

export class Streams {
  readonly #redis: Redis
  readonly #reader: Redis
  readonly #onError: (error: Error) => void
  readonly #tenants = new Map<TenantId, { last: string; listeners: Set<Listener> }>()
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
    // It waits inside the server, so it has a connection and a time limit of its own.
    this.#reader = new Redis(url, { ...options, commandTimeout: BLOCK_MS * 2 })
    this.#onError = onError
    this.#redis.on('error', onError)
    this.#reader.on('error', onError)
  }

  /** Appends to the tenant's stream. @returns the entry's id */
  async publish(tenantId: TenantId, { topic, source, text }: Message): Promise<string> {
    const id = await this.#ask(() =>
      this.#redis.xadd(
        keyOf(tenantId),
        'MAXLEN',
        '~',
        LIMITS.eventsKeptPerTenant,
        '*',
        ...['topic', topic, 'source', source, 'event', text],
      ),
    )
    return id ?? START
  }

  /**
   * Calls the listener for each entry from now on.
   * @returns the id after which it listens, and how to stop
   */
  async listen(tenantId: TenantId, listener: Listener): Promise<{ after: string; stop: () => void }> {
    const after = await this.#lastId(tenantId)
    const known = this.#tenants.get(tenantId) ?? { last: after, listeners: new Set() }
    known.listeners.add(listener)
    this.#tenants.set(tenantId, known)
    this.#wake()
    const stop = () => {
      known.listeners.delete(listener)
      if (known.listeners.size === 0 && this.#tenants.get(tenantId) === known) this.#tenants.delete(tenantId)
    }
    return { after, stop }
  }

  /** Entries after one id up to another, oldest first; only the first few, since each may be large. */
  async between(tenantId: TenantId, after: string, upTo: string): Promise<Entry[]> {
    const rows = await this.#ask(() =>
      this.#redis.xrange(keyOf(tenantId), `(${after}`, upTo, 'COUNT', LIMITS.eventsReadAtOnce),
    )
    return rows.map(toEntry)
  }

  /** Whether everything after the id is still there; false where some of it was dropped. */
  async isComplete(tenantId: TenantId, after: string): Promise<boolean> {
    const [oldest] = await this.#ask(() => this.#redis.xrange(keyOf(tenantId), '-', '+', 'COUNT', 1))
    return oldest === undefined || !isBefore(after, oldest[0]) || after === START
  }

  async ping(): Promise<void> {
    await this.#redis.ping()
  }

  close(): void {
    this.#closed = true
    this.#redis.disconnect()
    this.#reader.disconnect()
  }

  async #lastId(tenantId: TenantId): Promise<string> {
    const [last] = await this.#ask(() => this.#redis.xrevrange(keyOf(tenantId), '+', '-', 'COUNT', 1))
    return last?.[0] ?? START
  }

  /** Starts the reader, or makes one that waits for other tenants look again. */
  #wake(): void {
    if (this.#reading) {
      this.#unblock().catch(this.#onError)
      return
    }
    this.#reading = true
    void this.#read()
  }

  async #unblock(): Promise<void> {
    if (this.#readerId !== undefined) await this.#redis.client('UNBLOCK', this.#readerId)
  }

  #readerId: number | undefined

  /** Waits for all subscribed tenants at once, for as long as there are any. Never rejects. */
  async #read(): Promise<void> {
    while (this.#tenants.size > 0 && !this.#closed) {
      try {
        this.#readerId ??= await this.#reader.client('ID')
        await this.#readOnce()
      } catch (error) {
        this.#readerId = undefined
        if (!this.#closed) this.#onError(error as Error)
        await new Promise((done) => setTimeout(done, RETRY_MS))
      }
    }
    this.#reading = false
  }

  async #readOnce(): Promise<void> {
    const waiting = [...this.#tenants]
    const keys = waiting.map(([tenantId]) => keyOf(tenantId))
    const places = waiting.map(([, { last }]) => last)
    const count = LIMITS.eventsReadAtOnce
    const answer = await this.#reader.xread('COUNT', count, 'BLOCK', BLOCK_MS, 'STREAMS', ...keys, ...places)
    for (const [key, rows] of (answer ?? []) as [string, [string, string[]][]][]) {
      const subscribed = this.#tenants.get(tenantOf(key))
      for (const entry of rows.map(toEntry)) {
        if (subscribed === undefined) continue
        subscribed.last = entry.id
        for (const listener of subscribed.listeners) listener(entry)
      }
    }
  }

  async #ask<T>(work: () => Promise<T>): Promise<T> {
    return work().catch((cause: unknown) => {
      throw new Problem('dependency_unavailable', { detail: 'The event stream does not answer.', cause })
    })
  }
}

/** The only builder of keys. The braces keep a tenant's keys on one node of a cluster. */
const keyOf = (tenantId: TenantId) => `tenon:{${tenantId}}:events`
const tenantOf = (key: string) => key.slice('tenon:{'.length, key.indexOf('}')) as TenantId

/** Fields come in the order in which {@link Streams.publish} writes them. */
function toEntry([id, fields]: [string, string[]]): Entry {
  const [, topic = '', , source = '', , text = ''] = fields
  return { id, topic, source, text, frame: `id: ${id}\ndata: ${text}\n\n` }
}

/** Compares ids as numbers: `9-0` comes before `10-0`. */
export function isBefore(a: string, b: string): boolean {
  const [[aMs = 0, aSeq = 0] = [], [bMs = 0, bSeq = 0] = []] = [a, b].map((id) => id.split('-').map(Number))
  return aMs < bMs || (aMs === bMs && aSeq < bSeq)
}
