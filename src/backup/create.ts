/** Makes a backup: bytes of objects, a copy of PostgreSQL, Temporal's file, and the log until a moment after all of them. */

import { randomBytes } from 'node:crypto'
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Client } from 'pg'
import { lockOwner, tryLock } from '../../stack/lock.mjs'
import { copyBlobs, findBlobs } from './blobs.ts'
import { type Installation, withDatabase } from './installation.ts'
import { type Backup, listChains, momentId, readBackup, writeBackup } from './manifests.ts'
import { copyBase } from './postgres/base-backup.ts'
import { parseSegment } from './postgres/wal-names.ts'
import { WalReceiver } from './postgres/wal-receiver.ts'
import type { Repository } from './repository/repository.ts'
import { copyStates } from './states.ts'
import { type Backing, takeMoment } from './take-moment.ts'

export interface CreateOptions {
  readonly installation: Installation
  readonly repository: Repository
  readonly version: string
  /** Copies only what has changed in PostgreSQL since the latest backup, if there is one. */
  readonly incremental: boolean
  readonly onNotice: (text: string) => void
  readonly onProgress: (text: string) => void
  readonly signal?: AbortSignal
}

/** This machine makes a backup of the installation already. */
export class BackupUnderWay extends Error {}

/**
 * @returns the backup, which can be restored to its moment; `tenon backup follow` continues it
 * @throws BackupUnderWay: two would read everything twice, and gain nothing
 */
export async function createBackup(options: CreateOptions): Promise<Backup> {
  const { folder } = options.installation
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const alone = tryLock(join(folder, 'create.lock'))
  if ('owner' in alone)
    throw new BackupUnderWay(
      `A backup is being made already, by process ${alone.owner.pid}. Wait for its end; \`npx tenon backup list\` shows it then.`,
    )
  try {
    return await createAlone(options)
  } finally {
    alone.release()
  }
}

async function createAlone(options: CreateOptions): Promise<Backup> {
  const { installation, repository } = options
  const { programs, databaseUrl: url, folder } = installation
  const slot = `${SLOT}${randomBytes(4).toString('hex')}`
  await removeLeft(installation)
  const lock = join(folder, `${slot}${LOCK}`)
  tryLock(lock)
  try {
    // Before the copy begins: the copy is of no use without the log since then.
    const receiver = await WalReceiver.start({ programs, url, slot, folder: join(folder, slot), repository })
    const backup = await copyWith(receiver, options)
    await receiver.stop(true)
    await removeReceived(folder, slot)
    return backup
  } catch (error) {
    // What has failed may be the server: the next backup removes what is left.
    await writeFile(lock, '')
    throw error
  }
}

async function copyWith(receiver: WalReceiver, options: CreateOptions): Promise<Backup> {
  const { installation, repository, onNotice, signal } = options
  // Until the manifest names it, nothing does.
  const draft = `members/${randomBytes(8).toString('hex')}`
  try {
    const known = await findKnown(repository)
    const backing = { installation, repository, receiver, known, onNotice, ...(signal && { signal }) }
    return await repository.store.sharing(() => copyAll(options, backing, draft))
  } catch (error) {
    await receiver.stop(true).catch(() => {})
    await removeDraft(repository, draft)
    throw error
  }
}

/** Begins the name of the slot of each backup, which is also that of the folder of what it receives. */
const SLOT = 'tenon_create_'
/** Ends the name of the file that tells whose folder it is. */
const LOCK = '.lock'

/**
 * Removes what backups that were killed have left: the server would keep its log for their slots, of which it has few. Slots of other
 * machines go when nobody has used them for ten minutes.
 */
