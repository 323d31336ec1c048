/** In whose name statements run, and with whom they may share a transaction. */

type Mask =
  | 'tenon_anon'
  | 'tenon_service'
  | 'tenon_admin'
  | 'tenon_operator'
  | 'tenon_relay'
  | 'tenon_mender'
  | 'tenon_triggers'
  | 'tenon_issuer'
  | 'tenon_keyring'

/** Which role a batch runs in and whose rows it may see; empty texts see nobody's. */
export interface Mandate {
  readonly mask: Mask
  readonly tenant: string
  readonly workspace: string
  readonly statementTimeoutMs: number
  /** What changes of documents say of the runs that led to them; nothing for none. */
  readonly hops?: number
}

/** With whom a batch may share its transaction: those of its mandate that read as it does, or write. */
export type Company = 'reading' | 'writing'
