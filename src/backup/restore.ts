/** Restores an installation of one machine, as `npm start` runs it, to a time: over all of its stores. */

import { createWriteStream, existsSync } from 'node:fs'
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { tryLock } from '../../stack/lock.mjs'
import { type PostgresHome, postgresHome, removeDrafts } from '../../stack/postgres.ts'
import { loadSecrets, readState, type Secrets } from '../../stack/server.ts'
import { waitForReaper } from '../../stack/start.ts'
import { readTombstones } from './manifests.ts'
import type { RestorePlan } from './plan.ts'
import { recover } from './postgres/recover.ts'
import type { Repository } from './repository/repository.ts'
import { settleDatabase } from './restored-database.ts'

export interface LocalRestore {
  readonly repository: Repository
  readonly plan: RestorePlan
  /** The data folder, `.tenon`. */
  readonly dir: string
  readonly env: NodeJS.ProcessEnv
  /** The id of the installation, which allows to replace its data. */
  readonly yes: string | undefined
  readonly onProgress: (text: string) => void
}

/** Data of servers in the data folder. What the platform writes besides, such as logs, stays. */
const PARTS = [
  'postgres',
  'temporal',
  'seaweedfs',
  'valkey',
  'backup',
  'secrets.json',
  'master.key',
  'master.made',
]
/** Holds what was replaced, until `tenon restore finish`. */
const REPLACED = 'replaced'
/** What is made before anything is replaced. */
const DRAFT = 'restore.draft'
/** Until all stores are restored, this file keeps `npm start` from starting. */
export const UNFINISHED = 'restore.unfinished'

/**
 * Runs a restore from its beginning to its end, also while it has the servers of the folder running. The platform has another lock, which its
 * servers take.
 * @throws Error if another restore of the folder is under way
 */
export async function restoringAlone<T>(dir: string, work: () => Promise<T>): Promise<T> {
  await mkdir(dir, { recursive: true, mode: 0o711 })
  const lock = tryLock(join(dir, 'restore.lock'))
  if ('owner' in lock)
    throw new Error(
      `Another restore of ${dir} is under way, as process ${lock.owner.pid}. Wait for its end, and look at what it has restored first.`,
    )
  try {
    return await work()
  } finally {
    lock.release()
  }
}

/**
 * Replaces the data of a folder with that of a time. Temporal and objects are still to be settled, with the servers running.
 * @returns how many tenants and workspaces will be purged again
 * @throws Error if the platform runs, or the folder has data and `yes` does not name its installation
 */
export async function restoreLocal(options: LocalRestore): Promise<number> {
  const { dir, onProgress } = options
  await mkdir(dir, { recursive: true, mode: 0o711 })
  const lock = tryLock(join(dir, 'stack.lock'))
  if ('owner' in lock)
    throw new Error(
      `Tenon runs in ${dir} as process ${lock.owner.pid}. Stop it before you restore: press Ctrl-C in its terminal.`,
    )
  try {
    await requireConsent(options)
    // Servers of a process that was killed still use the data for a moment.
    await waitForReaper(readState(dir))
    const secrets = await readSecrets(options)
    const draft = join(dir, DRAFT)
    await rm(draft, { recursive: true, force: true })
    await mkdir(draft, { mode: 0o711 })
    await writeSecrets(secrets, draft)
    const { home, made, purged } = await restorePostgres(options, loadSecrets(draft))
    await restoreTemporal(options, join(draft, 'temporal'))
    // From here on the folder is not what it was, and not yet what it is to be.
    await writeFile(join(dir, UNFINISHED), `${options.plan.to}\n`)
    onProgress(`setting aside what is in ${dir}, and putting the restored data in its place`)
    await setAside(dir, home)
    for (const part of await readdir(draft)) await rename(join(draft, part), join(dir, part))
    await rename(made, home.data)
    await rm(draft, { recursive: true })
    return purged
  } finally {
    lock.release()
  }
}

