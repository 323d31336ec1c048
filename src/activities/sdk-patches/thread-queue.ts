/** Decides which request a workflow thread gets next: tenants share its time, and a short activation waits for at most one long one. */

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

/** What a thread answers; `ms` of its processor's time the request took, where that is measured (`activation-watch.ts`). */
export interface ThreadAnswer {
  readonly requestId?: bigint
  readonly ms?: number
}

/** From here on an activation is a long one: it is sent alone. */
const LONG_MS = 20
/** So many short requests may be on their way to the thread at once: it never waits for the next one. */
const AHEAD_MAX = 8
/** After these the SDK asks something of the same run at once; for so long a long activation is put off for that. */
const FOLLOWED = ['create-workflow', 'activate-workflow']
const FOLLOWS_MS = 5
/** After a long activation its tenant rests for as long before the next long one, up to this: the thread is free for others. */
const REST_MS_MAX = 1_000
/** A workflow task has ten seconds: an activation that has waited for so long is not put off by a rest any more. */
const WAIT_MS_MAX = 3_000
/** Activations are expected to last as long as the longest lately; that is forgotten by so much with each. */
const FORGETTING = 0.8
/** Tenants that ask for nothing are kept up to this number. */
const TENANTS_KEPT = 1_000

interface Waiting {
  readonly request: ThreadRequest
  readonly sinceMs: number
}

interface Tenant {
  /** Virtual time: the processor's time that it used; where it asks anew, no less than whoever was served last. */
  usedMs: number
  readonly waiting: Waiting[]
  /** Requests that are sent and not answered. */
  sent: number
  /** Of an activation of a run of which nothing is known yet. */
  expectedMs: number
  restsUntilMs: number
}

interface Run {
  readonly tenant: string
  /** Of its next activation; undefined before the first. */
  expectedMs?: number
}

/**
 * Start-time fair queueing over tenants (Goyal, Vin and Cheng, 1996). The cost of an activation is the time of the processor that it
 * took, as measured. A thread cannot be interrupted, so long activations are sent one at a time, and leave gaps.
 */
export class ThreadQueue {
  readonly #send: (request: ThreadRequest) => void
  readonly #nowMs: () => number
  readonly #runs = new Map<string, Run>()
  readonly #tenants = new Map<string, Tenant>()
  /** Sent and not answered. */
  readonly #sent = new Map<bigint, ThreadRequest>()
  #virtualMs = 0
  #follows: { readonly runId: string; readonly untilMs: number } | undefined
  #timer: NodeJS.Timeout | undefined

  /** @param send hands a request to the thread, which answers requests in the order in which they are sent */
  constructor(send: (request: ThreadRequest) => void, nowMs: () => number = () => performance.now()) {
    this.#send = send
    this.#nowMs = nowMs
  }

