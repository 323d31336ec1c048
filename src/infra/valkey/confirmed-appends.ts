/** With Sentinels: appends that count when a replica has them, since a failover loses what only the primary has. */

import type { ChainableCommander, Redis } from 'ioredis'
import { KeyedSemaphore } from '../keyed-semaphore.ts'
import { INFRA_LIMITS } from '../limits.ts'
import { type Addition, appendingScript } from './stream-log.ts'

/** Arguments of SET: the key that all processes write to see whether the server takes writes, and how long it stays. */
export const PROBE = ['tenon:probe', '', 'PX', 60_000] as const

/** No replica has confirmed in time. */
export class Unconfirmed extends Error {
  /** True if the server has appended everything, false if nothing. */
  readonly isAppended: boolean

  constructor(isAppended: boolean) {
    super('No replica of Valkey has confirmed the event, so a failover could lose it.')
    this.isAppended = isAppended
  }
}

type Outcome = string | null | Error

/**
 * Appends to several streams. Nothing is appended unless a replica has just confirmed another write: while none does, attempts that
 * are repeated would append the same again and again.
 * @returns for each stream the last id, or why it has nothing of it
 * @throws Unconfirmed; the error of the server
 */
export async function appendConfirmed(redis: Redis, additions: readonly Addition[]): Promise<Outcome[]> {
  const [probe] = await confirmed(redis.pipeline().set(...PROBE), false)
  if (probe instanceof Error) throw probe
  if (additions.length === 0) return []
  const pipeline = redis.pipeline()
  for (const addition of additions) pipeline.eval(...appendingScript(addition))
  return confirmed(pipeline, true)
}

/** Waits in the same pipeline: after a reconnection to another server, the wait alone would confirm nothing. */
async function confirmed(pipeline: ChainableCommander, isAppend: boolean): Promise<Outcome[]> {
  const replies = (await pipeline.wait(1, INFRA_LIMITS.replicaConfirmsMs).exec()) ?? []
  const outcomes = replies.map(([failure, reply]) => failure ?? (reply as string | null))
  const replicas = outcomes.pop()
  if (Number(replicas) >= 1) return outcomes
  const failures = [...outcomes, replicas].filter((one) => one instanceof Error)
  throw failures[0] ?? new Unconfirmed(isAppend)
}

interface Batch {
  readonly additions: Addition[]
  readonly sent: Promise<Outcome[]>
}

/**
 * Appends for all tenants of a process, on a connection of their own: it answers nothing else while it waits for a replica. Those
 * that come meanwhile go together, and fail together if the batch before them has failed.
 */
export class ConfirmedAppends {
  readonly #redis: Redis
  /** Not sent yet. */
  #next: Batch | undefined
  #last: Promise<unknown> = Promise.resolve()
  readonly #places: KeyedSemaphore

  constructor(redis: Redis) {
    this.#redis = redis
    const { ofTenantMax, ofProcessMax } = INFRA_LIMITS.replicaConfirmsPending
    this.#places = new KeyedSemaphore(ofTenantMax, 0, ofProcessMax)
  }

  /** Appends that are not confirmed yet. */
  get pending(): number {
    return this.#places.held
  }

  /** @returns the last id @throws Unconfirmed; Error if too many wait; the error of the server */
  async append(addition: Addition): Promise<string | null> {
    const release = this.#places.tryAcquire(addition.key)
    if (release === undefined) throw new Error('Too many events wait until a replica of Valkey has them.')
    try {
      this.#next ??= this.#open()
      const { additions, sent } = this.#next
      const at = additions.push(addition) - 1
      const outcome = (await sent)[at] ?? null
      if (outcome instanceof Error) throw outcome
      return outcome
    } finally {
      release()
    }
  }

  close(): void {
    this.#redis.disconnect()
  }

  #open(): Batch {
    const additions: Addition[] = []
    const close = () => {
      this.#next = undefined
    }
    const sent = this.#last.finally(close).then(() => appendConfirmed(this.#redis, additions))
    const settle = () => {
      if (this.#last === sent) this.#last = Promise.resolve()
    }
    this.#last = sent
    sent.then(settle, settle)
    return { additions, sent }
  }
}
