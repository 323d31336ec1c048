/** Limits inline HTTP calls: only to servers that respond quickly, and only so many per tenant at once. */

import { ApplicationFailure } from '@temporalio/common'
import { LRUCache } from 'lru-cache'
import { Problem } from '../../core/problem.ts'
import type { TenantRef } from '../../core/tenant.ts'
import type { Json } from '../../core/work.ts'
import { FLOW_LIMITS } from '../../features/flows/limits.ts'
import { KeyedSemaphore } from '../../infra/keyed-semaphore.ts'
import type { FunctionCall, InlineResult } from '../contract.ts'

const BUSY = 'The tenant has reached its limit of concurrent inline calls.'

/** A server that gets no inline calls until `untilMs`, and the length of that exclusion. */
interface SlowServer {
  readonly untilMs: number
  readonly exclusionMs: number
}

/**
 * Makes HTTP calls for local activities. They pass no Temporal queue, so fairness between tenants is enforced here: each
 * tenant has a bounded number of inline calls per worker. A server that does not respond in time is excluded for a while; calls
 * to it are activities.
 */
export class InlineCalls {
  readonly #now: () => number
  readonly #slots: KeyedSemaphore
  /** Servers whose last inline call failed or timed out, by tenant and server. */
  readonly #slow = new LRUCache<string, SlowServer>({ max: FLOW_LIMITS.inlineCalls.slowServersCachedMax })

  constructor(now: () => number = () => performance.now()) {
    this.#now = now
    const { callsMax: atOnce, waitMs } = FLOW_LIMITS.inlineCalls
    this.#slots = new KeyedSemaphore(atOnce, waitMs)
  }

  /**
   * Sends the request inline, if its server is not excluded and the tenant has a free slot.
   * @param send sends the request, and fails after that many milliseconds
   * @returns null if the request must be sent as an activity
   * @throws the error of `send`, if it is final
   */
  async attempt(
    { tenantId }: TenantRef,
    request: FunctionCall,
    send: (timeoutMs: number) => Promise<Json>,
  ): Promise<InlineResult | null> {
    const server = `${tenantId} ${serverOf(request)}`
    if (this.#isSlow(server)) return null
    const began = this.#now()
    const release = await this.#slots.acquire(tenantId, BUSY).catch(() => undefined)
    if (release === undefined) return null
    try {
      const output = await send(FLOW_LIMITS.inlineCalls.timeoutMs)
      this.#slow.delete(server)
      return { output, took_ms: Math.round(this.#now() - began) }
    } catch (error) {
      if (isFinal(error)) throw error
      if (isServerFailure(error)) this.#exclude(server)
      return null
    } finally {
      release()
    }
  }

  #isSlow(server: string): boolean {
    return (this.#slow.get(server)?.untilMs ?? 0) > this.#now()
  }

  /** Starts with a short exclusion, since the delay may be an exception, and doubles it with each further failure. */
  #exclude(server: string): void {
    // Several concurrent calls may fail together; they count as one failure.
    if (this.#isSlow(server)) return
    const { min: slowMinMs, max: slowMaxMs } = FLOW_LIMITS.inlineCalls.slowMs
    const before = this.#slow.get(server)
    const exclusionMs = before === undefined ? slowMinMs : Math.min(2 * before.exclusionMs, slowMaxMs)
    this.#slow.set(server, { untilMs: this.#now() + exclusionMs, exclusionMs })
  }
}

/** Scheme, host and port. An invalid URL has an empty key here, and is rejected when the request is sent. */
function serverOf({ arguments: { endpoint } }: FunctionCall): string {
  return typeof endpoint === 'string' && URL.canParse(endpoint) ? new URL(endpoint).origin : ''
}

/** True if sending the request again would fail in the same way. */
function isFinal(error: unknown): boolean {
  if (error instanceof ApplicationFailure) return error.nonRetryable === true
  return error instanceof Problem && error.isFinal
}

/** True without a response in time. Failures of the platform's own services do not count against the server. */
function isServerFailure(error: unknown): boolean {
  return (
    error instanceof Problem && (error.code === 'upstream_unavailable' || error.code === 'upstream_timeout')
  )
}
