/** Migrates a database to this version: login roles, then each SQL file once, under one advisory lock. */

import { Client } from 'pg'
import { retryTransient } from '../retry.ts'
import { keyChecksOf, WRONG_KEY } from './installation.ts'
import { compareSchema, type FileHashes, readSchemaFile, schemaOfBuild, sha256Of } from './schema-files.ts'

/** The key of the advisory lock. */
const LOCK = 7_302_516
/** For how long a step is repeated that meets the migration of another database of the server: roles belong to all of them. */
const ROLES_MS = 10_000

export interface Migrated {
  /** Names of the files that this call applied. */
  readonly applied: readonly string[]
  /** URL of the same database for the login role `tenon_app`. */
  readonly appUrl: string
  /** The same for `tenon_builder`, which may act as the owner of the tables of collections. Only the worker uses it. */
  readonly builderUrl: string
}

/** Passwords of the roles that log in. */
export interface MigrationSecrets {
  readonly app: string
  readonly builder: string
  /** The keys of the installation. If they are given, the database remembers the check value of the first, or compares its own with all. */
  readonly masterKeys?: string
}

/**
 * Idempotent; concurrent calls wait for each other.
 * @param adminUrl a role that may create roles, or one with the roles `tenon_owner` and `tenon_app`
 * @throws Error if the schema is that of a newer or another build, or the installation has another master key: then nothing was
 *   changed, not even a password
 */
export async function migrate(adminUrl: string, secrets: MigrationSecrets): Promise<Migrated> {
  const client = new Client({ connectionString: adminUrl, application_name: 'tenon-migrate' })
  await client.connect()
  try {
    await client.query('select pg_advisory_lock($1)', [LOCK])
    const missing = await findMissing(client, secrets.masterKeys)
    await retryTransient(ROLES_MS, () => ensureLogins(client, secrets), isRoleRace)
    for (const name of missing) await retryTransient(ROLES_MS, () => apply(client, name), isRoleRace)
    await describeInstallation(client, secrets.masterKeys)
    const urlOf = (role: string, password: string) => {
      const url = new URL(adminUrl)
      url.username = role
      url.password = password
      return url.href
    }
    return {
      applied: missing,
      appUrl: urlOf('tenon_app', secrets.app),
      builderUrl: urlOf('tenon_builder', secrets.builder),
    }
  } finally {
    await client.end()
  }
}

/** @returns the names of the files to apply @throws as {@link migrate} */
async function findMissing(client: Client, masterKeys: string | undefined): Promise<string[]> {
  await client.query(TABLES)
  const { rows: files } = await client.query('select name, sha256 from public.tenon_migrations')
  const { rows: keys } = await client.query('select key_check from public.tenon_installation')
  const applied: FileHashes = Object.fromEntries(files.map(({ name, sha256 }) => [name, sha256]))
  const ofBuild = await schemaOfBuild()
  const compared = compareSchema(applied, ofBuild)
  if (compared.state === 'newer' || compared.state === 'other') throw new Error(compared.detail)
  const known = masterKeys === undefined ? undefined : keyChecksOf(masterKeys)
  if (known !== undefined && keys.some(({ key_check }) => !known.includes(key_check)))
    throw new Error(WRONG_KEY)
  return Object.keys(ofBuild).filter((name) => !(name in applied))
}

/** The lock of a migration holds for its database alone. PostgreSQL has no code for the first of these. */
function isRoleRace(error: unknown): boolean {
  const { message = '', code } = (error instanceof Error ? (error.cause ?? error) : {}) as {
    message?: string
    code?: string
  }
  return /tuple concurrently (updated|deleted)/.test(message) || code === '42710' || /pg_authid/.test(message)
}

/** They belong to no tenant, and are read before anything else is known of the database. */
const TABLES = `
  create table if not exists public.tenon_migrations
    (name text primary key, sha256 text not null, applied_at timestamptz not null default now());
  create table if not exists public.tenon_installation
    (one boolean primary key default true check (one), key_check text not null, replaced_keys text[] not null default '{}', made_at timestamptz not null default now(),
     -- Of the last restore of the installation: the time it was restored to, when, and when an operator finished it.
     restored_to timestamptz, restored_at timestamptz, restore_finished_at timestamptz)`

/** Lets the platform read both tables (infra/postgres/installation.ts), and remembers the check value of the first master key. */
async function describeInstallation(client: Client, masterKeys: string | undefined): Promise<void> {
  await client.query(`grant usage on schema public to tenon_operator;
    grant select on public.tenon_migrations to tenon_operator;
    grant select, insert on public.tenon_installation to tenon_operator;
    grant usage on schema public to tenon_admin;
    grant select (restored_at) on public.tenon_installation to tenon_admin;
    grant usage on schema public to tenon_key_rotation;
    grant select on public.tenon_migrations to tenon_key_rotation;
    grant select, update (key_check, replaced_keys) on public.tenon_installation to tenon_key_rotation`)
  if (masterKeys === undefined) return
  const [keyCheck] = keyChecksOf(masterKeys)
  const statement = `insert into public.tenon_installation (key_check) values ($1) on conflict do nothing`
  await client.query(statement, [keyCheck])
}

/**
 * Creates the login roles. The owner owns all objects and never logs in; the app logs in and owns nothing. The builder logs
 * in, has no rights of its own, and may act as the owner. None of them bypasses row-level security.
 */
async function ensureLogins(client: Client, passwords: MigrationSecrets): Promise<void> {
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

async function apply(client: Client, name: string): Promise<void> {
  const text = await readSchemaFile(name)
  await client.query('begin')
  try {
    await client.query('set local role tenon_owner')
    await client.query(text)
    await client.query('reset role')
    const row = [name, sha256Of(text)]
    await client.query('insert into public.tenon_migrations (name, sha256) values ($1, $2)', row)
    await client.query('commit')
  } catch (error) {
    await client.query('rollback')
    throw new Error(`The file ${name} failed: ${error instanceof Error ? error.message : String(error)}`, {
      cause: error,
    })
  }
}
