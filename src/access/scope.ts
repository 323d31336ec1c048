/** Scopes: the handles through which operations act, each bound to an actor and its tenant. Only `access.ts` opens them. */

import { type IdPrefix, type IdSource, typeId } from '../core/ids.ts'
import {
  type Actor,
  boundingWorkspace,
  causesOf,
  type EndUser,
  isPublicRole,
  type Principal,
} from '../core/policy.ts'
import type { TenantId, TenantRef, WorkspaceRef } from '../core/tenant.ts'
import { INFRA_LIMITS } from '../infra/limits.ts'
import { type StatementExecutor, Statements } from '../infra/postgres/database.ts'
import type { Sql } from '../infra/postgres/sql.ts'
import type { BatchGroup, Row, SessionContext } from '../infra/postgres/statement-batch.ts'
import type { Audit } from './audit/audit.ts'
import type { Completion } from './completion.ts'
import { attachInternals, internalsOf, type PlatformServices, type ScopeInternals } from './internals.ts'
import type { BucketState } from './rate-limit/memory-buckets.ts'

/** The tenant and workspace that an admin's credential names; none for an operator. */
interface AdminBounds {
  readonly tenantId?: TenantId | undefined
  readonly workspaceId?: string | undefined
}

const DATABASE_ROLES = {
  operator: 'tenon_operator',
  tenant_admin: 'tenon_admin',
  workspace_admin: 'tenon_admin',
  developer: 'tenon_admin',
  viewer: 'tenon_admin',
  service: 'tenon_service',
  user: 'tenon_user',
  anon: 'tenon_anon',
} as const

function contextOf(actor: Actor, tenant = '', workspace = ''): SessionContext {
  const { role, chainDepth, user } = actor
  const statementTimeoutMs = INFRA_LIMITS.statementTimeoutMs[isPublicRole(role) ? 'anon' : 'service']
  return {
    role: DATABASE_ROLES[role],
    tenant,
    workspace,
    statementTimeoutMs,
    causedBy: JSON.stringify(causesOf(actor)),
    ...(role === 'viewer' && { readOnly: true }),
    ...(chainDepth !== undefined && { chainDepth }),
    ...(role === 'user' && user !== undefined && { user: sessionUser(user, actor) }),
  }
}

/** The end user as `tenon.caller()` returns it to policies (roles.sql). An address that was not verified is none. */
function sessionUser({ id, email, emailVerified, claims }: EndUser, { lookups = {} }: Actor): string {
  const found = Object.entries(lookups)
  const values = Object.fromEntries(found.map(([name, lookup]) => [name, lookup.values]))
  const truncated = found.flatMap(([name, { isTruncated }]) => (isTruncated ? [[name, true] as const] : []))
  return JSON.stringify({
    ...{ id, ...(emailVerified && { email }), claims },
    ...(found.length > 0 && { lookups: values, truncated: Object.fromEntries(truncated) }),
  })
}

/**
 * An actor, and statements with its rights. Features supply all other capabilities as functions of the scope:
 * `objectsOf(scope)`, `workflowsOf(scope)`, `encryptFor(scope, …)`.
 * @example
 * ```ts
 * // One transaction with the rights of the actor; row-level security adds tenant and workspace.
 * const id = scope.uuid()
 * const [, [note] = []] = await scope.batch(
 *   sql`insert into notes (id, title) values (${id}, ${'Milk'})`,
 *   sql`select id, title from notes where id = ${id}`,
 * )
 * ```
 */
export abstract class Scope extends Statements {
  readonly actor: Actor
  readonly #internals: ScopeInternals
  /** For entry points that run operations inside a scope of their own. */
  readonly audit: Audit

  /**
   * Of the request's idempotency claim, for the transaction of an effect that must not happen twice. Only the scope in which the
   * request's own operation runs has it: none of another role, of an operation inside it, or of a transaction.
   */
  readonly completion: Completion | undefined

  protected constructor(actor: Actor, internals: ScopeInternals, completion?: Completion) {
    super()
    this.actor = actor
    this.completion = completion
    this.#internals = internals
    this.audit = internals.services.audit
    attachInternals(this, internals)
  }

  override batch(...statements: Sql[]): Promise<Row[][]> {
    return this.#internals.services.statements.batch(this.#internals.context, statements)
  }

  /** As {@link batch}, for short statements: they may share a transaction with others of the same rights. */
  batchShared(group: BatchGroup, ...statements: Sql[]): Promise<Row[][]> {
    return this.#internals.services.statements.batch(this.#internals.context, statements, group)
  }

  /** A new UUIDv7. In an activity, the same one at each attempt. */
  uuid(): string {
    return this.#internals.ids.uuid()
  }

  newId<P extends IdPrefix>(prefix: P): `${P}_${string}` {
    return typeId(prefix, this.uuid())
  }

  /** Logs an internal error of which the caller learns no detail. */
  logError(error: unknown, event: string): void {
    this.#internals.services.log.error({ err: error, subject: this.actor.subject }, event)
  }
}

