/** Knows which requests are made beside a run: of servers that answer in a moment, and not too many of one tenant at once. */

import { ApplicationFailure } from '@temporalio/common'
import { LIMITS } from '../core/limits.ts'
import { Problem } from '../core/problem.ts'
import type { TenantRef } from '../core/tenant.ts'
import type { Json } from '../core/work.ts'
import type { FunctionCall, Tried } from './contract.ts'

/**
 * What is made beside runs has no queue: its places are those of all tenants. Who is slow loses his place after a
 * moment, and gets none for a while; his requests have a task each, where tenants take turns.
 */
export class BriefCalls {
  readonly #now: () => number
  #count = 0
  readonly #underWay = new Map<string, number>()
  /** Until when, by tenant and server; the oldest first. */
  readonly #slow = new Map<string, number>()

  constructor(now: () => number = () => performance.now()) {
    this.#now = now
  }

  /**
   * @param send the request, which gives up after so many milliseconds
   * @returns null where it is to be sent again with time for it
   * @throws what is final
   */
  async attempt(
    { tenantId }: TenantRef,
    request: FunctionCall,
    send: (timeoutMs: number) => Promise<Json>,
  ): Promise<Tried | null> {
    const server = `${tenantId} ${serverOf(request)}`
    if (this.#isSlow(server) || !this.#enter(tenantId)) return null
    const began = this.#now()
    try {
      const output = await send(LIMITS.briefCallMs)
      return { output, took_ms: Math.round(this.#now() - began) }
    } catch (error) {
      if (isFinal(error)) throw error
      if (isOfServer(error)) this.#wasSlow(server)
      return null
    } finally {
      this.#leave(tenantId)
    }
  }

  /** Whoever comes first may have many places; a few of those that are left are for whoever has fewer. */
  #enter(tenantId: string): boolean {
    const { all, one, few } = LIMITS.briefCallsAtOnce
    const own = this.#underWay.get(tenantId) ?? 0
    if (this.#count >= (own < few ? all : one)) return false
    this.#count += 1
    this.#underWay.set(tenantId, own + 1)
    return true
  }

  #leave(tenantId: string): void {
    this.#count -= 1
    const left = (this.#underWay.get(tenantId) ?? 1) - 1
    if (left === 0) this.#underWay.delete(tenantId)
    else this.#underWay.set(tenantId, left)
  }

  #isSlow(server: string): boolean {
    const until = this.#slow.get(server)
    if (until === undefined) return false
    if (until > this.#now()) return true
    this.#slow.delete(server)
    return false
  }

  #wasSlow(server: string): void {
    this.#slow.delete(server)
    this.#slow.set(server, this.#now() + LIMITS.briefSlowMs)
    const [oldest] = this.#slow.keys()
    if (this.#slow.size > LIMITS.briefSlowKept && oldest !== undefined) this.#slow.delete(oldest)
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
