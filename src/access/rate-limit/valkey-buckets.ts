/** Rate-limit buckets in Valkey: one script on the server’s clock, so that all processes count as one. */

import type { Redis, Result } from 'ioredis'
import { connectToValkey, type ValkeyAddress } from '../../infra/valkey/connect.ts'
import { ACCESS_LIMITS } from '../limits.ts'
import type { BucketCharge, BucketOffsets } from './memory-buckets.ts'

/**
 * MemoryBuckets.charge for several requests, of which as many pass as there is room for. ARGV: their number; interval and capacity
 * of each key. Offsets are capped at the capacity, so that a clock that was set back delays requests no longer than an empty
 * bucket takes to fill. Returns the time, and the offsets before.
 */
const CHARGE = `
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local pass, offsets = tonumber(ARGV[1]), {}
for at, full in ipairs(redis.call('MGET', unpack(KEYS))) do
  local interval, capacity = tonumber(ARGV[at * 2]), tonumber(ARGV[at * 2 + 1])
  offsets[at] = math.min(math.max((tonumber(full) or 0) - now, 0), capacity)
  pass = math.min(pass, math.floor((capacity - offsets[at]) / interval))
end
for at, key in ipairs(pass > 0 and KEYS or {}) do
  local offset = offsets[at] + pass * ARGV[at * 2]
  redis.call('SET', key, string.format('%.0f', now + offset), 'PX', math.ceil(offset / 1000))
end
return { now, unpack(offsets) }`

declare module 'ioredis' {
  interface RedisCommander<Context> {
    charge(keys: number, ...keysAndNumbers: (string | number)[]): Result<number[], Context>
  }
}

type Respond = (offsets: BucketOffsets | undefined) => void

export class ValkeyBuckets {
  readonly #redis: Redis
  /** Requests that arrived while the same buckets were being charged: charged together when the reply is here. */
  readonly #waiting = new Map<string, Respond[]>()
  /** Why the last call failed; undefined if it succeeded or had no answer in time. */
  failure: unknown
  /** 0 if the last call succeeded; else until when no call is made, by the process's clock. */
  #pausedUntilMs = 0

  constructor(at: ValkeyAddress | string, onError: (error: Error) => void) {
    this.#redis = connectToValkey(at, {
      lazyConnect: true,
      maxRetriesPerRequest: 0,
      autoResendUnfulfilledCommands: false,
      connectTimeout: ACCESS_LIMITS.rateStoreRetryMs,
      // Detects a server that vanished without closing the connection.
      socketTimeout: ACCESS_LIMITS.rateStoreRetryMs * 2,
      retryStrategy: (times) => Math.min(times * 50, ACCESS_LIMITS.rateStoreRetryMs),
      scripts: { charge: { lua: CHARGE } },
    })
    this.#redis.on('error', onError)
  }

  /**
   * As MemoryBuckets.charge. Never rejects.
   * @param isRequired waits for longer, and calls the server also during a pause
   * @returns undefined if the server does not answer in time
   */
  charge(charges: readonly BucketCharge[], isRequired: boolean): Promise<BucketOffsets | undefined> {
    const name = `${isRequired} ${charges.map(({ bucket, limit }) => `${bucket} ${limit.policy}`).join(' ')}`
    return new Promise((respond) => {
      const waiting = this.#waiting.get(name)
      if (waiting !== undefined) return void waiting.push(respond)
      this.#waiting.set(name, [respond])
      void this.#chargeInTurns(name, charges, isRequired)
    })
  }

  /** As MemoryBuckets.peek. Never rejects. @returns undefined if the server does not answer in time */
  peek(charges: readonly BucketCharge[]): Promise<BucketOffsets | undefined> {
    return this.#chargeAll(charges, 0, false)
  }

  close(): void {
    this.#redis.disconnect()
  }

  /** One round trip after the other, each for all requests that arrived during the one before. */
  async #chargeInTurns(name: string, charges: readonly BucketCharge[], isRequired: boolean): Promise<void> {
    for (;;) {
      // Requests that other connections have delivered by now are charged as well: a round trip costs more than a request.
      await new Promise((resolve) => setImmediate(resolve))
      const waiting = this.#waiting.get(name) ?? []
      if (waiting.length === 0) break
      this.#waiting.set(name, [])
      const charged = await this.#chargeAll(charges, waiting.length, isRequired)
      const passing = charged === undefined ? 0 : roomIn(charges, charged)
      for (const [at, respond] of waiting.entries())
        respond(charged && offsetsAfter(charges, charged, Math.min(at, passing)))
    }
    this.#waiting.delete(name)
  }

  /** @param count of requests, in their order; the returned offsets are those before the first */
  async #chargeAll(
    charges: readonly BucketCharge[],
    count: number,
    isRequired: boolean,
  ): Promise<BucketOffsets | undefined> {
    const nowMs = performance.now()
    if (nowMs < this.#pausedUntilMs && !isRequired) return undefined
    // After a pause one request tries, while the others go on without.
    if (this.#pausedUntilMs > 0) this.#pausedUntilMs = nowMs + ACCESS_LIMITS.rateStoreRetryMs
    const timeoutMs = isRequired ? ACCESS_LIMITS.rateStoreAdminTimeoutMs : ACCESS_LIMITS.rateStoreTimeoutMs
    const reply = await undefinedAfter(timeoutMs, this.#send(charges, count), (error) => {
      this.failure = error
    })
    if (reply !== undefined) this.failure = undefined
    this.#pausedUntilMs = reply === undefined ? performance.now() + ACCESS_LIMITS.rateStoreRetryMs : 0
    if (reply === undefined) return undefined
    const [nowUs = 0, ...tatOffsetsUs] = reply
    return { nowUs, tatOffsetsUs }
  }

  #send(charges: readonly BucketCharge[], count: number): Promise<number[]> {
    const keys = charges.map(({ bucket }) => bucket)
    const numbers = charges.flatMap(({ limit }) => [limit.intervalUs, limit.capacityUs])
    return this.#redis.charge(keys.length, ...keys, count, ...numbers)
  }
}

/** How many requests there is room for. */
const roomIn = (charges: readonly BucketCharge[], { tatOffsetsUs }: BucketOffsets): number =>
  Math.min(
    ...charges.map(({ limit }, at) =>
      Math.floor((limit.capacityUs - (tatOffsetsUs[at] ?? 0)) / limit.intervalUs),
    ),
  )

/** The offsets after so many requests. */
const offsetsAfter = (
  charges: readonly BucketCharge[],
  { nowUs, tatOffsetsUs }: BucketOffsets,
  count: number,
): BucketOffsets => ({
  nowUs,
  tatOffsetsUs: charges.map(({ limit }, at) => (tatOffsetsUs[at] ?? 0) + count * limit.intervalUs),
})

/** @returns undefined if the work fails or takes longer */
function undefinedAfter<T>(
  ms: number,
  work: Promise<T>,
  onError: (error: unknown) => void,
): Promise<T | undefined> {
  return new Promise((resolve) => {
    // If this process was busy for so long, the reply may have arrived unread: it is read before this counts.
    const timer = setTimeout(() => setImmediate(resolve, undefined), ms)
    void work
      .catch((error: unknown) => void onError(error))
      .then((value) => {
        clearTimeout(timer)
        resolve(value)
      })
  })
}
