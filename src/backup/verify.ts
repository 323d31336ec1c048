/** Restores a backup into a scratch folder, and reads it back: a backup that nobody has restored is a hope. */

import { join } from 'node:path'
import type { Client } from 'pg'
import { PAYLOAD_BUCKET } from '../core/object-key.ts'
import { type Blob, blobName, digestBlob, findBlobs } from './blobs.ts'
import type { Backup } from './manifests.ts'
import type { RestorePlan } from './plan.ts'
import { openTo, type Programs } from './postgres/programs.ts'
import { recover } from './postgres/recover.ts'
import { walName } from './postgres/wal-receiver.ts'
import type { Member, Repository } from './repository/repository.ts'
import { withScratch } from './scratch.ts'
import { copiedPayloads } from './states.ts'

export interface Verification {
  readonly to: string
  /** Files whose digests were compared with their manifests. */
  readonly files: number
  /** Rows of each table that the restored database has. */
  readonly rows: Readonly<Record<string, number>>
  /** Blobs that the restored catalogue and the copy of Temporal name, how many of them were read back, and what was wrong. */
  readonly blobs: number
  readonly read: number
  readonly faults: readonly string[]
}

/** A blob of an upload in one piece has the MD5 of its bytes as its entity tag. */
const MD5 = /^[0-9a-f]{32}$/

/**
 * PostgreSQL runs on a socket in the scratch folder, and nothing is left behind.
 * @param sample how many blobs are read back; all others are looked for
 * @throws SealBroken, FileMissing, Error of PostgreSQL if it cannot be restored
 */
export async function verifyBackup(
  { repository, programs }: { readonly repository: Repository; readonly programs: Programs },
  { to, backups, lastWal, states }: RestorePlan,
  sample: number,
): Promise<Verification> {
  const { member: temporal, payloads: list } = states.temporal ?? {}
  const members = [...backups.flatMap(membersOf), temporal, list].filter((one) => one !== undefined)
  for (const member of members) await repository.check(member)
  const payloads = await copiedPayloads(repository, states)
  return withScratch(async (scratch) => {
    // The folder of the data may be entered by the account of PostgreSQL.
    const data = join(scratch, 'data')
    await openTo(programs, scratch)
    return recover({ repository, programs, backups, lastWal, to, data }, async (database) => ({
      ...{ to, files: members.length, rows: await countRows(database) },
      ...(await readBlobs(repository, database, payloads, sample)),
    }))
  })
}

/** Of the log, what the copy needs: it was received from a little earlier on, and a prune removes that. */
const membersOf = ({ base, base_manifest, blobs, secrets, first_wal, first_moment }: Backup): Member[] => [
  ...[base, base_manifest, blobs, secrets],
  ...first_moment.wal.filter(({ name }) => name >= walName(first_wal)),
]

async function countRows(database: Client): Promise<Record<string, number>> {
  const { rows: tables } = await database.query<{ name: string }>(
    `select relname as name from pg_class where relnamespace = 'tenon'::regnamespace and relkind in ('r', 'p') order by 1`,
  )
  const counts: Record<string, number> = {}
  for (const { name } of tables) {
    const { rows } = await database.query<{ n: string }>(
      `select count(*) as n from ${database.escapeIdentifier(name)}`,
    )
    counts[name] = Number(rows[0]?.n)
  }
  return counts
}

async function readBlobs(
  repository: Repository,
  database: Client,
  payloads: readonly Blob[],
  sample: number,
): Promise<Pick<Verification, 'blobs' | 'read' | 'faults'>> {
  const named = (await findBlobs(database, null)).filter(({ size }) => size !== null)
  const blobs = [...named, ...payloads]
  const known = new Set((await repository.list('objects/')).map(({ name }) => name))
  const faults = blobs
    .filter((one) => !known.has(blobName(repository, one)))
    .map(({ bucket, blob }) => `the bytes ${blob} of an object in the bucket ${bucket} are missing`)
  const chosen = spread(
    blobs.filter((one) => known.has(blobName(repository, one))),
    sample,
  )
  for (const one of chosen) {
    const wrong = await findFault(repository, database, one)
    if (wrong !== undefined)
      faults.push(`the bytes ${one.blob} of an object in the bucket ${one.bucket} ${wrong}`)
  }
  return { blobs: blobs.length, read: chosen.length, faults }
}

async function findFault(repository: Repository, database: Client, one: Blob): Promise<string | undefined> {
  const digest = await digestBlob(repository, one).catch((error: Error) => error)
  if (digest instanceof Error) return `cannot be read: ${digest.message}`
  if (digest.size !== one.size) return `are ${digest.size}, and the catalogue says ${one.size}`
  const etag = await storedEtag(database, one)
  return etag !== undefined && MD5.test(etag) && etag !== digest.md5 ? 'have another digest' : undefined
}

/** @returns undefined for a payload of an execution, which the catalogue does not name */
async function storedEtag(database: Client, { bucket, blob }: Blob): Promise<string | undefined> {
  if (bucket === PAYLOAD_BUCKET) return undefined
  const { rows } = await database.query<{ etag: string }>('select etag from objects where blob = $1', [blob])
  return rows[0]?.etag
}

/** As many as asked for, from all over the list. */
function spread<T>(items: readonly T[], count: number): T[] {
  const step = Math.max(1, items.length / Math.max(1, count))
  return Array.from({ length: Math.min(count, items.length) }, (_, n) => items[Math.floor(n * step)] as T)
}