/** A restore that was interrupted had it: what it has left is of no use. */
async function requireConsent(options: LocalRestore): Promise<void> {
  const { dir, yes } = options
  const present = await readdir(dir)
  if (!PARTS.some((part) => present.includes(part)) || present.includes(UNFINISHED)) return
  const installation = await identifyData(options, present)
  if (yes === installation) return
  throw new Error(
    yes === undefined
      ? `${dir} has data, which the restore replaces. To allow it, add --yes=${installation}, the id of the installation.`
      : `--yes=${yes} is not the installation in ${dir}, which is ${installation}.`,
  )
}

/** The id of the installation whose data is there, which may not be that of the repository. If there is none, that of the repository. */
async function identifyData(
  { dir, env, repository }: LocalRestore,
  present: readonly string[],
): Promise<string> {
  if (!present.includes('secrets.json')) return repository.installation
  const { data } = await findHome(dir, env, loadSecrets(dir))
  const control = await readFile(join(data, 'global/pg_control')).catch(() => undefined)
  // It begins with the system identifier.
  return control?.readBigUInt64LE().toString() ?? repository.installation
}

const findHome = (dir: string, env: NodeJS.ProcessEnv, secrets: Secrets): Promise<PostgresHome> =>
  postgresHome({ dir, env, secrets, signal: new AbortController().signal, progress: () => {} })

/** As root, the data of PostgreSQL may be outside of the folder, and on another disk. */
const outsideReplaced = ({ data }: PostgresHome): string => `${data}.replaced-`

async function setAside(dir: string, home: PostgresHome): Promise<void> {
  const stamp = new Date().toISOString().replaceAll(/[-:.]/g, '')
  const target = join(dir, REPLACED, stamp)
  const present = await readdir(dir)
  await mkdir(target, { recursive: true, mode: 0o711 })
  for (const part of PARTS.filter((one) => present.includes(one)))
    await rename(join(dir, part), join(target, part))
  if (existsSync(home.data)) await rename(home.data, `${outsideReplaced(home)}${stamp}`)
}

/** Removes what restores of a folder have replaced. */
export async function removeReplaced(dir: string, env: NodeJS.ProcessEnv): Promise<void> {
  await rm(join(dir, REPLACED), { recursive: true, force: true })
  const home = await findHome(dir, env, loadSecrets(dir))
  const [folder, prefix] = [dirname(home.data), basename(outsideReplaced(home))]
  for (const name of await readdir(folder).catch(() => []))
    if (name.startsWith(prefix)) await rm(join(folder, name), { recursive: true })
}

/** What the data folder has of them; others are settings. */
async function readSecrets({ repository, plan }: LocalRestore): Promise<Record<string, string>> {
  const member = plan.backups.at(-1)?.secrets
  return member === undefined ? {} : repository.readJson<Record<string, string>>(member.name)
}

async function writeSecrets(secrets: Record<string, string>, folder: string): Promise<void> {
  for (const [name, text] of Object.entries(secrets))
    if (PARTS.includes(name)) await writeFile(join(folder, name), text, { mode: 0o600 })
}

async function restorePostgres(
  { repository, plan, dir, env, onProgress }: LocalRestore,
  secrets: Secrets,
): Promise<{ home: PostgresHome; made: string; purged: number }> {
  const { to, backups, lastWal } = plan
  const home = await findHome(dir, env, secrets)
  // What a restore has left that was killed. A start removes folders of such names, too.
  await removeDrafts(home.data)
  const made = `${home.data}.draft-restored`
  const tombstones = await readTombstones(repository)
  onProgress(`restoring PostgreSQL to ${to}`)
  const purged = await recover({ repository, programs: home, backups, lastWal, to, data: made }, (database) =>
    settleDatabase(database, { to, tombstones }),
  )
  return { home, made, purged }
}

async function restoreTemporal(
  { repository, plan, onProgress }: LocalRestore,
  folder: string,
): Promise<void> {
  const { temporal } = plan.states
  await mkdir(folder, { recursive: true, mode: 0o700 })
  if (temporal === undefined) return
  onProgress(`restoring Temporal as it was at ${temporal.at}`)
  const file = createWriteStream(join(folder, 'temporal.db'), { mode: 0o600 })
  await pipeline(Readable.from(repository.readCompressed(temporal.member.name)), file)
}
