/** Selects the next request of a workflow thread: tenants share its CPU time, and a short activation waits for at most one long one. */

import { refOf } from '../../core/tenant.ts'

/** A request of the SDK to one of its threads (`lib/workflow/workflow-worker-thread.js`). */
export interface ThreadRequest {
  readonly requestId: bigint
  readonly input: {
    readonly type: string
    readonly runId?: string
    readonly options?: { readonly info: { readonly runId: string; readonly workflowId: string } }
  }
}

/** A thread's response; `ms` is the CPU time of the request, if the watchdog (`watchdog.ts`) measures it. */
export interface ThreadAnswer {
  readonly requestId?: bigint
  readonly ms?: number
}

/** An activation that is expected to take longer is long: it is sent alone. */
const LONG_MS = 20
/** Short requests that may be sent at once, so that the thread never waits for the next one. */
const IN_FLIGHT_MAX = 8
/** After these requests the SDK sends another one for the same workflow at once. A long activation waits so long for it. */
const FOLLOWED = ['create-workflow', 'activate-workflow']
const FOLLOW_UP_MS = 5
/** After a long activation the tenant's next long one is delayed by the same time, up to this, so that others get the thread. */
const DELAY_MS_MAX = 1_000
/** An activation that has waited this long is not delayed any more, since a workflow task times out after 10 s. */
const WAIT_MS_MAX = 3_000
/** The expected time of an activation is the longest recent one; it decays by this factor with each activation. */
const DECAY = 0.8
/** Above this number, tenants without requests are removed. */
const TENANTS_MAX = 1_000

interface Waiting {
  readonly request: ThreadRequest
  readonly sinceMs: number
}

interface Tenant {
  /** Virtual time: the CPU time used. After a time without requests it is raised to that of the tenant served last. */
  usedMs: number
  readonly waiting: Waiting[]
  /** The number of requests that are sent and not answered. */
  sent: number
  /** The expected CPU time of the first activation of a workflow. */
  expectedMs: number
  /** The tenant's next long activation starts no earlier. */
  delayedUntilMs: number
}

interface Run {
  readonly tenant: string
  /** The expected CPU time of the next activation; undefined before the first. */
  expectedMs?: number
}

/**
 * Start-time fair queueing over tenants (Goyal, Vin and Cheng, 1996). The cost of an activation is its measured CPU time. A thread
 * cannot be interrupted, so long activations are sent one at a time, with gaps between those of one tenant.
 */
export class ThreadQueue {
  readonly #send: (request: ThreadRequest) => void
  readonly #nowMs: () => number
  readonly #runs = new Map<string, Run>()
  readonly #tenants = new Map<string, Tenant>()
  /** Requests that are sent and not answered, by id. */
  readonly #sent = new Map<bigint, ThreadRequest>()
  #virtualMs = 0
  /** The workflow run whose next request is expected until then. */
  #followUp: { readonly runId: string; readonly untilMs: number } | undefined
  #timer: NodeJS.Timeout | undefined

  /** @param send sends a request to the thread, which processes requests in the order in which they are sent */
  constructor(send: (request: ThreadRequest) => void, nowMs: () => number = () => performance.now()) {
    this.#send = send
    this.#nowMs = nowMs
  }

