/** Removes the bytes that no object has: of objects that were replaced or deleted, and of uploads that are over. */

import type { WorkspaceScope } from '../../access/scope.ts'
import { sql, textArray } from '../../infra/postgres/sql.ts'
import { Blobs } from './blobs.ts'
import { OBJECT_LIMITS } from './limits.ts'
import { abandoned } from './uploads.ts'

const { blobsSweptMax, uploadsSweptMax, unusedBlobKeptMs, expiredUploadKeptMs } = OBJECT_LIMITS

/** @param scope with the rights of a service key @returns true if there may be more */
export async function sweepBlobs(scope: WorkspaceScope): Promise<boolean> {
  const hasMoreUploads = await endOldUploads(scope)
  const before = new Date(Date.now() - unusedBlobKeptMs)
  const [, , rows = []] = await scope.batch(
    // Their parts and tails are uploads with leases of their own.
    sql`delete from resumable_uploads where expires_at <= now() - ${`${expiredUploadKeptMs} milliseconds`}::interval`,
    abandoned(sql`key is null and expires_at <= now()`),
    sql`select blob from unused_blobs where unused_at <= ${before} order by unused_at limit ${blobsSweptMax}`,
  )
  const blobs = rows.map(({ blob }) => String(blob))
  if (blobs.length === 0) return hasMoreUploads
  // First the bytes: a blob whose removal fails is found again.
  await new Blobs(scope).remove(blobs)
  await scope.batch(sql`delete from unused_blobs where blob = any(${textArray(blobs)}::uuid[])`)
  return hasMoreUploads || blobs.length === blobsSweptMax
}

/** Uploads in parts: the store keeps their parts apart from its blobs. */
async function endOldUploads(scope: WorkspaceScope): Promise<boolean> {
  const rows = await scope.rows<{ id: string; store_id: string | null }>(
    sql`select id, store_id from object_uploads where key is not null and expires_at <= now() limit ${uploadsSweptMax}`,
  )
  const blobs = new Blobs(scope)
  for (const { id, store_id } of rows) {
    await blobs.abandonParts(id, store_id ?? undefined)
    await scope.batch(abandoned(sql`id = ${id} and expires_at <= now()`))
  }
  return rows.length === uploadsSweptMax
}
