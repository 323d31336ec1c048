/** Scopes: the handles through which operations act, each bound to an actor and its tenant. Only `access.ts` opens them. */

import { type IdPrefix, type IdSource, typeId } from '../core/ids.ts'
import { LIMITS } from '../core/limits.ts'
import type { Actor, Principal } from '../core/policy.ts'
import type { TenantId, WorkspaceRef } from '../core/tenant.ts'
import type { Audit } from './audit/audit.ts'
import type { MongoDocuments } from './documents/mongo.ts'
import type { Streams } from './events/streams.ts'
import type { KeyRow } from './identity/auth.ts'
import type { Holders } from './identity/holders.ts'
import type { IssuerState } from './identity/issuer-state.ts'
import type { OAuthClients } from './identity/oauth-clients.ts'
import type { SigningKeys } from './identity/signing-keys.ts'
import type { BucketState } from './limiter/limit.ts'
import type { Limiter } from './limiter/limiter.ts'
import type { Log } from './log.ts'
import type { Objects } from './objects/buckets.ts'
import type { ObjectClients } from './objects/clients.ts'
import type { StorageIdentities } from './objects/identities.ts'
import type { TenantCodec } from './payloads/codec.ts'
import type { Row } from './pg/batch.ts'
import {
  type BatchGroup,
  type Database,
  type SessionContext,
  type StatementExecutor,
  Statements,
} from './pg/database.ts'
import type { Sql } from './pg/sql.ts'
import type { Lookout } from './runs/lookout.ts'
import type { Secrets } from './secrets.ts'
import type { Temporal } from './temporal.ts'
import type { TenantStates } from './tenant-states.ts'
import type { ThreadPool } from './thread-pool.ts'
import type { Sized, TtlCache } from './ttl-cache.ts'

export interface Parts {
  readonly database: Database
  /** The database, or the transaction that a scope is held in. */
  readonly statements: StatementExecutor
  readonly temporal: Temporal
  readonly codec: TenantCodec
  readonly objects: Objects
  readonly objectClients: ObjectClients
  readonly identities: StorageIdentities
  readonly streams: Streams
  readonly lookout: Lookout
  readonly limiter: Limiter
  /** Where one is configured. */
  readonly documents: MongoDocuments | undefined
  readonly secrets: Secrets
  readonly keys: TtlCache<KeyRow>
  readonly tenantStates: TenantStates
  readonly signingKeys: SigningKeys
  readonly oauthClients: OAuthClients
  readonly holders: Holders
  readonly issuerState: IssuerState
  /** Base URL as clients see it. */
  readonly publicUrl: string
  readonly memo: TtlCache<Sized<unknown>>
  readonly threads: ThreadPool
  readonly audit: Audit
  readonly log: Log
}

export interface Lent {
  readonly parts: Parts
  readonly ids: IdSource
  /** The rights of the scope's statements. */
  readonly context: SessionContext
}

const LENT = new WeakMap<object, Lent>()

/** For constructors of scopes. */
export function lend(scope: object, lent: Lent): void {
  LENT.set(scope, lent)
}

/** @throws TypeError for an object that only looks like a scope */
export function lentTo(scope: object): Lent {
  const lent = LENT.get(scope)
  if (lent === undefined) throw new TypeError('not a scope of the platform')
  return lent
}

/** The tenant and workspace that an admin's credential names; none for an operator. */
interface AdminBounds {
  readonly tenantId?: TenantId | undefined
  readonly workspaceId?: string | undefined
}

const DATABASE_ROLES = {
  operator: 'tenon_operator',
  tenant_admin: 'tenon_admin',
  workspace_admin: 'tenon_admin',
  service: 'tenon_service',
  anon: 'tenon_anon',
} as const

function contextOf({ role, hops }: Actor, tenant: string, workspace: string): SessionContext {
  const timeouts = LIMITS.statementTimeoutMs
  const statementTimeoutMs = role === 'anon' ? timeouts.anon : timeouts.service
  return {
    role: DATABASE_ROLES[role],
    tenant,
    workspace,
    statementTimeoutMs,
    ...(hops !== undefined && { hops }),
  }
}

/**
 * Who acts, and statements under that actor's rights. What else a scope may do, each feature supplies as a function of the
 * scope: `objectsOf(scope)`, `runsOf(scope)`, `seal(scope, …)`.
 */
export abstract class Scope extends Statements {
  readonly actor: Actor
  readonly #lent: Lent
  /** For doors that run operations inside a scope of their own. */
  readonly audit: Audit