  /** Adds a request, and sends it as soon as it is the next. */
  push(request: ThreadRequest): void {
    const { options } = request.input
    if (options !== undefined) {
      const { runId, workflowId } = options.info
      this.#runs.set(runId, { tenant: refOf(workflowId)?.tenantId ?? '' })
    }
    const isFollowUp = this.#followUp?.runId === runIdOf(request)
    if (isFollowUp) this.#followUp = undefined
    const tenant = this.#tenantOf(request)
    if (tenant.sent + tenant.waiting.length === 0) tenant.usedMs = Math.max(tenant.usedMs, this.#virtualMs)
    // The thread was kept free for a follow-up, so it is sent first.
    if (isFollowUp && !this.#isLong(request) && this.#canSend(request)) this.#dispatch(tenant, request)
    else tenant.waiting.push({ request, sinceMs: this.#nowMs() })
    this.#sendNext()
  }

  /** Called for each response of the thread. One to a request that is unknown or answered already has no effect. */
  answered({ requestId, ms = 0 }: ThreadAnswer): void {
    const request = requestId === undefined ? undefined : this.#sent.get(requestId)
    if (requestId === undefined || request === undefined) return
    this.#sent.delete(requestId)
    this.#charge(request, ms)
    const runId = runIdOf(request)
    if (runId !== undefined && FOLLOWED.includes(request.input.type))
      this.#followUp = { runId, untilMs: this.#nowMs() + FOLLOW_UP_MS }
    this.#sendNext()
  }

  #charge(request: ThreadRequest, ms: number): void {
    const { type, runId = '' } = request.input
    const tenant = this.#tenantOf(request)
    tenant.sent -= 1
    tenant.usedMs += ms
    const run = this.#runs.get(runId)
    if (run !== undefined && type === 'activate-workflow') {
      run.expectedMs = Math.max(ms, (run.expectedMs ?? 0) * DECAY)
      tenant.expectedMs = Math.max(ms, tenant.expectedMs * DECAY)
      if (ms > LONG_MS) tenant.delayedUntilMs = this.#nowMs() + Math.min(ms, DELAY_MS_MAX)
    }
    if (type === 'dispose-workflow') this.#runs.delete(runId)
    if (this.#tenants.size > TENANTS_MAX) this.#removeIdle()
  }

  #removeIdle(): void {
    for (const [key, { sent, waiting }] of this.#tenants)
      if (sent + waiting.length === 0) this.#tenants.delete(key)
  }

  #sendNext(): void {
    clearTimeout(this.#timer)
    for (let tenant = this.#nextTenant(); tenant !== undefined; tenant = this.#nextTenant()) {
      const head = this.#headOf(tenant)
      if (head === undefined || !this.#canSend(head.request)) return
      tenant.waiting.splice(tenant.waiting.indexOf(head), 1)
      this.#virtualMs = Math.max(this.#virtualMs, tenant.usedMs)
      this.#dispatch(tenant, head.request)
    }
  }

  #dispatch(tenant: Tenant, request: ThreadRequest): void {
    tenant.sent += 1
    this.#sent.set(request.requestId, request)
    this.#send(request)
  }

  /** The waiting tenant that has used the least time, without those whose long activation is delayed. */
  #nextTenant(): Tenant | undefined {
    let first: Tenant | undefined
    let delayMs = Number.POSITIVE_INFINITY
    for (const tenant of this.#tenants.values()) {
      const head = this.#headOf(tenant)
      if (head === undefined) continue
      const isLong = this.#isLong(head.request)
      const leftMs = isLong ? this.#delayOf(tenant, head) : 0
      const aheadMs = first === undefined ? 1 : first.usedMs - tenant.usedMs
      if (leftMs > 0) delayMs = Math.min(delayMs, leftMs)
      else if (aheadMs > 0 || (aheadMs === 0 && !isLong)) first = tenant
    }
    if (first === undefined && delayMs < Number.POSITIVE_INFINITY) this.#retryIn(delayMs)
    return first
  }

  /** A tenant's short requests come first, so that a finished activation does not wait for long ones of other workflows. */
  #headOf({ waiting }: Tenant): Waiting | undefined {
    return waiting.find(({ request }) => !this.#isLong(request)) ?? waiting[0]
  }

  #delayOf({ delayedUntilMs }: Tenant, { sinceMs }: Waiting): number {
    return Math.min(delayedUntilMs, sinceMs + WAIT_MS_MAX) - this.#nowMs()
  }

  #canSend(request: ThreadRequest): boolean {
    if (this.#sent.size === 0) return !this.#isLong(request) || !this.#expectsFollowUp(request)
    if (this.#sent.size >= IN_FLIGHT_MAX || this.#isLong(request)) return false
    return ![...this.#sent.values()].some((sent) => this.#isLong(sent))
  }

  /** Tests if a follow-up of another workflow is expected; if so, tries again when that time is over. */
  #expectsFollowUp(request: ThreadRequest): boolean {
    const { runId, untilMs } = this.#followUp ?? { untilMs: 0 }
    const leftMs = untilMs - this.#nowMs()
    if (leftMs <= 0 || runId === runIdOf(request)) return false
    this.#retryIn(leftMs)
    return true
  }

  #retryIn(ms: number): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#sendNext(), Math.ceil(ms)).unref()
  }

  #isLong(request: ThreadRequest): boolean {
    const { type, runId = '' } = request.input
    if (type !== 'activate-workflow') return false
    return (this.#runs.get(runId)?.expectedMs ?? this.#tenantOf(request).expectedMs) > LONG_MS
  }

  #tenantOf(request: ThreadRequest): Tenant {
    const key = this.#runs.get(runIdOf(request) ?? '')?.tenant ?? ''
    const known = this.#tenants.get(key)
    if (known !== undefined) return known
    const fresh = { usedMs: this.#virtualMs, waiting: [], sent: 0, expectedMs: 0, delayedUntilMs: 0 }
    this.#tenants.set(key, fresh)
    return fresh
  }
}

function runIdOf({ input: { runId, options } }: ThreadRequest): string | undefined {
  return runId ?? options?.info.runId
}
