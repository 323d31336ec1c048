/** Counts the bytes of a workspace's objects against its quota: reserves before an upload, settles after it. */

import { createHash, randomUUID } from 'node:crypto'
import { Readable } from 'node:stream'
import { type ByteSource, counted } from '../../core/bytes.ts'
import { LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'
import type { Database } from '../../infra/postgres/database.ts'
import { sql } from '../../infra/postgres/sql.ts'
import type { SessionContext } from '../../infra/postgres/statement-batch.ts'

/** Measures an object at the store in bytes; 0 if there is none. */
export type Measure = (object: Stored) => Promise<number>

/**
 * Nothing but the store knows what is there, and two uploads of one key may end in any order: so what an object takes is
 * asked of the store, under a lock on that object, after each change. Until then an upload counts beside what it
 * replaces. The count is never less than the truth, and once all have settled it is the truth.
 */
export class ObjectLedger {
  readonly #database: Database
  readonly #context: SessionContext
  readonly #measure: Measure
  readonly #limited: () => Promise<boolean>

  /** @param limited whether the bytes are, as this node remembers */
  constructor(
    database: Database,
    context: SessionContext,
    measure: Measure,
    limited: () => Promise<boolean>,
  ) {
    this.#database = database
    this.#context = context
    this.#measure = measure
    this.#limited = limited
  }

  /** An upload that begins. Nothing is reserved yet. */
  async begin(object: Stored): Promise<Reservation> {
    return new Reservation(this, object, await this.#limited())
  }

  /**
   * Room for so many bytes of an upload in all.
   * @returns false if there is no limit
   * @throws Problem `quota_exceeded`, also once it is known what became of uploads whose process died
   */
  async reserve(object: Stored, upload: string, bytes: number): Promise<boolean> {
    try {
      return await this.#take(object, upload, bytes)
    } catch (error) {
      if (!(error instanceof Problem) || error.code !== 'quota_exceeded') throw error
      if ((await this.#settleExpired()) === 0) throw error
      return this.#take(object, upload, bytes)
    }
  }

  /** Measures an object that may have changed and records its size. One query if there is no limit. */
  async settle(object: Stored, upload = ''): Promise<void> {
    const [[row] = []] = await this.#ask(sql`select tenon.is_limited('object_bytes') as limited`)
    if (row?.['limited'] !== true) return
    const id = idOf(object)
    await this.#database.transaction(this.#context.tenant, async (held) => {
      await held.batch(this.#context, [sql`select tenon.lock_object(${id})`])
      const bytes = await this.#measure(object)
      const { bucket, key } = object
      await held.batch(this.#context, [
        sql`select tenon.reconcile_object(${id}, ${upload}, ${bucket}, ${key}, ${bytes})`,
      ])
    })
  }

  /** Objects that a list shows. Those that are known already are known better. */
  async adopt(bucket: string, listed: ReadonlyMap<string, number>): Promise<void> {
    const objects = [...listed].map(([key, bytes]) => ({
      id: idOf({ bucket, key }).toString('hex'),
      key,
      bytes,
    }))
    await this.#ask(sql`
      select tenon.register_objects(array_agg(decode(id, 'hex')), ${bucket}, array_agg(key), array_agg(bytes))
      from jsonb_to_recordset(${JSON.stringify(objects)}::jsonb) as o (id text, key text, bytes bigint)`)
  }

  /** Settles what the ledger has otherwise than a list does, and uploads that expired. */
  async correct(bucket: string, listed: ReadonlyMap<string, number>): Promise<void> {
    const [rows = []] = await this.#ask(
      sql`select key, bytes from stored_objects where upload = '' and bucket = ${bucket}`,
    )
    for (const { key, bytes } of rows as unknown as { key: string; bytes: number }[])
      if (listed.get(key) !== bytes) await this.settle({ bucket, key })
    while ((await this.#settleExpired()) > 0);
  }

  async #take(object: Stored, upload: string, bytes: number): Promise<boolean> {
    const { bucket, key } = object
    const lease = `${LIMITS.uploadLeaseMs} milliseconds`
    const [[row] = []] = await this.#ask(
      sql`select tenon.reserve_bytes(${idOf(object)}, ${upload}, ${bucket}, ${key}, ${bytes}, ${lease}::interval) as limited`,
    )
    return row?.['limited'] === true
  }

  /** Settles a few uploads whose lease has expired. @returns how many */
  async #settleExpired(): Promise<number> {
    const [rows = []] = await this.#ask(
      sql`select bucket, key, upload from stored_objects where expires_at <= now() limit ${LIMITS.uploadsSettledAtOnce}`,
    )
    for (const { bucket, key, upload } of rows as unknown as (Stored & { upload: string })[])
      await this.settle({ bucket, key }, upload)
    return rows.length
  }

  #ask(statement: ReturnType<typeof sql>) {
    return this.#database.batch(this.#context, [statement])
  }
}

const idOf = ({ bucket, key }: Stored): Buffer => createHash('sha256').update(`${bucket}/${key}`).digest()

/** An object as the store names it. */
export interface Stored {
  readonly bucket: string
  readonly key: string
}

export class Reservation {
  readonly #ledger: ObjectLedger
  readonly #object: Stored
  readonly #upload = randomUUID()
  #bytes = 0
  #untilMs = 0
  #limited: boolean

  constructor(ledger: ObjectLedger, object: Stored, limited: boolean) {
    this.#limited = limited
    this.#ledger = ledger
    this.#object = object
  }

  /**
   * Before bytes are passed on, and again from time to time while they are.
   * @param bytes of the upload up to there
   * @throws Problem `quota_exceeded`
   */
  async cover(bytes: number): Promise<void> {
    if (!this.#limited || (bytes <= this.#bytes && Date.now() < this.#untilMs)) return
    const wanted = Math.max(bytes, this.#bytes)
    this.#limited = await this.#ledger.reserve(this.#object, this.#upload, wanted)
    this.#bytes = wanted
    this.#untilMs = Date.now() + LIMITS.uploadLeaseMs / 2
  }

  /**
   * Runs an upload with a reservation from its beginning, and settles it however it ends.
   * @param bytes that were announced
   * @throws Problem `quota_exceeded`, and what `work` throws
   */
  async during<T>(bytes: number, work: () => Promise<T>): Promise<T> {
    await this.cover(bytes)
    const settle = () => this.#ledger.settle(this.#object, this.#upload)
    const made = await work().catch(async (error: unknown) => {
      // If the store failed, the reservation stays until its lease expires; then the object is measured again.
      await settle().catch(() => {})
      throw error
    })
    await settle()
    return made
  }
}

/** The SDK does not hear of a stream that breaks: it would wait without end. */
export class Upload {
  bytes = 0
  readonly #source: ByteSource
  readonly #max: number
  readonly #room: Reservation

  constructor(source: ByteSource, max: number, room: Reservation) {
    this.#source = source
    this.#max = max
    this.#room = room
  }

  get length(): number | undefined {
    return this.#source.length
  }

  /** @throws what broke the stream, else what the store refused */
  async send<T>(put: (body: Readable, signal: AbortSignal) => Promise<T>): Promise<T> {
    const broken = new AbortController()
    const body = Readable.from(this.#measured(), { objectMode: false })
    body.once('error', (error) => broken.abort(error))
    try {
      return await put(body, broken.signal)
    } catch (error) {
      throw broken.signal.aborted ? broken.signal.reason : error
    } finally {
      body.destroy()
    }
  }

  async *#measured(): AsyncGenerator<Uint8Array> {
    for await (const chunk of counted(this.#source, this.#max)) {
      this.bytes += chunk.byteLength
      await this.#room.cover(this.bytes)
      yield chunk
    }
  }
}
