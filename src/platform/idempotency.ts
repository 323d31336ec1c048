/** Requests under an Idempotency-Key: claimed before they run, remembered with their reply, forgotten in time. */

import { createHash, createHmac, randomBytes } from 'node:crypto'
import { type IdSource, seededIds } from '../core/ids.ts'
import { LIMITS } from '../core/limits.ts'
import { Problem } from '../core/problem.ts'
import { type Sql, sql } from './pg/sql.ts'
import { retryTransient } from './retry.ts'
import type { AdminScope, WorkspaceScope } from './scope.ts'
import type { Secrets } from './secrets.ts'

/** Who asks under which key, and what: two SHA-256 digests. */
export interface Asked {
  readonly id: Buffer
  readonly request: Buffer
}

export interface KeptReply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

/** The right to run a request, until it is kept, released, forgotten, or the lease is over. */
export interface Claim {
  /** The same ids at each attempt: what was made already is met again instead of made twice. */
  readonly ids: IdSource
  /** Above 1 where an attempt before may have had its effect. */
  readonly attempt: number
  /** For the transaction of what is not met again by its ids: with it, no later attempt comes to run. */
  readonly mark: Sql
  /** From now on this is the answer. One that is too large is not kept, only that there was one. */
  keep(reply: KeptReply): Promise<void>
  /** The next one who asks runs it again. */
  release(): Promise<void>
  /** As if it had never been asked. */
  forget(): Promise<void>
}

/** Whose rows are seen is settled by the scope. */
type Scope = AdminScope | WorkspaceScope

export class Idempotency {
  readonly #secrets: Secrets
  readonly #key: string

  constructor(secrets: Secrets) {
    this.#secrets = secrets
    this.#key = secrets.derive('idempotency')
  }

  /**
   * Claims the request, or finds how it was answered: in one round trip, which also clears a little of what is old.
   * @throws Problem `idempotency_key_reused`, `idempotency_in_flight` or `idempotency_reply_lost`
   */
  async claim(scope: Scope, { id, request }: Asked): Promise<Claim | KeptReply> {
    const asked = { id, request: this.#keyed(request), seed: randomBytes(16) }
    const [[claimed] = [], [seen] = []] = (await scope
      .batch(
        insert(asked),
        sql`select request, status, reply, done from idempotency where id = ${asked.id}`,
        sql`select tenon.forget_expired_replies()`,
        trim(asked.id),
      )
      .catch((error: unknown) => withdraw(scope, asked, error))) as unknown as [Claimed[]?, Seen[]?]
    if (claimed !== undefined) return this.#claim(scope, asked.id, claimed)
    // Neither ours nor there: whoever held it has forgotten it in this very moment.
    if (seen === undefined) throw new Problem('idempotency_in_flight')
    if (!seen.request.equals(asked.request)) throw new Problem('idempotency_key_reused')
    if (seen.status === null && seen.done) throw new Problem('idempotency_reply_lost', { detail: CUT_OFF })
    if (seen.status === null) throw new Problem('idempotency_in_flight')
    if (seen.reply === null) {
      const detail = `It was answered with ${seen.status}.`
      throw new Problem('idempotency_reply_lost', { detail, members: { answered: seen.status } })
    }
    return JSON.parse(this.#secrets.open(purpose(asked.id), seen.reply).toString()) as KeptReply
  }

  /** A request may hold a secret, which a digest alone lets whoever reads the table guess at. */
  #keyed(request: Buffer): Buffer {
    return createHmac('sha256', this.#key).update(request).digest()
  }

  #claim(scope: Scope, id: Buffer, { seed, attempt, made_at }: Claimed): Claim {
    const end = async (statement: Sql) =>
      void (await retryTransient(LIMITS.idempotencyPatienceMs, () => scope.batch(statement)))
    // Who outlived its lease no longer decides.
    const mine = sql`id = ${id} and seed = ${seed} and attempt = ${attempt}`
    return {
      ids: seededIds(Date.parse(made_at), (n) =>
        createHash('sha256').update(seed).update(`/${n}`).digest().subarray(0, 16),
      ),
      attempt,
      mark: sql`update idempotency set done = true where ${mine}`,
      keep: (reply) =>
        end(sql`update idempotency set status = ${reply.status}, reply = ${this.#sealed(id, reply)},
          held_until = null where ${mine}`),
      release: () => end(sql`update idempotency set held_until = null where ${mine}`),
      forget: () => end(sql`delete from idempotency where ${mine}`),
    }
  }

  /** Sealed, since replies hold what is stored nowhere in the clear: the text of a new API key. */
  #sealed(id: Buffer, reply: KeptReply): Buffer | null {
    const plain = Buffer.from(JSON.stringify(reply))
    return plain.length > LIMITS.idempotencyReplyBytesMax ? null : this.#secrets.seal(purpose(id), plain)
  }
}

