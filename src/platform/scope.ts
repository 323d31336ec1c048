/** The handles through which everything is done. Only the doors open them; nobody can make a look-alike. */

import type { IdSource } from '../core/ids.ts'
import type { Actor } from '../core/policy.ts'
import { Problem } from '../core/problem.ts'
import type { TenantId, TenantRef, WorkspaceRef } from '../core/tenant.ts'
import { Scope } from './any-scope.ts'
import type { DocumentsHandle } from './documents/mongo.ts'
import type { Durable } from './durable.ts'
import { Events } from './events/events.ts'
import { Issuing } from './identity/issuing.ts'
import { type AdminBounds, mandateOf } from './mandates.ts'
import { StorageAdmin } from './objects/admin.ts'
import { openObjects } from './objects/open.ts'
import type { WorkspaceObjects } from './objects/workspace.ts'
import type { Parts } from './parts.ts'
import { PayloadDesk } from './payloads/desk.ts'
import type { Sql } from './pg/sql.ts'
import { purposeIn } from './secrets.ts'
import { memoKey, type Sized } from './ttl-cache.ts'

/**
 * The structure of tenants. An operator's sees the metadata of all tenants and no document of any; a tenant
 * admin's sees one tenant, a workspace admin's one workspace: row-level security decides, not the caller.
 */
export class AdminScope extends Scope {
  /** The tenant that the credential names; undefined for an operator. */
  readonly tenantId: TenantId | undefined
  /** Empty where it is not bound to one. */
  readonly #workspaceId: string

  private constructor(
    actor: Actor,
    tenantId: TenantId | undefined,
    workspaceId: string,
    parts: Parts,
    ids: IdSource,
  ) {
    super(actor, mandateOf(actor, tenantId ?? '', workspaceId), parts, ids)
    this.tenantId = tenantId
    this.#workspaceId = workspaceId
  }

  static open(actor: Actor, bounds: AdminBounds, parts: Parts, ids: IdSource): AdminScope {
    if (actor.role !== 'operator' && bounds.tenantId === undefined)
      throw new TypeError('an admin has a tenant')
    if (actor.role === 'workspace_admin' && bounds.workspaceId === undefined)
      throw new TypeError('… a workspace')
    const workspaceId = actor.role === 'workspace_admin' ? (bounds.workspaceId ?? '') : ''
    const tenantId = actor.role === 'operator' ? undefined : bounds.tenantId
    return new AdminScope(actor, tenantId, workspaceId, parts, ids)
  }

  /** Work of a tenant as a whole, or of one of its workspaces: provisioning. */
  work(ref: TenantRef): Durable {
    if (this.tenantId !== undefined && ref.tenantId !== this.tenantId) throw new Problem('not_found')
    return this.durable(ref)
  }

