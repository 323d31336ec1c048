/** The shared part of the kill drill: numbers by seed, requests that are repeated until answered, counts and findings. */

import { setTimeout as pause } from 'node:timers/promises'
import type { Caller, TestWorkspace } from '../../support/fixtures/tenants.ts'
import { type Random, randomOf } from '../../support/random.ts'
import type { Running } from '../../support/stack/start.ts'

export interface Answered {
  readonly status: number
  // biome-ignore lint/suspicious/noExplicitAny: replies of every shape
  readonly body: any
  /** How often it was sent. */
  readonly attempts: number
}

export interface Sent {
  readonly as?: Caller
  readonly body?: unknown
  readonly key?: string
  readonly headers?: Readonly<Record<string, string>>
}

/** The kind of a finding: an acknowledged write that is not there, one that is there twice or was never acknowledged, or anything else. */
type Fault = 'lost' | 'doubled' | 'other'

const ATTEMPT_MS = 60_000
const ANSWERED_MS = 240_000
/** An answer may ask for a longer pause: what is tested is the answer to a repetition, not the patience of clients. */
const PAUSE_MAX_MS = 1_000

export class Drill {
  readonly at: Running
  readonly workspace: TestWorkspace
  /** No new request begins after it is set. */
  isOver = false
  readonly findings: string[] = []
  readonly counts: Record<string, number> = {}
  readonly faults: Record<Fault, number> = { lost: 0, doubled: 0, other: 0 }
  /** Requests of all kinds: an error is a reply that the client did not get, or that says that it should come again. */
  readonly requests = { sent: 0, answered: 0, errors: 0 }
  /** Of the first request that was sent after {@link disturbedNow} and answered. */
  firstAnswerMs: number | undefined
  #disturbedMs = Number.POSITIVE_INFINITY
  readonly #seed: number

  constructor(at: Running, workspace: TestWorkspace, seed: number) {
    this.at = at
    this.workspace = workspace
    this.#seed = seed
  }

  count(what: string, by = 1): void {
    this.counts[what] = (this.counts[what] ?? 0) + by
  }

  find(what: string, fault: Fault = 'other'): void {
    this.faults[fault] += 1
    this.findings.push(`${new Date().toISOString()} ${fault === 'other' ? '' : `${fault}: `}${what}`)
  }

  /** From now on, {@link firstAnswerMs} is measured. */
  disturbedNow(): void {
    this.#disturbedMs = performance.now()
    this.firstAnswerMs = undefined
  }

  /** Counts a request. @param sentMs by `performance.now()` @param error what the client saw instead of an answer */
  note(sentMs: number, error?: string): void {
    this.requests.sent += 1
    if (error !== undefined) {
      this.requests.errors += 1
      this.count(`unanswered: ${error}`)
      return
    }
    this.requests.answered += 1
    if (sentMs >= this.#disturbedMs) this.firstAnswerMs ??= performance.now() - this.#disturbedMs
  }

  /** Notes a finding unless the reply has one of the statuses. */
  expect(reply: Answered, statuses: readonly number[], what: string): boolean {
    if (statuses.includes(reply.status)) return true
    this.find(
      `${what}: ${reply.status} after ${reply.attempts} attempts: ${JSON.stringify(reply.body).slice(0, 600)}`,
    )
    return false
  }

  /** Numbers of its own for each part, so that the order of requests does not matter. */
  random(part: number): Random {
    return randomOf(this.#seed * 1_000 + part)
  }

  /** Sends a request again, with the same key and body, until it is answered. */
  async answered(method: string, path: string, { as, body, key, headers }: Sent = {}): Promise<Answered> {
    const sent = {
      method,
      headers: {
        ...(as ?? this.workspace.service),
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...(key !== undefined && { 'idempotency-key': key }),
        ...headers,
      },
      ...(body !== undefined && { body: Buffer.isBuffer(body) ? body : JSON.stringify(body) }),
    }
    const untilMs = performance.now() + ANSWERED_MS
    let last = ''
    for (let attempts = 1; performance.now() < untilMs; attempts++) {
      const sentMs = performance.now()
      const reply = await this.#sendOnce(path, sent)
      if (!isUnanswered(reply)) {
        this.note(sentMs)
        if (reply.status >= 500) this.find(`${method} ${path}: ${reply.status} ${reply.body?.code}`)
        return { ...reply, attempts }
      }
      last = `${reply.status} ${reply.body?.code ?? ''}`
      this.note(sentMs, last)
      await pause(Math.min(PAUSE_MAX_MS, 100 * attempts))
    }
    this.find(`${method} ${path}: not answered within ${ANSWERED_MS / 1_000} s, at last ${last}`)
    return { status: 0, body: {}, attempts: 0 }
  }

  /** A connection that breaks has the status 0. */
  async #sendOnce(path: string, sent: RequestInit): Promise<Omit<Answered, 'attempts'>> {
    try {
      const response = await fetch(`${this.at.url}${path}`, {
        ...sent,
        signal: AbortSignal.timeout(ATTEMPT_MS),
      })
      const text = await response.text()
      const isJson = /\bjson/.test(response.headers.get('content-type') ?? '')
      return { status: response.status, body: isJson && text !== '' ? JSON.parse(text) : text }
    } catch (error) {
      const { cause } = error as { cause?: { code?: string } }
      return { status: 0, body: { code: cause?.code ?? String(error) } }
    }
  }
}

/** Refused for the moment, not in time, or unknown to the client: it sends it again. Any other error of the platform is a finding. */
const isUnanswered = ({ status, body }: Omit<Answered, 'attempts'>) =>
  status === 0 ||
  // Of a balancer, whose process ended: those of functions are problems.
  (status === 502 && typeof body === 'string') ||
  status === 503 ||
  status === 504 ||
  status === 429 ||
  (status === 409 && body?.code === 'idempotency_in_flight')
