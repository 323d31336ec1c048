/** Finds out what lies between the platform and PostgreSQL: nothing, or a pooler that lends its connections for sessions or for transactions. */

import { randomUUID } from 'node:crypto'
import { Client, DatabaseError } from 'pg'
import { INFRA_LIMITS } from '../limits.ts'
import { unavailable } from './errors.ts'

interface Pooling {
  /** For how long the pooler lends a connection; `none` if there is no pooler. */
  readonly lends: 'none' | 'session' | 'transaction'
  /** False if a statement that was prepared once is not there in the next transaction. */
  readonly keepsStatements: boolean
}

export const DIRECT: Pooling = { lends: 'none', keepsStatements: true }

/** The pooler may have lent the same connection twice by chance, while others use it. */
const ROUNDS = 5

/**
 * Asks with real connections, whatever the pooler is.
 * @throws Problem `dependency_unavailable` or `overloaded` if the server does not answer
 */
export async function probePooling(url: string): Promise<Pooling> {
  const clients = [newClient(url), newClient(url)] as const
  try {
    return await probe(...clients)
  } catch (error) {
    throw unavailable(error)
  } finally {
    for (const client of clients) void client.end().catch(() => {})
  }
}

function newClient(connectionString: string): Client {
  const client = new Client({
    connectionString,
    connectionTimeoutMillis: INFRA_LIMITS.poolWaitMs,
    query_timeout: INFRA_LIMITS.poolWaitMs,
    application_name: 'tenon-probe',
  })
  client.on('error', () => {})
  return client
}

const PROCESS = 'select pg_backend_pid() as pid'
const askProcess = async (client: Client): Promise<number> => (await client.query(PROCESS)).rows[0].pid

async function probe(asker: Client, holder: Client): Promise<Pooling> {
  await asker.connect()
  // A pooler gives each client a number of its own, by which the client cancels statements.
  const { processID: told } = asker as unknown as { processID: number }
  if ((await askProcess(asker)) === told) return DIRECT
  await holder.connect()
  const prepared = { name: randomUUID(), text: PROCESS }
  for (let round = 0; round < ROUNDS; round += 1) {
    const before = await askPrepared(asker, prepared)
    await holder.query('begin')
    const held = await askProcess(holder)
    const after = await askPrepared(asker, prepared)
    await holder.query('rollback')
    if (before === undefined || after === undefined) return { lends: 'transaction', keepsStatements: false }
    if (held === before || after !== before) return { lends: 'transaction', keepsStatements: true }
  }
  return { lends: 'session', keepsStatements: true }
}

/** @returns the process of the server; undefined if the statement, which was prepared once, is not there */
async function askPrepared(
  client: Client,
  prepared: { readonly name: string; readonly text: string },
): Promise<number | undefined> {
  try {
    return (await client.query(prepared)).rows[0].pid
  } catch (error) {
    if (isUnknownStatement(error)) return undefined
    throw error
  }
}

/** 26000: no prepared statement of that name. */
const isUnknownStatement = (error: unknown) => error instanceof DatabaseError && error.code === '26000'

/** @param setting with the URL */
export const lendsTransactions = (setting: string): string =>
  `${setting} leads through a pooler that lends connections for single transactions (PgBouncer: pool_mode = transaction).`
