/** The connection pool of the login role. Statements run in batches alone; the first statement of each sets role and tenant. */

import { setTimeout as pause } from 'node:timers/promises'
import { Client, type ClientBase, type ClientConfig, Pool, type PoolClient } from 'pg'
import { Problem } from '../../core/problem.ts'
import type { Config } from '../config.ts'
import { KeyedSemaphore } from '../keyed-semaphore.ts'
import { INFRA_LIMITS } from '../limits.ts'
import { currentTraceText } from '../trace-context.ts'
import { BUSY, translate, unavailable } from './errors.ts'
import { type Sql, sql } from './sql.ts'
import { Batch, type BatchGroup, hasPreparedMany, type Row, type SessionContext } from './statement-batch.ts'
import { type MergedBounds, TransactionBatcher } from './transaction-batcher.ts'

/** Runs batches on any connection, or always on the same one. */
export interface StatementExecutor {
  /**
   * Runs the statements as one transaction in one round trip.
   * @param group lets short statements share a transaction with others of the same context
   * @throws Problem `dependency_unavailable`, `overloaded`, `query_timeout` or `output_too_large`; DatabaseError for what
   *   the caller must judge (unique violations and the like)
   */
  batch(context: SessionContext, statements: readonly Sql[], group?: BatchGroup): Promise<Row[][]>
}

/** A dedicated connection, for locks that last longer than a transaction. */
export interface PinnedConnection extends StatementExecutor {
  /** Closes the connection, which releases the locks of its session. */
  end(): void
}

/** Runs statements in the database role and tenant of the scope that extends it. */
export abstract class Statements {
  /** Runs the statements as one transaction in one round trip. @returns rows per statement */
  abstract batch(...statements: Sql[]): Promise<Row[][]>

  /** The rows of one statement. */
  async rows<T extends object>(statement: Sql): Promise<T[]> {
    const [rows = []] = await this.batch(statement)
    return rows as T[]
  }

  /** The first row of one statement; undefined if it has none. */
  async row<T extends object>(statement: Sql): Promise<T | undefined> {
    const [row] = await this.rows<T>(statement)
    return row
  }
}

/** How much of a pool is in use. */
export interface PoolUse {
  /** Open connections: those in use, and the others. */
  readonly used: number
  readonly idle: number
  readonly max: number
  /** Transactions that wait now: for any connection, or since their tenant uses its share. */
  readonly waiting: number
  readonly waitingForShare: number
  /** Transactions that have waited for any connection until now, and for how long. */
  readonly waits: number
  readonly waitedMs: number
}

type DatabaseConfig = Pick<
  Config,
  'DATABASE_APP_URL' | 'DATABASE_SESSION_URL' | 'DATABASE_POOL_MAX' | 'DATABASE_PREPARED_STATEMENTS'
>

interface Options {
  readonly connectionsMax: number
  /** Where connections keep their session, if those of the pool do not. */
  readonly sessionUrl?: string | undefined
  readonly isPrepared: boolean
}

export class Database implements StatementExecutor {
  readonly #pool: Pool
  readonly #sessionConfig: ClientConfig
  readonly #isPrepared: boolean
  readonly #onError: (error: Error) => void
  /** The share of the pool that one tenant may use. */
  readonly #connectionShares: KeyedSemaphore
  /** By advisory lock: one caller of this process waits at the database, the others here. */
  readonly #lines = new KeyedSemaphore(1, INFRA_LIMITS.lockWaitMs)
  readonly #batcher = new TransactionBatcher((...of) => this.#runAlone(...of))
  #waits = 0
  #waitedMs = 0

  private constructor(url: string, onError: (error: Error) => void, options: Options) {
    const { connectionsMax, sessionUrl = url, isPrepared } = options
    const config = configOf(url)
    this.#sessionConfig = configOf(sessionUrl)
    this.#isPrepared = isPrepared
    this.#onError = onError
    this.#pool = new Pool({ ...config, max: connectionsMax })
    const ofTenant = Math.max(1, Math.floor(connectionsMax * INFRA_LIMITS.poolTenantShare))
    this.#connectionShares = new KeyedSemaphore(ofTenant, INFRA_LIMITS.poolWaitMs)
    this.#pool.on('error', onError)
    // A connection that breaks while it is in use reports here, too; without a listener that ends the process.
    this.#pool.on('connect', (client) => client.on('error', onError))
  }

