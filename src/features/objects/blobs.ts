/**
 * The bytes of a workspace's objects: blobs in its bucket, each written once under a name of its own. They are reached under a session
 * of the workspace, so that the store itself refuses other buckets.
 */

import type { Readable } from 'node:stream'
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CopyObjectCommand,
  CreateMultipartUploadCommand,
  DeleteObjectsCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  type S3Client,
  UploadPartCommand,
  UploadPartCopyCommand,
} from '@aws-sdk/client-s3'
import { privilege } from '../../access/privileges.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { checkBucket } from '../../core/object-key.ts'
import { Problem } from '../../core/problem.ts'
import { sql } from '../../infra/postgres/sql.ts'
import type { ObjectClients } from '../../infra/s3/clients.ts'
import { isSessionRefused, statusOf, toProblem } from '../../infra/s3/errors.ts'
import { unavailable } from '../../infra/unavailable.ts'

const clientsOf = privilege('objects.store')

/** A stream of bytes on its way to the store. */
export interface BlobBody {
  readonly body: Readable
  /** In bytes, if it is known before. */
  readonly length: number | undefined
  readonly signal: AbortSignal
}

/** A part of a blob that is uploaded in parts. */
export interface BlobPart {
  readonly number: number
  /** Without quotes. */
  readonly etag: string
}

/** First and last byte, both included. */
export interface ByteRange {
  readonly first: number
  readonly last: number
}

/** A part of a blob. */
export interface BlobRange {
  readonly blob: string
  readonly range: ByteRange
  /** True if the range is all of the blob. */
  readonly isWhole?: boolean
}

/** Work on the bucket of the workspace. */
type Work<T> = (s3: S3Client, Bucket: string, until: (end: Promise<unknown>) => void) => Promise<T>

export class Blobs {
  readonly #scope: WorkspaceScope
  readonly #clients: ObjectClients

  constructor(scope: WorkspaceScope) {
    this.#scope = scope
    this.#clients = clientsOf(scope)
  }

  /** Bytes of an object that comes in several requests. */
  get objectBytesMax(): number {
    return this.#clients.objectBytesMax
  }

  /**
   * Checks that a bucket is that of the workspace. The store answers for any other one, under the session of the workspace.
   * @throws Problem `AccessDenied`, `NoSuchBucket`; `bucket_required` if the workspace has none
   */
  async requireOwn(bucket: string): Promise<void> {
    if (checkBucket(bucket) === (await this.bucket())) return
    await this.#once((s3) => s3.send(new ListObjectsV2Command({ Bucket: bucket, MaxKeys: 1 })))
    throw new Problem('AccessDenied')
  }

