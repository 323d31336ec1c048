/** Uploads in parts, for objects of any size: each part is stored by itself, and the end makes them one object. */

import type { WorkspaceScope } from '../../access/scope.ts'
import { type ByteSource, NO_BYTES, tooLarge } from '../../core/bytes.ts'
import { isUuid, randomIds } from '../../core/ids.ts'
import { Problem } from '../../core/problem.ts'
import { isRefusedBy, readObjectChange } from '../../infra/postgres/errors.ts'
import { type Sql, sql } from '../../infra/postgres/sql.ts'
import { type BlobPart, type BlobRange, Blobs } from './blobs.ts'
import { below, findEntry, requireChange } from './catalogue.ts'
import { type Conditions, tagOf } from './conditions.ts'
import { type AnnouncedDigests, expectedDigests, verified } from './digests.ts'
import { OBJECT_LIMITS } from './limits.ts'
import { abandoned, PartUpload, requireUploadRoom } from './uploads.ts'
import type { Description, ObjectName, StoredObject, WorkspaceObjects } from './workspace-objects.ts'

const { multipartLeaseMs, requestBytesMax, partBytesMin } = OBJECT_LIMITS
/** How long an upload in parts is kept without a new part. */
export const MULTIPART_LEASE = `${multipartLeaseMs} milliseconds`

/** An upload in parts. */
export interface UploadName extends ObjectName {
  readonly upload: string
}

/** A part as the store has it. */
export interface StoredPart extends BlobPart {
  /** In bytes. */
  readonly size: number
  /** Milliseconds since 1970. */
  readonly storedMs: number
}

/** An upload that is not yet an object. */
export interface OpenUpload {
  readonly upload: string
  readonly key: string
  /** Milliseconds since 1970. */
  readonly createdMs: number
}

interface UploadRow {
  readonly store_id: string
  readonly headers: Description['headers']
  readonly metadata: Description['metadata']
  readonly tags: Description['tags']
}

export class MultipartUploads {
  readonly #scope: WorkspaceScope
  readonly #objects: WorkspaceObjects
  readonly #blobs: Blobs
  readonly #isInternal: boolean

  /**
   * @param objects of the same scope
   * @param isInternal true for those of uploads that resume, and of imports, which no client of S3 may end or change
   */
  constructor(scope: WorkspaceScope, objects: WorkspaceObjects, isInternal = false) {
    this.#isInternal = isInternal
    this.#scope = scope
    this.#objects = objects
    this.#blobs = new Blobs(scope)
  }

  /** @returns its id */
  async begin({ bucket, key }: ObjectName, description: Description): Promise<string> {
    await this.#objects.requireName({ bucket, key })
    const { headers, metadata, tags } = description
    const id = randomIds.uuid()
    // Before the store knows it, so that the sweeper finds one whose process died.
    await this.#scope.batch(
      ...(this.#isInternal ? [] : [requireUploadRoom()]),
      sql`insert into object_uploads (id, key, is_internal, headers, metadata, tags, expires_at)
        values (${id}, ${key}, ${this.#isInternal}, ${headers}, ${metadata}, ${tags}, now() + ${MULTIPART_LEASE}::interval)`,
    )
    const store = await this.#blobs.beginParts(id)
    await this.#scope.batch(sql`update object_uploads set store_id = ${store} where id = ${id}`)
    return id
  }