  /** Sends a request as soon as it is its turn. */
  push(request: ThreadRequest): void {
    const { options } = request.input
    if (options !== undefined) {
      const { runId, workflowId } = options.info
      this.#runs.set(runId, { tenant: refOf(workflowId)?.tenantId ?? '' })
    }
    const isFollowing = this.#follows?.runId === runIdOf(request)
    if (isFollowing) this.#follows = undefined
    const tenant = this.#tenantOf(request)
    if (tenant.sent + tenant.waiting.length === 0) tenant.usedMs = Math.max(tenant.usedMs, this.#virtualMs)
    // What the thread was kept free for goes before all else.
    if (isFollowing && !this.#isLong(request) && this.#mayGo(request)) this.#dispatch(tenant, request)
    else tenant.waiting.push({ request, sinceMs: this.#nowMs() })
    this.#next()
  }

  /** Tells that the thread has answered; a request that was not sent, or was answered before, changes nothing. */
  answered({ requestId, ms = 0 }: ThreadAnswer): void {
    const request = requestId === undefined ? undefined : this.#sent.get(requestId)
    if (requestId === undefined || request === undefined) return
    this.#sent.delete(requestId)
    this.#charge(request, ms)
    const runId = runIdOf(request)
    if (runId !== undefined && FOLLOWED.includes(request.input.type))
      this.#follows = { runId, untilMs: this.#nowMs() + FOLLOWS_MS }
    this.#next()
  }

  #charge(request: ThreadRequest, ms: number): void {
    const { type, runId = '' } = request.input
    const tenant = this.#tenantOf(request)
    tenant.sent -= 1
    tenant.usedMs += ms
    const run = this.#runs.get(runId)
    if (run !== undefined && type === 'activate-workflow') {
      run.expectedMs = Math.max(ms, (run.expectedMs ?? 0) * FORGETTING)
      tenant.expectedMs = Math.max(ms, tenant.expectedMs * FORGETTING)
      if (ms > LONG_MS) tenant.restsUntilMs = this.#nowMs() + Math.min(ms, REST_MS_MAX)
    }
    if (type === 'dispose-workflow') this.#runs.delete(runId)
    if (this.#tenants.size > TENANTS_KEPT) this.#forget()
  }

  #forget(): void {
    for (const [key, { sent, waiting }] of this.#tenants)
      if (sent + waiting.length === 0) this.#tenants.delete(key)
  }

  #next(): void {
    clearTimeout(this.#timer)
    for (let tenant = this.#first(); tenant !== undefined; tenant = this.#first()) {
      const head = this.#headOf(tenant)
      if (head === undefined || !this.#mayGo(head.request)) return
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

  /** Of the tenants that wait and do not rest, the one that used the least. */
  #first(): Tenant | undefined {
    let first: Tenant | undefined
    let restMs = Number.POSITIVE_INFINITY
    for (const tenant of this.#tenants.values()) {
      const head = this.#headOf(tenant)
      if (head === undefined) continue
      const isLong = this.#isLong(head.request)
      const leftMs = isLong ? this.#restOf(tenant, head) : 0
      const aheadMs = first === undefined ? 1 : first.usedMs - tenant.usedMs
      if (leftMs > 0) restMs = Math.min(restMs, leftMs)
      else if (aheadMs > 0 || (aheadMs === 0 && !isLong)) first = tenant
    }
    if (first === undefined && restMs < Number.POSITIVE_INFINITY) this.#again(restMs)
    return first
  }

  /** What is short comes first, so that a run whose activation is over does not wait for those of others. */
  #headOf({ waiting }: Tenant): Waiting | undefined {
    return waiting.find(({ request }) => !this.#isLong(request)) ?? waiting[0]
  }

  #restOf({ restsUntilMs }: Tenant, { sinceMs }: Waiting): number {
    return Math.min(restsUntilMs, sinceMs + WAIT_MS_MAX) - this.#nowMs()
  }

  #mayGo(request: ThreadRequest): boolean {
    if (this.#sent.size === 0) return !this.#isLong(request) || this.#mayHold(request)
    if (this.#sent.size >= AHEAD_MAX || this.#isLong(request)) return false
    return ![...this.#sent.values()].some((sent) => this.#isLong(sent))
  }

  /** Whether no request of another run is about to come. */
  #mayHold(request: ThreadRequest): boolean {
    const { runId, untilMs } = this.#follows ?? { untilMs: 0 }
    const leftMs = untilMs - this.#nowMs()
    if (leftMs <= 0 || runId === runIdOf(request)) return true
    this.#again(leftMs)
    return false
  }

  #again(ms: number): void {
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#next(), Math.ceil(ms)).unref()
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
    const fresh = { usedMs: this.#virtualMs, waiting: [], sent: 0, expectedMs: 0, restsUntilMs: 0 }
    this.#tenants.set(key, fresh)
    return fresh
  }
}

function runIdOf({ input: { runId, options } }: ThreadRequest): string | undefined {
  return runId ?? options?.info.runId
}
