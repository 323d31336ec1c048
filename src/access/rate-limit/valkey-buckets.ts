/** Rate-limit buckets in Valkey: one script on the server’s clock, so that all processes count as one. */

import { Redis, type Result } from 'ioredis'
import { ACCESS_LIMITS } from '../limits.ts'
import type { BucketCharge, BucketOffsets } from './memory-buckets.ts'

/**
 * MemoryBuckets.charge for several requests, of which as many pass as there is room for. ARGV: their number (negative: so
 * many are returned); how many more to prepay if half of each bucket is left after that; interval and capacity of each key.
 * Offsets are capped at the capacity, so that a clock that was set back delays requests no longer than an empty bucket takes
 * to fill. Returns the time, the number prepaid, and the offsets before.
 */
const CHARGE = `
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local pass = tonumber(ARGV[1])
local ample, offsets = pass + ARGV[2], {}
for at, full in ipairs(redis.call('MGET', unpack(KEYS))) do
  local interval, capacity = tonumber(ARGV[at * 2 + 1]), tonumber(ARGV[at * 2 + 2])
  offsets[at] = math.min(math.max((tonumber(full) or 0) - now, 0), capacity)
  pass = math.min(pass, math.floor((capacity - offsets[at]) / interval))
  ample = math.min(ample, math.floor((capacity / 2 - offsets[at]) / interval))
end
local taken = math.max(pass, ample)
for at, key in ipairs(KEYS) do
  local offset = offsets[at] + taken * ARGV[at * 2 + 1]
  if offset <= 0 then
    redis.call('DEL', key)
  elseif taken ~= 0 then
    redis.call('SET', key, string.format('%.0f', now + offset), 'PX', math.ceil(offset / 1000))
  end
end
return { now, taken - pass, unpack(offsets) }`

declare module 'ioredis' {
  interface RedisCommander<Context> {
    charge(keys: number, ...keysAndNumbers: (string | number)[]): Result<number[], Context>
  }
}

interface Charged extends BucketOffsets {
  readonly prepaid: number
}

type Respond = (offsets: BucketOffsets | undefined) => void

export class ValkeyBuckets {
  readonly #redis: Redis
  /** Requests that arrived while the same buckets were being charged: charged together when the reply is here. */
  readonly #waiting = new Map<string, Respond[]>()
  readonly #leases = new Map<string, TokenLease>()
  /** 0 if the last call succeeded; else until when no call is made, by the process's clock. */
  #pausedUntilMs = 0

  constructor(url: string, onError: (error: Error) => void) {
    this.#redis = new Redis(url, {
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
    const prepaid = this.#leases.get(name)?.spend()
    if (prepaid !== undefined) return Promise.resolve(prepaid)
    return new Promise((respond) => {
      const waiting = this.#waiting.get(name)
      if (waiting !== undefined) return void waiting.push(respond)
      this.#waiting.set(name, [respond])
      void this.#chargeInTurns(name, charges, isRequired)
    })
  }

  close(): void {
    this.#redis.disconnect()
  }

