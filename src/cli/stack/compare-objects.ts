/**
 * Compares the catalogue of objects with what the object store has, bucket by bucket: for `tenon doctor --deep` and for tests. Reads
 * only. A page that cannot be read ends the comparison with its error, since half a list would name what is there as missing.
 */

import { ListObjectsV2Command, type S3Client } from '@aws-sdk/client-s3'
import type { Client as Database } from 'pg'

/** A blob of one side alone. */
export interface BlobMismatch {
  readonly bucket: string
  readonly blob: string
  /** `missing`: an object or a converted image has it, and the store has not, or of another size. `orphan`: the store has it, and nothing names it. */
  readonly kind: 'missing' | 'orphan'
}

interface Blob {
  readonly name: string
  readonly size: number
}

export interface ComparisonOptions {
  /** A role that row-level security does not hide rows from, such as a superuser. */
  readonly database: Database
  /** With the root identity. */
  readonly store: S3Client
  /** Buckets to compare; all by default. */
  readonly buckets?: readonly string[]
  /** Of the mismatches. */
  readonly limit?: number
}

/** @returns the mismatches of all buckets, in the order of their names; empty if there are none */
export async function compareObjects({
  database,
  store,
  buckets,
  limit = 1_000,
}: ComparisonOptions): Promise<BlobMismatch[]> {
  const { rows } = await database.query<{ name: string }>(
    'select name from tenon.buckets where $1::text[] is null or name = any($1) order by name',
    [buckets ?? null],
  )
  const found: BlobMismatch[] = []
  for (const { name } of rows) {
    for await (const mismatch of mismatchesIn(database, store, name)) {
      found.push({ bucket: name, ...mismatch })
      if (found.length === limit) return found
    }
  }
  return found
}

/** Walks both lists, which have the same order, side by side. */
async function* mismatchesIn(
  database: Database,
  store: S3Client,
  bucket: string,
): AsyncGenerator<Omit<BlobMismatch, 'bucket'>> {
  const stored = storedBlobs(store, bucket)
  const owned = ownedBlobs(database, bucket)
  let [there, here] = [await stored.next(), await owned.next()]
  while (!there.done || !here.done) {
    const [inStore, inCatalogue] = [there.value, here.value]
    if (inCatalogue === undefined || (inStore !== undefined && inStore.name < inCatalogue.name)) {
      if (inStore !== undefined && !(await isKnown(database, bucket, inStore.name)))
        yield { blob: inStore.name, kind: 'orphan' }
      there = await stored.next()
    } else if (inStore === undefined || inStore.name > inCatalogue.name) {
      if (await isOwned(database, bucket, inCatalogue)) yield { blob: inCatalogue.name, kind: 'missing' }
      here = await owned.next()
    } else {
      const isSame = inStore.size === inCatalogue.size
      if (!isSame && (await isOwned(database, bucket, inCatalogue)))
        yield { blob: inCatalogue.name, kind: 'missing' }
      ;[there, here] = [await stored.next(), await owned.next()]
    }
  }
}

async function* storedBlobs(store: S3Client, Bucket: string): AsyncGenerator<Blob, undefined> {
  let token: string | undefined
  do {
    const from = token === undefined ? {} : { ContinuationToken: token }
    const page = await store.send(new ListObjectsV2Command({ Bucket, ...from }))
    for (const { Key = '', Size = 0 } of page.Contents ?? [])
      if (UUID.test(Key)) yield { name: Key, size: Size }
    token = page.IsTruncated ? page.NextContinuationToken : undefined
  } while (token !== undefined)
}

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
const AT_ONCE = 1_000
const OWNED = `(select tenant_id, workspace_id, blob, size from tenon.objects union all
  select tenant_id, workspace_id, blob, size from tenon.object_images)`
const OF_BUCKET = `(o.tenant_id, o.workspace_id) = (select b.tenant_id, b.workspace_id from tenon.buckets b where b.name = $1)`

/** Objects of no bytes have no blob. */
async function* ownedBlobs(database: Database, bucket: string): AsyncGenerator<Blob, undefined> {
  let after = '00000000-0000-0000-0000-000000000000'
  for (;;) {
    const { rows } = await database.query<{ blob: string; size: string }>(
      `select o.blob, o.size from ${OWNED} o where ${OF_BUCKET} and o.blob > $2 and o.size > 0 order by o.blob limit ${AT_ONCE}`,
      [bucket, after],
    )
    for (const { blob, size } of rows) yield { name: blob, size: Number(size) }
    if (rows.length < AT_ONCE) return
    after = rows.at(-1)?.blob ?? after
  }
}

/** True if its object still has the blob: it may have been replaced since the list was read. */
async function isOwned(database: Database, bucket: string, { name }: Blob): Promise<boolean> {
  const { rowCount } = await database.query(
    `select from ${OWNED} o where ${OF_BUCKET} and o.blob = $2 limit 1`,
    [bucket, name],
  )
  return rowCount === 1
}

/** True if an object has the blob, an upload writes it, or the sweeper will remove it. */
async function isKnown(database: Database, bucket: string, blob: string): Promise<boolean> {
  const { rowCount } = await database.query(
    `select from (
       select tenant_id, workspace_id, blob from ${OWNED} owned union all
       select tenant_id, workspace_id, id from tenon.object_uploads union all
       select tenant_id, workspace_id, blob from tenon.unused_blobs) o
     where ${OF_BUCKET} and o.blob = $2 limit 1`,
    [bucket, blob],
  )
  return rowCount === 1
}
