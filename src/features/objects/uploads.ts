/** Uploads under way: each reserves its bytes before they are sent, and names the blob that it writes, which is removed unless an object gets it. */

import { Readable } from 'node:stream'
import type { WorkspaceScope } from '../../access/scope.ts'
import { type ByteSource, counted } from '../../core/bytes.ts'
import { randomIds } from '../../core/ids.ts'
import { Problem } from '../../core/problem.ts'
import { type Sql, sql } from '../../infra/postgres/sql.ts'
import { OBJECT_LIMITS } from './limits.ts'

const { objectBytesMax, uploadLeaseMs, reservedAheadBytes } = OBJECT_LIMITS

export class Upload {
  /** The name of its blob. */
  readonly id: string = randomIds.uuid()
  /** How many bytes were sent. */
  bytes = 0
  readonly #scope: WorkspaceScope
  readonly #source: ByteSource
  #reserved: number
  #renewedMs = Date.now()

  constructor(scope: WorkspaceScope, source: ByteSource) {
    this.#scope = scope
    this.#source = source
    this.#reserved = source.length ?? 0
  }

  get length(): number | undefined {
    return this.#source.length
  }

  /** Reserves the announced bytes. The batch that it belongs to fails with `quota_exceeded` if there are not as many. */
  begin(): Sql {
    return sql`insert into object_uploads (id, bytes, expires_at)
      values (${this.id}, ${this.#reserved}, now() + ${LEASE}::interval)`
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

  /** Gives up: its bytes are free, and its blob is removed some time. Without it, that happens when the lease ends. */
  async abandon(): Promise<void> {
    await this.#scope.batch(abandoned(sql`id = ${this.id}`))
  }

  async *#reservedChunks(): AsyncGenerator<Uint8Array> {
    for await (const chunk of counted(this.#source, objectBytesMax)) {
      this.bytes += chunk.byteLength
      if (this.bytes > this.#reserved) await this.#reserve()
      else if (Date.now() > this.#renewedMs + uploadLeaseMs / 2) await this.#hold(this.#reserved)
      yield chunk
    }
  }

  /** Reserves what has come, and more, so that few chunks wait for the database; near the limit of the quota, only what has come. */
  async #reserve(): Promise<void> {
    try {
      await this.#hold(this.bytes + reservedAheadBytes)
    } catch (error) {
      if (!(error instanceof Problem) || error.code !== 'quota_exceeded') throw error
      await this.#hold(this.bytes)
    }
  }

  async #hold(bytes: number): Promise<void> {
    const [rows] = await this.#scope.batch(sql`
      update object_uploads set bytes = ${bytes}, expires_at = now() + ${LEASE}::interval where id = ${this.id} returning id`)
    if (rows?.length === 0) throw uploadOver()
    this.#reserved = bytes
    this.#renewedMs = Date.now()
  }
}

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
