/** What the platform does for itself, before any tenant is known. Every use names its reason. */

import type { Row } from './pg/batch.ts'
import type { Database, Mandate } from './pg/database.ts'
import type { Sql } from './pg/sql.ts'

/** The few reasons there are; test/walls pins who uses which. */
export type Reason = 'authenticate' | 'signing-keys' | 'resolve-workspace' | 'hosted-servers' | 'meters'

const MANDATE: Mandate = { mask: 'tenon_operator', tenant: '', workspace: '', statementTimeoutMs: 5_000 }

/** Sees the metadata of all tenants, no document of any. No scope turns into one, nor the other way round. */
export class SystemScope {
  readonly reason: Reason
  readonly #database: Database

  constructor(reason: Reason, database: Database) {
    this.reason = reason
    this.#database = database
  }

  async rows<T extends object>(statement: Sql): Promise<T[]> {
    const [rows = []] = await this.#database.batch(MANDATE, [statement])
    return rows as (T & Row)[]
  }

  async row<T extends object>(statement: Sql): Promise<T | undefined> {
    const [row] = await this.rows<T>(statement)
    return row
  }
}
