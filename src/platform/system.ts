/** What the platform does for itself, before any tenant is known. Every use names its reason. */

import type { Row } from './pg/batch.ts'
import type { Batches, Mandate } from './pg/database.ts'
import type { Sql } from './pg/sql.ts'

/** The few reasons there are; test/walls pins who uses which. */
export type Reason =
  | 'authenticate'
  | 'signing-keys'
  | 'issuer'
  | 'tenant-states'
  | 'hosted-servers'
  | 'meters'
  | 'relay'
  | 'lookout'
  | 'mender'
  | 'triggers'
  | 'audit'

const MANDATE: Mandate = { mask: 'tenon_operator', tenant: '', workspace: '', statementTimeoutMs: 5_000 }
/** Sees the changes that are to be passed on, and nothing else. */
const RELAY: Mandate = { ...MANDATE, mask: 'tenon_relay' }
/** Sees which executions are open, and nothing of what they carry. */
const MENDER: Mandate = { ...MANDATE, mask: 'tenon_mender' }
/** Sees whose a trigger is, and how far it has heard. */
const TRIGGERS: Mandate = { ...MANDATE, mask: 'tenon_triggers' }
/** Sees accounts, clients, and what the issuer keeps. */
const ISSUER: Mandate = { ...MANDATE, mask: 'tenon_issuer' }
const MANDATES: Partial<Record<Reason, Mandate>> = {
  relay: RELAY,
  mender: MENDER,
  triggers: TRIGGERS,
  issuer: ISSUER,
  'signing-keys': ISSUER,
}

/**
 * Sees the metadata of all tenants, no document of any; the relay, documents that have just changed and nothing else.
 * No scope turns into one, nor the other way round.
 */
export class SystemScope {
  readonly reason: Reason
  readonly #database: Batches

  constructor(reason: Reason, database: Batches) {
    this.reason = reason
    this.#database = database
  }

  /** Statements as one transaction in one round trip; rows per statement. */
  batch(...statements: Sql[]): Promise<Row[][]> {
    return this.#database.batch(MANDATES[this.reason] ?? MANDATE, statements)
  }

  async rows<T extends object>(statement: Sql): Promise<T[]> {
    const [rows = []] = await this.batch(statement)
    return rows as (T & Row)[]
  }

  async row<T extends object>(statement: Sql): Promise<T | undefined> {
    const [row] = await this.rows<T>(statement)
    return row
  }
}
