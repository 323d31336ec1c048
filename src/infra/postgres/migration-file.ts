/** Applies a SQL file to a database in use: it waits for no lock longer than requests can wait, and is repeated instead. */

import { type Client, DatabaseError } from 'pg'
import { INFRA_LIMITS } from '../limits.ts'
import { type SqlFile, sha256Of } from './schema-files.ts'

/** What the first lines of a migration say about it (docs/contributing/migrations.md). */
interface MigrationHead {
  /** The oldest release that serves on the schema that the file makes. */
  readonly servesFrom: string
  /**
   * False for a file that cannot be one, such as `create index concurrently`: it may be cut off, and is applied again as a whole. Each of its
   * statements ends a line.
   */
  readonly isTransaction: boolean
}

const SERVES = /^-- Serves builds from (\d+\.\d+\.\d+) on\.$/m
/** Codes of PostgreSQL: `lock_not_available`, `query_canceled`. */
const LOCK_TIMEOUT = '55P03'
const STATEMENT_TIMEOUT = '57014'

const CUT_OFF = /^-- No transaction: can be repeated after it was cut off\.$/m
/** Of the files without a head: those of the first release. */
const FIRST_RELEASE = '0.1.0'

const headOf = (text: string): MigrationHead => ({
  servesFrom: SERVES.exec(text)?.[1] ?? FIRST_RELEASE,
  isTransaction: !CUT_OFF.test(text),
})

/** @throws Error that names the file; {@link isLockWait} if it has not got a lock in time, and has changed nothing */
export async function applyFile(client: Client, { name, text }: SqlFile): Promise<void> {
  const { servesFrom, isTransaction } = headOf(text)
  const record = async (): Promise<void> =>
    void (await client.query(
      'insert into public.tenon_migrations (name, sha256, serves_from) values ($1, $2, $3)',
      [...[name, sha256Of(text), servesFrom]],
    ))
  await named(name, async () => {
    if (isTransaction)
      return inTransaction(client, 'commit', async () => {
        await client.query(text)
        await client.query('reset role')
        await record()
      })
    await asOwner(client, async () => {
      // Sent together they would be one transaction.
      for (const statement of text.split(/;$/m)) await client.query(statement)
    })
    await record()
  })
}

/** What a file does to the tables that were there before. */
export interface Rehearsal {
  readonly name: string
  readonly serves_from: string
  /** Null for a file that is no transaction, and all later ones: they were not rehearsed. */
  readonly locks: readonly Lock[] | null
  readonly ms: number | null
}

interface Lock {
  readonly table: string
  /** As PostgreSQL names it (§13.3.1), such as `AccessExclusiveLock`. */
  readonly mode: string
}

/** Locks that let the statements of requests go on. */
const HARMLESS = ['AccessShareLock', 'RowShareLock', 'RowExclusiveLock']

/**
 * Applies files and takes them back, in one transaction, since later ones need earlier ones. Its locks are held until its end.
 * @throws Error that names the file: a statement takes longer than `migrationStatementMs`, {@link isLockWait}, or a fault of the file
 */
export const rehearse = (client: Client, files: readonly SqlFile[]): Promise<Rehearsal[]> =>
  inTransaction(client, 'rollback', async () => {
    await client.query(`set local statement_timeout = ${INFRA_LIMITS.migrationStatementMs}`)
    const { rows: before } = await client.query<{ oid: string }>(
      "select oid from pg_class where relkind in ('r', 'p') and relnamespace = 'tenon'::regnamespace",
    )
    const oids = before.map(({ oid }) => oid)
    const rehearsals: Rehearsal[] = []
    for (const { name, text } of files) {
      const { servesFrom: serves_from, isTransaction } = headOf(text)
      const isRehearsed = isTransaction && rehearsals.every(({ locks }) => locks !== null)
      const beganMs = performance.now()
      if (isRehearsed) await named(name, () => client.query(text))
      const ms = isRehearsed ? Math.ceil(performance.now() - beganMs) : null
      rehearsals.push({ name, serves_from, ms, locks: isRehearsed ? await locksOn(client, oids) : null })
    }
    return rehearsals
  })

/** Of this transaction. */
async function locksOn(client: Client, oids: readonly string[]): Promise<Lock[]> {
  const { rows } = await client.query<Lock>(
    `select relation::regclass::text as "table", mode from pg_locks
     where pid = pg_backend_pid() and relation = any($1::oid[]) and mode <> all($2) order by 1, 2`,
    [oids, HARMLESS],
  )
  return rows
}

async function named<T>(name: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (cause) {
    throw new Error(failureOf(name, cause), { cause })
  }
}

function failureOf(name: string, cause: unknown): string {
  const { message, code } = Object(cause) as { message?: string; code?: string }
  if (code === LOCK_TIMEOUT)
    return `The file ${name} has not got a lock: a transaction holds a table that the file changes. Nothing of the file was applied. Run the command again; \`select pid, query from pg_stat_activity where state <> 'idle'\` shows the transaction.`
  if (code === STATEMENT_TIMEOUT)
    return `A statement of the file ${name} takes longer than ${INFRA_LIMITS.migrationStatementMs} ms on this database, and its locks stop requests for as long: migrate at a quiet time.`
  return `The file ${name} failed: ${message ?? String(cause)}`
}

async function inTransaction<T>(
  client: Client,
  end: 'commit' | 'rollback',
  work: () => Promise<T>,
): Promise<T> {
  await client.query('begin')
  try {
    await client.query(`set local lock_timeout = ${INFRA_LIMITS.migrationLockWaitMs}`)
    await client.query('set local role tenon_owner')
    const result = await work()
    await client.query(end)
    return result
  } catch (error) {
    await client.query('rollback')
    throw error
  }
}

async function asOwner(client: Client, work: () => Promise<unknown>): Promise<void> {
  await client.query('set role tenon_owner')
  try {
    await work()
  } finally {
    await client.query('reset role')
  }
}

/** True if a lock was not there in time (55P03): requests that came later would have waited behind the migration. */
export const isLockWait = (error: unknown): boolean =>
  error instanceof Error && error.cause instanceof DatabaseError && error.cause.code === LOCK_TIMEOUT
