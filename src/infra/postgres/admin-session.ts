/** The session of a migration or of its check, as the role of DATABASE_URL, whose faults end with one sentence. */

import { Client } from 'pg'
import { FAILURES } from '../health-report.ts'
import { INFRA_LIMITS } from '../limits.ts'
import { failureKindOf } from '../unavailable.ts'
import { lendsTransactions, probePooling } from './pooling.ts'

/** The oldest version that the statements of the product are for. */
const POSTGRES_MAJOR = 18
/** `insufficient_privilege` */
const FORBIDDEN = '42501'

/**
 * @param application name of the session in `pg_stat_activity`
 * @throws Error with one sentence about the URL, the server, its version, a pooler in between, the rights of the role, or a session that was
 *   lost; and as `work` does
 */
export async function withAdminSession<T>(
  url: string,
  application: string,
  work: (client: Client) => Promise<T>,
): Promise<T> {
  if (!/^postgres(ql)?:$/.test(URL.parse(url)?.protocol ?? ''))
    throw new Error('DATABASE_URL is no URL of PostgreSQL, such as postgres://user:password@host:5432/name.')
  const client = new Client({
    connectionString: url,
    application_name: application,
    connectionTimeoutMillis: INFRA_LIMITS.poolWaitMs,
  })
  // A session that is lost fails the statement that needs it.
  client.on('error', () => {})
  const server = `PostgreSQL at ${client.host}:${client.port} (DATABASE_URL)`
  try {
    await client.connect()
    await refusePooler(url)
    await refuseOldServer(client)
    return await work(client)
  } catch (error) {
    throw sentenceOf(error, server, client)
  } finally {
    await client.end().catch(() => {})
  }
}

async function refusePooler(url: string): Promise<void> {
  if ((await probePooling(url)).lends === 'transaction')
    throw new Error(
      `${lendsTransactions('DATABASE_URL')} A migration needs a session: DATABASE_URL must lead to PostgreSQL itself.`,
    )
}

async function refuseOldServer(client: Client): Promise<void> {
  const { rows } = await client.query("select current_setting('server_version_num') as number")
  const major = Math.floor(Number(rows[0]?.number) / 10_000)
  if (major >= POSTGRES_MAJOR) return
  throw new Error(
    `PostgreSQL ${POSTGRES_MAJOR} or newer is needed, and the server of DATABASE_URL is version ${major}. Nothing was changed.`,
  )
}

/** Errors that were thrown on purpose are sentences already; those of Node and of PostgreSQL have a code. */
function sentenceOf(error: unknown, server: string, { user }: Client): unknown {
  if (!(error instanceof Error)) return error
  const { message, code } = error as Error & { code?: unknown }
  if (code === FORBIDDEN)
    return new Error(
      `The role ${user} of DATABASE_URL has not the rights for this (${message}): a migration needs a role that may create roles, or one that has the roles tenon_owner and tenon_app.`,
      { cause: error },
    )
  if (code === undefined && !/^(Connection|Client|timeout|SASL)\b/.test(message)) return error
  const kind = failureKindOf(error)
  const fault = kind === 'failed' ? `does not let the command go on: ${message}.` : FAILURES[kind]
  return new Error(`${server} ${fault}`, { cause: error })
}
