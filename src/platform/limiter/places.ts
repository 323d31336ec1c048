/** Places of streams that go on: counted over all processes in Valkey, each on a lease that its process renews. */

import { randomUUID } from 'node:crypto'
import { Redis, type Result } from 'ioredis'
import { LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'

/** Where places are counted, how many there are, and what that is called when they are all taken. */
export interface Places {
  readonly key: string
  readonly max: number
  readonly quota: string
}

/** Takes one in each, or none: 0, or which of them is full. Members of a set are ordered by the end of their lease. */
const TAKE = `
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

/** Also where the lease has run out meanwhile: the stream is still there. */
const RENEW = `
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for at = 2, #ARGV do redis.call('ZADD', KEYS[1], now + ARGV[1], ARGV[at]) end
return redis.call('PEXPIRE', KEYS[1], ARGV[1])`

declare module 'ioredis' {
  interface RedisCommander<Context> {
    takePlace(keys: number, ...keysAndNumbers: (string | number)[]): Result<number, Context>
    renewPlaces(key: string, leaseMs: number, ...ids: string[]): Result<number, Context>
  }
}

export class PlaceKeeper {
  readonly #redis: Redis
  readonly #onError: (error: Error) => void
  /** Of this process: ids by key. */
  readonly #held = new Map<string, Set<string>>()
  #timer: NodeJS.Timeout | undefined

  constructor(url: string, onError: (error: Error) => void) {
    this.#redis = new Redis(url, {
      lazyConnect: true,
      maxRetriesPerRequest: 1,
      connectTimeout: 2_000,
      commandTimeout: 5_000,
      scripts: { takePlace: { lua: TAKE }, renewPlaces: { lua: RENEW, numberOfKeys: 1 } },
    })
    this.#onError = onError
    this.#redis.on('error', onError)
  }

  /**
   * Takes a place in each of these.
   * @returns how to give them back
   * @throws Problem `quota_exceeded`, `dependency_unavailable`
   */
  async take(wanted: readonly Places[]): Promise<() => void> {
    const id = randomUUID()
    const keys = wanted.map(({ key }) => key)
    const maxima = wanted.map(({ max }) => max)
    const full = await this.#redis
      .takePlace(keys.length, ...keys, id, LIMITS.placeLeaseMs, ...maxima)
      .catch((cause: unknown) => {
        throw new Problem('dependency_unavailable', { detail: 'What counts streams does not answer.', cause })
      })
    const refused = wanted[full - 1]
    if (refused !== undefined) throw allTaken(refused)
    for (const key of keys) this.#hold(key, id)
    return () => this.#release(keys, id)
  }

  /** How many are taken now; null where that cannot be asked. */
  async taken(key: string): Promise<number | null> {
    const [seconds] = await this.#redis.time().catch(() => [])
    return seconds === undefined
      ? null
      : this.#redis.zcount(key, `(${Number(seconds) * 1_000}`, '+inf').catch(() => null)
  }

  close(): void {
    clearInterval(this.#timer)
    this.#redis.disconnect()
  }

  #hold(key: string, id: string): void {
    const ids = this.#held.get(key) ?? new Set()
    this.#held.set(key, ids.add(id))
    this.#timer ??= setInterval(() => this.#renew(), LIMITS.placeRenewMs).unref()
  }

  #release(keys: readonly string[], id: string): void {
    for (const key of keys) {
      const ids = this.#held.get(key)
      if (!ids?.delete(id)) continue
      if (ids.size === 0) this.#held.delete(key)
      // Where it cannot be said, the lease runs out.
      this.#redis.zrem(key, id).catch(this.#onError)
    }
  }

  #renew(): void {
    for (const [key, ids] of this.#held)
      this.#redis.renewPlaces(key, LIMITS.placeLeaseMs, ...ids).catch(this.#onError)
  }
}

function allTaken({ quota, max }: Places): Problem {
  const detail = `There are ${max} streams already. Close one; several topics fit into one stream with \`.*\`.`
  return new Problem('quota_exceeded', { detail, members: { quota, limit: max, used: max } })
}
