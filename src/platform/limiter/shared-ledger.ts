/** Rate-limit buckets in Valkey: one script on the server’s clock, so that all processes count as one. */

import { Redis, type Result } from 'ioredis'
import { LIMITS } from '../../core/limits.ts'
import type { Charge, Found } from './limit.ts'

/**
 * As LocalLedger.charge for several requests, of which as many pass as there is room for. ARGV has how many they are (fewer
 * than none: so many are given back), how many more to take for later where half of each bucket is left after that, then two
 * numbers for each key: interval and capacity. A clock that was put back must not lock anybody out for longer than an empty
 * bucket takes to fill, so what is ahead is cut to that. Says when it was, how many were taken for later, and what was ahead.
 */
const CHARGE = `
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local pass = tonumber(ARGV[1])
local ample, aheads = pass + ARGV[2], {}
for at, full in ipairs(redis.call('MGET', unpack(KEYS))) do
  local interval, capacity = tonumber(ARGV[at * 2 + 1]), tonumber(ARGV[at * 2 + 2])
  aheads[at] = math.min(math.max((tonumber(full) or 0) - now, 0), capacity)
  pass = math.min(pass, math.floor((capacity - aheads[at]) / interval))
  ample = math.min(ample, math.floor((capacity / 2 - aheads[at]) / interval))
end
local taken = math.max(pass, ample)
for at, key in ipairs(KEYS) do
  local ahead = aheads[at] + taken * ARGV[at * 2 + 1]
  if ahead <= 0 then
    redis.call('DEL', key)
  elseif taken ~= 0 then
    redis.call('SET', key, string.format('%.0f', now + ahead), 'PX', math.ceil(ahead / 1000))
  end
end
return { now, taken - pass, unpack(aheads) }`

declare module 'ioredis' {
  interface RedisCommander<Context> {
    charge(keys: number, ...keysAndNumbers: (string | number)[]): Result<number[], Context>
  }
}

interface Answer extends Found {
  /** How many requests were taken for later. */
  readonly ahead: number
}

type Told = (found: Found | undefined) => void

export class SharedLedger {
  readonly #redis: Redis
  /** Who came while the buckets of this name were asked: they are asked for together when the answer is here. */
  readonly #waiting = new Map<string, Told[]>()
  /** What has been taken for requests to come. */
  readonly #advances = new Map<string, Advance>()
  /** 0 where it answered the last time; else until when nobody asks, by the process's clock. */
  #awayUntilMs = 0

