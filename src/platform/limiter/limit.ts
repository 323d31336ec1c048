/** A rate limit: how many requests a minute, how many of them at once, and how it is written in settings and headers. */

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