  /** With the settings of a process. */
  static of(config: DatabaseConfig, onError: (error: Error) => void): Database {
    return new Database(config.DATABASE_APP_URL, onError, {
      connectionsMax: config.DATABASE_POOL_MAX,
      sessionUrl: config.DATABASE_SESSION_URL,
      isPrepared: config.DATABASE_PREPARED_STATEMENTS,
    })
  }

  static open(
    url: string,
    onError: (error: Error) => void,
    connectionsMax: number = INFRA_LIMITS.poolConnectionsMax,
  ): Database {
    return new Database(url, onError, { connectionsMax, isPrepared: true })
  }

  batch(context: SessionContext, statements: readonly Sql[], group?: BatchGroup): Promise<Row[][]> {
    return group === undefined
      ? this.#runAlone(traced(context), statements)
      : this.#batcher.join(
          group === 'reading' ? { ...context, causedBy: undefined } : traced(context),
          statements,
          group,
        )
  }

  #runAlone(context: SessionContext, statements: readonly Sql[], bounds?: MergedBounds): Promise<Row[][]> {
    return this.#withClient(context.tenant, (client) => this.#send(client, context, statements, bounds))
  }

  #send(client: ClientBase, context: SessionContext, statements: readonly Sql[], bounds?: MergedBounds) {
    return run(client, context, statements, { isPrepared: this.#isPrepared, bounds })
  }

  /**
   * Opens a connection outside the pool. The server ends it after `sessionIdleMs` without a statement, since its process may
   * hang or its machine may be down while another process waits for the lock. It is never that of a pooler which lends it for a
   * transaction alone. Its plans may be made while a table is empty
   * and must still be good when the table has a million rows.
   * @throws Problem `dependency_unavailable`
   */
  async session(): Promise<PinnedConnection> {
    const client = new Client(this.#sessionConfig)
    client.on('error', this.#onError)
    const end = () => void client.end().catch(() => {})
    try {
      await client.connect()
      await send(client, SESSION_SETTINGS)
    } catch (error) {
      end()
      throw error instanceof Problem ? error : unavailable(error)
    }
    return {
      batch: (context, statements) => inTurn(client, () => this.#send(client, traced(context), statements)),
      end,
    }
  }

  /**
   * Runs several round trips as one transaction. It ends with `work`, or after `transactionIdleMs` without a statement.
   * @param tenant the tenant whose share of connections it uses
   * @param work should use no other connection: one that holds a connection and waits for another waits for the others that do
   * @param kind `snapshot`: all statements see one moment, and change nothing; it may stand still for longer
   * @throws the error of `work`, or as {@link batch}; then the transaction is rolled back
   */
  transaction<T>(
    tenant: string,
    work: (held: StatementExecutor) => Promise<T>,
    kind: keyof typeof BEGIN = 'change',
  ): Promise<T> {
    return this.#withClient(tenant, async (client) => {
      try {
        await send(client, BEGIN[kind])
        const batch = (context: SessionContext, of: readonly Sql[]) =>
          inTurn(client, () => this.#send(client, traced(context), of))
        const result = await work({ batch })
        await inTurn(client, () => send(client, 'commit'))
        return result
      } catch (error) {
        // If it fails, the transaction is still open, and the connection is closed.
        await inTurn(client, () => send(client, 'rollback')).catch(() => {})
        throw error
      }
    })
  }

  /**
   * Runs work while no other process runs work under the same lock. It holds a connection meanwhile; callers of this process
   * wait in line without one, for `lockWaitMs` at most.
   * @param work must end within `transactionIdleMs`: PostgreSQL ends the transaction then, and the lock with it
   * @param lock a number of our own for `pg_advisory_xact_lock`, unlike all others
   * @throws the error of `work`; Problem if the lock is not free within `lockWaitMs`, or without the database
   */
  async exclusively<T>(lock: number, work: () => Promise<T>): Promise<T> {
    const release = await this.#lines.acquire(String(lock), BUSY)
    try {
      return await this.transaction('', async (held) => {
        await held.batch(OF_NOBODY, [sql`select pg_advisory_xact_lock(${lock})`])
        return work()
      })
    } finally {
      release()
    }
  }

  /**
   * Asks the server. If all connections of the pool are busy, it asks on one of its own as well: a busy process does not count as one
   * whose database is away, and neither does one whose answers take longer than that, since a new connection takes several of them.
   * @throws as {@link batch}
   */
  async ping(): Promise<void> {
    const asked = this.batch({ ...OF_NOBODY, statementTimeoutMs: 2_000 }, [sql`select 1`]).then(
      () => 'answered',
    )
    const waited = await Promise.race([asked, pause(INFRA_LIMITS.health.poolMs, 'waited', { ref: false })])
    if (waited === 'answered') return
    const own = this.session().then((session) => session.end())
    await Promise.any([asked, own]).catch(() => asked)
  }

  get use(): PoolUse {
    const { totalCount, idleCount: idle, waitingCount, options } = this.#pool
    // A transaction that begins waits for an instant, too.
    const waiting = totalCount < options.max || idle > 0 ? 0 : waitingCount
    return {
      ...{ used: totalCount - idle, idle, max: options.max, waiting },
      ...{ waitingForShare: this.#connectionShares.waiting, waits: this.#waits, waitedMs: this.#waitedMs },
    }
  }

  async close(): Promise<void> {
    await this.#pool.end()
  }

  /** Statements of no tenant (of operators, or before the tenant is known) are not limited. */
  async #withClient<T>(tenant: string, work: (client: PoolClient) => Promise<T>): Promise<T> {
    const release = tenant === '' ? undefined : await this.#connectionShares.acquire(tenant, BUSY)
    try {
      return await this.#lend(work)
    } finally {
      release?.()
    }
  }

  /** A connection that broke meanwhile, or whose transaction is still open, does not return to the pool: its next work would fail. Nor does one that has seen much. */
  async #lend<T>(work: (client: PoolClient) => Promise<T>): Promise<T> {
    const client = await this.#connect()
    let isBroken = false
    try {
      return await work(client)
    } catch (error) {
      isBroken = error instanceof Problem && error.code === 'dependency_unavailable'
      throw error
    } finally {
      client.release(isBroken || client.getTransactionStatus() !== 'I' || hasPreparedMany(client))
    }
  }

  #connect(): Promise<PoolClient> {
    const { idleCount, totalCount, options } = this.#pool
    const connected = this.#pool.connect().catch((error: unknown) => {
      throw unavailable(error)
    })
    return idleCount > 0 || totalCount < options.max ? connected : this.#countWait(connected)
  }

  #countWait(connected: Promise<PoolClient>): Promise<PoolClient> {
    const startedMs = performance.now()
    return connected.finally(() => {
      this.#waits += 1
      this.#waitedMs += performance.now() - startedMs
    })
  }
}