  constructor(url: string, onError: (error: Error) => void) {
    this.#redis = new Redis(url, {
      lazyConnect: true,
      maxRetriesPerRequest: 0,
      autoResendUnfulfilledCommands: false,
      connectTimeout: LIMITS.rateRetryMs,
      // A server that is gone without a word is found out.
      socketTimeout: LIMITS.rateRetryMs * 2,
      retryStrategy: (times) => Math.min(times * 50, LIMITS.rateRetryMs),
      scripts: { charge: { lua: CHARGE } },
    })
    this.#redis.on('error', onError)
  }

  /**
   * As LocalLedger.charge. Never rejects.
   * @param insist asks, and waits for longer, also where the server was away a moment ago
   * @returns undefined where the server does not answer in time
   */
  charge(charges: readonly Charge[], insist: boolean): Promise<Found | undefined> {
    const name = `${insist} ${charges.map(({ bucket, limit }) => `${bucket} ${limit.policy}`).join(' ')}`
    const paid = this.#advances.get(name)?.spend()
    if (paid !== undefined) return Promise.resolve(paid)
    return new Promise((told) => {
      const waiting = this.#waiting.get(name)
      if (waiting !== undefined) return void waiting.push(told)
      this.#waiting.set(name, [told])
      void this.#takeTurns(name, charges, insist)
    })
  }

  /** One round trip after the other, each for all who came during the one before and in the same turn of the loop. */
  async #takeTurns(name: string, charges: readonly Charge[], insist: boolean): Promise<void> {
    for (;;) {
      // What else has been read from other connections by now is charged with it: a trip costs more than a request.
      await new Promise((soon) => setImmediate(soon))
      const those = this.#unpaid(name)
      if (those.length === 0) break
      this.#waiting.set(name, [])
      const crowd = those.length + this.#settle(name)
      const wanted = insist || crowd === 1 ? 0 : Math.min(crowd, mostAhead(charges))
      const found = await this.#chargeAll(charges, those.length, wanted, insist)
      const most = found === undefined ? 0 : passing(charges, found)
      for (const [at, told] of those.entries()) told(found && behind(charges, found, Math.min(at, most)))
      if (found !== undefined && found.ahead > 0) this.#keep(name, charges, found, those.length)
    }
    this.#waiting.delete(name)
  }

  /** Those who wait, but for whom something was taken meanwhile. */
  #unpaid(name: string): Told[] {
    const waiting = this.#waiting.get(name) ?? []
    const advance = this.#advances.get(name)
    return waiting.filter((told) => {
      const paid = advance?.spend()
      if (paid !== undefined) told(paid)
      return paid === undefined
    })
  }

  #keep(name: string, charges: readonly Charge[], found: Answer, count: number): void {
    const advance = new Advance(charges, behind(charges, found, count), found.ahead)
    this.#advances.set(name, advance)
    setTimeout(() => {
      if (this.#advances.get(name) === advance) this.#settle(name)
    }, LIMITS.rateAdvance.ms).unref()
  }

  /** Gives back what was taken for requests that did not come. @returns how many did */
  #settle(name: string): number {
    const advance = this.#advances.get(name)
    this.#advances.delete(name)
    if (advance === undefined) return 0
    // Where that is lost, so are a few requests of a bucket that is half full.
    if (advance.left > 0) this.#ask(advance.charges, -advance.left, 0).catch(() => {})
    return advance.spent
  }

  /**
   * @param count of requests, in their order; what is found is before the first of them
   * @param wanted how many more for later
   */
  async #chargeAll(
    charges: readonly Charge[],
    count: number,
    wanted: number,
    insist: boolean,
  ): Promise<Answer | undefined> {
    const nowMs = performance.now()
    if (nowMs < this.#awayUntilMs && !insist) return undefined
    // After a pause one request tries, while the others go on without.
    if (this.#awayUntilMs > 0) this.#awayUntilMs = nowMs + LIMITS.rateRetryMs
    const patienceMs = insist ? LIMITS.rateInsistMs : LIMITS.ratePatienceMs
    const reply = await within(this.#ask(charges, count, wanted), patienceMs)
    this.#awayUntilMs = reply === undefined ? performance.now() + LIMITS.rateRetryMs : 0
    if (reply === undefined) return undefined
    const [nowUs = 0, ahead = 0, ...aheadUs] = reply
    return { nowUs, ahead, aheadUs }
  }

  close(): void {
    this.#redis.disconnect()
  }

  #ask(charges: readonly Charge[], count: number, wanted: number): Promise<number[]> {
    const keys = charges.map(({ bucket }) => bucket)
    const numbers = charges.flatMap(({ limit }) => [limit.intervalUs, limit.capacityUs])
    return this.#redis.charge(keys.length, ...keys, count, wanted, ...numbers)
  }
}

/** How many more requests there is room for. */
const passing = (charges: readonly Charge[], { aheadUs }: Found): number =>
  Math.min(
    ...charges.map(({ limit }, at) => Math.floor((limit.capacityUs - (aheadUs[at] ?? 0)) / limit.intervalUs)),
  )

/** What a request finds that so many came before. */
const behind = (charges: readonly Charge[], { nowUs, aheadUs }: Found, count: number): Found => ({
  nowUs,
  aheadUs: charges.map(({ limit }, at) => (aheadUs[at] ?? 0) + count * limit.intervalUs),
})

/** undefined where it fails or comes late. */
function within<T>(work: Promise<T>, ms: number): Promise<T | undefined> {
  return new Promise((resolve) => {
    // Where this process was busy for so long, the answer may be here and unread: it is read before this counts.
    const late = setTimeout(() => setImmediate(resolve, undefined), ms)
    const done = (value: T | undefined) => {
      clearTimeout(late)
      resolve(value)
    }
    work.then(done, () => done(undefined))
  })
}

/** How many may be charged before they come: a small share of what each bucket holds, so none of a small one. */
export const mostAhead = (charges: readonly Charge[]): number =>
  Math.min(...charges.map(({ limit }) => Math.floor(limit.burst / LIMITS.rateAdvance.share)))

export class Advance {
  readonly charges: readonly Charge[]
  readonly #taken: number
  readonly #found: Found
  readonly #sinceUs = nowUs()
  #spent = 0

  /**
   * @param found what the first of these requests finds, now
   * @param taken how many they are
   */
  constructor(charges: readonly Charge[], found: Found, taken: number) {
    this.charges = charges
    this.#found = found
    this.#taken = taken
  }

  get spent(): number {
    return this.#spent
  }

  get left(): number {
    return this.#taken - this.#spent
  }

  /** @returns what a request finds that comes now, as if it were charged now; undefined where there is nothing for it */
  spend(): Found | undefined {
    const lateUs = nowUs() - this.#sinceUs
    if (this.left === 0 || lateUs > LIMITS.rateAdvance.ms * 1_000) return undefined
    const spent = this.#spent++
    const aheadUs = this.#found.aheadUs.map((us, at) =>
      Math.max(us + spent * (this.charges[at]?.limit.intervalUs ?? 0) - lateUs, 0),
    )
    return { nowUs: this.#found.nowUs + lateUs, aheadUs }
  }
}

const nowUs = () => Math.floor(performance.now() * 1_000)
