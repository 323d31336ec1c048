/** Requests with an Idempotency-Key: claimed before they run, stored with their reply until they expire. */

import { createHash, randomBytes } from 'node:crypto'
import { type IdSource, seededIds } from '../core/ids.ts'
import { Problem } from '../core/problem.ts'
import type { Secrets } from '../infra/crypto/secrets.ts'
import { type Sql, sql } from '../infra/postgres/sql.ts'
import { retryTransient } from '../infra/retry.ts'
import type { Completion } from './completion.ts'
import { ACCESS_LIMITS } from './limits.ts'
import type { Look } from './payload-access.ts'
import type { AdminScope, WorkspaceScope } from './scope.ts'

/** Digests (SHA-256) of the caller with its key, and of the request. */
export interface IdempotentRequest {
  readonly id: Buffer
  readonly request: Buffer
}

/** The output of an effect, from which its reply is built again. */
export interface KeptOutput {
  readonly output: unknown
}

export interface StoredReply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  /** How it shows payloads of others, so that it is shown again only with an entry in the audit log, and with the right, if by that. */
  readonly look?: Look['by']
}

/**
 * The right to run a request, until its reply is kept, or it is released or forgotten. Its lease is renewed meanwhile, so
 * it ends some seconds after its process.
 */
export interface Claim {
  /** The same ids at each attempt, so that a repeated insert finds the row of the attempt before. */
  readonly ids: IdSource
  readonly completion: Completion
  /**
   * Stores the reply for repeated requests, unless the output of a success was kept with its effect. Of a reply that is too
   * large, only the status is stored.
   */
  store(reply: StoredReply): Promise<void>
  /** Lets the next request run it again. */
  release(): Promise<void>
  /** Removes the claim. */
  forget(): Promise<void>
}

type Scope = AdminScope | WorkspaceScope

export class Idempotency {
  readonly #secrets: Secrets

  constructor(secrets: Secrets) {
    this.#secrets = secrets
  }