  /** A workspace with the rights of a service key, as an admin may make one: to judge documents of a declaration. */
  inside(ref: WorkspaceRef): WorkspaceScope {
    const own = this.tenantId === undefined || ref.tenantId === this.tenantId
    if (!own || (this.#workspaceId !== '' && ref.workspaceId !== this.#workspaceId))
      throw new Problem('not_found')
    return WorkspaceScope.open({ ...this.actor, role: 'service' }, ref, this.parts, this.ids)
  }

  /** Several round trips as one transaction: what `work` asks of its scope happens as a whole, or not at all. */
  transaction<T>(ref: WorkspaceRef, work: (held: AdminScope) => Promise<T>): Promise<T> {
    return this.parts.database.transaction(ref.tenantId, (statements) => {
      const parts = { ...this.parts, statements }
      return work(new AdminScope(this.actor, this.tenantId, this.#workspaceId, parts, this.ids))
    })
  }

  /** What an admin may ask of the issuer. */
  get issuing(): Issuing {
    return new Issuing(this.actor, this.parts)
  }

  /** Makes this node forget a key at once; others do within the cache's few seconds. */
  forgetKey(id: string): void {
    this.parts.keys.forget((row) => row.id === id)
  }

  /** Makes this node ask at once how the tenant and its workspaces stand; others do within the cache's few seconds. */
  forgetStanding(tenantId: TenantId): void {
    this.parts.keys.forget((row) => row.tenant_id === tenantId)
    this.parts.tenantStates.forget(tenantId)
  }

  /** Makes this node forget at once what a workspace's scopes remember under the key. */
  forget(ref: WorkspaceRef, key: string): void {
    this.parts.memo.drop(memoKey(ref, key))
  }

  /** How many event streams each tenant may have, and how many this one has open; null where that is not known. */
  async streamsOf(tenantId: TenantId) {
    if (this.tenantId !== undefined && tenantId !== this.tenantId) throw new Problem('not_found')
    return this.parts.limiter.streamsOf(tenantId)
  }

  /** Whether documents also live outside PostgreSQL, where its triggers do not count them. */
  get hasDocumentStore(): boolean {
    return this.parts.documents !== undefined
  }

  /** Whether a collection has any document in a document store outside PostgreSQL. No document is shown. */
  async hasDocuments(ref: WorkspaceRef, collection: string): Promise<boolean> {
    if (this.tenantId !== undefined && ref.tenantId !== this.tenantId) throw new Problem('not_found')
    const handle = this.parts.documents?.handle(ref, 'service')
    const found = await handle?.find(collection, { filter: {}, set: {}, sort: { _id: 1 }, limit: 1 })
    return found !== undefined && found.length > 0
  }

  /** Buckets and identities at the object store. */
  get storage(): StorageAdmin {
    return new StorageAdmin(this.parts)
  }

  /** What runs carry through Temporal. */
  get payloads(): PayloadDesk {
    return new PayloadDesk(this.parts.codec, this.tenantId)
  }

  /** Seals a secret of a tenant; it opens for the same tenant only. */
  seal(tenantId: TenantId, plain: Buffer): Buffer {
    return this.parts.secrets.seal(`tenant:${tenantId}`, plain)
  }
}

/** The inside of one workspace. Every statement, key and workflow id made through it belongs to its ref. */
export class WorkspaceScope extends Scope {
  readonly ref: WorkspaceRef
  /** For the transaction of what must not happen twice, where the request may be sent again. */
  readonly marks: readonly Sql[]

  private constructor(actor: Actor, ref: WorkspaceRef, parts: Parts, ids: IdSource, marks: readonly Sql[]) {
    const role = actor.role === 'operator' ? 'workspace_admin' : actor.role
    super(actor, mandateOf({ ...actor, role }, ref.tenantId, ref.workspaceId), parts, ids)
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

  /** Seals what only this workspace opens again, and for the same purpose only. */
  seal(purpose: string, plain: Buffer): Buffer {
    return this.parts.secrets.seal(purposeIn(this.ref, purpose), plain)
  }

  /** @throws Error where it was sealed elsewhere, or changed */
  open(purpose: string, sealed: Buffer): Buffer {
    return this.parts.secrets.open(purposeIn(this.ref, purpose), sealed)
  }

  /** A text that follows from the purpose, and that nobody else can make: 43 letters of base64url. */
  derive(purpose: string): string {
    return this.parts.secrets.derive(purposeIn(this.ref, purpose))
  }

  /** The same workspace with the rights of a service key, as an admin may make one: an admin scope sees no documents,
   * and a tool of an MCP server can do no more than such a key. */
  asService(): WorkspaceScope {
    return new WorkspaceScope({ ...this.actor, role: 'service' }, this.ref, this.parts, this.ids, this.marks)
  }

  /** The workspace's documents in the document store; undefined where they are in PostgreSQL. */
  get documents(): DocumentsHandle | undefined {
    return this.parts.documents?.handle(this.ref, this.actor.role)
  }

  get events(): Events {
    return new Events(this.ref, this.parts.streams)
  }

  /** The workspace's objects, under its own identity at the store. */
  get objects(): WorkspaceObjects {
    return openObjects(this, this.parts, this.mandate)
  }

  /** One of the workspace's executions, for as long as it is watched. */
  watch = (executionId: string) => this.parts.lookout.watch(this.ref, executionId)

  /** Something was written of one of the workspace's executions, perhaps its end. */
  told = (executionId: string, hasEnded: boolean) => this.parts.lookout.tell(this.ref, executionId, hasEnded)

  get runs(): Durable {
    return this.durable(this.ref)
  }

  /** A path of ours as others reach it. */
  addressOf(path: string): string {
    return `${this.parts.publicUrl}${path}`
  }

  /** What `load` gave within the last few seconds, in any scope of this workspace on this node, or gives now. */
  async memo<T>(key: string, load: () => Promise<Sized<T>>): Promise<T> {
    return (await this.parts.memo.load(memoKey(this.ref, key), load)).value as T
  }

  forget(key: string): void {
    this.parts.memo.drop(memoKey(this.ref, key))
  }
}
