/** The connection pool of the login role. Its only entry is a batch whose first statement sets the role and the tenant. */

import { Pool, type PoolClient } from 'pg'
import { LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'
import { Shares } from '../shares.ts'
import { Batch, type Row } from './batch.ts'
import { BUSY, translate, unavailable } from './errors.ts'
import { Groups } from './groups.ts'
import { type Sql, sql } from './sql.ts'

type Mask =
  | 'tenon_anon'
  | 'tenon_service'
  | 'tenon_admin'
  | 'tenon_operator'
  | 'tenon_relay'
  | 'tenon_mender'
  | 'tenon_triggers'
  | 'tenon_issuer'
  | 'tenon_keyring'

/** Which role a batch runs in and whose rows it may see; empty texts see nobody's. */
export interface Mandate {
  readonly mask: Mask
  readonly tenant: string
  readonly workspace: string
  readonly statementTimeoutMs: number
  /** What changes of documents say of the runs that led to them; nothing for none. */
  readonly hops?: number
}

/** With whom a batch may share its transaction: those of its mandate that read as it does, or write. */
export type Company = 'reading' | 'writing'

/** Where batches are run: any connection, or always the same one. */
export interface Batches {
  /**
   * Runs the statements as one transaction in one round trip.
   * @throws Problem `dependency_unavailable`, `overloaded`, `query_timeout` or `output_too_large`; the server's own
   *   DatabaseError for what the caller must judge (unique violations and the like)
   * @param company of statements that take a moment: with whom they may share a transaction, where there is a choice
   */
  batch(mandate: Mandate, statements: readonly Sql[], company?: Company): Promise<Row[][]>
}

/** One connection, for what lasts longer than a transaction: a lock of its session. */
export interface Session extends Batches {
  /** Closes the connection, and with it gives up what its session holds. */
  end(): void
}

export class Database implements Batches {
  readonly #pool: Pool
  readonly #shares = new Shares(LIMITS.poolPerTenantMax, LIMITS.poolWaitMs)
  readonly #groups = new Groups((...of) => this.#alone(...of))

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

  batch(mandate: Mandate, statements: readonly Sql[], company?: Company): Promise<Row[][]> {
    return company === undefined
      ? this.#alone(mandate, statements)
      : this.#groups.join(mandate, statements, company)
  }

  async #alone(mandate: Mandate, statements: readonly Sql[], lockMs?: number): Promise<Row[][]> {
    const { tenant } = mandate
    // What is asked before a tenant is known, or by an operator, is nobody's share.
    const giveBack = tenant === '' ? undefined : await this.#shares.take(tenant, BUSY)
    try {
      return await this.#lend((client) => run(client, mandate, statements, lockMs))
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

async function run(
  client: PoolClient,
  mandate: Mandate,
  statements: readonly Sql[],
  lockMs?: number,
): Promise<Row[][]> {
  const { hops } = mandate
  const before = [
    settings(mandate),
    ...(hops === undefined ? [] : [hopsSetting(hops)]),
    ...(lockMs === undefined ? [] : [lockSetting(lockMs)]),
  ]
  const batch = new Batch([...before, ...statements], before.length)
  try {
    client.query(batch)
    return (await batch.done).slice(before.length)
  } catch (error) {
    throw translate(error, mandate.mask === 'tenon_anon')
  }
}

const SESSION_SETTINGS = [
  `set idle_session_timeout = ${LIMITS.sessionIdleMs}`,
  ...['seqscan', 'bitmapscan', 'hashjoin', 'mergejoin'].map((way) => `set enable_${way} = off`),
].join('; ')

/** It too ends with the batch; the column of the outbox reads it. */
const hopsSetting = (hops: number): Sql => sql`select set_config('tenon.hops', ${hops}, true) is null`

const lockSetting = (ms: number): Sql => sql`select set_config('lock_timeout', ${ms}, true) is null`

/** All four are transaction-local (third argument `true`): they end with the batch. Nobody reads them back. */
function settings(mandate: Mandate): Sql {
  return sql`select num_nulls(set_config('role', ${mandate.mask}, true),
    set_config('tenon.tenant', ${mandate.tenant}, true), set_config('tenon.workspace', ${mandate.workspace}, true),
    set_config('statement_timeout', ${mandate.statementTimeoutMs}, true))`
}
