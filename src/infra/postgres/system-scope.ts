/** Statements that the platform runs for itself, before any tenant is known. Every use names its reason. */

import { type StatementExecutor, Statements } from './database.ts'
import type { Sql } from './sql.ts'
import type { Row, SessionContext } from './statement-batch.ts'

/** test/walls pins which files use which. */
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

const OPERATOR: SessionContext = {
  role: 'tenon_operator',
  tenant: '',
  workspace: '',
  statementTimeoutMs: 5_000,
}
/** Accounts, clients, and the state of the issuer. */
const ISSUER: SessionContext = { ...OPERATOR, role: 'tenon_issuer' }
const CONTEXTS: Partial<Record<Reason, SessionContext>> = {
  /** The changes to be published, and nothing else. */
  relay: { ...OPERATOR, role: 'tenon_relay' },
  /** Which executions are open, and nothing of their content. */
  mender: { ...OPERATOR, role: 'tenon_reconciler' },
  /** To which tenant a trigger belongs, and its stream offsets. */
  triggers: { ...OPERATOR, role: 'tenon_triggers' },
  issuer: ISSUER,
  'signing-keys': ISSUER,
}

/**
 * By default, sees the metadata of all tenants and no document of any. No scope of a caller becomes one, nor the reverse.
 */
export class SystemScope extends Statements {
  readonly #context: SessionContext
  readonly #database: StatementExecutor

  constructor(reason: Reason, database: StatementExecutor) {
    super()
    this.#context = CONTEXTS[reason] ?? OPERATOR
    this.#database = database
  }

  override batch(...statements: Sql[]): Promise<Row[][]> {
    return this.#database.batch(this.#context, statements)
  }
}