/**
 * When a key was first used within its day, and what ids are made of under it: for what is too long to be kept and sent
 * again, and so has to be met again piece by piece.
 * @param id SHA-256 of whose key it is
 */
export async function firstUse(scope: WorkspaceScope, id: Buffer): Promise<{ seed: Buffer; atMs: number }> {
  const row = await scope.row<Claimed>(sql`
    insert into idempotency as known (id, request, seed, expires_at)
    values (${id}, ${id}, ${randomBytes(16)}, now() + ${LIMITS.idempotencyHours} * interval '1 hour')
    on conflict (tenant_id, workspace_id, role, id) do update set
      ${BEGUN_ANEW}
    returning seed, made_at`)
  if (row === undefined) throw new Problem('internal')
  return { seed: row.seed, atMs: Date.parse(row.made_at) }
}

const CUT_OFF = 'It was cut off after all of it was done, and before its reply was kept.'

const purpose = (id: Buffer) => `idempotency:${id.toString('hex')}`

interface Claimed {
  readonly seed: Buffer
  readonly attempt: number
  readonly made_at: string
}

interface Seen {
  readonly request: Buffer
  readonly status: number | null
  readonly reply: Buffer | null
  readonly done: boolean
}

/** What has expired begins a new day; what has not keeps what its ids are made of. */
const BEGUN_ANEW = sql`
      seed = case when known.expires_at <= now() then excluded.seed else known.seed end,
      made_at = case when known.expires_at <= now() then excluded.made_at else known.made_at end,
      expires_at = case when known.expires_at <= now() then excluded.expires_at else known.expires_at end`

/**
 * Whether the claim was made nobody knows whose connection was lost: where it was, by this request and none before it, it
 * is taken back, or who asks again would be told for minutes that it is under way.
 * @throws always
 */
async function withdraw(scope: Scope, { id, seed }: Claiming, error: unknown): Promise<never> {
  if (isAway(error))
    await retryTransient(LIMITS.idempotencyPatienceMs, () =>
      scope.batch(sql`delete from idempotency where id = ${id} and seed = ${seed}
      and attempt = 1 and status is null`),
    ).catch(() => {})
  throw error
}

const isAway = (error: unknown) => error instanceof Problem && error.code === 'dependency_unavailable'

/** A request that is about to be claimed, with what its ids are to be made of. */
type Claiming = Asked & { readonly seed: Buffer }

/** Takes over what nobody runs any more, with its seed; what has expired begins anew. Those at once wait for the first. */
function insert({ id, request, seed }: Claiming): Sql {
  return sql`
    insert into idempotency as known (id, request, seed, expires_at, held_until)
    values (${id}, ${request}, ${seed}, now() + ${LIMITS.idempotencyHours} * interval '1 hour',
      now() + ${LIMITS.idempotencyLeaseSeconds} * interval '1 second')
    on conflict (tenant_id, workspace_id, role, id) do update set
      request = excluded.request, held_until = excluded.held_until, status = null, reply = null, done = false,
      attempt = case when known.expires_at <= now() then 1 else known.attempt + 1 end,
      ${BEGUN_ANEW}
    where known.expires_at <= now() or (known.status is null and not known.done and known.request = excluded.request
      and coalesce(known.held_until, '-infinity') <= now())
    returning seed, attempt, made_at`
}

/**
 * The rows of a workspace and role lie on 256 shelves by the first byte of their digest. Each claim bounds its own
 * shelf, so that nobody counts them all, and what is dropped is the oldest; never what is still running.
 */
function trim(id: Buffer): Sql {
  const [low, high] = [Buffer.alloc(32, 0x00), Buffer.alloc(32, 0xff)]
  low[0] = high[0] = id[0] ?? 0
  // Each step is an array that is found once: of a nested query the planner may ask again for every row.
  return sql`
    with shelf as (
      select id, row_number() over newest as n, sum(octet_length(reply)) over newest as bytes,
        status is null and coalesce(held_until, '-infinity') > now() as running
      from idempotency where id between ${low} and ${high}
      window newest as (order by made_at desc, id)
    ), free as (
      select id from idempotency where id = any(array(
        select id from shelf where not running
          and (n > ${LIMITS.idempotencyShelfRowsMax} or bytes > ${LIMITS.idempotencyShelfBytesMax})))
      for update skip locked
    )
    delete from idempotency where id = any(array(select id from free))`
}
