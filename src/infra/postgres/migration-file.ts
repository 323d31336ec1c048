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
/** Codes of PostgreSQL: `deadlock_detected`, `transaction_timeout`, `lock_not_available`. */
const DEADLOCK = '40P01'
const TRANSACTION_TIMEOUT = '25P04'
const LOCK_TIMEOUT = '55P03'

const CUT_OFF = /^-- No transaction: can be repeated after it was cut off\.$/m
/** The files without a head are those of this release. */
const OLDEST_RELEASE = '0.1.0'

const headOf = (text: string): MigrationHead => ({
  servesFrom: SERVES.exec(text)?.[1] ?? OLDEST_RELEASE,
  isTransaction: !CUT_OFF.test(text),
})

const CONTROL = /^\s*(commit|rollback)\b[^;]*;/im
const UNCHECKED_KEY = /\balter table\b[^;]*\bforeign key\b(?![^;]*\bnot valid\b)/i
const VALIDATES = /\bvalidate constraint\b/i
const BESIDE_REQUESTS = RegExp(`\\bconcurrently\\b|${VALIDATES.source}`, 'i')

/** @returns what the file may not do, in a sentence without its name; undefined if it may be applied, as those of the first release */
function refusalOf(text: string, { isTransaction }: MigrationHead): string | undefined {
  if (!SERVES.test(text)) return undefined
  if (isTransaction && CONTROL.test(text)) return 'ends its transaction by itself, which the migration does'
  if (isTransaction && VALIDATES.test(text))
    return 'validates a constraint in a transaction, whose locks it would hold as long: do it in a later file that is no transaction'
  if (UNCHECKED_KEY.test(text))
    return 'adds a foreign key to a table that is there: without `not valid`, PostgreSQL would lock both tables and take it as checked, although row-level security hides their rows'
  const outside = isTransaction ? undefined : statementsOf(text).find((one) => !BESIDE_REQUESTS.test(one))
  return outside === undefined
    ? undefined
    : `has a statement outside of a transaction that does not let requests go on (concurrently, validate constraint): ${outside.trim().slice(0, 100)}`
}

/** @throws Error that names the file, and what it may not do */
export function checkedHead({ name, text }: SqlFile): MigrationHead {
  const head = headOf(text)
  const refusal = refusalOf(text, head)
  if (refusal !== undefined) throw new Error(`The file ${name} ${refusal}.`)
  return head
}

const statementsOf = (text: string): string[] =>
  text.split(/;$/m).filter((one) => one.replaceAll(/^--.*$/gm, '').trim() !== '')

/**
 * @param isInUse false for a database that nothing uses yet: no lock is one too long
 * @throws Error that names the file; {@link isLockWait} if it has not got a lock in time, and has changed nothing
 */
