/** Lists the backups of a repository, the moments that continue them, and the times that can be restored. */

import type { Member, Repository } from './repository/repository.ts'

const BACKUPS = 'backups'
const MOMENTS = 'moments'
const MANIFEST = 'manifest'

/** A copy of everything. It exists once its manifest does, which is written last. */
export interface Backup {
  /** The time of its first moment, such as `20261129T143000.123456Z`. */
  readonly id: string
  readonly kind: 'full' | 'incremental'
  /** The backup that an incremental one needs. */
  readonly parent: string | null
  readonly version: string
  /** The role and the database that it was made with. */
  readonly role: string
  readonly database: string
  /** Of PostgreSQL: a copy of its files, and the log that it needs. */
  readonly base: Member
  readonly base_manifest: Member
  readonly first_wal: string
  readonly last_wal: string
  /** All blobs that the catalogue named at its moment, as {@link BlobRef}. */
  readonly blobs: Member
  /** What a restored installation needs besides, such as its master key: texts by the names of their files. */
  readonly secrets: Member
  readonly first_moment: Moment
}

/** A time to which everything is in the repository. */
export interface Moment {
  /** RFC 3339 with microseconds, by the clock of PostgreSQL. */
  readonly at: string
  /** The last segment of the log that it needs. */
  readonly last_wal: string
  /** Segments that came with it. */
  readonly wal: readonly Member[]
  /** Blobs that the catalogue has named since the moment before. What they hold is authentic by its encryption. */
  readonly blobs: readonly BlobRef[]
  /** The latest copies of stores that have no log, as of their own times. */
  readonly states: States
}

export interface BlobRef {
  readonly bucket: string
  readonly blob: string
}

export interface States {
  readonly temporal?: StateCopy
  readonly mongo?: StateCopy
}

export interface StateCopy {
  readonly at: string
  readonly member: Member
  /** Names of the payloads that were there. */
  readonly payloads?: Member
}

/** A tenant or workspace whose purge has begun. */
export interface Tombstone {
  readonly tenant_id: string
  readonly workspace_id: string | null
  readonly purged_from: string
}

/** `2026-11-29T14:30:00.123456Z` → `20261129T143000.123456Z`, which sorts by time and is a name on every file system. */
export const momentId = (at: string): string => at.replaceAll(/[-:]/g, '')

/** The inverse of {@link momentId}. */
export const momentTime = (id: string): string =>
  id.replace(/^(\d{4})(\d{2})(\d{2})T(\d{2})(\d{2})(.*)$/, '$1-$2-$3T$4:$5:$6')

export const backupFolder = (id: string): string => `${BACKUPS}/${id}`

/** A backup, and the ids of its moments in their order. */
export interface Chain {
  readonly id: string
  /** Its own moment first. */
  readonly moments: readonly string[]
}

/** The chains of a repository, oldest first. Between the first and the last moment of a chain, each time can be restored. */
export async function listChains(repository: Repository): Promise<Chain[]> {
  const [manifests, moments] = await Promise.all([
    repository.list(`${BACKUPS}/`),
    repository.list(`${MOMENTS}/`),
  ])
  const ids = manifests.flatMap(({ name }) => {
    const [, id = '', file] = name.split('/')
    return file === MANIFEST ? [id] : []
  })
  const later = Map.groupBy(moments, ({ name }) => name.split('/')[1] ?? '')
  return ids.sort().map((id) => ({
    id,
    moments: [id, ...(later.get(id) ?? []).map(({ name }) => name.split('/')[2] ?? '').sort()],
  }))
}

/**
 * The chain that leads to a time: the one with the latest backup before it.
 * @throws Error with the times that can be restored, if it is none of them
 */
export function chainFor(chains: readonly Chain[], to: string): Chain {
  const wanted = momentId(to)
  const found = chains.findLast(({ id, moments }) => id <= wanted && wanted <= (moments.at(-1) ?? ''))
  if (found !== undefined) return found
  const ranges = rangesOf(chains).map(({ from, until }) => `from ${from} until ${until}`)
  throw new Error(
    ranges.length === 0
      ? 'The repository has no backup.'
      : `${to} cannot be restored. What can be restored is each time ${ranges.join(', or ')}.`,
  )
}

/** Ranges that meet are one. */
export function rangesOf(chains: readonly Chain[]): { from: string; until: string }[] {
  const ranges: { from: string; until: string }[] = []
  for (const { id, moments } of chains) {
    const last = ranges.at(-1)
    const until = moments.at(-1) ?? id
    if (last !== undefined && id <= last.until)
      ranges[ranges.length - 1] = { ...last, until: max(last.until, until) }
    else ranges.push({ from: id, until })
  }
  return ranges.map(({ from, until }) => ({ from: momentTime(from), until: momentTime(until) }))
}

const max = (left: string, right: string): string => (left < right ? right : left)

export const readBackup = (repository: Repository, id: string): Promise<Backup> =>
  repository.readJson<Backup>(`${backupFolder(id)}/${MANIFEST}`)

export const writeBackup = (repository: Repository, backup: Backup): Promise<Member> =>
  repository.writeJson(`${backupFolder(backup.id)}/${MANIFEST}`, backup)

const momentName = (backup: string, id: string): string => `${MOMENTS}/${backup}/${id}`

export const writeMoment = (repository: Repository, backup: string, moment: Moment): Promise<Member> =>
  repository.writeJson(momentName(backup, momentId(moment.at)), moment)

/** @param id of a moment of a chain; the first one is in the manifest of its backup */
export const readMoment = async (
  repository: Repository,
  { id: backup }: Chain,
  id: string,
): Promise<Moment> =>
  id === backup
    ? (await readBackup(repository, backup)).first_moment
    : repository.readJson<Moment>(momentName(backup, id))

const TOMBSTONES = 'tombstones'

/** Kept for as long as the repository is: what was purged must not come back from an older backup. */
export const writeTombstones = (repository: Repository, at: string, tombstones: readonly Tombstone[]) =>
  repository.writeJson(`${TOMBSTONES}/${momentId(at)}`, tombstones)

export async function readTombstones(repository: Repository): Promise<Tombstone[]> {
  const files = await repository.list(`${TOMBSTONES}/`)
  const lists = await Promise.all(files.map(({ name }) => repository.readJson<Tombstone[]>(name)))
  return [...new Map(lists.flat().map((one) => [`${one.tenant_id} ${one.workspace_id}`, one])).values()]
}
