/** The installation that is backed up: where its servers are, and what of it is on this machine alone. */

import type { S3Client } from '@aws-sdk/client-s3'
import { Client } from 'pg'
import { INFRA_LIMITS } from '../infra/limits.ts'
import type { Programs } from './postgres/programs.ts'
import { storeFault } from './store-fault.ts'

export interface Installation {
  /** A superuser, or a role that may replicate and that row-level security does not bind. */
  readonly databaseUrl: string
  readonly programs: Programs
  /** With the root identity. */
  readonly objects: S3Client
  /** The file of Temporal's development server; undefined if Temporal is elsewhere, on a PostgreSQL. */
  readonly temporalFile: string | undefined
  readonly mongoUrl: string | undefined
  /** What a restored installation needs besides, such as its master key: texts by the names of their files. */
  readonly secrets: Readonly<Record<string, string>>
  /** Folder for what is received and not stored yet. */
  readonly folder: string
}

/** @throws Error if the server does not answer, or its role does not suffice */
export async function withDatabase<T>(url: string, work: (database: Client) => Promise<T>): Promise<T> {
  const database = new Client({
    connectionString: url,
    connectionTimeoutMillis: 5_000,
    keepAlive: true,
    keepAliveInitialDelayMillis: INFRA_LIMITS.databaseKeepAliveMs,
    application_name: 'tenon-backup',
  })
  // A lost connection fails the statement that needs it.
  database.on('error', () => {})
  await database.connect().catch((error: unknown) => {
    throw storeFault(`PostgreSQL at ${database.host}:${database.port}`, error)
  })
  try {
    // The connection waits while the bytes of objects are copied, which may take hours.
    await database.query('set search_path = tenon, pg_catalog; set idle_session_timeout = 0')
    return await work(database)
  } finally {
    await database.end().catch(() => {})
  }
}

/**
 * The id of an installation: PostgreSQL's own, which a restored one keeps.
 * @throws Error that says what the role lacks
 */
export async function identify(database: Client): Promise<string> {
  const { rows } = await database.query<{ id: string; sees_all: boolean; may_replicate: boolean }>(`
    select (select system_identifier::text from pg_control_system()) as id,
      rolsuper or rolbypassrls as sees_all, rolsuper or rolreplication as may_replicate
    from pg_roles where rolname = current_user`)
  const [row] = rows
  if (row === undefined || !row.sees_all || !row.may_replicate)
    throw new Error(
      'The role of DATABASE_URL cannot back up: it needs REPLICATION and BYPASSRLS, as a superuser has. Set DATABASE_URL to another role.',
    )
  return row.id
}

/** The time of PostgreSQL, with microseconds. */
export async function readClock(database: Client): Promise<string> {
  const { rows } = await database.query<{ at: string }>(
    `select to_char(clock_timestamp() at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"') as at`,
  )
  return rows[0]?.at ?? ''
}
