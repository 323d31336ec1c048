/** The SQL files of a build, and how they differ from those that were applied to a database. */

import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import project from '../../../package.json' with { type: 'json' }

/** The folder `src`. */
const SOURCES = new URL('../../', import.meta.url)

/** The SQL files of release 0.1.0 in the order of their application, each in the folder of its feature. They do not change any more. */
const FIRST_RELEASE = [
  'infra/postgres/roles.sql',
  'features/tenants/tenants.sql',
  'features/quotas/quotas.sql',
  'features/identity/identity.sql',
  'features/identity/makers.sql',
  'features/identity/users/users.sql',
  'features/identity/factors/factors.sql',
  'features/identity/sessions/sessions.sql',
  'features/identity/keys/api-keys.sql',
  'access/idempotency.sql',
  'access/audit/audit.sql',
  'features/collections/collections.sql',
  'features/collections/collection-tables.sql',
  'features/events/outbox.sql',
  'features/tenants/lifecycle-events.sql',
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
  'features/tenants/hosts/hosts.sql',
  'features/tenants/purge/purge.sql',
]

/** All later changes, in their order: `infra/postgres/migrations/0001-….sql` (docs/contributing/migrations.md). */
const MIGRATIONS: readonly string[] = [
  'infra/postgres/migrations/0001-exact-numbers.sql',
  'infra/postgres/migrations/0002-references.sql',
  'infra/postgres/migrations/0003-bulk-changes.sql',
  'infra/postgres/migrations/0004-states-before.sql',
  'infra/postgres/migrations/0005-constraints.sql',
  'infra/postgres/migrations/0006-adopted-documents.sql',
  'infra/postgres/migrations/0007-expiry.sql',
  'infra/postgres/migrations/0008-expiry-index.sql',
  'infra/postgres/migrations/0009-trigrams.sql',
  'infra/postgres/migrations/0010-bulk-change-events.sql',
  'infra/postgres/migrations/0011-renamed-collections.sql',
  'infra/postgres/migrations/0012-search.sql',
  'infra/postgres/migrations/0013-policies-by-statement.sql',
  'infra/postgres/migrations/0014-environments.sql',
  'infra/postgres/migrations/0015-operators-and-status-events.sql',
]

const FILES = [...FIRST_RELEASE, ...MIGRATIONS]

/** SHA-256 in hex by the name of the file. */
export type FileHashes = Readonly<Record<string, string>>

/** A file that was applied to a database. */
interface AppliedFile {
  /** SHA-256 of its text, in hex. */
  readonly sha256: string
  /** The oldest release that serves on the schema that the file makes; null if the build that applied it did not say. */
  readonly servesFrom: string | null
}

export type AppliedFiles = Readonly<Record<string, AppliedFile>>

/** Bundles contain the hashes (cli/stack/build.ts), since they are run without the files. */
declare const SCHEMA_OF_BUILD: FileHashes | undefined

/** A file of the sources. */
export interface SqlFile {
  readonly name: string
  readonly text: string
}

/** @throws Error with a sentence that names the file, if it cannot be read */
export async function readSqlFile(name: string): Promise<SqlFile> {
  try {
    return { name, text: await readFile(new URL(name, SOURCES), 'utf8') }
  } catch (cause) {
    throw new Error(
      `The schema file ${name} of this version cannot be read (${(cause as NodeJS.ErrnoException).code}): install this version again, or let this user read its files.`,
      { cause },
    )
  }
}

export const sha256Of = (text: string): string => createHash('sha256').update(text).digest('hex')

/** The files of this build. */
export async function schemaOfBuild(): Promise<FileHashes> {
  if (typeof SCHEMA_OF_BUILD !== 'undefined') return SCHEMA_OF_BUILD
  const hashes = FILES.map(async (name) => [name, sha256Of((await readSqlFile(name)).text)] as const)
  return Object.fromEntries(await Promise.all(hashes))
}

/** Identifies the schema of this build: the first 12 digits of the SHA-256 of all its files. */
export const schemaDigest = async (): Promise<string> =>
  sha256Of(JSON.stringify(await schemaOfBuild())).slice(0, 12)

/**
 * How the files of a database differ from those of a build. `expanded`: by those of a newer build, on whose schema this one serves as well;
 * `other`: no migration leads from one to the other.
 */
export type SchemaState =
  | { readonly state: 'same' }
  | { readonly state: 'older' | 'expanded' | 'newer' | 'other'; readonly detail: string }

const START_OVER =
  'Start the build that made it. Or start with an empty database: locally, stop Tenon and delete the folder .tenon.'

/**
 * @param applied the files of the database; empty if it has none, or does not let the platform read them
 * @param release of this build
 */
export function compareSchema(
  applied: AppliedFiles,
  ofBuild: FileHashes,
  release: string = project.version,
): SchemaState {
  const names = Object.keys(applied)
  if (names.length === 0)
    return {
      state: 'older',
      detail:
        'The database has no schema that this build can read. Run `tenon migrate`, which makes it, or says what is there.',
    }
  if (!names.includes('infra/postgres/roles.sql'))
    return { state: 'other', detail: `The database was made by a build before 0.1.0. ${START_OVER}` }
  const unknown = names.filter((name) => !(name in ofBuild))
  const missing = Object.keys(ofBuild).filter((name) => !(name in applied))
  const unserved = unknown.filter((name) => !serves(applied[name], release))
  if (unserved.length > 0) {
    const detail = `The database has the schema of a newer build: this one does not know ${several(unserved)}. Start that build, or a newer one.`
    return { state: 'newer', detail }
  }
  const changed = names.filter((name) => name in ofBuild && applied[name]?.sha256 !== ofBuild[name])
  if (changed.length > 0) {
    const detail = `The database was made by another build, with another version of ${several(changed)}. ${START_OVER}`
    return { state: 'other', detail }
  }
  if (unknown.length > 0 && missing.length > 0) {
    const detail = `The database was migrated by a newer build, and lacks ${several(missing)} of this one. Start a build that has both this and ${several(unknown)}.`
    return { state: 'other', detail }
  }
  if (unknown.length > 0) {
    const detail = `A newer build has migrated the database, and this one serves on its schema as well: it does not know ${several(unknown)}.`
    return { state: 'expanded', detail }
  }
  if (missing.length === 0) return { state: 'same' }
  const detail = `The database is older than this build: it lacks ${several(missing)}. Run \`tenon migrate\` of this build.`
  return { state: 'older', detail }
}

/** True if a build of this release serves on the schema that the file makes. */
const serves = (file: AppliedFile | undefined, release: string): boolean =>
  typeof file?.servesFrom === 'string' && compareReleases(file.servesFrom, release) <= 0

/** @param a `major.minor.patch` @returns below 0 if `a` is older than `b`, 0 if they are the same */
function compareReleases(a: string, b: string): number {
  const [first = [], second = []] = [a, b].map((text) => text.split('.').map(Number))
  return first.map((part, at) => part - (second[at] ?? 0)).find((difference) => difference !== 0) ?? 0
}

/** `the file a.sql`, `the file a.sql and 2 more` */
const several = ([first, ...others]: readonly string[]): string =>
  `the file ${first}${others.length === 0 ? '' : ` and ${others.length} more`}`
