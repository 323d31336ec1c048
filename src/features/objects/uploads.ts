/** Bytes on their way to the store: each upload reserves them before they are sent, and names the blob that they are for. */

import { Readable } from 'node:stream'
import type { WorkspaceScope } from '../../access/scope.ts'
import { type ByteSource, counted } from '../../core/bytes.ts'
import { randomIds } from '../../core/ids.ts'
import { Problem } from '../../core/problem.ts'
import { type Sql, sql } from '../../infra/postgres/sql.ts'
import type { Row } from '../../infra/postgres/statement-batch.ts'
import { OBJECT_LIMITS } from './limits.ts'

const { requestBytesMax, openUploadsMax, openUploadsOfUserMax, uploadLeaseMs, reservedAheadBytes } =
  OBJECT_LIMITS

/** A stream whose bytes are reserved before they are sent. */
abstract class ReservedUpload {
  /** How many bytes were sent. */
  bytes = 0
  protected readonly scope: WorkspaceScope
  readonly #source: ByteSource
  /** How many bytes the database counts for it. */
  protected reserved: number

  constructor(scope: WorkspaceScope, source: ByteSource) {
    this.scope = scope
    this.#source = source
    this.reserved = source.length ?? 0
  }

  get length(): number | undefined {
    return this.#source.length
  }

  /**
   * Sends the stream. Aborts the request if the stream fails, since the SDK would wait for ever.
   * @throws the error of the stream, else that of the store
   */
  async send<T>(put: (body: Readable, signal: AbortSignal) => Promise<T>): Promise<T> {
    const broken = new AbortController()
    const body = Readable.from(this.#reservedChunks(), { objectMode: false })
    body.once('error', (error) => broken.abort(error))
    try {
      return await put(body, broken.signal)
    } catch (error) {
      throw broken.signal.aborted ? broken.signal.reason : error
    } finally {
      body.destroy()
    }
  }

  async *#reservedChunks(): AsyncGenerator<Uint8Array> {
    let renewedMs = Date.now()
    for await (const chunk of counted(this.#source, requestBytesMax)) {
      this.bytes += chunk.byteLength
      const isLate = Date.now() > renewedMs + uploadLeaseMs / 2
      if (this.bytes > this.reserved || isLate) {
        await this.#reserve()
        renewedMs = Date.now()
      }
      yield chunk
    }
  }

  /** Reserves what has come, and more, so that few chunks wait for the database; near the limit of the quota, only what has come. */
  async #reserve(): Promise<void> {
    if (this.bytes <= this.reserved) return this.hold(this.reserved)
    try {
      await this.hold(this.bytes + reservedAheadBytes)
    } catch (error) {
      if (!(error instanceof Problem) || error.code !== 'quota_exceeded') throw error
      await this.hold(this.bytes)
    }
  }

  /** Makes so many bytes the reserved ones, and renews the lease. @throws Problem `quota_exceeded` */
  protected abstract hold(bytes: number): Promise<void>
}

/** An upload of a whole object. */
export class Upload extends ReservedUpload {
  /** The name of its blob. */
  readonly id: string = randomIds.uuid()

  /**
   * Reserves the announced bytes; if the quota is used up, without those of uploads that are over.
   * @param read a statement of the same transaction @returns its rows
   * @throws Problem `quota_exceeded`
   */
  async begin(read = sql`select`): Promise<Row[]> {
    const reserve = sql`insert into object_uploads (id, bytes, expires_at)
      values (${this.id}, ${this.reserved}, now() + ${LEASE}::interval)`
    const begin = async () => (await this.scope.batch(reserve, read))[1] ?? []
    return begin().catch(async (error: unknown) => {
      if (!(error instanceof Problem) || error.code !== 'quota_exceeded') throw error
      await this.scope.batch(abandoned(sql`key is null and expires_at <= now()`))
      return begin()
    })
  }

  /**
   * Gives up: its bytes are free, and its blob is removed some time. Without it, that happens when the lease ends. A blob that is kept for
   * longer is acknowledged, even if the caller has lost the answer of the database.
   */
  async abandon(): Promise<void> {
    await this.scope.batch(abandoned(sql`id = ${this.id} and expires_at <= now() + ${LEASE}::interval`))
  }

  protected override async hold(bytes: number): Promise<void> {
    const [rows] = await this.scope.batch(sql`
      update object_uploads set bytes = ${bytes}, expires_at = now() + ${LEASE}::interval where id = ${this.id} returning id`)
    if (rows?.length === 0) throw uploadOver()
    this.reserved = bytes
  }
}

/** A part on its way: its bytes count for its upload until it is a part. */
export class PartUpload extends ReservedUpload {
  readonly #upload: string

  /** @param upload the id of its upload */
  constructor(scope: WorkspaceScope, source: ByteSource, upload: string) {
    super(scope, source)
    this.#upload = upload
  }

  /** Reserves the announced bytes. @throws Problem `quota_exceeded` */
  async begin(): Promise<void> {
    const announced = this.reserved
    this.reserved = 0
    await this.hold(announced)
  }

  /** Frees what is reserved. */
  release(): Sql {
    return this.#add(-this.reserved)
  }

  protected override async hold(bytes: number): Promise<void> {
    await this.scope.batch(this.#add(bytes - this.reserved))
    this.reserved = bytes
  }

  /** Never below 0: an attempt that goes on with the upload has freed what this one had on its way, which may go on as well. */
  #add(bytes: number): Sql {
    return sql`update object_uploads set bytes = greatest(bytes + ${bytes}::bigint, 0) where id = ${this.#upload}`
  }
}

/**
 * Refuses an upload that may stay open for days, if too many are. The first statement of the transaction that begins it,
 * which then fails with `too_many_uploads`.
 */
export const requireUploadRoom = (): Sql =>
  sql`select tenon.require_upload_room(${openUploadsMax}::integer, ${openUploadsOfUserMax}::integer)`

const LEASE = `${uploadLeaseMs} milliseconds`

/** Frees the bytes of uploads, and lets the sweeper remove their blobs. */
export const abandoned = (which: Sql): Sql => sql`
  with ended as (delete from object_uploads where ${which} returning id)
  insert into unused_blobs (blob) select id from ended`

/** The upload stood still for so long that its bytes were given up. */
export const uploadOver = (): Problem =>
  new Problem('upload_expired', {
    detail: `The upload made no progress for ${uploadLeaseMs / 60_000} minutes, so its bytes were given up. Nothing was stored.`,
  })
