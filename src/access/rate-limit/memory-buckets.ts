/** Rate limits and their buckets in memory: the generic cell rate algorithm (ITU-T I.371), its decision and its headers. */

import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'
import { LRUCache } from 'lru-cache'
import { Problem } from '../../core/problem.ts'
import type { Rate } from '../../core/units.ts'
import { ACCESS_LIMITS } from '../limits.ts'

const MINUTE_US = 60_000_000

/** Also the name of the policy in headers and problems. */
export type Counted = 'key' | 'subject' | 'address' | 'tenant' | 'tool'

/** A bucket that holds `burst` requests and refills evenly with `perMinute`. Times are in microseconds. */
export interface Limit {
  readonly counted: Counted
  readonly perMinute: number
  readonly burst: number
  /** Between two requests at the full rate. */
  readonly intervalUs: number
  /** Until an empty bucket is full. */
  readonly capacityUs: number
  /** As an item of `RateLimit-Policy` (draft-ietf-httpapi-ratelimit-headers §3). */
  readonly policy: string
}

/** A rate with a number of its own: the burst grows with it, and is at least `perMinute` up to the usual burst. */
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

/** Whole seconds, rounded up, so that waiting for them is always enough. */
export const seconds = (us: number): number => Math.ceil(us / 1_000_000)

/** One request charged to a bucket. */
export interface BucketCharge {
  readonly bucket: string
  readonly limit: Limit
}

/** The offsets of buckets before a request, and the time of that by the clock that they are kept under, in microseconds. */
export interface BucketOffsets {
  readonly nowUs: number
  /** How far the theoretical arrival time is ahead of now: the time until the bucket is full. */
  readonly tatOffsetsUs: readonly number[]
}

/** Buckets in the memory of this process. */
export class MemoryBuckets {
  readonly #nowUs: () => number
  /** When each bucket is full again. A flood of new bucket names evicts old ones, and takes no more memory. */
  readonly #fullAtUs = new LRUCache<string, number>({ max: ACCESS_LIMITS.rateBucketsMax })

  constructor(nowUs: () => number = () => Math.floor(performance.now() * 1_000)) {
    this.#nowUs = nowUs
  }

  /** Takes one request from every bucket, or from none if one has no room. @returns the offset of each before that */
  charge(charges: readonly BucketCharge[]): number[] {
    const nowUs = this.#nowUs()
    const offsetsUs = this.peek(charges, nowUs)
    if (charges.every(({ limit }, at) => hasRoom(limit, offsetsUs[at] ?? 0))) {
      for (const [at, { bucket, limit }] of charges.entries())
        this.#fullAtUs.set(bucket, nowUs + (offsetsUs[at] ?? 0) + limit.intervalUs)
    }
    return offsetsUs
  }

  /** The offset of each bucket; takes nothing. */
  peek(charges: readonly BucketCharge[], nowUs = this.#nowUs()): number[] {
    return charges.map(({ bucket, limit }) => {
      const offsetUs = (this.#fullAtUs.get(bucket) ?? 0) - nowUs
      return Math.min(Math.max(offsetUs, 0), limit.capacityUs)
    })
  }
}

const hasRoom = (limit: Limit, offsetUs: number): boolean => offsetUs + limit.intervalUs <= limit.capacityUs

/** A bucket after a request. */
export interface BucketState {
  readonly limit: Limit
  /** Requests left. */
  readonly remaining: number
  /** Until there is room for the next one; 0 if there is. */
  readonly waitUs: number
  /** Until the bucket is full. */
  readonly fullUs: number
}

export interface RateLimitDecision {
  readonly states: readonly BucketState[]
  /** `RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers), for every response. */
  readonly headers: Readonly<Record<string, string>>
  readonly refused?: Problem
}

/** @param offsetsUs of each bucket before the request */
export function decide(charges: readonly BucketCharge[], offsetsUs: readonly number[]): RateLimitDecision {
  const isAllowed = charges.every(({ limit }, at) => hasRoom(limit, offsetsUs[at] ?? 0))
  const states = charges.map(({ limit }, at) =>
    stateOf(limit, (offsetsUs[at] ?? 0) + (isAllowed ? limit.intervalUs : 0)),
  )
  return { states, headers: headersOf(states), ...(!isAllowed && { refused: rateLimited(states) }) }
}

function stateOf(limit: Limit, fullUs: number): BucketState {
  const remaining = Math.floor((limit.capacityUs - fullUs) / limit.intervalUs)
  const waitUs = Math.max(fullUs + limit.intervalUs - limit.capacityUs, 0)
  return { limit, remaining, waitUs, fullUs }
}

/** The limit with the fewest requests left; if none is left, with the time until there is one. */
function headersOf(states: readonly BucketState[]): Record<string, string> {
  const { limit, remaining, waitUs, fullUs } = states.reduce((a, b) => (b.remaining < a.remaining ? b : a))
  return {
    'ratelimit-policy': states.map(({ limit: { policy } }) => policy).join(', '),
    ratelimit: `"${limit.counted}";r=${remaining};t=${seconds(remaining === 0 ? waitUs : fullUs)}`,
  }
}

function rateLimited(states: readonly BucketState[]): Problem {
  const violated = states.filter(({ remaining }) => remaining === 0)
  const names = violated.map(({ limit }) => limit.counted)
  const waitS = seconds(Math.max(...violated.map(({ waitUs }) => waitUs)))
  return new Problem('rate_limited', {
    detail: `Too many requests of this ${names.join(' and ')}. Try again in ${waitS} s.`,
    members: { 'violated-policies': names },
    headers: { 'retry-after': String(waitS) },
  })
}

/** 16-bit groups of an IPv6 address that name a network. */
const GROUPS = 4

/**
 * A client's address as limits count it.
 * @param address as the socket or a trusted proxy names it
 * @returns IPv4 in dots, also if it is IPv4-mapped IPv6; IPv6 as its /64, since a client has all of that
 */
export function networkOf(address: string): string {
  // The most common form.
  if (/^[0-9.]+$/.test(address)) return address
  // Some proxies append the port, which differs for each connection.
  const [, host = address] = /^([0-9.]+|\[.*\]):\d+$/.exec(address) ?? []
  const bare = host.replace(/^\[|\]$/g, '').split('%')[0] ?? ''
  if (isIP(bare) === 0) return bare
  const parsed = ipaddr.process(bare)
  if (!(parsed instanceof ipaddr.IPv6)) return parsed.toString()
  const groups = parsed.parts.slice(0, GROUPS).map((group) => group.toString(16))
  return `${groups.join(':')}::/${GROUPS * 16}`
}