  protected constructor(actor: Actor, lent: Lent) {
    super()
    this.actor = actor
    this.#lent = lent
    this.audit = lent.parts.audit
    lend(this, lent)
  }

  override batch(...statements: Sql[]): Promise<Row[][]> {
    return this.#lent.parts.statements.batch(this.#lent.context, statements)
  }

  /** As {@link batch}, for statements that take a moment: those of others who have the same rights may go with them. */
  along(company: BatchGroup, ...statements: Sql[]): Promise<Row[][]> {
    return this.#lent.parts.statements.batch(this.#lent.context, statements, company)
  }

  /** A new UUIDv7. In an activity, the same one at each attempt. */
  uuid(): string {
    return this.#lent.ids.uuid()
  }

  newId<P extends IdPrefix>(prefix: P): `${P}_${string}` {
    return typeId(prefix, this.uuid())
  }

  /** Puts an error of ours into the log where its caller is told of it in no detail. */
  report(error: unknown, what: string): void {
    this.#lent.parts.log.error({ err: error, subject: this.actor.subject }, what)
  }
}

export class CallerScope {
  readonly principal: Principal
  /** How this very request stands with the limits it is under. */
  readonly standings: readonly BucketState[]

  private constructor(principal: Principal, standings: readonly BucketState[]) {
    this.principal = principal
    this.standings = standings
  }

  static open(principal: Principal, standings: readonly BucketState[]): CallerScope {
    return new CallerScope(principal, standings)
  }
}

/**
 * The structure of tenants. An operator's sees the metadata of all tenants and no document of any; a tenant
 * admin's sees one tenant, a workspace admin's one workspace: row-level security decides, not the caller.
 */
export class AdminScope extends Scope {
  /** The tenant that the credential names; undefined for an operator. */
  readonly tenantId: TenantId | undefined
  /** The workspace of a workspace admin. */
  readonly workspaceId: string | undefined

  private constructor(actor: Actor, bounds: AdminBounds, parts: Parts, ids: IdSource) {
    const { tenantId, workspaceId } = bounds
    super(actor, { parts, ids, context: contextOf(actor, tenantId ?? '', workspaceId ?? '') })
    this.tenantId = tenantId
    this.workspaceId = workspaceId
  }

  /** @throws TypeError if an admin names no tenant, or a workspace admin no workspace */
  static open(actor: Actor, { tenantId, workspaceId }: AdminBounds, parts: Parts, ids: IdSource): AdminScope {
    if (actor.role === 'operator') return new AdminScope(actor, {}, parts, ids)
    if (tenantId === undefined) throw new TypeError('an admin has a tenant')
    if (actor.role !== 'workspace_admin') return new AdminScope(actor, { tenantId }, parts, ids)
    if (workspaceId === undefined) throw new TypeError('a workspace admin has a workspace')
    return new AdminScope(actor, { tenantId, workspaceId }, parts, ids)
  }

  /** Whether the ref is one of those that this admin may reach. */
  reaches({ tenantId, workspaceId }: { tenantId: TenantId; workspaceId?: string }): boolean {
    return (
      (this.tenantId === undefined || tenantId === this.tenantId) &&
      (this.workspaceId === undefined || workspaceId === undefined || workspaceId === this.workspaceId)
    )
  }

  /** Several round trips as one transaction: what `work` asks of its scope happens as a whole, or not at all. */
  transaction<T>(ref: WorkspaceRef, work: (held: AdminScope) => Promise<T>): Promise<T> {
    const { parts, ids } = lentTo(this)
    return parts.database.transaction(ref.tenantId, (statements) =>
      work(new AdminScope(this.actor, this, { ...parts, statements }, ids)),
    )
  }
}

/** The inside of one workspace. Every statement, key and workflow id made through it belongs to its ref. */
export class WorkspaceScope extends Scope {
  readonly ref: WorkspaceRef
  /** For the transaction of what must not happen twice, where the request may be sent again. */
  readonly marks: readonly Sql[]

  private constructor(actor: Actor, ref: WorkspaceRef, parts: Parts, ids: IdSource, marks: readonly Sql[]) {
    const role = actor.role === 'operator' ? 'workspace_admin' : actor.role
    super(actor, { parts, ids, context: contextOf({ ...actor, role }, ref.tenantId, ref.workspaceId) })
    this.ref = ref
    this.marks = marks
  }

  static open(
    actor: Actor,
    ref: WorkspaceRef,
    parts: Parts,
    ids: IdSource,
    marks: readonly Sql[] = [],
  ): WorkspaceScope {
    return new WorkspaceScope(actor, ref, parts, ids, marks)
  }
}
