/**
 * Uploads that resume where they broke off. What is acknowledged is in the store: parts, and behind them a tail, a blob of its own that the
 * next bytes are put behind, until it is large enough for a part.
 *
 * Nothing is locked: each step changes the row only as long as it is what the step has read. Of two senders one is refused. A transaction
 * changes this row before those of its blobs, so that no two wait for each other.
 */

import { createHash } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import type { WorkspaceScope } from '../../access/scope.ts'
import { type ByteSource, tooLarge } from '../../core/bytes.ts'
import { isUuid, randomIds } from '../../core/ids.ts'
import { checkKey } from '../../core/object-key.ts'
import { Problem } from '../../core/problem.ts'
import { readObjectChange } from '../../infra/postgres/errors.ts'
import { type Sql, sql } from '../../infra/postgres/sql.ts'
import { Blobs } from './blobs.ts'
import { BodyPieces, emptyBody } from './body-pieces.ts'
import { requireChange } from './catalogue.ts'
import type { Conditions } from './conditions.ts'
import { OBJECT_LIMITS } from './limits.ts'
import { MULTIPART_LEASE, MultipartUploads } from './multipart-uploads.ts'
import { abandoned, requireUploadRoom, Upload } from './uploads.ts'
import { type Description, type ObjectName, objectsOf, type WorkspaceObjects } from './workspace-objects.ts'

const {
  appendAwaitedMs,
  requestBytesMax,
  promisedBytesMin,
  segmentBytesMin,
  segmentFactor,
  segmentsPerSize,
} = OBJECT_LIMITS

/** An upload as it was read. */
export interface ResumableUpload {
  readonly id: string
  readonly key: string
  /** In bytes; null: not yet known. */
  readonly length: number | null
  /** How many bytes the store has. */
  readonly stored: number
  /** The id of the upload in parts; null until there is a first part. */
  readonly parts_upload: string | null
  readonly part_count: number
  readonly tail: string | null
  readonly tail_bytes: number
  readonly tail_size: number
  readonly tail_etag: string | null
  readonly headers: Description['headers']
  readonly metadata: Description['metadata']
  /** `Upload-Metadata`, as it was sent. */
  readonly announced: string | null
  readonly if_match: string | null
  readonly if_none_match: string | null
  /** True if it is an object. */
  readonly isEnded: boolean
  readonly isExpired: boolean
  /** Milliseconds since 1970. */
  readonly expiresMs: number
}

const COLUMNS = sql`id, key, length, stored, parts_upload, part_count, tail, tail_bytes, tail_size, tail_etag, headers, metadata, announced,
  if_match, if_none_match, ended_at is not null as "isEnded", expires_at <= now() as "isExpired",
  (extract(epoch from expires_at) * 1000)::bigint as "expiresMs"`

/** The checksum that the sender announces for a body. */
export interface Checksum {
  readonly algorithm: 'md5' | 'sha1' | 'sha256'
  readonly digest: Buffer
}

/** A new upload. */
interface NewUpload extends Omit<Description, 'tags'> {
  /** In bytes; undefined: the sender names it later. */
  readonly length: number | undefined
  readonly announced: string | undefined
  readonly conditions: Conditions
}

export class ResumableUploads {
  readonly #scope: WorkspaceScope
  readonly #objects: WorkspaceObjects
  readonly #parts: MultipartUploads
  readonly #blobs: Blobs

  constructor(scope: WorkspaceScope) {
    this.#scope = scope
    this.#objects = objectsOf(scope)
    this.#parts = new MultipartUploads(scope, this.#objects, true)
    this.#blobs = new Blobs(scope)
  }

