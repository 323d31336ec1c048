/** The archives of a tenant in the platform's bucket, each below the workspace that it is of, or becomes; those of the tenant itself below `-`. */

import { createHash } from 'node:crypto'
import { privilege } from '../../access/privileges.ts'
import type { AdminScope } from '../../access/scope.ts'
import { counted, digested } from '../../core/bytes.ts'
import { notFound } from '../../core/problem.ts'
import type { TenantRef } from '../../core/tenant.ts'
import { ARCHIVE_LIMITS } from './limits.ts'

const storeOf = privilege('archives.store')

/** An archive as it is stored. */
export interface StoredArchive {
  /** The attempt of the export that has written it; absent from one that was sent. */
  readonly attempt?: number
  readonly bytes: number
  /** Of all of its bytes, hex. */
  readonly sha256: string
}

/** Below it are the archives of a workspace, or of the tenant itself. They go with it, and with the tenant. */
export const archivesOf = ({ tenantId, workspaceId }: TenantRef): string =>
  `${tenantId}/archives/${workspaceId}/`

/**
 * The file of an operation. Each attempt of an export writes one of its own, since one that was given up may go on writing.
 * @param attempt of the export; 0: the file was sent, for an import
 * @throws Problem `not_found` for a workspace that the admin does not reach
 */
export function archiveFile(scope: AdminScope, ref: TenantRef, operationId: string, attempt = 0) {
  if (!scope.reaches(ref)) throw notFound('workspace')
  const store = storeOf(scope)
  const name = nameOf(ref, operationId, attempt)
  return {
    /** @throws the error of the source; Problem `EntityTooLarge`, `dependency_unavailable` */
    async write(chunks: AsyncIterable<Uint8Array>): Promise<StoredArchive> {
      const digest = createHash('sha256')
      const bounded = counted({ chunks }, ARCHIVE_LIMITS.archiveBytesMax)
      const bytes = await store.write(name, digested(bounded, digest))
      return { bytes, sha256: digest.digest('hex') }
    },
    read: (bytes: number, first = 0) => store.read(name, bytes, first),
    remove: () => store.remove(name),
  }
}

const nameOf = (ref: TenantRef, operationId: string, attempt: number): string =>
  `${archivesOf(ref)}${operationId}${attempt === 0 ? '' : `/${attempt}`}`

/** Removes all files of an operation: that which was sent, and those of all attempts. */
export async function removeArchives(scope: AdminScope, ref: TenantRef, operationId: string): Promise<void> {
  for (let attempt = 0; attempt <= ARCHIVE_LIMITS.attemptsMax; attempt += 1)
    await archiveFile(scope, ref, operationId, attempt).remove()
}
