/** Checks the parts that the process needs: at most one check of each runs at a time, however often its result is read. */

import { setTimeout as pause } from 'node:timers/promises'
import {
  FAILURES,
  type FailureKind,
  type HealthReader,
  type HealthReport,
  type IdleQueue,
  type PartHealth,
  SERVERS,
  type ServerName,
} from '../infra/health-report.ts'
import { INFRA_LIMITS } from '../infra/limits.ts'
import type { Log } from '../infra/log.ts'
import { expectsTls, failureKindOf } from '../infra/unavailable.ts'

/** A part that is checked. */
export interface Part {
  /** In lower case, as `/readyz` and logs have it. */
  readonly name: string
  /** If it fails, the process is not ready. */
  readonly required: boolean
  /** Milliseconds for which a result is used while the part passes. Default: `freshMs` of the limits. */
  readonly freshMs?: number
  /** Where it is, for the log and for finding out whether it expects TLS. */
  readonly url?: URL
  /**
   * Resolves if the part can be used; ends within seconds by itself.
   * @throws PartFailure with the sentence to show, or the error of a driver, from which a sentence is made
   */
  readonly ping: () => Promise<unknown>
}

interface HealthOptions {
  readonly log: Log
  /** Finds task queues without a worker; it is asked only while Temporal passes. Default: none is looked for. */
  readonly idleQueues?: () => Promise<readonly IdleQueue[]>
}

const { checkMs, freshMs, staleMs, pollMs, abandonMs } = INFRA_LIMITS.health

export class Health implements HealthReader {
  readonly #checks = new Map<string, Check>()
  readonly #log: Log
  readonly #idleQueues: Refreshed<readonly IdleQueue[]>
  #timer: NodeJS.Timeout | undefined
  #isDraining = false
  #hasStarted = false

  constructor(parts: readonly Part[], { log, idleQueues = async () => [] }: HealthOptions) {
    this.#log = log
    for (const part of parts) this.add(part)
    const find = () => Promise.race([idleQueues(), pause(checkMs, [], { ref: false })]).catch(() => [])
    this.#idleQueues = new Refreshed(find, () => INFRA_LIMITS.idleQueuesCacheMs)
  }

  /** Checks a further part from now on. */
  add(part: Part): void {
    this.#checks.set(part.name, new Check(part, this.#log))
  }

  /** Checks from now on also between reads, so that changes are logged and a report is never old. */
  start(): void {
    this.#timer ??= setInterval(() => void this.#checkParts(), pollMs).unref()
  }

  /** From now on the process reports that requests must go elsewhere. */
  drain(): void {
    this.#isDraining = true
  }