/** For operations about their caller: it knows the principal, and can do nothing. */
export class CallerScope {
  readonly principal: Principal
  /** The rate limits of this request. */
  readonly rateLimits: readonly BucketState[]
  /** The public URL of the API. */
  readonly publicUrl: string

  constructor(principal: Principal, rateLimits: readonly BucketState[], publicUrl: string) {
    this.principal = principal
    this.rateLimits = rateLimits
    this.publicUrl = publicUrl
  }
}

/**
 * The structure of tenants. An operator sees the metadata of all tenants and no documents; a tenant admin one tenant, a
 * workspace admin one workspace, and developers and viewers either. Row-level security decides, not the caller.
 */
export class AdminScope extends Scope {
  /** Undefined for an operator. */
  readonly tenantId: TenantId | undefined
  /** The workspace that bounds the reach of the actor's role. */
  readonly workspaceId: string | undefined

  private constructor(
    actor: Actor,
    bounds: AdminBounds,
    services: PlatformServices,
    ids: IdSource,
    completion?: Completion,
  ) {
    const { tenantId, workspaceId } = bounds
    super(actor, { services, ids, context: contextOf(actor, tenantId, workspaceId) }, completion)
    this.tenantId = tenantId
    this.workspaceId = workspaceId
  }

  /** @throws TypeError if an admin names no tenant, or a workspace admin no workspace */
  static open(
    actor: Actor,
    { tenantId, workspaceId }: AdminBounds,
    services: PlatformServices,
    ids: IdSource,
    completion?: Completion,
  ): AdminScope {
    if (actor.role === 'operator') return new AdminScope(actor, {}, services, ids, completion)
    if (tenantId === undefined) throw new TypeError('an admin scope needs a tenant')
    const within = boundingWorkspace(actor.role, workspaceId)
    if (actor.role === 'workspace_admin' && within === undefined)
      throw new TypeError('the scope of a workspace admin needs a workspace')
    return new AdminScope(actor, { tenantId, workspaceId: within }, services, ids, completion)
  }

  /** True if this admin may access the tenant, and the workspace if one is given. */
  reaches({ tenantId, workspaceId }: { tenantId: TenantId; workspaceId?: string }): boolean {
    return (
      (this.tenantId === undefined || tenantId === this.tenantId) &&
      (this.workspaceId === undefined || workspaceId === undefined || workspaceId === this.workspaceId)
    )
  }

  /**
   * Runs `work` in one transaction: all statements of the scope that it gets are committed, or none.
   * @param tenantId the tenant whose share of connections it uses
   */
  transaction<T>(
    work: (scope: AdminScope) => Promise<T>,
    tenantId: string = this.tenantId ?? '',
  ): Promise<T> {
    const { services, ids } = internalsOf(this)
    return services.database.transaction(tenantId, (statements) =>
      work(new AdminScope(this.actor, this, { ...services, statements }, ids)),
    )
  }
}

/** The content of one workspace. Every statement, key and workflow id made through it belongs to its reference. */
export class WorkspaceScope extends Scope {
  readonly ref: WorkspaceRef

  constructor(
    actor: Actor,
    ref: WorkspaceRef,
    services: PlatformServices,
    ids: IdSource,
    completion?: Completion,
  ) {
    const role = actor.role === 'operator' ? 'workspace_admin' : actor.role
    const context = contextOf({ ...actor, role }, ref.tenantId, ref.workspaceId)
    super(actor, { services, ids, context }, completion)
    this.ref = ref
  }

  /** Runs `work` in one transaction: all statements of the scope that it gets are committed, or none. */
  transaction<T>(work: (scope: WorkspaceScope) => Promise<T>): Promise<T> {
    const { services, ids } = internalsOf(this)
    return services.database.transaction(this.ref.tenantId, (statements) =>
      work(new WorkspaceScope(this.actor, this.ref, { ...services, statements }, ids)),
    )
  }
}

/**
 * A role of the database that no credential has, in one workspace or tenant: `tenon_tables` owns the tables of declared collections
 * (`postgres/collection-table.ts` of collections), `tenon_purger` deletes rows (`features/tenants/purge/purge.sql`).
 */
export class RoleScope extends Statements {
  readonly #statements: StatementExecutor
  readonly #context: SessionContext

  constructor(
    { statements }: Pick<PlatformServices, 'statements'>,
    role: 'tenon_tables' | 'tenon_purger',
    { tenantId, workspaceId }: TenantRef,
  ) {
    super()
    this.#statements = statements
    this.#context = {
      ...{ role, tenant: tenantId, workspace: workspaceId === '-' ? '' : workspaceId },
      statementTimeoutMs: INFRA_LIMITS.statementTimeoutMs.service,
    }
  }

  override batch(...statements: Sql[]): Promise<Row[][]> {
    return this.#statements.batch(this.#context, statements)
  }
}
