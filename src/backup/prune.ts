/** Removes what no remaining backup needs: backups that are too old, the log before the oldest one, and bytes of objects. */

import { blobName } from './blobs.ts'
import {
  type BlobRef,
  backupFolder,
  type Chain,
  listChains,
  momentTime,
  readBackup,
  readMoment,
} from './manifests.ts'
import { parseSegment } from './postgres/wal-names.ts'
import { walName } from './postgres/wal-receiver.ts'
import type { Repository } from './repository/repository.ts'

export interface Pruned {
  /** Ids of backups, oldest first. */
  readonly backups: readonly string[]
  readonly files: number
  readonly bytes: number
}

/** The latest one is kept in any case. */
export interface PruneOptions {
  /** RFC 3339: times before it need not be restored any more. */
  readonly before: string
  readonly dryRun: boolean
}

/**
 * Removes backups first, so that one that is interrupted leaves files that the next one finds, and never a backup without its files.
 * Waits for backups that are under way.
 */
export function pruneBackups(repository: Repository, options: PruneOptions): Promise<Pruned> {
  return repository.store.exclusively(() => prune(repository, options))
}

async function prune(repository: Repository, { before, dryRun }: PruneOptions): Promise<Pruned> {
  const chains = await listChains(repository)
  const kept = await findKept(repository, chains, before)
  const gone = chains.filter(({ id }) => !kept.some((chain) => chain.id === id))
  const needed = await neededBy(repository, kept)
  const files = (await repository.list('')).filter(({ name }) => isOwn(name) && !needed(name))
  // The manifest is what makes a backup.
  files.sort((left, right) => Number(isManifest(right.name)) - Number(isManifest(left.name)))
  if (!dryRun) for (const { name } of files) await repository.store.remove(name)
  return {
    ...{ backups: gone.map(({ id }) => id), files: files.length },
    bytes: files.reduce((sum, { size }) => sum + size, 0),
  }
}

const FOLDERS = ['backups/', 'moments/', 'members/', 'states/', 'wal/', 'objects/']
/** Tombstones are kept for as long as the repository is. */
const isOwn = (name: string): boolean => FOLDERS.some((folder) => name.startsWith(folder))
const isManifest = (name: string): boolean => name.startsWith('backups/')

/** The chains that reach beyond the time, the latest one, and those that they are based on. */
async function findKept(repository: Repository, chains: readonly Chain[], before: string): Promise<Chain[]> {
  const wanted = new Set(
    chains
      .filter(
        ({ id, moments }, n) =>
          n === chains.length - 1 || Date.parse(momentTime(moments.at(-1) ?? id)) >= Date.parse(before),
      )
      .map(({ id }) => id),
  )
  for (const { id } of chains.toReversed()) {
    const { parent } = await readBackup(repository, id)
    if (wanted.has(id) && parent !== null) wanted.add(parent)
  }
  return chains.filter(({ id }) => wanted.has(id))
}

async function neededBy(repository: Repository, kept: readonly Chain[]): Promise<(name: string) => boolean> {
  const names = new Set<string>()
  const segments: { readonly first: string; readonly last: string }[] = []
  const addBlobs = (blobs: readonly BlobRef[]) => {
    for (const one of blobs) names.add(blobName(repository, one))
  }
  for (const chain of kept) {
    const { id, base, base_manifest, blobs, secrets, first_wal } = await readBackup(repository, chain.id)
    for (const { name } of [base, base_manifest, blobs, secrets]) names.add(name)
    names.add(`${backupFolder(id)}/manifest`)
    addBlobs(await repository.readJson<BlobRef[]>(blobs.name))
    let last = first_wal
    for (const moment of chain.moments) {
      const { states, ...read } = await readMoment(repository, chain, moment)
      addBlobs(read.blobs)
      last = read.last_wal
      names.add(`moments/${id}/${moment}`)
      const { member, payloads } = states.temporal ?? {}
      if (member !== undefined) names.add(member.name)
      // Many moments name the same copy.
      if (payloads === undefined || names.has(payloads.name)) continue
      names.add(payloads.name)
      addBlobs(await repository.readJson<BlobRef[]>(payloads.name))
    }
    segments.push({ first: first_wal, last })
  }
  const newest = segments.at(-1)?.last ?? ''
  const isNeeded = (segment: string) =>
    // What came after the last moment is of the next one.
    parseSegment(segment) === undefined ||
    segment > newest ||
    segments.some(({ first, last }) => first <= segment && segment <= last)
  const log = walName('')
  return (name) => names.has(name) || (name.startsWith(log) && isNeeded(name.slice(log.length)))
}
