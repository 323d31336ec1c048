/** The documents of a workspace in MongoDB, if documents are stored there. Only collections read and write them. */

import { privilege } from '../../../access/privileges.ts'
import type { AdminScope, WorkspaceScope } from '../../../access/scope.ts'
import { notFound } from '../../../core/problem.ts'
import type { TenantRef, WorkspaceRef } from '../../../core/tenant.ts'
import type { DocumentsHandle, MongoDocuments } from '../../../infra/mongo/mongo.ts'

const storeOf = privilege('collections.documents')
const asService = privilege('collections.occupied')

/** Undefined if documents are in PostgreSQL. */
export const documentsOf = (scope: WorkspaceScope): DocumentsHandle | undefined =>
  storeOf(scope)?.handle(scope.ref, scope.actor)

/** True if a collection has any document in MongoDB. @throws Problem `not_found` for a workspace that the admin does not reach */
export async function hasDocuments(
  scope: AdminScope,
  ref: WorkspaceRef,
  collection: string,
): Promise<boolean> {
  const documents = documentsOf(asService(scope, ref))
  const found = await documents?.find(collection, { filter: {}, set: {}, sort: { _id: 1 }, limit: 1 })
  return found !== undefined && found.length > 0
}

/** All documents in MongoDB of a tenant or a workspace, for its purge. Undefined if documents are in PostgreSQL. @throws Problem `not_found` */
export function ownedDocuments(
  scope: AdminScope,
  ref: TenantRef,
): Pick<MongoDocuments, 'count' | 'removeAll'> | undefined {
  if (!scope.reaches(ref)) throw notFound('workspace')
  return storeOf(scope)
}
