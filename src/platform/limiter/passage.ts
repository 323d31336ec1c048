/** What a request is told of the limits it is under: two headers, and where there is no room, why. */

import { Problem } from '../../core/problem.ts'
import { type Limit, seconds } from './limit.ts'
import { type Charge, hasRoom } from './local-ledger.ts'

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