  /**
   * Claims the request or finds its stored reply, or the output of its effect, in one round trip, which also removes a few
   * expired rows.
   * @throws Problem `idempotency_key_reused`, `idempotency_in_flight` or `idempotency_reply_lost`
   */
  async claim(scope: Scope, { id, request }: IdempotentRequest): Promise<Claim | StoredReply | KeptOutput> {
    // A request may hold a secret, which a plain digest would let a reader of the table guess.
    const requests = this.#secrets.macs('idempotency', request)
    const claim = { id, requests, seed: randomBytes(16) }
    const [[claimed] = [], [seen] = []] = (await scope
      .batch(
        insert(claim),
        sql`select request, status, reply, done,
          greatest(1, ceil(extract(epoch from held_until - clock_timestamp())))::integer as wait_s from idempotency where id = ${id}`,
        sql`select tenon.delete_expired_replies()`,
        deleteOldReplies(id),
      )
      .catch((error: unknown) => deleteClaim(scope, claim, error))) as unknown as [
      ClaimRow[]?,
      StoredClaim[]?,
    ]
    if (claimed !== undefined) return this.#claim(scope, id, claimed)
    // Another request held the claim, and has removed it meanwhile.
    if (seen === undefined) throw new Problem('idempotency_in_flight')
    if (!requests.some((one) => seen.request.equals(one))) throw new Problem('idempotency_key_reused')
    const { status, done, reply, wait_s } = seen
    if (status === null && !done)
      throw new Problem('idempotency_in_flight', { headers: { 'retry-after': String(wait_s ?? 1) } })
    if (reply === null) throw replyLost(status)
    const kept: unknown = JSON.parse(this.#secrets.open(replyPurpose(id), reply).toString())
    return status === null ? { output: kept } : (kept as StoredReply)
  }

  #claim(scope: Scope, id: Buffer, { seed, attempt, made_at, parts, begun }: ClaimRow): Claim {
    // An attempt that outlived its lease, after which another took over, changes nothing.
    const mine = sql`id = ${id} and seed = ${seed} and attempt = ${attempt}`
    const lease = setInterval(() => {
      scope
        .batch(sql`update idempotency set held_until = ${LEASE_END} where ${mine} and held_until is not null`)
        .catch((error: unknown) => scope.logError(error, 'lease of an idempotent request not renewed'))
    }, ACCESS_LIMITS.idempotencyRenewMs).unref()
    const end = async (statement: Sql) => {
      clearInterval(lease)
      await retryTransient(ACCESS_LIMITS.idempotencyRetryMs, () => scope.batch(statement))
    }
    const digest = (label: string) => createHash('sha256').update(seed).update(label).digest()
    const held = sql`where ${mine} returning 1 as held`
    let isKept = false
    return {
      ids: seededIds(Date.parse(made_at), (n) => digest(`/${n}`).subarray(0, 16)),
      completion: {
        attempt,
        parts,
        keep: (output) => {
          isKept = true
          return sql`update idempotency set done = true, reply = ${this.#encrypt(id, output)}, held_until = null
            ${held}`
        },
        keepPart: (index, result) =>
          sql`update idempotency set parts = parts || ${JSON.stringify({ [index]: result })}::jsonb ${held}`,
        marked: (part) => ({
          mark: digest(`/mark/${part}`).toString('base64url').slice(0, MARK_CHARS),
          begunAt: begun?.part === part ? begun.version : undefined,
          begin: (version) =>
            sql`update idempotency set begun = ${JSON.stringify({ part, version })}::jsonb ${held}`,
        }),
      },
      store: async (reply) => {
        if (isKept && reply.status < 300) return clearInterval(lease)
        await end(sql`update idempotency set status = ${reply.status}, reply = ${this.#encrypt(id, reply)},
          held_until = null where ${mine}`)
      },
      release: () => end(sql`update idempotency set held_until = null where ${mine}`),
      forget: () => end(sql`delete from idempotency where ${mine}`),
    }
  }

  /** Encrypted, since replies hold texts that are stored nowhere else in the clear, as that of a new API key. */
  #encrypt(id: Buffer, reply: unknown): Buffer | null {
    const plain = Buffer.from(JSON.stringify(reply))
    return plain.length > ACCESS_LIMITS.idempotencyReplyBytesMax
      ? null
      : this.#secrets.seal(replyPurpose(id), plain)
  }
}

/**
 * When a key was first used within its day, and the seed of its ids: for requests whose effects are repeated piece by piece,
 * since they are too long to be stored.
 * @param id SHA-256 of the caller with its key
 */
export async function firstUse(scope: WorkspaceScope, id: Buffer): Promise<{ seed: Buffer; atMs: number }> {
  const row = await scope.row<ClaimRow>(sql`
    insert into idempotency as known (id, request, seed, expires_at)
    values (${id}, ${id}, ${randomBytes(16)}, now() + ${ACCESS_LIMITS.idempotencyHours} * interval '1 hour')
    on conflict (tenant_id, workspace_id, role, id) do update set
      ${RESTART_EXPIRED}
    returning seed, made_at`)
  if (row === undefined) throw new Problem('internal')
  return { seed: row.seed, atMs: Date.parse(row.made_at) }
}

/** @param status null if the effect is done and its output was too large */
function replyLost(status: number | null): Problem {
  if (status === null)
    return new Problem('idempotency_reply_lost', { detail: 'All changes of the request were made.' })
  const detail = `The first request with this key was answered with ${status}.`
  return new Problem('idempotency_reply_lost', { detail, members: { answered: status } })
}

/** 132 bits. */
const MARK_CHARS = 22

export const replyPurpose = (id: Buffer) => `idempotency:${id.toString('hex')}`

interface ClaimRow {
  readonly seed: Buffer
  readonly attempt: number
  readonly made_at: string
  readonly parts: Readonly<Record<number, unknown>>
  readonly begun: { readonly part: number; readonly version: number } | null
}

