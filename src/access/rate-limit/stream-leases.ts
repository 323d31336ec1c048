/** Leases of concurrent event streams: counted over all processes in Valkey, each renewed by its process. */

import { randomUUID } from 'node:crypto'
import type { Redis, Result } from 'ioredis'
import { Problem } from '../../core/problem.ts'
import { unavailable } from '../../infra/unavailable.ts'
import { connectToValkey, type ValkeyAddress } from '../../infra/valkey/connect.ts'
import { ACCESS_LIMITS } from '../limits.ts'

export interface StreamLimit {
  /** The sorted set that counts the streams. */
  readonly key: string
  readonly max: number
  /** The quota's name in the problem. */
  readonly quota: string
}

/** Adds a lease to each set, or to none. Returns 0, or which set is full. Members are ordered by the end of their lease. */
const ACQUIRE = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for at, key in ipairs(KEYS) do
  redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
  if redis.call('ZCARD', key) >= tonumber(ARGV[at + 2]) then return at end
end
for _, key in ipairs(KEYS) do
  redis.call('ZADD', key, now + ARGV[2], ARGV[1])
  redis.call('PEXPIRE', key, ARGV[2])
end
return 0`

/** Also restores a lease that has expired meanwhile: its stream is still open. */
const RENEW = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for at = 2, #ARGV do redis.call('ZADD', KEYS[1], now + ARGV[1], ARGV[at]) end
return redis.call('PEXPIRE', KEYS[1], ARGV[1])`

declare module 'ioredis' {
  interface RedisCommander<Context> {
    acquireStream(keys: number, ...keysAndNumbers: (string | number)[]): Result<number, Context>
    renewStreams(key: string, leaseMs: number, ...ids: string[]): Result<number, Context>
  }
}

export class StreamLeases {
  readonly #redis: Redis
  readonly #onError: (error: Error) => void
  /** Ids of this process's leases by key. */
  readonly #held = new Map<string, Set<string>>()
  #timer: NodeJS.Timeout | undefined

  constructor(at: ValkeyAddress | string, onError: (error: Error) => void) {
    this.#redis = connectToValkey(at, {
      lazyConnect: true,
      maxRetriesPerRequest: 1,
      connectTimeout: 2_000,
      commandTimeout: 5_000,
      scripts: { acquireStream: { lua: ACQUIRE }, renewStreams: { lua: RENEW, numberOfKeys: 1 } },
    })
    this.#onError = onError
    this.#redis.on('error', onError)
  }

  /**
   * Acquires a lease under each limit.
   * @returns releases them
   * @throws Problem `quota_exceeded`, `dependency_unavailable`
   */
  async acquire(limits: readonly StreamLimit[]): Promise<() => void> {
    const id = randomUUID()
    const keys = limits.map(({ key }) => key)
    const maxima = limits.map(({ max }) => max)
    const full = await this.#redis
      .acquireStream(keys.length, ...keys, id, ACCESS_LIMITS.streamLeaseMs, ...maxima)
      .catch((cause: unknown) => {
        throw unavailable('valkey', cause)
      })
    const exceeded = limits[full - 1]
    if (exceeded !== undefined) throw tooMany(exceeded)
    for (const key of keys) this.#held.set(key, (this.#held.get(key) ?? new Set()).add(id))
    this.#timer ??= setInterval(() => this.#renew(), ACCESS_LIMITS.streamRenewMs).unref()
    return () => this.#release(keys, id)
  }

  /** The open streams of a key; null if Valkey is unavailable. */
  async count(key: string): Promise<number | null> {
    const [seconds] = await this.#redis.time().catch(() => [])
    return seconds === undefined
      ? null
      : this.#redis.zcount(key, `(${Number(seconds) * 1_000}`, '+inf').catch(() => null)
  }

  close(): void {
    clearInterval(this.#timer)
    this.#redis.disconnect()
  }

  #release(keys: readonly string[], id: string): void {
    for (const key of keys) {
      const ids = this.#held.get(key)
      if (!ids?.delete(id)) continue
      if (ids.size === 0) this.#held.delete(key)
      // If this fails, the lease expires.
      this.#redis.zrem(key, id).catch(this.#onError)
    }
  }

  #renew(): void {
    for (const [key, ids] of this.#held)
      this.#redis.renewStreams(key, ACCESS_LIMITS.streamLeaseMs, ...ids).catch(this.#onError)
  }
}

function tooMany({ quota, max }: StreamLimit): Problem {
  const detail = `${max} streams are open, which is the maximum. Close one; one stream can have several topics with \`.*\`.`
  return new Problem('quota_exceeded', { detail, members: { quota, limit: max, used: max } })
}
