/** Restores an installation of one machine, as `npm start` runs it, to a time: over all of its stores. */

import { createWriteStream } from 'node:fs'
import { mkdir, readdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { tryLock } from '../../stack/lock.mjs'
import { type PostgresHome, postgresHome } from '../../stack/postgres.ts'
import { loadSecrets, type Secrets } from '../../stack/server.ts'
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
export const REPLACED = 'replaced'
/** What is made before anything is replaced. */
const DRAFT = 'restore.draft'
/** Until all stores are restored, this file keeps `npm start` from starting. */
export const UNFINISHED = 'restore.unfinished'

/**
 * Replaces the data of a folder with that of a time. Temporal and objects are still to be settled, with the servers running.
 * @returns how many tenants and workspaces will be purged again
 * @throws Error if the platform runs, or the folder has data and `yes` does not name its installation
 */
export async function restoreLocal(options: LocalRestore): Promise<number> {
  const { dir } = options
  await mkdir(dir, { recursive: true, mode: 0o711 })
  const lock = tryLock(join(dir, 'stack.lock'))
  if ('owner' in lock)
    throw new Error(
      `Tenon runs in ${dir} as process ${lock.owner.pid}. Stop it before you restore: press Ctrl-C in its terminal.`,
    )
  try {
    await requireConsent(options)
    const secrets = await readSecrets(options)
    const draft = join(dir, DRAFT)
    await rm(draft, { recursive: true, force: true })
    await mkdir(draft, { mode: 0o711 })
    await writeSecrets(secrets, draft)
    const { home, made, purged } = await restorePostgres(options, loadSecrets(draft))
    await restoreTemporal(options, join(draft, 'temporal'))
    // From here on the folder is not what it was, and not yet what it is to be.
    await writeFile(join(dir, UNFINISHED), `${options.plan.to}\n`)
    await setAside(dir)
    for (const part of await readdir(draft)) await rename(join(draft, part), join(dir, part))
    await rm(home.data, { recursive: true, force: true })
    await rename(made, home.data)
    await rm(draft, { recursive: true })
    return purged
  } finally {
    lock.release()
  }
}

async function requireConsent({ dir, yes, repository: { installation } }: LocalRestore): Promise<void> {
  const present = await readdir(dir)
  if (!PARTS.some((part) => present.includes(part)) || yes === installation) return
  throw new Error(
    yes === undefined
      ? `${dir} has data, which the restore replaces. To allow it, add --yes=${installation}, the id of the installation.`
      : `--yes=${yes} is not the installation of the repository, which is ${installation}.`,
  )
}

async function setAside(dir: string): Promise<void> {
  const target = join(dir, REPLACED, new Date().toISOString().replaceAll(/[-:.]/g, ''))
  const present = await readdir(dir)
  await mkdir(target, { recursive: true, mode: 0o711 })
  for (const part of PARTS.filter((one) => present.includes(one)))
    await rename(join(dir, part), join(target, part))
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
  const home = await postgresHome({
    dir,
    env,
    secrets,
    signal: new AbortController().signal,
    progress: () => {},
  })
  // A folder of this name is removed by a start, if this process ends before it is complete.
  const made = `${home.data}.draft-restored`
  await rm(made, { recursive: true, force: true })
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
