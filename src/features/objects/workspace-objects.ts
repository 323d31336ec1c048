/** Reads and writes objects under a session of the workspace's own, so that the store itself rejects other buckets. */

import type { Readable } from 'node:stream'
import {
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  type HeadObjectCommandOutput,
  ListObjectsV2Command,
  PutObjectCommand,
  type S3Client,
} from '@aws-sdk/client-s3'
import { privilege } from '../../access/privileges.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { hasQuota } from '../../access/scope-cache.ts'
import { type ByteReply, type ByteSource, tooLarge } from '../../core/bytes.ts'
import { givenKey, storedKey, storedPrefix } from '../../core/object-key.ts'
import { Problem } from '../../core/problem.ts'
import { sql } from '../../infra/postgres/sql.ts'
import type { ObjectClients } from '../../infra/s3/clients.ts'
import { headerOf, isSessionRefused, statusOf, toProblem } from '../../infra/s3/errors.ts'
import {
  type Conditions,
  isExpectedVersion,
  isSameVersion,
  readConditions,
  writeConditions,
} from './conditions.ts'
import { type AnnouncedDigests, expectedDigests, verified } from './digests.ts'
import { OBJECT_LIMITS } from './limits.ts'
import { ObjectLedger, type StoredObject, type Upload } from './usage-ledger.ts'

const clientsOf = privilege('objects.store')

/** Headers that the store keeps with an object. */
interface KeptHeaders {
  readonly content_type?: string | undefined
  readonly content_encoding?: string | undefined
  readonly content_disposition?: string | undefined
  readonly content_language?: string | undefined
  readonly cache_control?: string | undefined
}

export interface Listed {
  readonly key: string
  readonly size: number
  readonly etag: string
  readonly last_modified: string
}

export class WorkspaceObjects {
  readonly #scope: WorkspaceScope
  readonly #clients: ObjectClients
  readonly #ledger: ObjectLedger

  constructor(scope: WorkspaceScope) {
    this.#scope = scope
    this.#clients = clientsOf(scope)
    const isCounted = () => hasQuota(scope, 'object_bytes')
    this.#ledger = new ObjectLedger(scope, (object) => this.#measure(object), isCounted)
  }

