/** Runs statements of the platform itself, before the tenant is known. Every use names its reason. */

import { type StatementExecutor, Statements } from './database.ts'
import type { Sql } from './sql.ts'
import type { DatabaseRole, Row, SessionContext } from './statement-batch.ts'

interface SystemReason {
  readonly role: DatabaseRole
  /** The only modules that may have it, below `src`. */
  readonly modules: readonly string[]
  readonly reason: string
}

/** Why the platform acts before a tenant is known, and in which role. Printed in `docs/reference/policy.txt`. */
export const SYSTEM_REASONS = {
  authenticate: {
    role: 'tenon_operator',
    modules: ['access/authentication/authenticator'],
    reason: 'Finds the key or account behind a credential.',
  },
  'signing-keys': {
    role: 'tenon_issuer',
    modules: ['access/authentication/signing-keys'],
    reason: 'Reads and rotates the keys of the embedded issuer.',
  },
  issuer: {
    role: 'tenon_issuer',
    modules: [
      'features/identity/accounts/accounts-store',
      'features/identity/issuer/issuer-state',
      'features/identity/clients/oauth-clients-store',
      'features/identity/users/identities-store',
      'features/identity/factors/passkeys',
      'features/identity/factors/second-factors',
      'features/identity/sessions/sessions',
      'features/identity/users/user-links',
      'features/identity/users/users-store',
    ],
    reason: 'Reads and writes accounts, users, clients and the state of the embedded issuer.',
  },
  'tenant-states': {
    role: 'tenon_operator',
    modules: ['access/tenant-states'],
    reason: 'Reads the states of tenants and workspaces.',
  },
  'host-names': {
    role: 'tenon_operator',
    modules: ['access/host-names'],
    reason: 'Finds the workspace of a host name, and gives the name to the one that has proved it.',
  },
  'hosted-servers': {
    role: 'tenon_operator',
    modules: ['access/authentication/mcp-server-registry'],
    reason: 'Finds the published version of an MCP server by its address.',
  },
  'public-buckets': {
    role: 'tenon_operator',
    modules: ['features/objects/public-objects'],
    reason: 'Finds the workspace of a bucket that has objects for the public.',
  },
  metrics: {
    role: 'tenon_reconciler',
    modules: ['app/observe'],
    reason: 'Counts what waits or has failed, and sees nothing of its content.',
  },
  meters: {
    role: 'tenon_operator',
    modules: ['features/analytics/meters'],
    reason: 'Adds the counts of requests.',
  },
  relay: {
    role: 'tenon_relay',
    modules: ['features/events/outbox-relay'],
    reason: 'Takes the changes to be published, and sees nothing else.',
  },
  watcher: {
    role: 'tenon_operator',
    modules: ['features/runs/watcher'],
    reason: 'Reads the states of executions that are watched.',
  },
  reconciler: {
    role: 'tenon_reconciler',
    modules: ['features/background/task-runner'],
    reason:
      'Finds work that is due, and sees nothing of its content but the log entries that retention verifies.',
  },
  triggers: {
    role: 'tenon_triggers',
    modules: [
      'features/flows/executions/callbacks',
      'features/runs/triggers/webhook-verifier',
      'features/runs/triggers/stream-consumer',
    ],
    reason: 'Finds the tenant of a trigger or callback, and stores offsets of streams.',
  },
  installation: {
    role: 'tenon_operator',
    modules: ['infra/postgres/installation'],
    reason: 'Reads which SQL files the database has, and stores the check value of the first master key.',
  },
  'key-rotation': {
    role: 'tenon_key_rotation',
    modules: ['app/master-keys/rotate'],
    reason:
      "Encrypts values under another master key, for `tenon master-key` alone: not the platform's login role but the owner of the database may act in it.",
  },
  isolation: {
    role: 'tenon_operator',
    modules: ['infra/postgres/isolation'],
    reason: 'Reads the attributes of roles and tables in the catalogue.',
  },
  search: {
    role: 'tenon_operator',
    modules: ['infra/postgres/search-operators'],
    reason: 'Finds the operators that searches lack, and how many declarations were made without them.',
  },
  audit: {
    role: 'tenon_operator',
    modules: ['access/audit/audit'],
    reason: 'Appends to the audit log, and finds the tenant of a record.',
  },
} as const satisfies Readonly<Record<string, SystemReason>>

export type Reason = keyof typeof SYSTEM_REASONS

const CONTEXT = { tenant: '', workspace: '', statementTimeoutMs: 5_000 } as const

/** Reads metadata of all tenants and no documents. Not convertible from or to a scope of a caller. */
export class SystemScope extends Statements {
  readonly #context: SessionContext
  readonly #database: StatementExecutor

  constructor(reason: Reason, database: StatementExecutor) {
    super()
    this.#context = { role: SYSTEM_REASONS[reason].role, ...CONTEXT }
    this.#database = database
  }

  override batch(...statements: Sql[]): Promise<Row[][]> {
    return this.#database.batch(this.#context, statements)
  }
}