  /** One round trip after the other, each for all requests that arrived during the one before. */
  async #chargeInTurns(name: string, charges: readonly BucketCharge[], isRequired: boolean): Promise<void> {
    for (;;) {
      // Requests that other connections have delivered by now are charged as well: a round trip costs more than a request.
      await new Promise((resolve) => setImmediate(resolve))
      const lease = this.#leases.get(name)
      const unpaid = (this.#waiting.get(name) ?? []).filter((respond) => {
        const prepaid = lease?.spend()
        if (prepaid !== undefined) respond(prepaid)
        return prepaid === undefined
      })
      if (unpaid.length === 0) break
      this.#waiting.set(name, [])
      const recent = unpaid.length + this.#endLease(name)
      const wanted = isRequired || recent === 1 ? 0 : Math.min(recent, prepaidMax(charges))
      const charged = await this.#chargeAll(charges, unpaid.length, wanted, isRequired)
      const passing = charged === undefined ? 0 : roomIn(charges, charged)
      for (const [at, respond] of unpaid.entries())
        respond(charged && offsetsAfter(charges, charged, Math.min(at, passing)))
      if (charged !== undefined && charged.prepaid > 0)
        this.#startLease(
          name,
          new TokenLease(charges, offsetsAfter(charges, charged, unpaid.length), charged.prepaid),
        )
    }
    this.#waiting.delete(name)
  }

  #startLease(name: string, lease: TokenLease): void {
    this.#leases.set(name, lease)
    setTimeout(() => {
      if (this.#leases.get(name) === lease) this.#endLease(name)
    }, ACCESS_LIMITS.rateAdvance.validMs).unref()
  }

  /** Returns unused tokens. @returns how many were used */
  #endLease(name: string): number {
    const lease = this.#leases.get(name)
    this.#leases.delete(name)
    if (lease === undefined) return 0
    // If the call fails, a few requests of a half-full bucket are lost.
    if (lease.left > 0) this.#send(lease.charges, -lease.left, 0).catch(() => {})
    return lease.spent
  }

  /**
   * @param count of requests, in their order; the returned offsets are those before the first
   * @param wanted how many more to prepay
   */
  async #chargeAll(
    charges: readonly BucketCharge[],
    count: number,
    wanted: number,
    isRequired: boolean,
  ): Promise<Charged | undefined> {
    const nowMs = performance.now()
    if (nowMs < this.#pausedUntilMs && !isRequired) return undefined
    // After a pause one request tries, while the others go on without.
    if (this.#pausedUntilMs > 0) this.#pausedUntilMs = nowMs + ACCESS_LIMITS.rateStoreRetryMs
    const timeoutMs = isRequired ? ACCESS_LIMITS.rateStoreAdminTimeoutMs : ACCESS_LIMITS.rateStoreTimeoutMs
    const reply = await undefinedAfter(timeoutMs, this.#send(charges, count, wanted))
    this.#pausedUntilMs = reply === undefined ? performance.now() + ACCESS_LIMITS.rateStoreRetryMs : 0
    if (reply === undefined) return undefined
    const [nowUs = 0, prepaid = 0, ...tatOffsetsUs] = reply
    return { nowUs, prepaid, tatOffsetsUs }
  }

  #send(charges: readonly BucketCharge[], count: number, wanted: number): Promise<number[]> {
    const keys = charges.map(({ bucket }) => bucket)
    const numbers = charges.flatMap(({ limit }) => [limit.intervalUs, limit.capacityUs])
    return this.#redis.charge(keys.length, ...keys, count, wanted, ...numbers)
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
function undefinedAfter<T>(ms: number, work: Promise<T>): Promise<T | undefined> {
  return new Promise((resolve) => {
    // If this process was busy for so long, the reply may have arrived unread: it is read before this counts.
    const timer = setTimeout(() => setImmediate(resolve, undefined), ms)
    void work
      .catch(() => undefined)
      .then((value) => {
        clearTimeout(timer)
        resolve(value)
      })
  })
}

/** Prepaid tokens: at most a small share of each bucket, so none of a small one. */
const prepaidMax = (charges: readonly BucketCharge[]): number =>
  Math.min(...charges.map(({ limit }) => Math.floor(limit.burst / ACCESS_LIMITS.rateAdvance.burstParts)))

/**
 * Tokens that busy callers prepaid, which later requests spend without a round trip. Without it there are 0.81 times as
 * many reads by id (docs/performance.md, decision 13).
 */
class TokenLease {
  readonly charges: readonly BucketCharge[]
  readonly #count: number
  readonly #offsets: BucketOffsets
  readonly #sinceUs = clockUs()
  #spent = 0

  /**
   * @param offsets before the first of these requests, now
   * @param count of tokens
   */
  constructor(charges: readonly BucketCharge[], offsets: BucketOffsets, count: number) {
    this.charges = charges
    this.#offsets = offsets
    this.#count = count
  }

  get spent(): number {
    return this.#spent
  }

  get left(): number {
    return this.#count - this.#spent
  }

  /** @returns the offsets as if the request were charged now; undefined if no token is left, or they have expired */
  spend(): BucketOffsets | undefined {
    const lateUs = clockUs() - this.#sinceUs
    if (this.left === 0 || lateUs > ACCESS_LIMITS.rateAdvance.validMs * 1_000) return undefined
    const { nowUs, tatOffsetsUs } = offsetsAfter(this.charges, this.#offsets, this.#spent++)
    return { nowUs: nowUs + lateUs, tatOffsetsUs: tatOffsetsUs.map((us) => Math.max(us - lateUs, 0)) }
  }
}

const clockUs = () => Math.floor(performance.now() * 1_000)