  /** @returns the entity tag, without quotes */
  async write(blob: string, { body, length, signal }: BlobBody): Promise<string> {
    const size = length === undefined ? {} : { ContentLength: length }
    const { ETag } = await this.#once((s3, Bucket) =>
      s3.send(new PutObjectCommand({ Bucket, Key: blob, Body: body, ...size }), { abortSignal: signal }),
    )
    return bare(ETag)
  }

  /** Copies a blob within the store. @returns the entity tag of the copy, without quotes */
  async copy(from: string, to: string): Promise<string> {
    const { CopyObjectResult } = await this.#repeatable((s3, Bucket) =>
      s3.send(new CopyObjectCommand({ Bucket, Key: to, CopySource: `${Bucket}/${from}` })),
    )
    return bare(CopyObjectResult?.ETag)
  }

  /** Begins a blob that is written in parts. @returns the name that the store has for the upload */
  async beginParts(blob: string): Promise<string> {
    const { UploadId } = await this.#repeatable((s3, Bucket) =>
      s3.send(new CreateMultipartUploadCommand({ Bucket, Key: blob })),
    )
    if (UploadId === undefined) throw unavailable('s3', new Error('the object store named no upload'))
    return UploadId
  }

  /** @returns the entity tag of the part, without quotes */
  async writePart(
    blob: string,
    upload: string,
    number: number,
    { body, length, signal }: BlobBody,
  ): Promise<string> {
    const size = length === undefined ? {} : { ContentLength: length }
    const part = { Key: blob, UploadId: upload, PartNumber: number, Body: body, ...size }
    const { ETag } = await this.#once((s3, Bucket) =>
      s3.send(new UploadPartCommand({ Bucket, ...part }), { abortSignal: signal }),
    )
    return bare(ETag)
  }

  /** Makes a part of another blob, within the store. @returns its entity tag, without quotes */
  async copyPart(blob: string, upload: string, number: number, source: BlobRange): Promise<string> {
    const { first, last } = source.range
    // S3 takes no range of a source below 5 MiB, even if it is all of it.
    const range = source.isWhole === true ? {} : { CopySourceRange: `bytes=${first}-${last}` }
    const part = { Key: blob, UploadId: upload, PartNumber: number, ...range }
    const { CopyPartResult } = await this.#repeatable((s3, Bucket) =>
      s3.send(new UploadPartCopyCommand({ Bucket, ...part, CopySource: `${Bucket}/${source.blob}` })),
    )
    return bare(CopyPartResult?.ETag)
  }

  /** Makes the blob of its parts, or finds that an earlier attempt has. @returns the entity tag, without quotes */
  async endParts(blob: string, upload: string, parts: readonly BlobPart[], size: number): Promise<string> {
    const Parts = parts.map(({ number, etag }) => ({ PartNumber: number, ETag: `"${etag}"` }))
    const input = { Key: blob, UploadId: upload, MultipartUpload: { Parts } }
    return this.#repeatable(async (s3, Bucket) => {
      try {
        return bare((await s3.send(new CompleteMultipartUploadCommand({ Bucket, ...input }))).ETag)
      } catch (error) {
        if (statusOf(error) !== 404) throw error
        const { ContentLength, ETag } = await s3.send(new HeadObjectCommand({ Bucket, Key: blob }))
        if (ContentLength !== size) throw error
        return bare(ETag)
      }
    })
  }

  /** Removes the parts of a blob that never came to be. @param upload undefined: all uploads of the blob */
  async abandonParts(blob: string, upload: string | undefined): Promise<void> {
    await this.#repeatable(async (s3, Bucket) => {
      for (const UploadId of upload === undefined ? await listUploads(s3, Bucket, blob) : [upload])
        await s3
          .send(new AbortMultipartUploadCommand({ Bucket, Key: blob, UploadId }))
          .catch((error: unknown) => {
            if (statusOf(error) !== 404) throw error
          })
    })
  }

  /** @param range a part of the blob; absent: all of it @throws Problem `dependency_unavailable`, also if the store has no such blob */
  async read(blob: string, range?: ByteRange): Promise<Readable> {
    const part = range === undefined ? {} : { Range: `bytes=${range.first}-${range.last}` }
    const found = await this.#repeatable(async (s3, Bucket, until) => {
      const got = await s3.send(new GetObjectCommand({ Bucket, Key: blob, ...part }))
      const body = got.Body as Readable
      until(new Promise((done) => body.once('close', done)))
      return { body, isPart: got.ContentRange !== undefined }
    }).catch((error: unknown) => {
      throw error instanceof Problem && error.code === 'NoSuchKey' ? missing(blob, error) : error
    })
    if (range === undefined || found.isPart) return found.body
    found.body.destroy()
    throw unavailable('s3', new Error('the object store answered a range with the whole object'))
  }

  /** The first bytes of a blob, for a copy of them. @throws Problem `dependency_unavailable`, also if there are fewer, or they break off */
  async *readExactly(blob: string, bytes: number): AsyncGenerator<Uint8Array> {
    let left = bytes
    try {
      for await (const chunk of await this.read(blob, { first: 0, last: bytes - 1 })) {
        left -= chunk.byteLength
        yield chunk
      }
    } catch (error) {
      throw error instanceof Problem ? error : unavailable('s3', error)
    }
    if (left !== 0)
      throw unavailable('s3', new Error(`the object store sent ${bytes - left} of ${bytes} bytes`))
  }

  /** Removes blobs, also those that are not there. @throws Problem `dependency_unavailable` */
  async remove(blobs: readonly string[]): Promise<void> {
    const Delete = { Objects: blobs.map((Key) => ({ Key })), Quiet: true }
    const { Errors = [] } = await this.#repeatable((s3, Bucket) =>
      s3.send(new DeleteObjectsCommand({ Bucket, Delete })),
    )
    const [failed] = Errors.filter(({ Code }) => Code !== 'NoSuchKey')
    if (failed !== undefined) throw unavailable('s3', new Error(`${failed.Code}: ${failed.Message}`))
  }

  /** The name of the workspace's bucket. @throws Problem `bucket_required` */
  bucket(): Promise<string> {
    return this.#clients.readBucket(this.#scope.ref, () => this.#findBucket())
  }

  async #findBucket(): Promise<string | undefined> {
    const { workspaceId } = this.#scope.ref
    const row = await this.#scope.row<{ name: string }>(
      sql`select name from buckets where workspace_id = ${workspaceId}`,
    )
    return row?.name
  }

  /** As {@link #once}, and once more under a new session if the store has ended this one before its time. */
  async #repeatable<T>(work: Work<T>): Promise<T> {
    try {
      return await this.#attempt(work)
    } catch (error) {
      // A session reaches its own bucket as long as it lasts.
      if (!isSessionRefused(error) && statusOf(error) !== 403) throw toProblem(error)
    }
    this.#clients.forget(this.#scope.ref)
    return this.#once(work)
  }

  #once<T>(work: Work<T>): Promise<T> {
    return this.#attempt(work).catch((error: unknown) => {
      if (isSessionRefused(error)) this.#clients.forget(this.#scope.ref)
      throw toProblem(error)
    })
  }

  /** Runs work on one connection of the workspace. @param work may keep the connection `until` a promise is settled */
  async #attempt<T>(work: Work<T>): Promise<T> {
    const s3 = await this.#clients.of(this.#scope.ref, () => this.#findBucket())
    const bucket = await this.bucket()
    const release = await this.#clients.take(this.#scope.ref)
    let inUse: Promise<unknown> = Promise.resolve()
    try {
      return await work(s3, bucket, (end) => {
        inUse = end
      })
    } finally {
      void inUse.then(release)
    }
  }
}

const bare = (etag = ''): string => etag.replaceAll('"', '')

async function listUploads(s3: S3Client, Bucket: string, blob: string): Promise<string[]> {
  const { Uploads = [] } = await s3.send(new ListMultipartUploadsCommand({ Bucket, Prefix: blob }))
  return Uploads.flatMap(({ UploadId }) => UploadId ?? [])
}

/** The catalogue names a blob that the store does not have: a fault of the installation, not of the request. */
const missing = (blob: string, cause: unknown): Problem =>
  unavailable(
    's3',
    new Error(`the object store has no blob ${blob}`, { cause }),
    'The object store (S3) does not have the bytes of this object.',
  )
