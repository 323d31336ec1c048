/** Throttles entries that anonymous clients can cause: the first of a minute and network are entries, the rest are one with a count. */

import { LIMITS } from '../../core/limits.ts'
import { networkOf } from '../limiter/limit.ts'
import type { Deed } from './entry.ts'

interface Flood {
  seen: number
  /** How many were only counted. */
  counted: number
  /** The last of them: the one entry says of it what they have in common. */
  last: Deed | undefined
}

export class Floods {
  readonly #floods = new Map<string, Flood>()

  /** Whether this one is an entry of its own. Where not, it is counted. */
  admit(deed: Deed, entriesMax: number = LIMITS.auditAlikePerMinute): boolean {
    const flood = this.#floodOf(deed)
    flood.seen += 1
    if (flood.seen <= entriesMax) return true
    flood.counted += 1
    flood.last = deed
    return false
  }

  /** Of a chain and a network (one IPv6 client has a whole /64); beyond a number of networks, of the chain alone. */
  #floodOf({ place, address = '', outcome }: Deed): Flood {
    const chain = `${place.tenantId ?? ''} ${outcome}`
    const name = `${chain} ${address === '' ? '' : networkOf(address)}`
    const known = this.#floods.get(name)
    if (known !== undefined) return known
    const key = this.#floods.size < LIMITS.auditFloodsMax ? name : chain
    const flood = this.#floods.get(key) ?? { seen: 0, counted: 0, last: undefined }
    this.#floods.set(key, flood)
    return flood
  }

  /** The minute is over: one deed for each that were only counted. */
  settle(): Deed[] {
    const floods = [...this.#floods.values()]
    this.#floods.clear()
    return floods.flatMap(({ counted, last }) => (last === undefined ? [] : [summary(last, counted)]))
  }
}

/** They may have been of different operations and by different callers: what is left is where from, and how many. */
function summary({ place, address, outcome }: Deed, count: number): Deed {
  return {
    place: { tenantId: place.tenantId },
    requestId: null,
    actor: { subject: null, role: null, kind: 'platform' },
    ...(address !== undefined && { address }),
    operation: 'audit.summary',
    target: '',
    outcome,
    status: null,
    code: null,
    before: null,
    after: null,
    count,
  }
}
