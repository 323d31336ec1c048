/** Limits inline HTTP calls: only servers that answer quickly, and not too many of one tenant at once. */

import { ApplicationFailure } from '@temporalio/common'
import { LRUCache } from 'lru-cache'
import { LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'
import type { TenantRef } from '../../core/tenant.ts'
import type { Json } from '../../core/work.ts'
import { KeyedSemaphore } from '../../infra/keyed-semaphore.ts'
import type { FunctionCall, InlineResult } from '../contract.ts'

const BUSY = 'The tenant makes as many requests beside its runs as it may.'

/** Until when it is not asked, and for how long that is. */
interface SlowServer {
  readonly untilMs: number
  readonly exclusionMs: number
}

/**
 * What is made beside runs has no queue in Temporal, where tenants take turns: each has a share of the worker instead. Who
 * is slow loses his place after a moment, and gets none for a while; his requests have a task each.
 */
export class InlineCalls {
  readonly #now: () => number
  readonly #shares: KeyedSemaphore
  /** Servers that were slow when they were asked last, by tenant and server. */
  readonly #slow = new LRUCache<string, SlowServer>({ max: LIMITS.briefCalls.slowKept })

  constructor(now: () => number = () => performance.now()) {
    this.#now = now
    const { atOnce, waitMs } = LIMITS.briefCalls
    this.#shares = new KeyedSemaphore(atOnce, waitMs)
  }

  /**
   * @param send the request, which gives up after so many milliseconds
   * @returns null where it is to be sent with time for it
   * @throws what is final
   */
  async attempt(
    { tenantId }: TenantRef,
    request: FunctionCall,
    send: (timeoutMs: number) => Promise<Json>,
  ): Promise<InlineResult | null> {
    const server = `${tenantId} ${serverOf(request)}`
    if (this.#isSlow(server)) return null
    const began = this.#now()
    const giveBack = await this.#shares.acquire(tenantId, BUSY).catch(() => undefined)
    if (giveBack === undefined) return null
    try {
      const output = await send(LIMITS.briefCalls.lastMs)
      this.#slow.delete(server)
      return { output, took_ms: Math.round(this.#now() - began) }
    } catch (error) {
      if (isFinal(error)) throw error
      if (isOfServer(error)) this.#wasSlow(server)
      return null
    } finally {
      giveBack()
    }
  }

  #isSlow(server: string): boolean {
    return (this.#slow.get(server)?.untilMs ?? 0) > this.#now()
  }

  /** A hiccup, of theirs or ours, is no reason to take them for slow for long. */
  #wasSlow(server: string): void {
    // Others of the same moment have said so.
    if (this.#isSlow(server)) return
    const { slowMinMs, slowMaxMs } = LIMITS.briefCalls
    const before = this.#slow.get(server)
    const restMs = before === undefined ? slowMinMs : Math.min(2 * before.exclusionMs, slowMaxMs)
    this.#slow.set(server, { untilMs: this.#now() + restMs, exclusionMs: restMs })
  }
}

/** Scheme, host and port; who cannot be asked is refused by the request itself. */
function serverOf({ arguments: { endpoint } }: FunctionCall): string {
  return typeof endpoint === 'string' && URL.canParse(endpoint) ? new URL(endpoint).origin : ''
}

/** The request was answered, or must not be sent: it would be so again. */
function isFinal(error: unknown): boolean {
  if (error instanceof ApplicationFailure) return error.nonRetryable === true
  return error instanceof Problem && error.isFinal
}

/** Nobody answered, or not soon enough; what is missing on our side is no fault of theirs. */
function isOfServer(error: unknown): boolean {
  return error instanceof Problem && error.code === 'upstream_unavailable'
}