  /** @throws Problem `EntityTooLarge`, `quota_exceeded`, `PreconditionFailed`, `AccessDenied`, … */
  async begin(name: ObjectName, upload: NewUpload): Promise<ResumableUpload> {
    checkKey(name.key)
    await this.#blobs.requireOwn(name.bucket)
    const { length = null, announced, headers, metadata, conditions } = upload
    const max = this.#blobs.objectBytesMax
    if (length !== null && length > max) throw tooLarge(max)
    await this.#objects.requireChangeable(name, conditions)
    const { if_match, if_none_match } = conditions
    const id = randomIds.uuid()
    await this.#scope.batch(
      requireUploadRoom(),
      ...roomFor(id, length ?? 0),
      sql`insert into resumable_uploads (id, key, length, headers, metadata, announced, if_match, if_none_match, expires_at)
        values (${id}, ${name.key}, ${length}, ${headers}, ${metadata}, ${announced}, ${if_match}, ${if_none_match}, now() + ${MULTIPART_LEASE}::interval)`,
    )
    return this.#settle(await this.find(id))
  }

  /** @throws Problem `not_found`; `upload_expired` if it has expired */
  async find(id: string): Promise<ResumableUpload> {
    const row = isUuid(id)
      ? await this.#scope.row<ResumableUpload>(sql`select ${COLUMNS} from resumable_uploads where id = ${id}`)
      : undefined
    if (row === undefined) throw noUpload()
    if (row.isExpired) throw new Problem('upload_expired')
    return row
  }

  /**
   * The upload as it is, with its object if all of its bytes are there: a process may have died between the two. Waits a while for a
   * request that stores bytes here: a client whose connection broke asks at once, and would send again what has come.
   * @throws Problem as {@link find}; `PreconditionFailed` if it may not become the object
   */
  async read(id: string): Promise<ResumableUpload> {
    const end = APPENDS.get(id)
    if (end !== undefined) await Promise.race([end, pause(appendAwaitedMs, undefined, { ref: false })])
    const upload = await this.find(id)
    return upload.stored === upload.length ? this.#settle(upload) : upload
  }

  /**
   * Stores what comes, also of a body that breaks off, and makes the object when all has come.
   * @param options `length` of the object, if it was not known before; with a `checksum` the whole body is kept, or nothing
   * @throws Problem `upload_offset_differs`, `EntityTooLarge`, `upload_checksum_differs`, `body_incomplete`, `quota_exceeded`, …
   */
  append(
    upload: ResumableUpload,
    offset: number,
    source: ByteSource,
    options: { length?: number | undefined; checksum?: Checksum | undefined } = {},
  ): Promise<ResumableUpload> {
    const work = this.#append(upload, offset, source, options)
    const end = work.then(
      () => {},
      () => {},
    )
    APPENDS.set(upload.id, end)
    return work.finally(() => {
      if (APPENDS.get(upload.id) === end) APPENDS.delete(upload.id)
    })
  }

  async #append(
    upload: ResumableUpload,
    offset: number,
    source: ByteSource,
    { length, checksum }: { length?: number | undefined; checksum?: Checksum | undefined },
  ): Promise<ResumableUpload> {
    let state = await this.#settle(upload)
    if (state.stored !== offset) throw offsetDiffers(state)
    if (length !== undefined) state = await this.#setLength(state, length)
    const left = (state.length ?? this.#blobs.objectBytesMax) - offset
    if ((source.length ?? 0) > left) throw tooLong(state, left)
    const body = new BodyPieces(source)
    try {
      while (await body.hasMore()) state = await this.#settle(await this.#write(state, body, checksum))
    } finally {
      body.close()
    }
    if (body.failure !== undefined) throw body.failure
    return this.#settle(state)
  }

  /** Ends an upload. The object of one that is complete stays. @throws Problem `not_found` */
  async remove({ id, key }: ResumableUpload): Promise<void> {
    const [row] = await this.#scope.rows<{ parts_upload: string | null }>(sql`
      with gone as (delete from resumable_uploads where id = ${id} returning tail, parts_upload),
        ended as (delete from object_uploads where id in (select tail from gone) returning id),
        unused as (insert into unused_blobs (blob) select id from ended)
      select parts_upload from gone`)
    if (row === undefined) throw noUpload()
    const bucket = await this.#blobs.bucket()
    if (row.parts_upload !== null)
      await this.#parts.abort({ bucket, key, upload: row.parts_upload }).catch(ignoreGone)
  }

  /** @throws Problem `state_conflict` if it has another length; `EntityTooLarge`; `upload_offset_differs` */
  async #setLength(state: ResumableUpload, length: number): Promise<ResumableUpload> {
    const max = this.#blobs.objectBytesMax
    if (length > max) throw tooLarge(max)
    if (length < state.stored || (state.length ?? length) !== length)
      throw new Problem('state_conflict', {
        detail: `The upload has ${state.stored} of ${state.length ?? 'an unknown number of'} bytes, so its length cannot become ${length}.`,
      })
    return this.#change(state, sql`length = ${length}`)
  }

  /** Stores the next bytes of a body behind the tail, as the new tail. */
  async #write(state: ResumableUpload, body: BodyPieces, checksum?: Checksum): Promise<ResumableUpload> {
    const before = body.taken
    const size = state.tail_bytes + this.#bytesOfNext(state, body, checksum)
    const hash = checksum === undefined ? undefined : createHash(checksum.algorithm)
    const upload = new Upload(this.#scope, { chunks: this.#segment(state, body, size, hash), length: size })
    await upload.begin()
    try {
      const etag = await upload.send((stream, signal) =>
        this.#blobs.write(upload.id, { body: stream, length: size, signal }),
      )
      const bytes = body.taken - before
      if (checksum !== undefined && hash?.digest().equals(checksum.digest) !== true)
        throw new Problem('upload_checksum_differs')
      if (state.stored + bytes === state.length && (await body.hasMore())) throw tooLong(state, bytes)
      return await this.#setTail(state, { id: upload.id, bytes, size, etag })
    } catch (error) {
      await upload.abandon().catch(() => {})
      throw await this.#findConflict(state, error)
    }
  }

  /** How many bytes of a body are stored at once: no more than have come, so that one that breaks off costs no more than it has brought. */
  #bytesOfNext(
    { length, stored, tail_bytes, part_count }: ResumableUpload,
    { announced, taken }: BodyPieces,
    checksum?: Checksum,
  ): number {
    const left = (length ?? this.#blobs.objectBytesMax) - stored
    if (checksum === undefined) {
      const min = partBytesMin(part_count)
      const size = announced === undefined ? min : Math.min(min * segmentFactor, requestBytesMax)
      return Math.min(size - tail_bytes, Math.max(taken, promisedBytesMin), left, announced ?? left)
    }
    if (announced === undefined)
      throw new Problem('header_invalid', { detail: 'Upload-Checksum needs a Content-Length.' })
    if (tail_bytes + announced > requestBytesMax) throw tooLarge(requestBytesMax)
    return announced
  }

  /** The tail, the next bytes of the body, and zeros in place of those that do not come: the store must get as many as it was promised. */
  async *#segment(
    { tail, tail_bytes }: ResumableUpload,
    body: BodyPieces,
    size: number,
    hash?: ReturnType<typeof createHash>,
  ): AsyncGenerator<Uint8Array> {
    if (tail !== null && tail_bytes > 0) yield* this.#blobs.readExactly(tail, tail_bytes)
    const before = body.taken
    for await (const chunk of body.take(size - tail_bytes)) {
      hash?.update(chunk)
      yield chunk
    }
    // With a checksum nothing is kept of it, so the store need not get the rest.
    if (hash !== undefined && body.failure !== undefined) throw body.failure
    for (let missing = size - tail_bytes - (body.taken - before); missing > 0; missing -= ZEROS.byteLength)
      yield ZEROS.subarray(0, missing)
  }

  /** From here on the bytes are acknowledged. */
  async #setTail(
    state: ResumableUpload,
    { id, bytes, size, etag }: { id: string; bytes: number; size: number; etag: string },
  ): Promise<ResumableUpload> {
    const kept = state.tail_bytes + bytes
    const renewed = sql`expires_at = now() + ${MULTIPART_LEASE}::interval`
    const now = await this.#change(
      state,
      sql`stored = stored + ${bytes}::bigint, tail = ${id}::uuid, tail_bytes = ${kept}, tail_size = ${size}, tail_etag = ${etag}, ${renewed}`,
      abandoned(sql`id = ${state.tail}::uuid`),
      requireChange(sql`update object_uploads set bytes = ${kept}, ${renewed} where id = ${id}`),
      // Without them, what was acknowledged before is lost.
      ...(state.parts_upload === null
        ? []
        : [requireChange(sql`update object_uploads set ${renewed} where id = ${state.parts_upload}`)]),
    )
    await this.#removeNow(state.tail)
    return now
  }

  /**
   * Makes a part of a tail that is large enough, and the object if all bytes are there.
   * @throws Problem `PreconditionFailed`, …
   */
  async #settle(state: ResumableUpload): Promise<ResumableUpload> {
    try {
      if (state.isEnded) return state
      const isAll = state.stored === state.length
      const hasPart = state.tail !== null && (isAll || state.tail_bytes >= partBytesMin(state.part_count))
      if (!isAll) return hasPart ? await this.#makePart(state) : state
      // A blob becomes the object, or its last part, only without the zeros of a body that broke off.
      const isRagged = state.tail === null ? state.part_count === 0 : state.tail_bytes < state.tail_size
      if (isRagged) return await this.#settle(await this.#write(state, emptyBody()))
      if (state.part_count === 0) return await this.#endAsBlob(state)
      return await this.#endAsParts(hasPart ? await this.#makePart(state) : state)
    } catch (error) {
      // Another request may have made the step.
      const now = await this.find(state.id)
      if (now.tail === state.tail && now.isEnded === state.isEnded && now.parts_upload === state.parts_upload)
        throw error
      return this.#settle(now)
    }
  }

  async #makePart(state: ResumableUpload): Promise<ResumableUpload> {
    const { tail, tail_bytes, tail_size, key } = state
    if (tail === null) return state
    const upload = state.parts_upload ?? (await this.#beginParts(state))
    const number = state.part_count + 1
    const range = { first: 0, last: tail_bytes - 1 }
    const source = { blob: tail, range, isWhole: tail_bytes === tail_size }
    // The tail alone decides the bytes of this part, so each request that makes the part writes the same.
    await this.#parts.copyPart({ bucket: await this.#blobs.bucket(), key, upload }, number, source, [
      requireChange(sql`update resumable_uploads set part_count = ${number}, tail = null, tail_bytes = 0, tail_size = 0
        where id = ${state.id} and tail = ${tail} and parts_upload = ${upload}`),
      abandoned(sql`id = ${tail}`),
    ])
    await this.#removeNow(tail)
    return this.find(state.id)
  }

  async #beginParts({ id, key, headers, metadata }: ResumableUpload): Promise<string> {
    const name = { bucket: await this.#blobs.bucket(), key }
    const upload = await this.#parts.begin(name, { headers, metadata, tags: {} })
    const rows = await this.#scope.rows(
      sql`update resumable_uploads set parts_upload = ${upload} where id = ${id} and parts_upload is null returning id`,
    )
    if (rows.length === 1) return upload
    await this.#parts.abort({ ...name, upload })
    throw new Problem('NoSuchUpload')
  }

  async #endAsBlob(state: ResumableUpload): Promise<ResumableUpload> {
    const { id, key, tail, tail_bytes: size, tail_etag, headers, metadata } = state
    const name = { bucket: await this.#blobs.bucket(), key }
    const conditions = conditionsOf(state)
    const content = { blob: tail ?? '', size, etag: tail_etag ?? '', headers, metadata, tags: {} }
    const read = await this.#objects.requireChangeable(name, conditions)
    await this.#objects.replace(name, content, { conditions, read, also: [endOf(id)] })
    return this.find(id)
  }

  async #endAsParts(state: ResumableUpload): Promise<ResumableUpload> {
    const { id, key, parts_upload } = state
    const name = { bucket: await this.#blobs.bucket(), key, upload: parts_upload ?? '' }
    await this.#parts.complete(name, 'all', conditionsOf(state), [endOf(id)])
    return this.find(id)
  }

  /** Changes an upload that is as it was read. @param also statements of the same transaction */
  async #change(state: ResumableUpload, change: Sql, ...also: readonly Sql[]): Promise<ResumableUpload> {
    const same = sql`id = ${state.id} and stored = ${state.stored} and tail is not distinct from ${state.tail}::uuid
      and length is not distinct from ${state.length}::bigint and ended_at is null`
    try {
      await this.#scope.batch(
        requireChange(sql`update resumable_uploads set ${change} where ${same}`),
        ...also,
      )
    } catch (error) {
      throw await this.#findConflict(state, error)
    }
    return this.find(state.id)
  }

  /** The problem of a step that another request has overtaken; its blobs may be gone. */
  async #findConflict({ id, stored }: ResumableUpload, error: unknown): Promise<unknown> {
    const isLate = readObjectChange(error) === 'upload'
    if (error instanceof Problem && error.status < 500) return error
    const now = await this.find(id)
    return isLate || now.stored !== stored ? offsetDiffers(now) : error
  }

  /** Removes a blob that is superseded. If that fails, the sweeper does it. */
  async #removeNow(blob: string | null): Promise<void> {
    if (blob !== null) await this.#blobs.remove([blob]).catch(() => {})
  }
}

/** Ends of requests of this process that store bytes of an upload, by its id: of several, the last one. */
const APPENDS = new Map<string, Promise<void>>()

const ZEROS = new Uint8Array(65_536)

/** From so many bytes on a tail becomes the part behind so many others. */
const partBytesMin = (count: number): number => segmentBytesMin * 2 ** Math.floor(count / segmentsPerSize)

/** Checks that the quota has room for so many bytes, without keeping them: they are counted when they come. */
const roomFor = (id: string, bytes: number): readonly Sql[] => [
  sql`insert into object_uploads (id, bytes, expires_at) values (${id}, ${bytes}, now())`,
  sql`delete from object_uploads where id = ${id}`,
]

const endOf = (id: string): Sql =>
  requireChange(sql`
  update resumable_uploads set ended_at = now(), tail = null, parts_upload = null where id = ${id} and ended_at is null`)

const conditionsOf = ({ if_match, if_none_match }: ResumableUpload): Conditions => ({
  ...(if_match !== null && { if_match }),
  ...(if_none_match !== null && { if_none_match }),
})

const noUpload = () => new Problem('not_found', { detail: 'There is no such upload.' })

const offsetDiffers = ({ stored }: ResumableUpload): Problem =>
  new Problem('upload_offset_differs', {
    detail: `The upload has ${stored} bytes, so the next ones begin at the offset ${stored}.`,
    headers: { 'upload-offset': String(stored) },
  })

const tooLong = ({ stored, length }: ResumableUpload, left: number): Problem =>
  new Problem('EntityTooLarge', {
    detail: `The upload has ${stored} of ${length ?? 'its'} bytes, so the body may have ${left} at most.`,
  })

function ignoreGone(error: unknown): void {
  if (!(error instanceof Problem) || error.code !== 'NoSuchUpload') throw error
}
