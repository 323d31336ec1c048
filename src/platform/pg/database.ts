/** The pool of the login role. It has one way in: a batch whose first statement puts on a mask. */

import { DatabaseError, Pool, type PoolClient } from 'pg'
import { LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'
import { Shares } from '../shares.ts'
import { Batch, type Row } from './batch.ts'
import { type Sql, sql } from './sql.ts'

type Mask = 'tenon_anon' | 'tenon_service' | 'tenon_admin' | 'tenon_operator' | 'tenon_relay'

/** Which role a batch runs in and whose rows it may see; empty texts see nobody's. */
export interface Mandate {
  readonly mask: Mask
  readonly tenant: string
  readonly workspace: string
  readonly statementTimeoutMs: number
}

/** Where batches are run: any connection, or always the same one. */
export interface Batches {
  /**
   * Runs the statements as one transaction in one round trip.
   * @throws Problem `dependency_unavailable`, `overloaded`, `query_timeout` or `output_too_large`; the server's own
   *   DatabaseError for what the caller must judge (unique violations and the like)
   */
  batch(mandate: Mandate, statements: readonly Sql[]): Promise<Row[][]>
}

/** One connection, for what lasts longer than a transaction: a lock of its session. */
export interface Session extends Batches {
  /** Closes the connection, and with it gives up what its session holds. */
  end(): void
}

export class Database implements Batches {
  readonly #pool: Pool
  readonly #shares = new Shares(LIMITS.poolPerTenantMax, LIMITS.poolWaitMs)

  private constructor(pool: Pool) {
    this.#pool = pool
  }

  static open(
    url: string,
    onError: (error: Error) => void,
    connectionsMax: number = LIMITS.poolConnectionsMax,
  ): Database {
    const pool = new Pool({
      connectionString: url,
      max: connectionsMax,
      connectionTimeoutMillis: LIMITS.poolWaitMs,
      application_name: 'tenon',
    })
    pool.on('error', onError)
    // A connection that breaks while it is lent out reports here too; unheard, that would end the process.
    pool.on('connect', (client) => client.on('error', onError))
    return new Database(pool)
  }

  async batch(mandate: Mandate, statements: readonly Sql[]): Promise<Row[][]> {
    const { tenant } = mandate
    // What is asked before a tenant is known, or by an operator, is nobody's share.
    const giveBack = tenant === '' ? undefined : await this.#shares.take(tenant, BUSY)
    try {
      return await this.#run(mandate, statements)
    } finally {
      giveBack?.()
    }
  }

  /**
   * A connection kept out of the pool. The server ends one that asks nothing for `sessionIdleMs`: its process hangs or
   * its machine is gone, and another one waits for the lock. It asks the same all day, under plans that may be made
   * while a table is empty and must do when it has a million rows.
   * @throws Problem `dependency_unavailable`
   */
  async session(): Promise<Session> {
    const client = await this.#connect()
    await client.query(SESSION_SETTINGS).catch((error: unknown) => {
      client.release(true)
      throw translate(error)
    })
    return {
      batch: (mandate, statements) => run(client, mandate, statements),
      end: () => client.release(true),
    }
  }

  /**
   * Several round trips as one transaction, for what cannot be said in one statement. It ends when `work` does, or when
   * nothing is asked of it for a while: locks are not held for a node that is gone.
   * @param tenant whose share of the connections it takes
   * @throws what `work` throws, and as {@link batch} does; then nothing has happened
   */
  async transaction<T>(tenant: string, work: (held: Batches) => Promise<T>): Promise<T> {
    const giveBack = tenant === '' ? undefined : await this.#shares.take(tenant, BUSY)
    try {
      return await this.#lend((client) => within(client, work))
    } finally {
      giveBack?.()
    }
  }

  #run(mandate: Mandate, statements: readonly Sql[]): Promise<Row[][]> {
    return this.#lend((client) => run(client, mandate, statements))
  }

  /** A connection that broke meanwhile does not come back to the pool. */
  async #lend<T>(work: (client: PoolClient) => Promise<T>): Promise<T> {
    const client = await this.#connect()
    let broken = false
    try {
      return await work(client)
    } catch (error) {
      broken = error instanceof Problem && error.code === 'dependency_unavailable'
      throw error
    } finally {
      client.release(broken)
    }
  }

  #connect(): Promise<PoolClient> {
    return this.#pool.connect().catch((error: unknown) => {
      throw unavailable(error)
    })
  }

  /** Whether the server answers. */
  async ping(): Promise<void> {
    await this.batch({ mask: 'tenon_anon', tenant: '', workspace: '', statementTimeoutMs: 2_000 }, [
      sql`select 1`,
    ])
  }

  async close(): Promise<void> {
    await this.#pool.end()
  }
}

const BEGIN = `begin; set local lock_timeout = ${LIMITS.lockWaitMs};
  set local idle_in_transaction_session_timeout = ${LIMITS.transactionIdleMs}`

async function within<T>(client: PoolClient, work: (held: Batches) => Promise<T>): Promise<T> {
  await say(client, BEGIN)
  try {
    const made = await work({ batch: (mandate, statements) => run(client, mandate, statements) })
    await say(client, 'commit')
    return made
  } catch (error) {
    await say(client, 'rollback')
    throw error
  }
}

