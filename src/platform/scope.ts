/** The handles through which everything is done. Only `access.ts` opens them; nobody can make a look-alike. */

import type { IdSource } from '../core/ids.ts'
import type { Actor } from '../core/policy.ts'
import type { TenantId, WorkspaceRef } from '../core/tenant.ts'
import { Scope } from './any-scope.ts'
import { lentTo } from './lent.ts'
import { type AdminBounds, mandateOf } from './mandates.ts'
import type { Parts } from './parts.ts'
import type { Sql } from './pg/sql.ts'

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
    super(actor, { parts, ids, mandate: mandateOf(actor, tenantId ?? '', workspaceId ?? '') })
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
    super(actor, { parts, ids, mandate: mandateOf({ ...actor, role }, ref.tenantId, ref.workspaceId) })
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