  /** Finds an upload of a key that another attempt has begun, and frees what that one had on its way. @returns its id */
  async resume(key: string): Promise<string | undefined> {
    const row = await this.#scope.row<{ id: string }>(sql`
      update object_uploads set bytes = 0 where id = (
        select id from object_uploads
        where key = ${key} and is_internal = ${this.#isInternal} and store_id is not null and expires_at > now() order by id limit 1)
      returning id`)
    return row?.id
  }

  /**
   * Stores a part as it comes, in place of one of the same number; stores nothing if the stream ends early.
   * @returns its entity tag, with quotes
   * @throws Problem `NoSuchUpload`, `EntityTooLarge`, `body_incomplete`, `digest_mismatch`, `quota_exceeded`
   */
  async putPart(
    name: UploadName,
    number: number,
    source: ByteSource,
    digests: AnnouncedDigests = {},
  ): Promise<string> {
    if ((source.length ?? 0) > requestBytesMax) throw tooLarge(requestBytesMax)
    const { store_id } = await this.#find(name)
    const chunks = verified(source.chunks, expectedDigests(digests))
    const part = new PartUpload(this.#scope, { ...source, chunks }, name.upload)
    await part.begin()
    try {
      const etag = await part.send((body, signal) =>
        this.#blobs.writePart(name.upload, store_id, number, { body, length: source.length, signal }),
      )
      await this.#keep(name, { number, etag, size: part.bytes }, part.release())
      return tagOf({ etag })
    } catch (error) {
      await this.#scope.batch(part.release()).catch(() => {})
      throw goneIfOver(error)
    }
  }

  /**
   * Makes a part of a range of another blob of the workspace.
   * @param before statements of the transaction that records it, which free the bytes that the source has counted
   * @returns its entity tag, with quotes
   */
  async copyPart(
    name: UploadName,
    number: number,
    source: BlobRange,
    before: readonly Sql[] = [],
  ): Promise<string> {
    const size = source.range.last - source.range.first + 1
    if (size > requestBytesMax) throw tooLarge(requestBytesMax)
    const { store_id } = await this.#find(name)
    const isCounted = before.length > 0
    const part = new PartUpload(this.#scope, { chunks: NO_BYTES, length: isCounted ? 0 : size }, name.upload)
    await part.begin()
    try {
      const etag = await this.#blobs.copyPart(name.upload, store_id, number, source)
      await this.#keep(name, { number, etag, size }, ...before, part.release())
      return tagOf({ etag })
    } catch (error) {
      await this.#scope.batch(part.release()).catch(() => {})
      // The statements of the caller may have found that their upload has changed, which the caller tells.
      throw isCounted ? error : goneIfOver(error)
    }
  }

  /** Records a part that the store has, which renews the lease of the upload; not of one that was ended meanwhile, whose parts would count on. */
  async #keep(
    { upload }: UploadName,
    { number, etag, size }: BlobPart & { readonly size: number },
    ...before: readonly Sql[]
  ): Promise<void> {
    const keep = sql`insert into object_upload_parts as p (upload, number, size, etag)
      values (${upload}, ${number}, ${size}, ${etag})
      on conflict (tenant_id, workspace_id, upload, number) do update set size = excluded.size, etag = excluded.etag, stored_at = now()`
    // The present time, not that of the transaction: another transaction may have begun after this one, ended the upload, and committed.
    const renew =
      requireChange(sql`update object_uploads set expires_at = now() + ${MULTIPART_LEASE}::interval
      where id = ${upload} and expires_at > clock_timestamp()`)
    await this.#scope.batch(...before, keep, renew).catch((error: unknown) => {
      const isGone = isRefusedBy(error, 'object_upload_parts_tenant_id_workspace_id_upload_fkey')
      throw isGone ? new Problem('NoSuchUpload') : error
    })
  }

  /**
   * Makes the object of some of the parts, in the order of their numbers.
   * @param wanted `all`: those that there are
   * @param also statements of the same transaction
   * @throws Problem `NoSuchUpload`, `InvalidPart`, `InvalidPartOrder`, `EntityTooSmall`, `EntityTooLarge`, `PreconditionFailed`
   */
  async complete(
    name: UploadName,
    wanted: readonly BlobPart[] | 'all',
    conditions: Conditions = {},
    also: readonly Sql[] = [],
  ): Promise<StoredObject> {
    const made = await this.#findCompleted(name)
    if (made !== undefined) return made
    const { store_id, headers, metadata, tags } = await this.#row(name)
    const { parts, size } = await this.#choose(name, wanted)
    const known = await this.#objects.requireChangeable(name, conditions)
    const etag = await this.#blobs.endParts(name.upload, store_id, parts, size)
    const content = { blob: name.upload, size, etag, headers, metadata, tags }
    return this.#objects.replace(name, content, { conditions, read: known, also }).catch((error: unknown) => {
      throw goneIfOver(error)
    })
  }

  /**
   * Makes the blob of all parts, which no object has yet; once, however often it is called.
   * @param bytes of the blob
   * @throws Problem `NoSuchUpload`, `InvalidPart`, `EntityTooSmall`, `EntityTooLarge`
   */
  async assemble(name: UploadName, bytes: number): Promise<void> {
    const { store_id } = await this.#row(name)
    const { parts, size } = await this.#choose(name, 'all')
    if (size !== bytes)
      throw new Problem('InvalidPart', { detail: `The parts have ${size} bytes, and the object ${bytes}.` })
    await this.#blobs.endParts(name.upload, store_id, parts, size)
  }

  async #choose(name: UploadName, wanted: readonly BlobPart[] | 'all') {
    const stored = await this.#partsOf(name)
    const parts = chosenOf(stored, wanted === 'all' ? stored : wanted)
    const size = parts.reduce((sum, part) => sum + part.size, 0)
    if (size > this.#blobs.objectBytesMax) throw tooLarge(this.#blobs.objectBytesMax)
    return { parts, size }
  }

  /** The object of an upload that an earlier attempt has completed. */
  async #findCompleted({ bucket, key, upload }: UploadName): Promise<StoredObject | undefined> {
    await this.#blobs.requireOwn(bucket)
    const entry = await findEntry(this.#scope, key)
    return entry?.blob === upload ? { etag: tagOf(entry), size: entry.size, created: false } : undefined
  }

  /** Removes an upload and its parts. @throws Problem `NoSuchUpload` */
  async abort(name: UploadName): Promise<void> {
    const { store_id } = await this.#find(name)
    await this.#blobs.abandonParts(name.upload, store_id)
    await this.#scope.batch(abandoned(sql`id = ${name.upload}`))
  }

  /** How many bytes a part has that is stored. @throws Problem `NoSuchUpload` */
  async sizeOfPart(name: UploadName, number: number): Promise<number | undefined> {
    await this.#find(name)
    const row = await this.#scope.row<{ size: number }>(
      sql`select size from object_upload_parts where upload = ${name.upload} and number = ${number}`,
    )
    return row?.size
  }

  /** All parts by their numbers. @throws Problem `NoSuchUpload` */
  async parts(name: UploadName): Promise<readonly StoredPart[]> {
    await this.#find(name)
    return this.#partsOf(name)
  }

  #partsOf({ upload }: UploadName): Promise<readonly StoredPart[]> {
    return this.#scope.rows<StoredPart>(sql`
      select number, size, etag, (extract(epoch from stored_at) * 1000)::bigint as "storedMs"
      from object_upload_parts where upload = ${upload} order by number`)
  }

  /** Open uploads in the order of their keys. @param after the last one of the page before */
  async list(
    bucket: string,
    { prefix, size, after }: { prefix: string; size: number; after?: { key: string; upload: string } },
  ): Promise<readonly OpenUpload[]> {
    await this.#blobs.requireOwn(bucket)
    const from =
      after === undefined ? sql`` : sql` and (key, id) > (${after.key} collate "C", ${after.upload}::uuid)`
    return this.#scope.rows<OpenUpload>(sql`
      select id as upload, key, (extract(epoch from created_at) * 1000)::bigint as "createdMs"
      from object_uploads where ${below(prefix)} and not is_internal and store_id is not null${from}
      order by key, id limit ${size}`)
  }

  async #find(name: UploadName): Promise<UploadRow> {
    await this.#blobs.requireOwn(name.bucket)
    return this.#row(name)
  }

  async #row({ key, upload }: UploadName): Promise<UploadRow> {
    const row = isUuid(upload)
      ? await this.#scope.row<UploadRow>(sql`
          select store_id, headers, metadata, tags from object_uploads
          where id = ${upload} and key = ${key} and is_internal = ${this.#isInternal} and store_id is not null and expires_at > now()`)
      : undefined
    if (row === undefined) throw new Problem('NoSuchUpload')
    return row
  }
}

/** The problem of an upload that another request has ended. */
const goneIfOver = (error: unknown): unknown =>
  readObjectChange(error) === 'upload' ? new Problem('NoSuchUpload') : error

/** The parts that a client names, if the store has them as it says. */
function chosenOf(stored: readonly StoredPart[], wanted: readonly BlobPart[]): readonly StoredPart[] {
  const byNumber = new Map(stored.map((part) => [part.number, part]))
  const chosen = wanted.map(({ number, etag }) => {
    const part = byNumber.get(number)
    if (part?.etag !== etag)
      throw new Problem('InvalidPart', { detail: `The upload has no part ${number} with this ETag.` })
    return part
  })
  if (chosen.length === 0) throw new Problem('InvalidPart', { detail: 'No part is named.' })
  if (chosen.some(({ number }, index) => number <= (chosen[index - 1]?.number ?? 0)))
    throw new Problem('InvalidPartOrder')
  const small = chosen.slice(0, -1).find(({ size }) => size < partBytesMin)
  if (small === undefined) return chosen
  throw new Problem('EntityTooSmall', {
    detail: `Part ${small.number} has ${small.size} bytes. Each part but the last has at least ${partBytesMin}.`,
  })
}