async function removeLeft({ databaseUrl, folder }: Installation): Promise<void> {
  const names = await readdir(folder).catch(() => [])
  const dead = names
    .filter(
      (name) => name.startsWith(SLOT) && name.endsWith(LOCK) && lockOwner(join(folder, name)) === undefined,
    )
    .map((name) => name.slice(0, -LOCK.length))
  const used = await withDatabase(databaseUrl, async (database) => {
    await database.query(
      `select pg_drop_replication_slot(slot_name) from pg_replication_slots
       where starts_with(slot_name, $1) and not active and (slot_name = any ($2) or inactive_since < now() - interval '10 minutes')`,
      [SLOT, dead],
    )
    const { rows } = await database.query<{ slot_name: string }>('select slot_name from pg_replication_slots')
    return rows.map(({ slot_name }) => slot_name)
  })
  for (const slot of dead.filter((one) => !used.includes(one))) await removeReceived(folder, slot)
}

async function removeReceived(folder: string, slot: string): Promise<void> {
  await rm(join(folder, slot), { recursive: true, force: true })
  await rm(join(folder, `${slot}${LOCK}`), { force: true })
}

/** Removes what only a manifest would have named: one that failed for want of room must leave it. */
async function removeDraft({ store }: Repository, draft: string): Promise<void> {
  try {
    for (const { name } of await store.list(`${draft}/`)) await store.remove(name)
  } catch {
    // The next prune finds it.
  }
}

export const findKnown = async (repository: Repository): Promise<Set<string>> =>
  new Set((await repository.list('objects/')).map(({ name }) => name))

async function copyAll(
  { version, incremental, onProgress }: CreateOptions,
  backing: Backing,
  draft: string,
): Promise<Backup> {
  const { installation, repository, known } = backing
  const { programs, databaseUrl: url, objects } = installation
  onProgress('copying the bytes of objects')
  // The moment comes when few are left: what is deleted meanwhile stays in the store for an hour.
  const early = await withDatabase(url, (database) => findBlobs(database, null))
  await copyBlobs(repository, objects, early, known)
  const parent = incremental ? await findParent(backing) : undefined
  onProgress(
    parent === undefined ? 'copying PostgreSQL' : `copying what has changed in PostgreSQL since ${parent.id}`,
  )
  const { base, manifest, firstWal, lastWal } = await copyBase(
    { programs, url, repository },
    draft,
    parent?.base_manifest.name,
  )
  onProgress('copying Temporal, and the log until now')
  const states = await copyStates(installation, repository, new Date().toISOString(), known)
  const { moment, blobs } = await takeMoment(backing, { at: null, lastWal, states, named: new Set() })
  const backup: Backup = {
    ...{
      id: momentId(moment.at),
      kind: parent === undefined ? 'full' : 'incremental',
      parent: parent?.id ?? null,
    },
    ...{ version, ...loginOf(url) },
    ...{ base, base_manifest: manifest, first_wal: firstWal, last_wal: lastWal },
    secrets: await repository.writeJson(`${draft}/secrets`, installation.secrets),
    blobs: await repository.writeJson(
      `${draft}/blobs`,
      blobs.map(({ bucket, blob }) => ({ bucket, blob })),
    ),
    first_moment: { ...moment, blobs: [] },
  }
  await writeBackup(repository, backup)
  return backup
}

function loginOf(url: string): Pick<Backup, 'role' | 'database'> {
  const { username, pathname } = new URL(url)
  const role = decodeURIComponent(username)
  return { role, database: decodeURIComponent(pathname.slice(1)) || role }
}

/** The latest backup, if the server has the summaries of its log since then: one that was restored since has none. */
async function findParent({ installation, repository, onNotice }: Backing): Promise<Backup | undefined> {
  const last = (await listChains(repository)).at(-1)
  if (last === undefined) return undefined
  const parent = await readBackup(repository, last.id)
  const timeline = await withDatabase(installation.databaseUrl, readTimeline)
  if (parseSegment(parent.last_wal)?.timeline === timeline) return parent
  onNotice(`PostgreSQL was restored since the backup ${parent.id}: everything is copied.`)
  return undefined
}

async function readTimeline(database: Client): Promise<number> {
  const { rows } = await database.query<{ timeline: number }>(
    'select timeline_id as timeline from pg_control_checkpoint()',
  )
  return rows[0]?.timeline ?? 0
}
