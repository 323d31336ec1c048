/** Decides which refusals and failures get an audit entry of their own: a few of a kind per minute, and a summary of the others. */

import { ACCESS_LIMITS } from '../limits.ts'
import { networkOf } from '../rate-limit/memory-buckets.ts'
import type { AuditEvent } from './entry.ts'

interface EventCount {
  seen: number
  /** How many were counted without an entry, and the last of them. */
  suppressed: number
  last: AuditEvent | undefined
}

/** Admits a few similar events per minute, and counts the others for a summary. */
export class AuditThrottle {
  readonly #counts = new Map<string, EventCount>()

  /** @returns true if the event gets an entry of its own; else it is counted */
  admit(event: AuditEvent, entriesMax: number = ACCESS_LIMITS.auditAlikePerMinuteMax): boolean {
    const count = this.#countOf(event)
    count.seen += 1
    if (count.seen <= entriesMax) return true
    count.suppressed += 1
    count.last = event
    return false
  }

  /** Counts by chain, outcome and network; beyond the maximum of networks, without the network. */
  #countOf({ owner, address = '', outcome }: AuditEvent): EventCount {
    const chain = `${owner.tenantId ?? ''} ${outcome}`
    const name = `${chain} ${address === '' ? '' : networkOf(address)}`
    const known = this.#counts.get(name)
    if (known !== undefined) return known
    const key = this.#counts.size < ACCESS_LIMITS.auditAddressesMax ? name : chain
    const count = this.#counts.get(key) ?? { seen: 0, suppressed: 0, last: undefined }
    this.#counts.set(key, count)
    return count
  }

  /** Ends the minute. @returns one event for each group of suppressed ones, which may differ in operation and caller */
  takeSummaries(): AuditEvent[] {
    const counts = [...this.#counts.values()]
    this.#counts.clear()
    return counts.flatMap(({ suppressed: count, last }) => {
      if (last === undefined) return []
      const { owner, address, outcome } = last
      const summary = { owner: { tenantId: owner.tenantId }, operation: 'audit.summary', outcome, count }
      return [{ ...platformEvent(summary), ...(address !== undefined && { address }) }]
    })
  }
}

export function platformEvent(
  event: Pick<AuditEvent, 'owner' | 'operation' | 'outcome' | 'count'>,
): AuditEvent {
  const actor = { subject: null, role: null, kind: 'platform' } as const
  return { actor, requestId: null, target: '', status: null, code: null, before: null, after: null, ...event }
}
