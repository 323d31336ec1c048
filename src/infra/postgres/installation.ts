/** Reads which SQL files a database has, and the check value of its master key. */

import { DatabaseError } from 'pg'
import { Problem } from '../../core/problem.ts'
import { DERIVED, Secrets } from '../crypto/secrets.ts'
import type { StatementExecutor } from './database.ts'
import type { AppliedFiles } from './schema-files.ts'
import { sql, textArray } from './sql.ts'
import { SystemScope } from './system-scope.ts'

export interface Installation {
  /** The SQL files that were applied; empty if there is no schema. */
  readonly applied: AppliedFiles
  /** Undefined until `tenon migrate` or the first start of a process has stored it. */
  readonly keyCheck: string | undefined
  /** Ids of master keys that others have replaced. */
  readonly replacedKeys: readonly string[]
  /** The clock of the server, and that of this process in the middle of the request, in milliseconds since 1970. */
  readonly clock: { readonly serverMs: number; readonly ownMs: number; readonly uncertainMs: number }
}

/**
 * The check values of master keys: HMAC-SHA-256 of a fixed text in base64url, from which a key cannot be computed. The database has that of
 * the key under which everything can be read; while it is replaced, that is not the first one.
 */
export const keyChecksOf = (masterKeys: string): readonly string[] =>
  new Secrets(masterKeys).deriveAll(DERIVED.keyCheck)

export const WRONG_KEY =
  'TENON_MASTER_KEY is not the key of this installation: what the database holds cannot be decrypted with it. Set the key with which the database was first started, or the one that has replaced it; after a restore, the key of the backup.'

const systemOf = (database: StatementExecutor) => new SystemScope('installation', database)

/** 42P01: no table. 42703: no column. 3F000: no schema. */
const NO_TABLE = ['42P01', '42703', '3F000']

/**
 * @param system with the rights to read it; by default those of the platform's login role
 * @throws Problem `dependency_unavailable` or `overloaded` if the server does not answer
 */
export async function readInstallation(
  database: StatementExecutor,
  system = systemOf(database),
): Promise<Installation> {
  const sentMs = Date.now()
  const batch = system.batch(
    sql`select name, sha256, serves_from as "servesFrom" from public.tenon_migrations`,
    sql`select key_check, replaced_keys from public.tenon_installation`,
    sql`select extract(epoch from clock_timestamp())::float8 * 1000 as ms`,
  )
  const [files = [], [key] = [], [time] = []] = await batch.catch((error: unknown) => {
    if (isUnmigrated(error)) return []
    throw error
  })
  const uncertainMs = (Date.now() - sentMs) / 2
  const ownMs = sentMs + uncertainMs
  return {
    applied: Object.fromEntries(files.map(({ name, ...file }) => [name, file])) as unknown as AppliedFiles,
    keyCheck: key?.['key_check'] as string | undefined,
    replacedKeys: (key?.['replaced_keys'] ?? []) as readonly string[],
    clock: { serverMs: Number(time?.['ms'] ?? ownMs), ownMs, uncertainMs },
  }
}

/** Stores the check value, unless there is one. */
export async function storeKeyCheck(database: StatementExecutor, keyCheck: string): Promise<void> {
  await systemOf(database).batch(
    sql`insert into public.tenon_installation (key_check) values (${keyCheck}) on conflict do nothing`,
  )
}

/** Stores the check value of the first key, once nothing depends on the others any more. @param system with the rights to replace it */
export async function replaceKeyCheck(system: SystemScope, secrets: Secrets): Promise<void> {
  const checks = secrets.deriveAll(DERIVED.keyCheck)
  const { keyIds } = secrets
  const pairs = sql`select check_value, key_id from unnest(${textArray(checks)}::text[], ${textArray(keyIds)}::text[]) as k(check_value, key_id)`
  await system.batch(sql`
    update public.tenon_installation set key_check = ${checks[0]},
      replaced_keys = array_remove(array_append(replaced_keys, old.key_id), ${keyIds[0]}::text)
    from (${pairs}) old where key_check = old.check_value and key_check <> ${checks[0]}`)
}

/** True if the tables or their grants are missing: `tenon migrate` of this build has never ended here. */
const isUnmigrated = (error: unknown): boolean =>
  error instanceof DatabaseError
    ? NO_TABLE.includes(error.code ?? '')
    : // Without the role of the scope the server reports a value that it does not accept.
      error instanceof Problem && (error.code === 'forbidden' || error.code === 'value_invalid')
