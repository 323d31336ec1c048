/** Counts the bytes of a workspace's objects against its quota: reserves before an upload, settles after it. */

import { createHash, randomUUID } from 'node:crypto'
import { Readable } from 'node:stream'
import { type ByteSource, counted } from '../../core/bytes.ts'
import { LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'
import type { Database } from '../../infra/postgres/database.ts'
import { sql } from '../../infra/postgres/sql.ts'
import type { SessionContext } from '../../infra/postgres/statement-batch.ts'

/**
 * Two uploads of one key may end in any order, so after each change the ledger measures the object at the store, under a
 * lock on that object. Until then an upload counts in addition to the object that it replaces. The count is never too low,
 * and it is exact once all uploads are settled.
 */
export class ObjectLedger {
  readonly #database: Database
  readonly #context: SessionContext
  readonly #measure: (object: StoredObject) => Promise<number>
  readonly #limited: () => Promise<boolean>

  /**
   * @param measure gives the bytes of an object at the store; 0 if there is none
   * @param limited true if the workspace's bytes are limited, as this node remembers
   */
  constructor(
    database: Database,
    context: SessionContext,
    measure: (object: StoredObject) => Promise<number>,
    limited: () => Promise<boolean>,
  ) {
    this.#database = database
    this.#context = context
    this.#measure = measure
    this.#limited = limited
  }

  /** Begins an upload, without reserving bytes yet. */
  async begin(object: StoredObject): Promise<Reservation> {
    return new Reservation(this, object, await this.#limited())
  }

  /**
   * Reserves so many bytes in all for an upload. If the quota is exceeded, settles uploads whose process died and tries again.
   * @returns false if there is no limit
   * @throws Problem `quota_exceeded`
   */
  async reserve(object: StoredObject, upload: string, bytes: number): Promise<boolean> {
    try {
      return await this.#take(object, upload, bytes)
    } catch (error) {
      if (!(error instanceof Problem) || error.code !== 'quota_exceeded') throw error
      if ((await this.#settleExpired()) === 0) throw error
      return this.#take(object, upload, bytes)
    }
  }

  /** Measures an object that may have changed and records its size. One query if there is no limit. */
  async reconcile(object: StoredObject, upload = ''): Promise<void> {
    const [[row] = []] = await this.#run(sql`select tenon.is_limited('object_bytes') as limited`)
    if (row?.['limited'] !== true) return
    const id = idOf(object)
    await this.#database.transaction(this.#context.tenant, async (transaction) => {
      await transaction.batch(this.#context, [sql`select tenon.lock_object(${id})`])
      const bytes = await this.#measure(object)
      const { bucket, key } = object
      await transaction.batch(this.#context, [
        sql`select tenon.reconcile_object(${id}, ${upload}, ${bucket}, ${key}, ${bytes})`,
      ])
    })
  }

  /** Adds listed objects; keeps those that it has, whose count is newer. */
  async register(bucket: string, listed: ReadonlyMap<string, number>): Promise<void> {
    const objects = [...listed].map(([key, bytes]) => ({
      id: idOf({ bucket, key }).toString('hex'),
      key,
      bytes,
    }))
    await this.#run(sql`
      select tenon.register_objects(array_agg(decode(id, 'hex')), ${bucket}, array_agg(key), array_agg(bytes))
      from jsonb_to_recordset(${JSON.stringify(objects)}::jsonb) as o (id text, key text, bytes bigint)`)
  }

  /** Settles the objects whose size differs from a list, and expired uploads. */
  async correct(bucket: string, listed: ReadonlyMap<string, number>): Promise<void> {
    const [rows = []] = await this.#run(
      sql`select key, bytes from stored_objects where upload = '' and bucket = ${bucket}`,
    )
    for (const { key, bytes } of rows as unknown as { key: string; bytes: number }[])
      if (listed.get(key) !== bytes) await this.reconcile({ bucket, key })
    while ((await this.#settleExpired()) > 0);
  }

  async #take(object: StoredObject, upload: string, bytes: number): Promise<boolean> {
    const { bucket, key } = object
    const lease = `${LIMITS.uploadLeaseMs} milliseconds`
    const [[row] = []] = await this.#run(
      sql`select tenon.reserve_bytes(${idOf(object)}, ${upload}, ${bucket}, ${key}, ${bytes}, ${lease}::interval) as limited`,
    )
    return row?.['limited'] === true
  }

  /** Settles a few uploads whose lease has expired. @returns how many */
  async #settleExpired(): Promise<number> {
    const [rows = []] = await this.#run(
      sql`select bucket, key, upload from stored_objects where expires_at <= now() limit ${LIMITS.uploadsSettledAtOnce}`,
    )
    for (const { bucket, key, upload } of rows as unknown as (StoredObject & { upload: string })[])
      await this.reconcile({ bucket, key }, upload)
    return rows.length
  }

  #run(statement: ReturnType<typeof sql>) {
    return this.#database.batch(this.#context, [statement])
  }
}

const idOf = ({ bucket, key }: StoredObject): Buffer =>
  createHash('sha256').update(`${bucket}/${key}`).digest()

/** An object as the store names it. */
export interface StoredObject {
  readonly bucket: string
  readonly key: string
}

export class Reservation {
  readonly #ledger: ObjectLedger
  readonly #object: StoredObject
  readonly #upload = randomUUID()
  #bytes = 0
  #untilMs = 0
  #limited: boolean

  constructor(ledger: ObjectLedger, object: StoredObject, limited: boolean) {
    this.#limited = limited
    this.#ledger = ledger
    this.#object = object
  }

  /**
   * Reserves bytes before they are sent, and renews the lease.
   * @param bytes of the upload so far
   * @throws Problem `quota_exceeded`
   */
  async reserve(bytes: number): Promise<void> {
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
    await this.reserve(bytes)
    const settle = () => this.#ledger.reconcile(this.#object, this.#upload)
    const made = await work().catch(async (error: unknown) => {
      // If the store failed, the reservation stays until its lease expires; then the object is measured again.
      await settle().catch(() => {})
      throw error
    })
    await settle()
    return made
  }
}

/** Sends a stream and aborts the request if the stream fails: the SDK would wait for ever. */
export class Upload {
  bytes = 0
  readonly #source: ByteSource
  readonly #max: number
  readonly #reservation: Reservation

  constructor(source: ByteSource, max: number, reservation: Reservation) {
    this.#source = source
    this.#max = max
    this.#reservation = reservation
  }

  get length(): number | undefined {
    return this.#source.length
  }

  /** @throws the error of the stream, else that of the store */
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
      await this.#reservation.reserve(this.bytes)
      yield chunk
    }
  }
}
