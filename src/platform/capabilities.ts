/** Capabilities of scopes: functions that reach a feature's servers within the tenant, the workspace and the rights of a scope. */

import { Problem } from '../core/problem.ts'
import type { TenantId, TenantRef, WorkspaceRef } from '../core/tenant.ts'
import type { DocumentsHandle } from './documents/mongo.ts'
import { Events } from './events/events.ts'
import { Issuing } from './identity/issuing.ts'
import { StorageAdmin } from './objects/admin.ts'
import { openObjects } from './objects/open.ts'
import type { WorkspaceObjects } from './objects/workspace.ts'
import { PayloadDesk } from './payloads/desk.ts'
import { type AdminScope, lentTo, type Scope, type WorkspaceScope } from './scope.ts'
import { purposeIn } from './secrets.ts'
import type { TenantWorkflows } from './temporal.ts'
import type { Ran, ThreadTask } from './thread-pool.ts'

/** The workflows of a workspace. */
export function runsOf(scope: WorkspaceScope): TenantWorkflows {
  return lentTo(scope).parts.temporal.workflowsOf(scope.ref)
}

/** Work of a tenant as a whole, or of one of its workspaces: provisioning. @throws Problem `not_found` */
export function workOf(scope: AdminScope, ref: TenantRef): TenantWorkflows {
  if (!scope.reaches({ tenantId: ref.tenantId })) throw new Problem('not_found')
  return lentTo(scope).parts.temporal.workflowsOf(ref)
}

/** One of the workspace's executions, for as long as its record is watched. */
export function watchRecord(scope: WorkspaceScope, executionId: string) {
  return lentTo(scope).parts.lookout.watch(scope.ref, executionId)
}

/** Something was written of one of the workspace's executions, perhaps its end. */
export function tellOfRecord(scope: WorkspaceScope, executionId: string, hasEnded: boolean): void {
  lentTo(scope).parts.lookout.tell(scope.ref, executionId, hasEnded)
}

/** The events of the tenant, and the workspace's own changes. */
export function eventsIn(scope: WorkspaceScope): Events {
  return new Events(scope.ref, lentTo(scope).parts.streams)
}

/** The workspace's objects, under its own identity at the store. */
export function objectsOf(scope: WorkspaceScope): WorkspaceObjects {
  const { parts, context } = lentTo(scope)
  return openObjects(scope, parts, context)
}

/** Buckets and identities at the object store. */
export function storageOf(scope: AdminScope): StorageAdmin {
  return new StorageAdmin(lentTo(scope).parts)
}

/** The workspace's documents in the document store; undefined if they are in PostgreSQL. */
export function documentsOf(scope: WorkspaceScope): DocumentsHandle | undefined {
  return lentTo(scope).parts.documents?.handle(scope.ref, scope.actor.role)
}

/** Tells if documents also live outside PostgreSQL, where its triggers do not count them. */
export function hasDocumentStore(scope: AdminScope): boolean {
  return lentTo(scope).parts.documents !== undefined
}

/** Tells if a collection has any document in a document store outside PostgreSQL. No document is shown. */
export async function hasDocuments(
  scope: AdminScope,
  ref: WorkspaceRef,
  collection: string,
): Promise<boolean> {
  if (!scope.reaches({ tenantId: ref.tenantId })) throw new Problem('not_found')
  const handle = lentTo(scope).parts.documents?.handle(ref, 'service')
  const found = await handle?.find(collection, { filter: {}, set: {}, sort: { _id: 1 }, limit: 1 })
  return found !== undefined && found.length > 0
}

/** What an admin may ask of the issuer. */
export function issuingOf(scope: AdminScope): Issuing {
  return new Issuing(scope.actor, lentTo(scope).parts)
}

/** What runs carry through Temporal. */
export function payloadsOf(scope: AdminScope): PayloadDesk {
  return new PayloadDesk(lentTo(scope).parts.codec, scope.tenantId)
}

/** How many event streams each tenant may have, and how many this one has open; null if that is not known. */
export async function streamsOf(scope: AdminScope, tenantId: TenantId) {
  if (!scope.reaches({ tenantId })) throw new Problem('not_found')
  return lentTo(scope).parts.limiter.streamsOf(tenantId)
}

/** Seals what only this workspace opens again, and for the same purpose only. */
export function seal(scope: WorkspaceScope, purpose: string, plain: Buffer): Buffer {
  return lentTo(scope).parts.secrets.seal(purposeIn(scope.ref, purpose), plain)
}

/** @throws Error if it was sealed elsewhere, or changed */
export function openSealed(scope: WorkspaceScope, purpose: string, sealed: Buffer): Buffer {
  return lentTo(scope).parts.secrets.open(purposeIn(scope.ref, purpose), sealed)
}

/** A text that follows from the purpose, and that nobody else can make: 43 letters of base64url. */
export function derive(scope: WorkspaceScope, purpose: string): string {
  return lentTo(scope).parts.secrets.derive(purposeIn(scope.ref, purpose))
}

/** Seals a secret of a tenant; it opens for the same tenant only. */
export function sealForTenant(scope: AdminScope, tenantId: TenantId, plain: Buffer): Buffer {
  return lentTo(scope).parts.secrets.seal(`tenant:${tenantId}`, plain)
}

/** Runs a task in a worker thread, in the share of the scope's tenant. @throws Problem `overloaded` */
export function runInThread<T>(scope: Scope, task: ThreadTask): Promise<Ran<T>> {
  const { parts, context } = lentTo(scope)
  return parts.threads.run(context.tenant, task)
}

/** A path of ours as others reach it. */
export function addressOf(scope: WorkspaceScope, path: string): string {
  return `${lentTo(scope).parts.publicUrl}${path}`
}
