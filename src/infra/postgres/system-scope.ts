/** Runs statements of the platform itself, before the tenant is known. Every use names its reason. */

import { type StatementExecutor, Statements } from './database.ts'
import type { Sql } from './sql.ts'
import type { Row, SessionContext } from './statement-batch.ts'

/** test/isolation pins which files use which reason. */
export type Reason =
  | 'authenticate'
  | 'signing-keys'
  | 'issuer'
  | 'tenant-states'
  | 'hosted-servers'
  | 'meters'
  | 'relay'
  | 'watcher'
  | 'reconciler'
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
  reconciler: { ...OPERATOR, role: 'tenon_reconciler' },
  /** The tenant of each trigger, and its stream offsets. */
  triggers: { ...OPERATOR, role: 'tenon_triggers' },
  issuer: ISSUER,
  'signing-keys': ISSUER,
}

/**
 * By default, reads the metadata of all tenants and no documents. Not convertible from or to a scope of a caller.
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
