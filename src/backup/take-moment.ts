/** Ends a moment: after it, every time up to it can be restored from the repository, over all stores. */

import type { Client } from 'pg'
import { OBJECT_LIMITS } from '../features/objects/limits.ts'
import { type Blob, blobName, copyBlobs, findBlobs } from './blobs.ts'
import { type Installation, readClock, withDatabase } from './installation.ts'
import { type Moment, type States, type Tombstone, writeTombstones } from './manifests.ts'
import { nextSegment, parseSegment, segmentName } from './postgres/wal-names.ts'
import { type WalReceiver, walName } from './postgres/wal-receiver.ts'
import type { Repository } from './repository/repository.ts'

/** A repository that gets an installation. */
export interface Backing {
  readonly installation: Installation
  readonly repository: Repository
  readonly receiver: WalReceiver
  /** Names of the blobs that the repository has. */
  readonly known: Set<string>
  /** Gets sentences about what is found on the way. */
  readonly onNotice: (text: string) => void
  readonly signal?: AbortSignal
}

/** What the moment continues. */
export interface Before {
  /** The time of the moment before; null: of the first one. */
  readonly at: string | null
  /** The last segment that is known to be in the repository, or in the copy of the files. */
  readonly lastWal: string
  readonly states: States
  /** Names of the blobs that the catalogue had then. None after a fault: no moment names what was copied until it. */
  readonly named: ReadonlySet<string>
}

/** The log, or the bytes of objects, do not continue what the repository has: only another backup helps. */
export class Interrupted extends Error {
  constructor(why: string) {
    super(`The backup does not continue: ${why}.`)
    this.name = 'Interrupted'
  }
}

/** With a margin for a cycle that takes long. */
const BLOBS_KEPT_MS = OBJECT_LIMITS.unusedBlobKeptMs / 2

/**
 * @returns the moment, and the blobs of the catalogue: all of them for the first moment, else those of a while
 * @throws Interrupted
 */
export async function takeMoment(
  { installation, repository, receiver, known, onNotice, signal }: Backing,
  before: Before,
): Promise<{ moment: Moment; blobs: Blob[]; named: ReadonlySet<string> }> {
  return withDatabase(installation.databaseUrl, async (database) => {
    const at = await readClock(database)
    if (before.at !== null && Date.parse(at) - Date.parse(before.at) > BLOBS_KEPT_MS)
      throw new Interrupted(
        `the moment before was at ${before.at}, and bytes of objects that were deleted since may be gone`,
      )
    const blobs = await findBlobs(database, before.at)
    const isNew = blobs.filter((one) => !before.named.has(blobName(repository, one)))
    const missing = await copyBlobs(repository, installation.objects, isNew, known)
    for (const { bucket, blob } of missing)
      onNotice(
        `The object store does not have the bytes ${blob} of an object in the bucket ${bucket}: they are not backed up.`,
      )
    await noteTombstones(repository, database, before.at, at)
    const lastWal = await endLog(database, at)
    await receiver.waitFor(lastWal, signal)
    const wal = await receiver.store(lastWal)
    await requireContinuous(repository, before.lastWal, lastWal)
    const { states } = before
    return {
      moment: {
        at,
        last_wal: lastWal,
        wal,
        blobs: isNew.map(({ bucket, blob }) => ({ bucket, blob })),
        states,
      },
      blobs,
      named: new Set(blobs.filter((one) => !missing.includes(one)).map((one) => blobName(repository, one))),
    }
  })
}

/**
 * Commits a transaction after the moment, at which a restore to it stops, and begins another segment of the log.
 * @returns the last segment that the moment needs
 */
async function endLog(database: Client, at: string): Promise<string> {
  // The clock may have been set back.
  while ((await readClock(database)) <= at);
  await database.query('select pg_current_xact_id()')
  const { rows } = await database.query<{ last: string }>('select pg_walfile_name(pg_switch_wal()) as last')
  return rows[0]?.last ?? ''
}

/** @throws Interrupted if a segment between the two is not in the repository */
async function requireContinuous(repository: Repository, from: string, to: string): Promise<void> {
  const [first, last] = [parseSegment(nextSegment(from)), parseSegment(to)]
  if (first === undefined || last === undefined) throw new TypeError(`${from} and ${to} are no segments`)
  if (first.timeline !== last.timeline)
    throw new Interrupted('PostgreSQL was restored, or another server has taken over')
  for (let number = first.number; number <= last.number; number += 1) {
    const segment = segmentName({ ...last, number })
    if (!(await repository.store.has(walName(segment))))
      throw new Interrupted(`the segment ${segment} of PostgreSQL's log is gone`)
  }
}

/** What was purged must not come back with a restore to a time before, so it is noted outside of the database. */
async function noteTombstones(
  repository: Repository,
  database: Client,
  since: string | null,
  at: string,
): Promise<void> {
  const { rows } = await database.query<Tombstone>(
    `select tenant_id, workspace_id, purged_from from (
       select id as tenant_id, null as workspace_id, purged_from from tenants
       union all select tenant_id, id, purged_from from workspaces) purged
     where purged_from is not null and ($1::timestamptz is null or purged_from > $1::timestamptz - interval '10 minutes')`,
    [since],
  )
  if (rows.length > 0) await writeTombstones(repository, at, rows)
}
