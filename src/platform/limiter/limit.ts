/** Rate limits and their buckets in memory: the generic cell rate algorithm (ITU-T I.371), its decision and its headers. */

import { LRUCache } from 'lru-cache'
import { LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'

const MINUTE_US = 60_000_000

/** What is counted; also the name of the policy in headers and problems. */
export type Counted = 'key' | 'subject' | 'address' | 'tenant'

/** A bucket that holds `burst` requests and is filled at an even pace, `perMinute`. Times are microseconds. */
export interface Limit {
  readonly counted: Counted
  readonly perMinute: number
  readonly burst: number
  /** After which there is room for one more. */
  readonly intervalUs: number
  /** After which an empty bucket is full. */
  readonly capacityUs: number
  /** As an item of `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers §3). */
  readonly policy: string
}

/** `300/min burst 30`; without a burst, a minute's requests may come at once. */
export const RATE_PATTERN = '^[1-9][0-9]{0,6}/min( burst [1-9][0-9]{0,6})?$'

export interface Rate {
  readonly perMinute: number
  readonly burst: number
}

/** @param text of the form of {@link RATE_PATTERN} */
export function parseRate(text: string): Rate {
  const [perMinute = 1, burst = perMinute] = (text.match(/[0-9]+/g) ?? []).map(Number)
  return { perMinute, burst }
}

/**
 * The rate of somebody who has a number of its own. Bursts grow with it; a small number may always come at once, so
 * that who is given five a minute can use five.
 */
export function rateOf(perMinute: number, usual: Rate): Rate {
  const grown = Math.round((perMinute * usual.burst) / usual.perMinute)
  return { perMinute, burst: Math.max(grown, Math.min(perMinute, usual.burst)) }
}

export function limitOf(counted: Counted, { perMinute, burst }: Rate): Limit {
  const intervalUs = Math.round(MINUTE_US / perMinute)
  const capacityUs = intervalUs * burst
  const policy = `"${counted}";q=${burst};w=${seconds(capacityUs)}`
  return { counted, perMinute, burst, intervalUs, capacityUs, policy }
}

/** Whole seconds, rounded up: who waits for so long has waited long enough. */
export const seconds = (us: number): number => Math.ceil(us / 1_000_000)

/** A bucket by its name, and the limit that it is under. */
export interface Charge {
  readonly bucket: string
  readonly limit: Limit
}

/** What was found, and when by the clock of who keeps the buckets: microseconds. */
export interface Found {
  readonly nowUs: number
  readonly aheadUs: readonly number[]
}

/**
 * The generic cell rate algorithm (ITU-T I.371): of a bucket is kept when it will be full again. How far ahead of now
 * that is says how much has been taken.
 */
export class LocalLedger {
  readonly #nowUs: () => number
  /** When each is full again. Whoever names ever new buckets makes us forget old ones, but takes no more memory. */
  readonly #fullAtUs = new LRUCache<string, number>({ max: LIMITS.rateBucketsMax })

  constructor(nowUs: () => number = () => Math.floor(performance.now() * 1_000)) {
    this.#nowUs = nowUs
  }

  /**
   * Takes one request from every bucket, or from none where one of them has no room.
   * @returns how far ahead each was, before that
   */
  charge(charges: readonly Charge[]): number[] {
    const nowUs = this.#nowUs()
    const aheadUs = charges.map((charge) => this.#ahead(charge, nowUs))
    if (charges.every(({ limit }, at) => hasRoom(limit, aheadUs[at] ?? 0))) {
      for (const [at, { bucket, limit }] of charges.entries())
        this.#fullAtUs.set(bucket, nowUs + (aheadUs[at] ?? 0) + limit.intervalUs)
    }
    return aheadUs
  }

  /** The same without taking anything. */
  look(charges: readonly Charge[]): number[] {
    const nowUs = this.#nowUs()
    return charges.map((charge) => this.#ahead(charge, nowUs))
  }

  #ahead({ bucket, limit }: Charge, nowUs: number): number {
    const aheadUs = (this.#fullAtUs.get(bucket) ?? 0) - nowUs
    return Math.min(Math.max(aheadUs, 0), limit.capacityUs)
  }
}

/** Whether one more request fits. */
export const hasRoom = (limit: Limit, aheadUs: number): boolean =>
  aheadUs + limit.intervalUs <= limit.capacityUs

/** A bucket as a request met it. */
export interface Standing {
  readonly limit: Limit
  /** How many requests are left after this one. */
  readonly remaining: number
  /** After which there is room for the next one; 0 where there is. */
  readonly waitUs: number
  /** After which the bucket is full again. */
  readonly fullUs: number
}

export interface Passage {
  readonly standings: readonly Standing[]
  /** `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers), on every answer. */
  readonly headers: Readonly<Record<string, string>>
  readonly refused?: Problem
}

/** @param aheadUs of each bucket before the request, as the ledger says */
export function passageOf(charges: readonly Charge[], aheadUs: readonly number[]): Passage {
  const full = charges.filter(({ limit }, at) => !hasRoom(limit, aheadUs[at] ?? 0))
  const passed = full.length === 0
  const standings = charges.map(({ limit }, at) => {
    const before = aheadUs[at] ?? 0
    return standingOf(limit, passed ? before + limit.intervalUs : before)
  })
  const headers = headersOf(standings)
  return passed ? { standings, headers } : { standings, headers, refused: refusal(standings) }
}

function standingOf(limit: Limit, fullUs: number): Standing {
  const remaining = Math.floor((limit.capacityUs - fullUs) / limit.intervalUs)
  const waitUs = Math.max(fullUs + limit.intervalUs - limit.capacityUs, 0)
  return { limit, remaining, waitUs, fullUs }
}

/** Of several limits the one that has least left. Where that is nothing, when there is something. */
function headersOf(standings: readonly Standing[]): Record<string, string> {
  const least = standings.reduce((a, b) => (b.remaining < a.remaining ? b : a))
  const { limit, remaining, waitUs, fullUs } = least
  return {
    'ratelimit-policy': standings.map(({ limit: { policy } }) => policy).join(', '),
    ratelimit: `"${limit.counted}";r=${remaining};t=${seconds(remaining === 0 ? waitUs : fullUs)}`,
  }
}

function refusal(standings: readonly Standing[]): Problem {
  const violated = standings.filter(({ remaining }) => remaining === 0)
  const names = violated.map(({ limit }) => limit.counted)
  const waitS = seconds(Math.max(...violated.map(({ waitUs }) => waitUs)))
  return new Problem('rate_limited', {
    detail: `Too many requests of this ${names.join(' and ')}. There is room again in ${waitS} s.`,
    members: { 'violated-policies': names },
    headers: { 'retry-after': String(waitS) },
  })
}