interface StoredClaim {
  readonly request: Buffer
  readonly status: number | null
  readonly reply: Buffer | null
  readonly done: boolean
  /** Seconds until the lease ends; null if no attempt runs. */
  readonly wait_s: number | null
}

const LEASE_END = sql`now() + ${ACCESS_LIMITS.idempotencyLeaseSeconds} * interval '1 second'`

/** An expired row starts anew; any other keeps the seed of its ids. */
const RESTART_EXPIRED = sql`
      seed = case when known.expires_at <= now() then excluded.seed else known.seed end,
      made_at = case when known.expires_at <= now() then excluded.made_at else known.made_at end,
      expires_at = case when known.expires_at <= now() then excluded.expires_at else known.expires_at end`

/**
 * After a lost connection it is unknown if the claim was made. If it was, by this request and none before it, it is removed;
 * else a repeated request would be in flight for minutes.
 * @throws the given error
 */
async function deleteClaim(scope: Scope, { id, seed }: NewClaim, error: unknown): Promise<never> {
  if (isAway(error))
    await retryTransient(ACCESS_LIMITS.idempotencyRetryMs, () =>
      scope.batch(sql`delete from idempotency where id = ${id} and seed = ${seed}
      and attempt = 1 and status is null`),
    ).catch(() => {})
  throw error
}

const isAway = (error: unknown) => error instanceof Problem && error.code === 'dependency_unavailable'

/** A request to be claimed, with its MAC under each master key, and the seed of its ids. */
type NewClaim = Pick<IdempotentRequest, 'id'> & {
  readonly requests: readonly [Buffer, ...Buffer[]]
  readonly seed: Buffer
}

/** Takes over an abandoned claim with its seed; an expired one starts anew. Concurrent requests wait for the first. */
function insert({ id, requests, seed }: NewClaim): Sql {
  const [request] = requests
  const same = requests.reduce((any, one) => sql`${any} or known.request = ${one}`, sql`false`)
  return sql`
    insert into idempotency as known (id, request, seed, expires_at, held_until)
    values (${id}, ${request}, ${seed}, now() + ${ACCESS_LIMITS.idempotencyHours} * interval '1 hour',
      ${LEASE_END})
    on conflict (tenant_id, workspace_id, role, id) do update set
      request = excluded.request, held_until = excluded.held_until, status = null, reply = null, done = false,
      attempt = case when known.expires_at <= now() then 1 else known.attempt + 1 end,
      parts = case when known.expires_at <= now() then '{}' else known.parts end,
      begun = case when known.expires_at <= now() then null else known.begun end,
      ${RESTART_EXPIRED}
    where known.expires_at <= now() or (known.status is null and not known.done and (${same})
      and coalesce(known.held_until, '-infinity') <= now())
    returning seed, attempt, made_at, parts, begun`
}

/**
 * The rows of a workspace and role form 256 partitions by the first byte of their digest. Each claim bounds its own
 * partition, so that none counts all rows; the oldest are dropped, and none that is running.
 */
function deleteOldReplies(id: Buffer): Sql {
  const [low, high] = [Buffer.alloc(32, 0x00), Buffer.alloc(32, 0xff)]
  low[0] = high[0] = id[0] ?? 0
  // Each step is an array, which is computed once: a nested query might be repeated for every row.
  return sql`
    with stored as (
      select id, row_number() over newest as n, sum(octet_length(reply)) over newest as bytes,
        status is null and coalesce(held_until, '-infinity') > now() as running
      from idempotency where id between ${low} and ${high}
      window newest as (order by made_at desc, id)
    ), free as (
      select id from idempotency where id = any(array(
        select id from stored where not running
          and (n > ${ACCESS_LIMITS.idempotencyRepliesMax} or bytes > ${ACCESS_LIMITS.idempotencyBytesMax})))
      for update skip locked
    )
    delete from idempotency where id = any(array(select id from free))`
}
