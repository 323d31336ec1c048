/** Migrates a database to this version: login roles, then each SQL file once, under one advisory lock. */

import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { Client } from 'pg'

/** The folder `src`. */
const SOURCES = new URL('../../', import.meta.url)

/**
 * The SQL files in the order of their application, each in the folder of its feature. After version 0.1.0 these files do not
 * change: a change is another file at the end, such as `infra/postgres/migrations/0001-….sql`.
 */
const FILES = [
  'infra/postgres/roles.sql',
  'features/tenants/tenants.sql',
  'features/quotas/quotas.sql',
  'features/identity/identity.sql',
  'features/identity/makers.sql',
  'features/identity/users/users.sql',
  'features/identity/users/factors.sql',
  'features/identity/keys/api-keys.sql',
  'access/idempotency.sql',
  'access/audit/audit.sql',
  'features/collections/collections.sql',
  'features/collections/collection-tables.sql',
  'features/events/outbox.sql',
  'features/objects/objects.sql',
  'features/runs/slots.sql',
  'features/runs/triggers/triggers.sql',
  'features/functions/functions.sql',
  'features/functions/runs/runs.sql',
  'features/flows/flows.sql',
  'features/flows/subscriptions/subscriptions.sql',
  'features/mcp-servers/mcp-servers.sql',
  'access/audit/checkpoints.sql',
  'features/flows/approvals/approvals.sql',
  'features/mcp-servers/kept-results.sql',
  'features/analytics/analytics.sql',
]

/** Identifies the schema of this build: the first 12 digits of the SHA-256 of all its files. */
export async function schemaDigest(): Promise<string> {
  const hash = createHash('sha256')
  for (const name of FILES) hash.update(name).update(await readFile(new URL(name, SOURCES)))
  return hash.digest('hex').slice(0, 12)
}

/** The key of the advisory lock. */
const LOCK = 7_302_516

export interface Migrated {
  /** Names of the files that this call applied. */
  readonly applied: readonly string[]
  /** URL of the same database for the login role `tenon_app`. */
  readonly appUrl: string
  /** The same for `tenon_builder`, which may act as the owner of the tables of collections. Only the worker uses it. */
  readonly builderUrl: string
}

/** Passwords of the roles that log in. */
export interface Passwords {
  readonly app: string
  readonly builder: string
}

/**
 * Idempotent; concurrent calls wait for each other.
 * @param adminUrl a role that may create roles, or one with the roles `tenon_owner` and `tenon_app`
 * @throws Error if an applied file has changed since, or the database belongs to a build before 0.1.0
 */
export async function migrate(adminUrl: string, passwords: Passwords): Promise<Migrated> {
  const client = new Client({ connectionString: adminUrl, application_name: 'tenon-migrate' })
  await client.connect()
  try {
    await client.query('select pg_advisory_lock($1)', [LOCK])
    await ensureLogins(client, passwords)
    const applied = await applyAll(client)
    const urlOf = (role: string, password: string) => {
      const url = new URL(adminUrl)
      url.username = role
      url.password = password
      return url.href
    }
    return {
      applied,
      appUrl: urlOf('tenon_app', passwords.app),
      builderUrl: urlOf('tenon_builder', passwords.builder),
    }
  } finally {
    await client.end()
  }
}

/**
 * Creates the login roles. The owner owns all objects and never logs in; the app logs in and owns nothing. The builder logs
 * in, has no rights of its own, and may act as the owner. None of them bypasses row-level security.
 */
async function ensureLogins(client: Client, passwords: Passwords): Promise<void> {
  await client.query(`do $$ begin
    if not exists (select from pg_roles where rolname = 'tenon_owner') then
      create role tenon_owner nologin nosuperuser nobypassrls createrole;
    end if;
    if not exists (select from pg_roles where rolname = 'tenon_app') then
      create role tenon_app login nosuperuser nobypassrls noinherit;
    end if;
    if not exists (select from pg_roles where rolname = 'tenon_builder') then
      create role tenon_builder login nosuperuser nobypassrls noinherit;
    end if;
  end $$`)
  await client.query(`alter role tenon_app password ${client.escapeLiteral(passwords.app)}`)
  await client.query(`alter role tenon_builder password ${client.escapeLiteral(passwords.builder)}`)
  await client.query('alter role tenon_app set search_path = tenon, pg_catalog')
  // A statement is planned once per connection, perhaps while its table is empty, and later runs on a million rows. Every
  // key begins with the tenant, so an index always exists.
  await client.query('alter role tenon_app set enable_seqscan = off')
  const { rows } = await client.query('select current_database() as name')
  const database = client.escapeIdentifier(String(rows[0]?.name))
  await client.query(`grant create, connect on database ${database} to tenon_owner`)
  await client.query('revoke all on schema public from public')
  await client.query('grant tenon_owner to current_user')
}

async function applyAll(client: Client): Promise<string[]> {
  await client.query(
    'create table if not exists public.tenon_migrations (name text primary key, sha256 text not null, applied_at timestamptz not null default now())',
  )
  const { rows } = await client.query('select name, sha256 from public.tenon_migrations')
  const done = new Map(rows.map((row) => [row.name as string, row.sha256 as string]))
  if (rows.length > 0 && !done.has('infra/postgres/roles.sql'))
    throw new Error(
      'This database has the schema of a build before 0.1.0. Start with an empty database: locally, stop Tenon and delete the folder .tenon.',
    )
  const applied: string[] = []
  for (const name of FILES) {
    const text = await readFile(new URL(name, SOURCES), 'utf8')
    const sha256 = createHash('sha256').update(text).digest('hex')
    const known = done.get(name)
    if (known === sha256) continue
    if (known !== undefined)
      throw new Error(
        `The file ${name} was changed after it was applied to this database. Restore it, and add a new file.`,
      )
    await apply(client, name, text, sha256)
    applied.push(name)
  }
  return applied
}

async function apply(client: Client, name: string, text: string, sha256: string): Promise<void> {
  await client.query('begin')
  try {
    await client.query('set local role tenon_owner')
    await client.query(text)
    await client.query('reset role')
    await client.query('insert into public.tenon_migrations (name, sha256) values ($1, $2)', [name, sha256])
    await client.query('commit')
  } catch (error) {
    await client.query('rollback')
    throw new Error(`The file ${name} failed: ${error instanceof Error ? error.message : String(error)}`, {
      cause: error,
    })
  }
}
