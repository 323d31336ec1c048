/** Writes the bytes that a restored database names to the object store, which may have some of them still. */

import { NoSuchBucket, paginateListObjectsV2, type S3Client } from '@aws-sdk/client-s3'
import type { Client } from 'pg'
import { PAYLOAD_BUCKET } from '../core/object-key.ts'
import type { Buckets } from '../infra/s3/buckets.ts'
import { type Blob, findBlobs, OBJECT_STORE, restoreBlob } from './blobs.ts'
import type { States } from './manifests.ts'
import { FileMissing } from './repository/file-store.ts'
import type { Repository } from './repository/repository.ts'
import { SealBroken } from './repository/sealed-stream.ts'
import { copiedPayloads } from './states.ts'
import { storeFault } from './store-fault.ts'

export interface ObjectStore {
  readonly store: S3Client
  readonly buckets: Buckets
}

export interface RestoredObjects {
  readonly written: number
  /** Sentences about blobs that the repository does not have, or has altered. */
  readonly faults: readonly string[]
}

const AT_ONCE = 8

export async function restoreObjects(
  repository: Repository,
  { store, buckets }: ObjectStore,
  database: Client,
  states: States,
): Promise<RestoredObjects> {
  const { rows } = await database.query<{ name: string; workspace_id: string }>(
    'select name, workspace_id from buckets',
  )
  for (const { name, workspace_id } of rows) await buckets.make(name, workspace_id)
  const payloads = await copiedPayloads(repository, states)
  if (payloads.length > 0) await buckets.make(PAYLOAD_BUCKET, 'platform')
  const wanted = [...(await findBlobs(database, null)).filter(({ size }) => size !== null), ...payloads]
  let written = 0
  const faults: string[] = []
  for (const [bucket, blobs] of Map.groupBy(wanted, (one) => one.bucket)) {
    const waiting = await withoutStored(store, bucket, blobs)
    const writeNext = async (): Promise<void> => {
      for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
        const fault = await findFault(repository, store, next)
        if (fault === undefined) written += 1
        else faults.push(fault)
      }
    }
    await Promise.all(Array.from({ length: AT_ONCE }, writeNext))
  }
  return { written, faults }
}

/** Writes a blob. One that is lost must not keep all others from being restored. */
async function findFault(repository: Repository, store: S3Client, blob: Blob): Promise<string | undefined> {
  try {
    await restoreBlob(repository, store, blob)
    return undefined
  } catch (error) {
    const subject = `The bytes ${blob.blob} of an object in the bucket ${blob.bucket}`
    if (error instanceof FileMissing) return `${subject} are in no backup.`
    if (error instanceof SealBroken) return `${subject} were altered in the repository: ${error.message}`
    throw storeFault(OBJECT_STORE, error)
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