export async function applyFile(client: Client, { name, text }: SqlFile, isInUse = true): Promise<void> {
  const { servesFrom, isTransaction } = checkedHead({ name, text })
  const record = async (): Promise<void> =>
    void (await client.query(
      'insert into public.tenon_migrations (name, sha256, serves_from) values ($1, $2, $3)',
      [...[name, sha256Of(text), servesFrom]],
    ))
  await named(name, async () => {
    if (isTransaction)
      return inTransaction(client, 'commit', async () => {
        if (isInUse) await boundTransaction(client)
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
  /** True for a file that is no transaction: it lets requests go on, however long it takes. It is not rehearsed. */
  readonly beside_requests: boolean
  /** Null if it was not rehearsed: the file or one before it is no transaction, those before it took half of `migrationMs`, or stand in its way. */
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
 * Applies files and takes them back, in one transaction, since later ones need earlier ones. Its locks are held until its end, which comes
 * as early as that of a migration.
 * @throws Error that names the file: it takes longer than `migrationMs`, {@link isLockWait}, or a fault of the file
 */
export const rehearse = (client: Client, files: readonly SqlFile[]): Promise<Rehearsal[]> =>
  inTransaction(client, 'rollback', async () => {
    const { rows: before } = await client.query<{ oid: string; name: string }>(TABLES)
    const names = new Map(before.map(({ oid, name }) => [oid, name]))
    const seen = new Set<string>()
    const rehearsals: Rehearsal[] = []
    const beganMs = performance.now()
    let isOver = false
    // Together, files may lock tables in another order than requests do; alone, the second would have got its lock.
    const skip = (error: unknown): Outcome => {
      if (rehearsals.length > 0 && isLockWait(error)) return UNKNOWN
      throw error
    }
    await boundTransaction(client)
    for (const { name, text } of files) {
      const { servesFrom: serves_from, isTransaction } = checkedHead({ name, text })
      isOver ||= !isTransaction || performance.now() - beganMs > INFRA_LIMITS.migrationMs / 2
      const about = { name, serves_from, beside_requests: !isTransaction }
      const rehearsed: Outcome = isOver
        ? UNKNOWN
        : await rehearseFile(client, { name, text }, names, seen).catch(skip)
      isOver ||= rehearsed === UNKNOWN
      rehearsals.push({ ...about, ...rehearsed })
    }
    return rehearsals
  })

type Outcome = Pick<Rehearsal, 'locks' | 'ms'>

const UNKNOWN: Outcome = { locks: null, ms: null }

async function rehearseFile(
  client: Client,
  { name, text }: SqlFile,
  names: ReadonlyMap<string, string>,
  seen: Set<string>,
): Promise<Outcome> {
  const beganMs = performance.now()
  await named(name, () => client.query(text))
  const ms = Math.ceil(performance.now() - beganMs)
  return { ms, locks: await locksOn(client, names, seen) }
}

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
  if (code === DEADLOCK)
    return `The file ${name} and another transaction waited for each other. Nothing of the file was applied. Run the command again.`
  if (code === TRANSACTION_TIMEOUT)
    return `The file ${name} was cut off after ${INFRA_LIMITS.migrationMs} ms, since requests wait for its locks. Nothing of the file was applied. Run the command again at a quiet time.`
  return `The file ${name} failed: ${message ?? String(cause)}`
}

/**
 * Autovacuum gives way to who waits for a table as long as `deadlock_timeout`, which is a second: later than a file waits. A superuser, or a
 * role with the right to set it, waits for a fifth of that time only.
 */
const YIELDS = `select set_config('deadlock_timeout', '${INFRA_LIMITS.migrationLockWaitMs / 5}ms', true)
  where has_parameter_privilege('deadlock_timeout', 'set')`

async function inTransaction<T>(
  client: Client,
  end: 'commit' | 'rollback',
  work: () => Promise<T>,
): Promise<T> {
  await client.query('begin')
  try {
    await client.query(`set local lock_timeout = ${INFRA_LIMITS.migrationLockWaitMs}`)
    await client.query(YIELDS)
    await client.query('set local role tenon_owner')
    const result = await work()
    await client.query(end)
    return result
  } catch (error) {
    // A transaction that was cut off has taken its session with it.
    await client.query('rollback').catch(() => {})
    throw error
  }
}

/** From now on: PostgreSQL ends the session. The locks of all statements are held until the end of their transaction. */
const boundTransaction = (client: Client) =>
  client.query(`set local transaction_timeout = ${INFRA_LIMITS.migrationMs}`)

/**
 * Row-level security hides the rows of tenants from the owner as well: a foreign key would become valid unchecked. So, PostgreSQL refuses
 * statements that would read rows which are hidden. (In a transaction it would refuse to make functions that read such tables.)
 */
async function asOwner(client: Client, work: () => Promise<unknown>): Promise<void> {
  await client.query('set role tenon_owner; set row_security = off')
  try {
    await work()
  } finally {
    await client.query('reset role; reset row_security')
  }
}

/** True if a lock was not there in time, since requests that came later would have waited behind the migration; or after a deadlock. */
export const isLockWait = (error: unknown): boolean =>
  error instanceof Error &&
  error.cause instanceof DatabaseError &&
  [LOCK_TIMEOUT, DEADLOCK].includes(error.cause.code ?? '')