async function say(client: PoolClient, text: string): Promise<void> {
  await client.query(text).catch((error: unknown) => {
    throw translate(error)
  })
}

async function run(client: PoolClient, mandate: Mandate, statements: readonly Sql[]): Promise<Row[][]> {
  const batch = new Batch([settings(mandate), ...statements])
  try {
    client.query(batch)
    const [, ...rows] = await batch.done
    return rows
  } catch (error) {
    throw translate(error)
  }
}

const SESSION_SETTINGS = [
  `set idle_session_timeout = ${LIMITS.sessionIdleMs}`,
  ...['seqscan', 'bitmapscan', 'hashjoin', 'mergejoin'].map((way) => `set enable_${way} = off`),
].join('; ')

/** All four are transaction-local (third argument `true`): they end with the batch. Nobody reads them back. */
function settings(mandate: Mandate): Sql {
  return sql`select num_nulls(set_config('role', ${mandate.mask}, true),
    set_config('tenon.tenant', ${mandate.tenant}, true), set_config('tenon.workspace', ${mandate.workspace}, true),
    set_config('statement_timeout', ${mandate.statementTimeoutMs}, true))`
}

/** 55P03 is a lock that somebody else holds for long, 42501 is a refusal of row-level security or a grant, class 22 a value that no column takes. */
const REFUSALS = [
  [/^57014$/, 'query_timeout'],
  [/^55P03$/, 'overloaded'],
  [/^42501$/, 'forbidden'],
  [/^22/, 'value_invalid'],
] as const

/** Class 08 connection, 53 resources, 57P0x shutdown, 58 system: the server's trouble, not the statement's. */
function translate(error: unknown): Problem | DatabaseError {
  if (error instanceof Problem) return error
  if (!(error instanceof DatabaseError)) return unavailable(error)
  const code = error.code ?? ''
  if (code === QUOTA_EXCEEDED) return quotaExceeded(error)
  if (code === TOO_LONG) return tooLongForIndex(error)
  const refusal = REFUSALS.find(([pattern]) => pattern.test(code))
  if (refusal !== undefined) return new Problem(refusal[1], { cause: error })
  return /^(08|53|57P|58)/.test(code) ? unavailable(error) : error
}

/** What an index of PostgreSQL says of a row that it has no room for. */
export const TOO_LONG = '54000'

export const tooLongForIndex = (cause: unknown) =>
  new Problem('value_invalid', {
    detail: 'A text of an indexed field is longer than an index takes, which is about 2,600 bytes.',
    hint: 'Store a shorter text, or take the index away from the declaration of the collection.',
    cause,
  })

/** Raised by tenon.use_quota (migration 0011), which says in its detail which quota it is. */
const QUOTA_EXCEEDED = 'TQ001'

function quotaExceeded(error: DatabaseError): Problem {
  const members = JSON.parse(error.detail ?? '{}') as { quota: string; limit: number; used: number }
  const detail = `The quota ${members.quota} is ${members.limit}, and ${members.used} are in use.`
  return new Problem('quota_exceeded', { detail, members, cause: error })
}

const BUSY = 'All database connections are busy.'

function unavailable(cause: unknown): Problem {
  const waited = cause instanceof Error && /timeout exceeded when trying to connect/.test(cause.message)
  if (waited) return new Problem('overloaded', { detail: BUSY, cause })
  return new Problem('dependency_unavailable', { detail: 'PostgreSQL does not answer.', cause })
}

/** The name of the constraint where a unique or foreign key was violated, else undefined. */
export function violated(error: unknown): string | undefined {
  if (!(error instanceof DatabaseError)) return undefined
  return error.code === '23505' || error.code === '23503' ? error.constraint : undefined
}

/** Which of the caller's statements failed, from 0 on; undefined where it was none of them. */
export function failedStatement(error: unknown): number | undefined {
  const from = error instanceof Problem ? error.cause : error
  const { statement } = Object(from) as { statement?: unknown }
  // The settings come first.
  return typeof statement === 'number' && statement > 0 ? statement - 1 : undefined
}

/** What tenon.refuse_change (migration 0015) raised: what was in the way of the change. */
export function changeRefused(
  error: unknown,
): { current: { version: number; bytes: number } | null } | undefined {
  if (!(error instanceof DatabaseError) || error.code !== 'TN003') return undefined
  return JSON.parse(error.detail ?? '{}')
}

/** Refusals that our own triggers raise, and a table that went with its declaration. */
const RAISED: Readonly<
  Record<string, 'has_documents' | 'is_declared' | 'no_table' | 'no_column' | 'deadlock'>
> = {
  TN001: 'has_documents',
  TN002: 'is_declared',
  '42P01': 'no_table',
  '42703': 'no_column',
  '40P01': 'deadlock',
}

/** Why the database refused a statement on a collection; undefined where it was something else. */
export function refusal(error: unknown): (typeof RAISED)[string] | undefined {
  return error instanceof DatabaseError ? RAISED[error.code ?? ''] : undefined
}