  close(): void {
    clearInterval(this.#timer)
  }

  /** True once all required parts have passed at the same time. */
  get hasStarted(): boolean {
    return this.#hasStarted
  }

  async read(): Promise<HealthReport> {
    const parts = await this.#checkParts()
    const hasTemporal = parts.some(({ name, status }) => name === 'temporal' && status === 'pass')
    const idleQueues = hasTemporal ? await this.#idleQueues.get() : []
    const failing = parts.filter(({ status }) => status === 'fail')
    const isReady = !failing.some(({ required }) => required)
    this.#hasStarted ||= isReady
    const isWhole = failing.length === 0 && idleQueues.length === 0
    const status = !isReady || this.#isDraining ? 'fail' : isWhole ? 'pass' : 'warn'
    return { status, draining: this.#isDraining, parts, idleQueues }
  }

  #checkParts(): Promise<PartHealth[]> {
    return Promise.all([...this.#checks.values()].map((check) => check.result.get()))
  }
}

/** A value that is read again in the background, by one read at a time. */
class Refreshed<T> {
  readonly #read: () => Promise<T>
  readonly #freshMs: (value: T) => number
  #known: { readonly value: T; readonly atMs: number } | undefined
  #reading: Promise<T> | undefined

  /** @param read never rejects @param freshMs milliseconds until the value is read again */
  constructor(read: () => Promise<T>, freshMs: (value: T) => number) {
    this.#read = read
    this.#freshMs = freshMs
  }

  /** Waits for the read only if there is no value, or none of the last `staleMs`. */
  async get(): Promise<T> {
    const known = this.#known
    const ageMs = known === undefined ? Number.POSITIVE_INFINITY : performance.now() - known.atMs
    if (known !== undefined && ageMs < this.#freshMs(known.value)) return known.value
    this.#reading ??= this.#readAgain()
    return known !== undefined && ageMs < staleMs ? known.value : this.#reading
  }

  async #readAgain(): Promise<T> {
    try {
      const value = await this.#read()
      this.#known = { value, atMs: performance.now() }
      return value
    } finally {
      this.#reading = undefined
    }
  }
}

/** The checks of one part, and the log of their changes. */
class Check {
  readonly result: Refreshed<PartHealth>
  readonly #part: Part
  readonly #log: Log
  #last: PartHealth | undefined
  /** A ping that has not settled: no other begins beside it. */
  #pinging: Promise<unknown> | undefined

  constructor(part: Part, log: Log) {
    this.#part = part
    this.#log = log
    const passesMs = part.freshMs ?? freshMs
    this.result = new Refreshed(
      () => this.#check(),
      ({ status }) => (status === 'pass' ? passesMs : freshMs),
    )
  }

  async #check(): Promise<PartHealth> {
    const startedMs = performance.now()
    const late = pause(checkMs, LATE, { ref: false })
    const failure = await Promise.race([this.#ping().then(() => undefined, asError), late])
    const ms = Math.round(performance.now() - startedMs)
    const result = failure === undefined ? this.#passed(ms) : await this.#failed(failure, ms)
    if (result.status !== (this.#last?.status ?? 'pass') || result.cause !== this.#last?.cause)
      this.#logChange(result, failure)
    this.#last = result
    return result
  }

  /** Joins the ping that runs. One that never settles is given up after `abandonMs`. */
  #ping(): Promise<unknown> {
    if (this.#pinging !== undefined) return this.#pinging
    const pinging = Promise.resolve().then(() => this.#part.ping())
    const forget = () => {
      if (this.#pinging === pinging) this.#pinging = undefined
    }
    this.#pinging = pinging
    pinging.then(forget, forget)
    setTimeout(forget, abandonMs).unref()
    return pinging
  }

  #passed(ms: number): PartHealth {
    const { name, required } = this.#part
    return { name, required, status: 'pass', since: this.#since('pass'), ms }
  }

  async #failed(failure: Error, ms: number): Promise<PartHealth> {
    const { name, required, url } = this.#part
    const title = SERVERS[name as ServerName] ?? name
    const [cause, detail] =
      failure instanceof PartFailure
        ? [failure.kind, failure.message]
        : await findKind(failure, url).then((kind) => [kind, `${title} ${FAILURES[kind]}`] as const)
    return { name, required, status: 'fail', cause, detail, since: this.#since('fail'), ms }
  }

  #since(status: PartHealth['status']): string {
    return this.#last?.status === status ? this.#last.since : new Date().toISOString()
  }

  #logChange({ name: part, status, cause, detail, ms }: PartHealth, err: Error | undefined): void {
    const address = this.#part.url?.host
    if (status === 'pass') this.#log.info({ part, address, ms }, 'health check passes')
    else this.#log.warn({ part, cause, detail, address, ms, err: err?.cause ?? err }, 'health check fails')
  }
}

/** Servers that expect TLS and get none close the connection, or answer with what the driver cannot read. */
async function findKind(failure: Error, url: URL | undefined): Promise<FailureKind> {
  const kind = failureKindOf(failure)
  const mayExpectTls = url !== undefined && (kind === 'closed' || kind === 'failed')
  return mayExpectTls && (await expectsTls(url)) ? 'tls' : kind
}

/** A failure of a part, with a sentence that says the remedy, which operators and admins read. */
export class PartFailure extends Error {
  override readonly name = 'PartFailure'
  readonly kind: FailureKind

  constructor(sentence: string, kind: FailureKind = 'failed', cause?: unknown) {
    super(sentence, { cause })
    this.kind = kind
  }
}

const LATE = new Error(`timeout: no answer within ${checkMs} ms`)

const asError = (error: unknown): Error => (error instanceof Error ? error : new Error(String(error)))