const configOf = (connectionString: string): ClientConfig => ({
  connectionString,
  connectionTimeoutMillis: INFRA_LIMITS.poolWaitMs,
  keepAlive: true,
  keepAliveInitialDelayMillis: INFRA_LIMITS.databaseKeepAliveMs,
  application_name: 'tenon',
})

/** For statements that read no table. */
const OF_NOBODY = {
  role: 'tenon_anon',
  tenant: '',
  workspace: '',
  statementTimeoutMs: INFRA_LIMITS.transactionIdleMs,
} as const satisfies SessionContext

const bounds = (idleMs: number) => `set local lock_timeout = ${INFRA_LIMITS.lockWaitMs};
  set local idle_in_transaction_session_timeout = ${idleMs}`

const BEGIN = {
  change: `begin; ${bounds(INFRA_LIMITS.transactionIdleMs)}`,
  snapshot: `begin isolation level repeatable read read only; ${bounds(INFRA_LIMITS.snapshotIdleMs)}`,
} as const

const SESSION_SETTINGS = [
  `set idle_session_timeout = ${INFRA_LIMITS.sessionIdleMs}`,
  ...['seqscan', 'bitmapscan', 'hashjoin', 'mergejoin'].map((method) => `set enable_${method} = off`),
].join('; ')

