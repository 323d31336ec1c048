/** Copies the bytes of objects between the object store and a repository. Bytes never change under their name, so each is copied once. */

import { createHash } from 'node:crypto'
import type { Readable } from 'node:stream'
import {
  GetObjectCommand,
  NoSuchBucket,
  NoSuchKey,
  paginateListObjectsV2,
  type S3Client,
} from '@aws-sdk/client-s3'
import type { Client } from 'pg'
import { PAYLOAD_BUCKET } from '../core/object-key.ts'
import { putStream } from '../infra/s3/put-stream.ts'
import type { BlobRef } from './manifests.ts'
import type { Repository } from './repository/repository.ts'
import type { Chunks } from './repository/sealed-stream.ts'
import { storeFault } from './store-fault.ts'

export interface Blob extends BlobRef {
  /** In bytes; null if nothing says it. */
  readonly size: number | null
}

/** Begins sentences about it. */
export const OBJECT_STORE = 'The object store of the installation'
const FOLDER = 'objects'
const AT_ONCE = 8

export const blobName = (repository: Repository, { bucket, blob }: BlobRef): string =>
  repository.nameOf(FOLDER, `${bucket}/${blob}`)

/** Transactions that began before a time may have committed after it; none of them lasts longer. */
const OVERLAP = '10 minutes'

/**
 * The blobs that the catalogue names, or has named within the hour that the store keeps them afterwards.
 * @param since leaves out what has not changed since then; null: all
 */
export async function findBlobs(database: Client, since: string | null): Promise<Blob[]> {
  const { rows } = await database.query<{ bucket: string; blob: string; size: string | null }>(
    `select b.name as bucket, o.blob, o.size from (
       select tenant_id, workspace_id, blob, size, modified_at as changed_at from objects where size > 0
       union all select tenant_id, workspace_id, blob, size, read_at from object_images
       union all select tenant_id, workspace_id, blob, null, unused_at from unused_blobs) o
     join buckets b using (tenant_id, workspace_id)
     where $1::timestamptz is null or o.changed_at > $1::timestamptz - interval '${OVERLAP}'`,
    [since],
  )
  return rows.map(({ size, ...row }) => ({ ...row, size: size === null ? null : Number(size) }))
}

/** Large payloads of executions, which no table names. */
export async function findPayloads(store: S3Client): Promise<Blob[]> {
  const found: Blob[] = []
  try {
    for await (const { Contents = [] } of paginateListObjectsV2(
      { client: store },
      { Bucket: PAYLOAD_BUCKET },
    ))
      for (const { Key: blob = '', Size: size = 0 } of Contents)
        found.push({ bucket: PAYLOAD_BUCKET, blob, size })
  } catch (error) {
    // It is made when it is needed first.
    if (!(error instanceof NoSuchBucket)) throw storeFault(OBJECT_STORE, error)
  }
  return found
}

/**
 * Copies the blobs that the repository does not have.
 * @param known names of files of the repository; gets those that are copied
 * @returns those that the catalogue names and the store does not have
 */
export async function copyBlobs(
  repository: Repository,
  store: S3Client,
  blobs: readonly Blob[],
  known: Set<string>,
): Promise<Blob[]> {
  const missing: Blob[] = []
  const named = new Map(blobs.map((one) => [blobName(repository, one), one]))
  const waiting = [...named].filter(([name]) => !known.has(name))
  const copyNext = async (): Promise<void> => {
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      const [name, one] = next
      // Another process may have copied it meanwhile.
      if ((await repository.store.has(name)) || (await copyOne(repository, store, one, name))) known.add(name)
      else if (one.size !== null) missing.push(one)
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, copyNext))
  return missing
}

/** @returns false if the store does not have it, or not all of it */
async function copyOne(
  repository: Repository,
  store: S3Client,
  { bucket, blob, size }: Blob,
  name: string,
): Promise<boolean> {
  try {
    const { Body, ContentLength } = await store.send(new GetObjectCommand({ Bucket: bucket, Key: blob }))
    if (size !== null && ContentLength !== size) {
      ;(Body as Readable).destroy()
      return false
    }
    await repository.write(name, readBody(Body as Readable))
    return true
  } catch (error) {
    if (error instanceof NoSuchKey || error instanceof NoSuchBucket) return false
    throw storeFault(OBJECT_STORE, error)
  }
}

/** Names the object store in the faults of its connection, which the repository would be blamed for. */
async function* readBody(body: Readable): Chunks {
  try {
    yield* body as AsyncIterable<Buffer>
  } catch (error) {
    throw storeFault(OBJECT_STORE, error)
  }
}

/** Writes a blob of the repository to the store. @throws FileMissing, SealBroken */
export const restoreBlob = (repository: Repository, store: S3Client, blob: Blob): Promise<void> =>
  putStream(store, { Bucket: blob.bucket, Key: blob.blob }, repository.read(blobName(repository, blob)))

/** Size and MD5 of a blob of the repository. @throws FileMissing, SealBroken */
export async function digestBlob(repository: Repository, blob: Blob): Promise<{ size: number; md5: string }> {
  const digest = createHash('md5')
  let size = 0
  for await (const chunk of repository.read(blobName(repository, blob))) {
    digest.update(chunk)
    size += chunk.length
  }
  return { size, md5: digest.digest('hex') }
}
