/** Counts the bytes of a workspace's objects against its quota: reserves before an upload, reconciles after it. */

import { createHash, randomUUID } from 'node:crypto'
import { Readable } from 'node:stream'
import type { WorkspaceScope } from '../../access/scope.ts'
import { type ByteSource, counted } from '../../core/bytes.ts'
import { Problem } from '../../core/problem.ts'
import { sql } from '../../infra/postgres/sql.ts'
import { OBJECT_LIMITS } from './limits.ts'

/**
 * Two uploads of one key may end in any order, so after each change the ledger measures the object at the store, under a
 * lock on that object. Until then an upload counts in addition to the object that it replaces. The count is never too low,
 * and it is exact once all uploads are reconciled.
 */
export class ObjectLedger {
  readonly #scope: WorkspaceScope
  readonly #measure: (object: StoredObject) => Promise<number>
  readonly #hasQuota: () => Promise<boolean>

  /**
   * @param scope of the workspace: the ledger sees what it sees
   * @param measure gives the bytes of an object at the store; 0 if there is none
   * @param hasQuota true if the workspace has a byte quota, as this node has cached
   */
  constructor(
    scope: WorkspaceScope,
    measure: (object: StoredObject) => Promise<number>,
    hasQuota: () => Promise<boolean>,
  ) {
    this.#scope = scope
    this.#measure = measure
    this.#hasQuota = hasQuota
  }

  /** Begins an upload, without reserving bytes yet. */
  async begin(object: StoredObject, source: ByteSource): Promise<Upload> {
    return new Upload(this, object, source, await this.#hasQuota())
  }

  /**
   * Reserves so many bytes in all for an upload. If the quota is exceeded, reconciles uploads whose process died and tries again.
   * @returns false if there is no limit
   * @throws Problem `quota_exceeded`
   */
  async reserve(object: StoredObject, upload: string, bytes: number): Promise<boolean> {
    try {
      return await this.#take(object, upload, bytes)
    } catch (error) {
      if (!(error instanceof Problem) || error.code !== 'quota_exceeded') throw error
      if ((await this.#reconcileExpired()) === 0) throw error
      return this.#take(object, upload, bytes)
    }
  }

  /** Measures an object that may have changed and records its size. One query if there is no limit. */
  async reconcile(object: StoredObject, upload = ''): Promise<void> {
    const [[row] = []] = await this.#run(sql`select tenon.is_limited('object_bytes') as limited`)
    if (row?.['limited'] !== true) return
    const id = idOf(object)
    await this.#scope.transaction(async (transaction) => {
      await transaction.batch(sql`select tenon.lock_object(${id})`)
      const bytes = await this.#measure(object)
      const { bucket, key } = object
      await transaction.batch(
        sql`select tenon.reconcile_object(${id}, ${upload}, ${bucket}, ${key}, ${bytes})`,
      )
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

  /** Reconciles the objects whose size differs from a list, and expired uploads. */
  async correct(bucket: string, listed: ReadonlyMap<string, number>): Promise<void> {
    const [rows = []] = await this.#run(
      sql`select key, bytes from stored_objects where upload = '' and bucket = ${bucket}`,
    )
    for (const { key, bytes } of rows as unknown as { key: string; bytes: number }[])
      if (listed.get(key) !== bytes) await this.reconcile({ bucket, key })
    while ((await this.#reconcileExpired()) > 0);
  }

  async #take(object: StoredObject, upload: string, bytes: number): Promise<boolean> {
    const { bucket, key } = object
    const lease = `${OBJECT_LIMITS.uploadLeaseMs} milliseconds`
    const [[row] = []] = await this.#run(
      sql`select tenon.reserve_bytes(${idOf(object)}, ${upload}, ${bucket}, ${key}, ${bytes}, ${lease}::interval) as limited`,
    )
    return row?.['limited'] === true
  }

  /** Reconciles a few uploads whose lease has expired. @returns how many */
  async #reconcileExpired(): Promise<number> {
    const [rows = []] = await this.#run(
      sql`select bucket, key, upload from stored_objects where expires_at <= now() limit ${OBJECT_LIMITS.uploadsReconciledMax}`,
    )
    for (const { bucket, key, upload } of rows as unknown as (StoredObject & { upload: string })[])
      await this.reconcile({ bucket, key }, upload)
    return rows.length
  }

  #run(statement: ReturnType<typeof sql>) {
    return this.#scope.batch(statement)
  }
}

const idOf = ({ bucket, key }: StoredObject): Buffer =>
  createHash('sha256').update(`${bucket}/${key}`).digest()

/** An object as the store names it. */
export interface StoredObject {
  readonly bucket: string
  readonly key: string
}

/** An upload whose bytes are reserved before they are sent, and whose object is reconciled at its end. */
export class Upload {
  bytes = 0
  readonly #ledger: ObjectLedger
  readonly #object: StoredObject
  readonly #source: ByteSource
  readonly #id = randomUUID()
  #hasQuota: boolean
  #reserved = 0
  #untilMs = 0

  constructor(ledger: ObjectLedger, object: StoredObject, source: ByteSource, hasQuota: boolean) {
    this.#ledger = ledger
    this.#object = object
    this.#source = source
    this.#hasQuota = hasQuota
  }

  get length(): number | undefined {
    return this.#source.length
  }

  /**
   * Runs an upload with a reservation of the announced bytes from its beginning, and reconciles the object at its end.
   * @throws Problem `quota_exceeded`, and what `work` throws
   */
  async during<T>(work: () => Promise<T>): Promise<T> {
    await this.#reserve(this.length ?? 0)
    const reconcile = () => this.#ledger.reconcile(this.#object, this.#id)
    const made = await work().catch(async (error: unknown) => {
      // If the store failed, the reservation stays until its lease expires; then the object is measured again.
      await reconcile().catch(() => {})
      throw error
    })
    await reconcile()
    return made
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
    for await (const chunk of counted(this.#source, OBJECT_LIMITS.objectBytesMax)) {
      this.bytes += chunk.byteLength
      await this.#reserve(this.bytes)
      yield chunk
    }
  }

  /** Reserves so many bytes in all, or renews the lease. @throws Problem `quota_exceeded` */
  async #reserve(bytes: number): Promise<void> {
    if (!this.#hasQuota || (bytes <= this.#reserved && Date.now() < this.#untilMs)) return
    const wanted = Math.max(bytes, this.#reserved)
    this.#hasQuota = await this.#ledger.reserve(this.#object, this.#id, wanted)
    this.#reserved = wanted
    this.#untilMs = Date.now() + OBJECT_LIMITS.uploadLeaseMs / 2
  }
}