/** For statements of the platform's own, which have no time limit at the server. */
async function send(client: ClientBase, text: string): Promise<void> {
  const answer = client.query(text)
  await answered(client, answer, INFRA_LIMITS.statementTimeoutMs.service).catch((error: unknown) => {
    throw translate(error)
  })
}

/**
 * Waits for the server's answer. If it is late, the connection is closed: after a failover, nothing may ever arrive on it.
 * @param serverMs after this time the server itself ends the work
 */
async function answered<T>(client: ClientBase, answer: Promise<T>, serverMs: number): Promise<T> {
  let isLate = true
  // If this process was busy, it reads what has arrived before the immediate runs.
  const close = () => setImmediate(() => isLate && void (client as Client).end().catch(() => {}))
  const timer = setTimeout(close, serverMs + INFRA_LIMITS.databaseLateMs)
  try {
    return await answer
  } finally {
    isLate = false
    clearTimeout(timer)
  }
}

/** The newest work of each connection that has not ended. */
const UNDER_WAY = new WeakMap<ClientBase, Promise<unknown>>()

/** Begins when the work before it on the same connection has ended: `pg` takes one query at a time. */
function inTurn<T>(client: ClientBase, work: () => Promise<T>): Promise<T> {
  const before = UNDER_WAY.get(client)
  const done = before === undefined ? work() : before.then(work, work)
  UNDER_WAY.set(client, done)
  return done.finally(() => UNDER_WAY.get(client) === done && UNDER_WAY.delete(client))
}

/** The context, with the trace of the work in progress, which rows of runs and events keep. */
function traced(context: SessionContext): SessionContext {
  const trace = currentTraceText()
  return trace === undefined ? context : { ...context, trace }
}

async function run(
  client: ClientBase,
  context: SessionContext,
  statements: readonly Sql[],
  { isPrepared, bounds }: { readonly isPrepared: boolean; readonly bounds: MergedBounds | undefined },
): Promise<Row[][]> {
  const { role, tenant, workspace, statementTimeoutMs, chainDepth, causedBy, user, trace, readOnly } = context
  // All settings are transaction-local (third argument `true`): they last until the next batch or the end of the transaction.
  const settings = [
    sql`select num_nulls(set_config('role', ${role}, true), set_config('tenon.tenant', ${tenant}, true),
      set_config('tenon.workspace', ${workspace}, true), set_config('statement_timeout', ${statementTimeoutMs}, true)
      ${causedBy === undefined ? sql`` : sql`, set_config('tenon.caused_by', ${causedBy}, true)`}
      ${user === undefined ? sql`` : sql`, set_config('tenon.user', ${user}, true)`}
      ${readOnly === undefined ? sql`` : sql`, set_config('transaction_read_only', 'on', true)`}
      ${trace === undefined ? sql`` : sql`, set_config('tenon.trace', ${trace}, true)`})`,
    ...(chainDepth === undefined
      ? []
      : [sql`select set_config('tenon.chain_depth', ${chainDepth}, true) is null`]),
    ...(bounds === undefined
      ? []
      : [sql`select set_config('lock_timeout', ${bounds.lockTimeoutMs}, true) is null`]),
  ]
  const own = settings.length
  const options = { own, isPrepared, rowsBytesMax: bounds?.rowsBytesMax }
  const batch = new Batch([...settings, ...statements], options)
  try {
    client.query(batch)
    // The server limits each statement.
    const rows = await answered(client, batch.done, statementTimeoutMs * (statements.length + 1))
    return rows.slice(own)
  } catch (error) {
    throw translate(error, role === 'tenon_anon' || role === 'tenon_user')
  }
}