  /**
   * Stores the stream as it comes; stores nothing if it ends early.
   * @returns `etag`; `size` in bytes; `created`: there was no such object before
   * @throws Problem `quota_exceeded`, `EntityTooLarge`, `body_incomplete`, `digest_mismatch`, `PreconditionFailed`, …
   */
  async put(
    object: StoredObject,
    source: ByteSource,
    options: Conditions & KeptHeaders & AnnouncedDigests,
  ): Promise<{ etag: string; size: number; created: boolean }> {
    const max = OBJECT_LIMITS.objectBytesMax
    if ((source.length ?? 0) > max) throw tooLarge(max)
    const expected = expectedDigests(options)
    const target = targetOf(object)
    const checked = { ...source, chunks: verified(source.chunks, expected) }
    const upload = await this.#ledger.begin({ bucket: target.Bucket, key: target.Key }, checked)
    return upload.during(() => this.#upload(target, upload, options))
  }

  async #upload(target: Target, upload: Upload, options: Conditions & KeptHeaders) {
    const known = await this.#describe(target)
    const conditions = writeConditions(options, known)
    return this.#once(async (s3) => {
      const { ETag } = await upload.send((Body, abortSignal) => {
        const length = upload.length === undefined ? {} : { ContentLength: upload.length }
        const input = { ...target, Body, ...length, ...keptHeaders(options), ...conditions }
        return s3.send(new PutObjectCommand(input), { abortSignal })
      })
      return { etag: ETag ?? '', size: upload.bytes, created: known === undefined }
    })
  }

  /** @returns the object, a range of it, or 304 */
  async get(object: StoredObject, conditions: Conditions): Promise<ByteReply> {
    const target = targetOf(object)
    const { if_range, range, ...whole } = conditions
    if (if_range === undefined || range === undefined) return this.#read(target, conditions)
    const known = await this.#describe(target)
    const isOfRange =
      known !== undefined &&
      !(known instanceof Problem) &&
      isSameVersion(if_range, known) &&
      isExpectedVersion(whole, known)
    if (!isOfRange) return this.#read(target, whole)
    // The range is of the version that was compared, which another one may replace meanwhile.
    return this.#read(target, { ...whole, range, if_match: known.ETag }).catch((error: unknown) => {
      if (error instanceof Problem && error.code === 'PreconditionFailed') return this.#read(target, whole)
      throw error
    })
  }

  #read(target: Target, conditions: Conditions): Promise<ByteReply> {
    const input = { ...target, ...readConditions(conditions) }
    return this.#ask(input, async (s3, until): Promise<ByteReply> => {
      const got = await s3.send(new GetObjectCommand(input)).catch(unchanged)
      if (!('$metadata' in got)) return got
      const body = got.Body as Readable
      until(new Promise((done) => body.once('close', done)))
      const status = got.ContentRange === undefined ? 200 : 206
      return { status, headers: headersOf(got), chunks: body, discard: () => body.destroy() }
    })
  }

  /** As `get`, without the body. */
  async head(object: StoredObject, conditions: Conditions): Promise<ByteReply> {
    const input = { ...targetOf(object), ...readConditions(conditions) }
    return this.#ask(input, async (s3): Promise<ByteReply> => {
      const got = await s3.send(new HeadObjectCommand(input)).catch(unchanged)
      return '$metadata' in got ? { status: 200, headers: headersOf(got) } : got
    })
  }

  /** @throws Problem `NoSuchKey`, which S3 itself does not report; `PreconditionFailed` */
  async delete(object: StoredObject, conditions: Conditions): Promise<void> {
    const target = targetOf(object)
    const known = await this.#describe(target)
    if (known === undefined) throw new Problem('NoSuchKey')
    const input = { ...target, ...writeConditions(conditions, known) }
    await this.#ask(target, (s3) => s3.send(new DeleteObjectCommand(input)))
    await this.#ledger.reconcile({ bucket: target.Bucket, key: target.Key })
  }

  /** @param page.after `next` of the page before */
  async list(
    bucket: string,
    page: { prefix: string; size: number; after?: string },
  ): Promise<{ data: Listed[]; next: string | undefined }> {
    const token = page.after === undefined ? {} : { ContinuationToken: page.after }
    const input = { Bucket: bucket, Prefix: storedPrefix(page.prefix), MaxKeys: page.size, ...token }
    const found = await this.#ask(input, (s3) => s3.send(new ListObjectsV2Command(input)))
    const data = (found.Contents ?? []).map(({ Key = '', Size = 0, ETag = '', LastModified }) => ({
      key: givenKey(Key),
      size: Size,
      etag: ETag,
      last_modified: (LastModified ?? new Date(0)).toISOString(),
    }))
    return { data, next: found.IsTruncated ? found.NextContinuationToken : undefined }
  }

  /**
   * Counts the objects of the bucket once its bytes are limited: adds unknown objects to the ledger, then corrects the known
   * ones. Uploads continue meanwhile.
   * @throws Problem `value_invalid` if there are more than `OBJECT_LIMITS.objectsCountedMax`
   */
  async recount(): Promise<void> {
    const bucket = await this.#findBucket()
    if (bucket === undefined) return
    const sizes = () => this.#ask({ Bucket: bucket }, (s3) => sizesIn(s3, bucket))
    await this.#ledger.register(bucket, await sizes())
    await this.#ledger.correct(bucket, await sizes())
  }

  async #findBucket(): Promise<string | undefined> {
    const { workspaceId } = this.#scope.ref
    const row = await this.#scope.row<{ name: string }>(
      sql`select name from buckets where workspace_id = ${workspaceId}`,
    )
    return row?.name
  }

  /**
   * The size of an object in bytes; 0 in a bucket of another workspace, which no upload can reach.
   * @throws Problem `forbidden` if the rules for users were removed meanwhile; the upload stays reserved until its lease expires
   */
  async #measure({ bucket, key }: StoredObject): Promise<number> {
    const own = await this.#findBucket()
    if (own === undefined && this.#scope.actor.role === 'user') throw new Problem('forbidden')
    if (own !== bucket) return 0
    const target = { Bucket: bucket, Key: key }
    return this.#ask(target, (s3) => readSize(s3, target))
  }

  /**
   * The description that the store has; undefined if there is no such object. Other problems are returned, and left to the next call
   * if they do not matter: the reply to HEAD has no body that would tell more.
   */
  async #describe(target: Target): Promise<HeadObjectCommandOutput | Problem | undefined> {
    try {
      return await this.#ask(target, (s3) => s3.send(new HeadObjectCommand(target)))
    } catch (error) {
      if (!(error instanceof Problem)) throw error
      return error.code === 'NoSuchKey' ? undefined : error
    }
  }

  /** As {@link #once}, and once more under a new session if the store has ended this one before its time. */
  async #ask<T>({ Bucket }: Pick<Target, 'Bucket'>, work: Work<T>): Promise<T> {
    try {
      return await this.#attempt(work)
    } catch (error) {
      if (!(await this.#hasEnded(error, Bucket))) throw toProblem(error)
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
    const release = await this.#clients.take(this.#scope.ref)
    let inUse: Promise<unknown> = Promise.resolve()
    try {
      return await work(s3, (end) => {
        inUse = end
      })
    } finally {
      void inUse.then(release)
    }
  }

  /** True if the store refuses the session itself. Its reply to HEAD does not say so: then, if it refuses the own bucket. */
  async #hasEnded(error: unknown, bucket: string): Promise<boolean> {
    if (isSessionRefused(error)) return true
    return statusOf(error) === 403 && (await this.#findBucket()) === bucket
  }
}

interface Target {
  readonly Bucket: string
  readonly Key: string
}

const targetOf = ({ bucket, key }: StoredObject) => ({ Bucket: bucket, Key: storedKey(key) })

function keptHeaders(options: KeptHeaders) {
  const { content_encoding, content_disposition, content_language, cache_control } = options
  return {
    ContentType: options.content_type || 'application/octet-stream',
    ...(content_encoding && { ContentEncoding: content_encoding }),
    ...(content_disposition && { ContentDisposition: content_disposition }),
    ...(content_language && { ContentLanguage: content_language }),
    ...(cache_control && { CacheControl: cache_control }),
  }
}

type Work<T> = (s3: S3Client, until: (end: Promise<unknown>) => void) => Promise<T>

/** The size of an object in bytes; 0 if there is none. */
async function readSize(s3: S3Client, target: Target): Promise<number> {
  try {
    return (await s3.send(new HeadObjectCommand(target))).ContentLength ?? 0
  } catch (error) {
    if (statusOf(error) === 404) return 0
    throw error
  }
}

function headersOf(
  described: HeadObjectCommandOutput & { readonly ContentRange?: string | undefined },
): Record<string, string> {
  const { ContentType, ContentLength, ContentRange, ETag, LastModified } = described
  const { ContentEncoding, ContentDisposition, ContentLanguage, CacheControl } = described
  return {
    ...(ContentEncoding && { 'content-encoding': ContentEncoding }),
    ...(ContentDisposition && { 'content-disposition': ContentDisposition }),
    ...(ContentLanguage && { 'content-language': ContentLanguage }),
    ...(CacheControl && { 'cache-control': privately(CacheControl) }),
    'accept-ranges': 'bytes',
    'content-type': ContentType ?? 'application/octet-stream',
    ...(ContentLength !== undefined && { 'content-length': String(ContentLength) }),
    ...(ContentRange !== undefined && { 'content-range': ContentRange }),
    ...(ETag !== undefined && { etag: ETag }),
    ...(LastModified !== undefined && { 'last-modified': LastModified.toUTCString() }),
  }
}

/** Directives for the reader alone: a shared cache would serve the object to requests without its right. */
function privately(directives: string): string {
  const kept = directives
    .split(',')
    .filter((one) => !/^\s*(public|private|s-maxage|proxy-revalidate)\b/i.test(one))
  return ['private', ...kept.map((one) => one.trim()).filter((one) => one !== '')].join(', ')
}

/** Makes a reply of 304, which the SDK reports as an error. */
function unchanged(error: unknown): ByteReply {
  if (statusOf(error) !== 304) throw error
  const etag = headerOf(error, 'etag')
  return { status: 304, headers: etag === undefined ? {} : { etag } }
}

/**
 * Lists the objects of a bucket.
 * @returns bytes by stored key
 * @throws Problem `value_invalid` if there are more than `OBJECT_LIMITS.objectsCountedMax`
 */
async function sizesIn(s3: S3Client, Bucket: string): Promise<Map<string, number>> {
  const sizes = new Map<string, number>()
  let token: string | undefined
  do {
    const input = { Bucket, ...(token !== undefined && { ContinuationToken: token }) }
    const page = await s3.send(new ListObjectsV2Command(input))
    for (const { Key = '', Size = 0 } of page.Contents ?? []) sizes.set(Key, Size)
    if (sizes.size > OBJECT_LIMITS.objectsCountedMax)
      throw new Problem('value_invalid', {
        detail: `The bucket has more than ${OBJECT_LIMITS.objectsCountedMax} objects, the maximum that can be counted.`,
      })
    token = page.IsTruncated ? page.NextContinuationToken : undefined
  } while (token !== undefined)
  return sizes
}

/** The workspace's objects, under a session of its own at the store. */
export const objectsOf = (scope: WorkspaceScope): WorkspaceObjects => new WorkspaceObjects(scope)
