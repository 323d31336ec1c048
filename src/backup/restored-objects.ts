/** Writes the bytes that a restored database names to the object store, which may have some of them still. */

import { NoSuchBucket, paginateListObjectsV2, type S3Client } from '@aws-sdk/client-s3'
import type { Client } from 'pg'
import { PAYLOAD_BUCKET } from '../core/object-key.ts'
import type { Buckets } from '../infra/s3/buckets.ts'
import { type Blob, findBlobs, restoreBlob } from './blobs.ts'
import type { States } from './manifests.ts'
import { FileMissing } from './repository/file-store.ts'
import type { Repository } from './repository/repository.ts'

export interface ObjectStore {
  readonly store: S3Client
  readonly buckets: Buckets
}

export interface RestoredObjects {
  readonly written: number
  /** Blobs of objects that are in neither: the store had none when they were backed up. */
  readonly missing: readonly Blob[]
}

const AT_ONCE = 8

export async function restoreObjects(
  repository: Repository,
  { store, buckets }: ObjectStore,
  database: Client,
  { temporal }: States,
): Promise<RestoredObjects> {
  const { rows } = await database.query<{ name: string; workspace_id: string }>(
    'select name, workspace_id from buckets',
  )
  for (const { name, workspace_id } of rows) await buckets.make(name, workspace_id)
  const payloads = temporal?.payloads && (await repository.readJson<Blob[]>(temporal.payloads.name))
  if (payloads !== undefined && payloads.length > 0) await buckets.make(PAYLOAD_BUCKET, 'platform')
  const wanted = [
    ...(await findBlobs(database, null)).filter(({ size }) => size !== null),
    ...(payloads ?? []),
  ]
  let written = 0
  const missing: Blob[] = []
  for (const [bucket, blobs] of Map.groupBy(wanted, (one) => one.bucket)) {
    const waiting = await withoutStored(store, bucket, blobs)
    const writeNext = async (): Promise<void> => {
      for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
        if (await isWritten(repository, store, next)) written += 1
        else missing.push(next)
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, writeNext))
  }
  return { written, missing }
}

async function isWritten(repository: Repository, store: S3Client, blob: Blob): Promise<boolean> {
  try {
    await restoreBlob(repository, store, blob)
    return true
  } catch (error) {
    if (error instanceof FileMissing) return false
    throw error
  }
}

async function withoutStored(store: S3Client, Bucket: string, blobs: readonly Blob[]): Promise<Blob[]> {
  const left = new Map(blobs.map((one) => [one.blob, one]))
  try {
    for await (const { Contents = [] } of paginateListObjectsV2({ client: store }, { Bucket }))
      for (const { Key = '', Size } of Contents) if (left.get(Key)?.size === Size) left.delete(Key)
  } catch (error) {
    if (!(error instanceof NoSuchBucket)) throw error
  }
  return [...left.values()]
}
