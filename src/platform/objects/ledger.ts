/** How many bytes a workspace's objects take, where that is limited: room is reserved before bytes come, then settled. */

import { createHash } from 'node:crypto'
import { LIMITS } from '../../core/limits.ts'
import { Problem } from '../../core/problem.ts'
import type { Database } from '../pg/database.ts'
import type { Mandate } from '../pg/mandate.ts'
import { sql } from '../pg/sql.ts'
import { Reservation, type Stored } from './reservation.ts'

/** Asks the store how many bytes an object has; 0 where there is none. */
export type Measure = (object: Stored) => Promise<number>

/**
 * Nothing but the store knows what is there, and two uploads of one key may end in any order: so what an object takes is
 * asked of the store, under a lock on that object, after each change. Until then an upload counts beside what it
 * replaces. The count is never less than the truth, and once all have settled it is the truth.
 */
export class ObjectLedger {
  readonly #database: Database
  readonly #mandate: Mandate
  readonly #measure: Measure
  readonly #limited: () => Promise<boolean>

  /** @param limited whether the bytes are, as this node remembers */
  constructor(database: Database, mandate: Mandate, measure: Measure, limited: () => Promise<boolean>) {
    this.#database = database
    this.#mandate = mandate
    this.#measure = measure
    this.#limited = limited
  }

  /** An upload that begins. Nothing is reserved yet. */
  async begin(object: Stored): Promise<Reservation> {
    return new Reservation(this, object, await this.#limited())
  }

  /**
   * Room for so many bytes of an upload in all.
   * @returns false where nobody has limited them
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

  /** After whatever may have changed an object. Where nobody has limited the bytes, one question. */
  async settle(object: Stored, upload = ''): Promise<void> {
    const [[row] = []] = await this.#ask(sql`select tenon.is_limited('object_bytes') as limited`)
    if (row?.['limited'] !== true) return
    const id = idOf(object)
    await this.#database.transaction(this.#mandate.tenant, async (held) => {
      await held.batch(this.#mandate, [sql`select tenon.hold_object(${id})`])
      const bytes = await this.#measure(object)
      const { bucket, key } = object
      await held.batch(this.#mandate, [
        sql`select tenon.settle_object(${id}, ${upload}, ${bucket}, ${key}, ${bytes})`,
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
      select tenon.adopt_objects(array_agg(decode(id, 'hex')), ${bucket}, array_agg(key), array_agg(bytes))
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

  /** A few uploads that nobody ends any more. @returns how many */
  async #settleExpired(): Promise<number> {
    const [rows = []] = await this.#ask(
      sql`select bucket, key, upload from stored_objects where expires_at <= now() limit ${LIMITS.uploadsSettledAtOnce}`,
    )
    for (const { bucket, key, upload } of rows as unknown as (Stored & { upload: string })[])
      await this.settle({ bucket, key }, upload)
    return rows.length
  }

  #ask(statement: ReturnType<typeof sql>) {
    return this.#database.batch(this.#mandate, [statement])
  }
}

const idOf = ({ bucket, key }: Stored): Buffer => createHash('sha256').update(`${bucket}/${key}`).digest()
