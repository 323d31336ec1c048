/** Migrates a database to this version: login roles, then each SQL file once, under one advisory lock. */

import { setTimeout as pause } from 'node:timers/promises'
import type { Client } from 'pg'
import { retryTransient } from '../retry.ts'
import { withAdminSession } from './admin-session.ts'
import { keyChecksOf, WRONG_KEY } from './installation.ts'
import { applyFile, isLockWait, type Rehearsal, rehearse } from './migration-file.ts'
import {
  type AppliedFiles,
  compareSchema,
  type FileHashes,
  readSqlFile,
  schemaOfBuild,
} from './schema-files.ts'

/** The key of the advisory lock. */
const LOCK = 7_302_516
const LOCK_POLL_MS = 200
/** For how long a step is repeated that meets the migration of another database of the server: roles belong to all of them. */
const ROLES_MS = 10_000
/** For how long a file is repeated that also waits for locks which transactions of the platform hold. */
const MIGRATION_MS = 120_000
/** The same of a rehearsal, after which a person waits. */
const REHEARSAL_MS = 10_000

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
 * @throws Error if a pooler is in between that keeps no sessions, the server is too old, the schema is that of a newer or another build, or the
 *   installation has another master key: then nothing was changed, not even a password
 */
export const migrate = (adminUrl: string, secrets: MigrationSecrets): Promise<Migrated> =>
  withAdminSession(adminUrl, 'tenon-migrate', async (client) => {
    await lock(client)
    const { missing, isNew } = await findMissing(client, secrets.masterKeys)
    await retryTransient(ROLES_MS, () => ensureLogins(client, secrets), isRoleRace)
    for (const file of await Promise.all(missing.map(readSqlFile)))
      await retryTransient(
        MIGRATION_MS,
        () => applyFile(client, file, !isNew),
        (error) => isRoleRace(error) || isLockWait(error),
      )
    await openExtensions(client)
    await describeInstallation(client, secrets.masterKeys)
    const urlOf = (username: string, password: string) =>
      Object.assign(new URL(adminUrl), { username, password }).href
    return {
      applied: missing,
      appUrl: urlOf('tenon_app', secrets.app),
      builderUrl: urlOf('tenon_builder', secrets.builder),
    }
  })

/** Asks again and again: a session that waits in a statement would be one that `create index concurrently` of the other migration waits for. */
async function lock(client: Client): Promise<void> {
  const ask = async () => (await client.query('select pg_try_advisory_lock($1) as locked', [LOCK])).rows[0]
  while (!(await ask())?.locked) await pause(LOCK_POLL_MS)
}

interface Missing {
  /** Names of the files to apply, in their order. */
  readonly missing: readonly string[]
  /** True if the database has no schema yet. */
  readonly isNew: boolean
}

/** @throws as {@link migrate} */
async function findMissing(client: Client, masterKeys: string | undefined): Promise<Missing> {
  await client.query(TABLES)
  return compareFiles(client, masterKeys)
}

/** Reads only. @throws as {@link migrate} */
async function compareFiles(client: Client, masterKeys: string | undefined): Promise<Missing> {
  const applied = await readApplied(client)
  const isNew = Object.keys(applied).length === 0
  const missing = missingFiles(applied, await schemaOfBuild())
  const { rows: keys } = isNew
    ? { rows: [] }
    : await client.query('select key_check from public.tenon_installation')
  const known = masterKeys === undefined ? undefined : keyChecksOf(masterKeys)
  if (known !== undefined && keys.some(({ key_check }) => !known.includes(key_check)))
    throw new Error(WRONG_KEY)
  return { missing, isNew }
}

/** @returns the names in their order @throws Error if the schema is that of a newer or another build */
function missingFiles(applied: AppliedFiles, ofBuild: FileHashes): string[] {
  const compared = compareSchema(applied, ofBuild)
  if (compared.state === 'newer' || compared.state === 'other') throw new Error(compared.detail)
  return Object.keys(ofBuild).filter((name) => !(name in applied))
}

/** Also of a table that a build before the first migration has made, and without one. */
async function readApplied(client: Client): Promise<AppliedFiles> {
  const { rows: tables } = await client.query("select to_regclass('public.tenon_migrations') as name")
  if (tables[0]?.name === null) return {}
  const { rows } = await client.query(
    `select name, sha256, to_jsonb(m) ->> 'serves_from' as "servesFrom" from public.tenon_migrations m`,
  )
  return Object.fromEntries(rows.map(({ name, ...file }) => [name, file]))
}

/** The files that {@link migrate} would apply. */
export interface MigrationPlan {
  /** The files that it would apply, in their order. */
  readonly files: readonly Rehearsal[]
  /** True if the database has no schema yet. */
  readonly isNew: boolean
}

/**
 * Rehearses a migration: applies the missing files, and takes them back.
 * @throws as {@link migrate}, and Error that names a file which fails, waits for a lock, or takes too long
 */
export async function planMigration(client: Client, masterKeys: string | undefined): Promise<MigrationPlan> {
  const { missing, isNew } = await compareFiles(client, masterKeys)
  const files = isNew || missing.length === 0 ? [] : await Promise.all(missing.map(readSqlFile))
  return {
    isNew,
    files:
      files.length === 0 ? [] : await retryTransient(REHEARSAL_MS, () => rehearse(client, files), isLockWait),
  }
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
  -- The oldest release that serves on the schema that the file makes. Builds before the first migration made the table without it.
  do $$ begin
    if not exists (select from pg_attribute where attrelid = 'public.tenon_migrations'::regclass and attname = 'serves_from') then
      set local lock_timeout = '1s';
      alter table public.tenon_migrations add column serves_from text;
    end if;
  end $$;
  create table if not exists public.tenon_installation
    (one boolean primary key default true check (one), key_check text not null, replaced_keys text[] not null default '{}', made_at timestamptz not null default now(),
     -- Of the last restore of the installation: the time it was restored to, when, and when an operator finished it.
     restored_to timestamptz, restored_at timestamptz, restore_finished_at timestamptz)`

/** Extensions are in the schema `public`: indexes name operator classes in it, and searches an operator. */
const openExtensions = (client: Client) =>
  client.query('grant usage on schema public to tenon_tables, tenon_service, tenon_user, tenon_anon')

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
