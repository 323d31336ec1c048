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
/** Codes of PostgreSQL: `lock_not_available`, `deadlock_detected`, `query_canceled`, `transaction_timeout`. */
const DEADLOCK = '40P01'
const TRANSACTION_TIMEOUT = '25P04'
const LOCK_TIMEOUT = '55P03'
const STATEMENT_TIMEOUT = '57014'

const CUT_OFF = /^-- No transaction: can be repeated after it was cut off\.$/m
/** The files without a head are those of this release. */
const OLDEST_RELEASE = '0.1.0'

const headOf = (text: string): MigrationHead => ({
  servesFrom: SERVES.exec(text)?.[1] ?? OLDEST_RELEASE,
  isTransaction: !CUT_OFF.test(text),
})

/** What one transaction ends, and what may be outside of one: nothing else waits for a lock without end. */
const CONTROL = /^\s*(commit|rollback)\b[^;]*;/im
const BESIDE_REQUESTS = /\bconcurrently\b|\bvalidate constraint\b/i

function checkedHead(name: string, text: string): MigrationHead {
  const head = headOf(text)
  const outside = head.isTransaction ? [] : statementsOf(text).filter((one) => !BESIDE_REQUESTS.test(one))
  if (head.isTransaction && CONTROL.test(text))
    throw new Error(`The file ${name} ends its transaction by itself, which the migration does.`)
  if (outside.length > 0)
    throw new Error(
      `The file ${name} has a statement outside of a transaction that does not let requests go on (concurrently, validate constraint): ${outside[0]?.trim().slice(0, 100)}`,
    )
  return head
}

const statementsOf = (text: string): string[] =>
  text.split(/;$/m).filter((one) => one.replaceAll(/^--.*$/gm, '').trim() !== '')

/** @throws Error that names the file; {@link isLockWait} if it has not got a lock in time, and has changed nothing */
export async function applyFile(client: Client, { name, text }: SqlFile): Promise<void> {
  const { servesFrom, isTransaction } = checkedHead(name, text)
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
      for (const statement of statementsOf(text)) await client.query(statement)
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
    await client.query(
      `set local statement_timeout = ${INFRA_LIMITS.migrationStatementMs}; set local transaction_timeout = ${INFRA_LIMITS.rehearsalMs}`,
    )
    const { rows: before } = await client.query<{ oid: string; name: string }>(TABLES)
    const names = new Map(before.map(({ oid, name }) => [oid, name]))
    const seen = new Set<string>()
    const rehearsals: Rehearsal[] = []
    for (const { name, text } of files) {
      const { servesFrom: serves_from, isTransaction } = checkedHead(name, text)
      const isRehearsed = isTransaction && rehearsals.every(({ locks }) => locks !== null)
      const beganMs = performance.now()
      if (isRehearsed) await named(name, () => client.query(text))
      const ms = isRehearsed ? Math.ceil(performance.now() - beganMs) : null
      rehearsals.push({
        name,
        serves_from,
        ms,
        locks: isRehearsed ? await locksOn(client, names, seen) : null,
      })
    }
    return rehearsals
  })

const TABLES = `select c.oid::text, format('%s.%s', n.nspname, c.relname) as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
  where c.relkind in ('r', 'p') and n.nspname in ('tenon', 'tenon_data', 'public')`

/** Those that this transaction has got since the last call. @param names of the tables that were there, by their ids */
async function locksOn(
  client: Client,
  names: ReadonlyMap<string, string>,
  seen: Set<string>,
): Promise<Lock[]> {
  const { rows } = await client.query<{ oid: string; mode: string }>(
    `select relation::text as oid, mode from pg_locks
     where pid = pg_backend_pid() and relation = any($1::oid[]) and mode <> all($2)`,
    [[...names.keys()], HARMLESS],
  )
  const taken = rows.filter(({ oid, mode }) => !seen.has(`${oid} ${mode}`))
  for (const { oid, mode } of taken) seen.add(`${oid} ${mode}`)
  return taken
    .map(({ oid, mode }) => ({ table: names.get(oid) ?? oid, mode }))
    .sort((a, b) => `${a.table} ${a.mode}`.localeCompare(`${b.table} ${b.mode}`))
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
  if (code === TRANSACTION_TIMEOUT)
    return `The files up to ${name} take longer than ${INFRA_LIMITS.rehearsalMs} ms together: they are not rehearsed. Migrate at a quiet time.`
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

/** True if a lock was not there in time, since requests that came later would have waited behind the migration; or after a deadlock. */
export const isLockWait = (error: unknown): boolean =>
  error instanceof Error &&
  error.cause instanceof DatabaseError &&
  [LOCK_TIMEOUT, DEADLOCK].includes(error.cause.code ?? '')
