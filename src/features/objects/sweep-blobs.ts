/** Removes the bytes that no object has: of objects that were replaced or deleted, of their converted images, and of uploads that are over. */

import type { WorkspaceScope } from '../../access/scope.ts'
import { sql, textArray } from '../../infra/postgres/sql.ts'
import { Blobs } from './blobs.ts'
import { OBJECT_LIMITS } from './limits.ts'
import { abandoned } from './uploads.ts'

const {
  blobsSweptMax,
  uploadsSweptMax,
  unusedBlobKeptMs,
  expiredUploadKeptMs,
  imageUnreadKeptMs,
  removalKeptMs,
} = OBJECT_LIMITS

interface Unused {
  readonly id: string
  /** Of an upload in parts: the name that the store has for it, if it is known. The store keeps its parts apart from its blobs. */
  readonly store_id: string | null
  readonly is_upload: boolean
  /** Of a blob: when it has lost its object. */
  readonly unused_at: Date | null
}

/**
 * @param scope with the rights of a service key
 * @param findHold finds since when an export reads objects: blobs that have lost their object since then stay. It is called at each
 *   removal, since an export may begin at any time
 * @returns true if there may be more
 */
export async function sweepBlobs(
  scope: WorkspaceScope,
  findHold: () => Promise<Date | null> = async () => null,
): Promise<boolean> {
  const rows = await scope.rows<Unused>(UNUSED)
  const [uploads, unused] = [rows.filter((row) => row.is_upload), rows.filter((row) => !row.is_upload)]
  const heldFrom = unused.length > 0 ? await findHold() : null
  const blobs = unused.filter(({ unused_at }) => heldFrom === null || (unused_at ?? 0) < heldFrom)
  const store = new Blobs(scope)
  // First the bytes: those whose removal fails are found again, and do not keep the others.
  let failure: unknown
  for (const { id, store_id } of uploads)
    try {
      await store.abandonParts(id, store_id ?? undefined)
      await scope.batch(abandoned(sql`id = ${id} and expires_at <= now()`))
    } catch (error) {
      failure = error
    }
  if (blobs.length > 0) {
    const ids = blobs.map(({ id }) => id)
    await store.remove(ids)
    await scope.batch(sql`delete from unused_blobs where blob = any(${textArray(ids)}::uuid[])`)
  }
  if (failure !== undefined) throw failure
  return uploads.length === uploadsSweptMax || blobs.length === blobsSweptMax
}

const UNUSED = sql`
  with ended as (delete from object_uploads where key is null and expires_at <= now() returning id),
    -- Of a source that no object has any more, and those that nobody reads.
    images as (
      delete from object_images i where read_at <= now() - ${`${imageUnreadKeptMs} milliseconds`}::interval
        or exists (select from unused_blobs u where u.blob = i.source)
      returning blob
    ),
    given_up as (insert into unused_blobs (blob) select id from ended union all select blob from images),
    -- Their parts and tails are uploads with leases of their own.
    forgotten as (delete from resumable_uploads where expires_at <= now() - ${`${expiredUploadKeptMs} milliseconds`}::interval),
    reported as (delete from object_removals where finished_at <= now() - ${`${removalKeptMs} milliseconds`}::interval)
  (select id, store_id, true as is_upload, null::timestamptz as unused_at from object_uploads
    where key is not null and expires_at <= now() limit ${uploadsSweptMax})
  union all
  (select blob, null, false, unused_at from unused_blobs
    where unused_at <= now() - ${`${unusedBlobKeptMs} milliseconds`}::interval order by unused_at limit ${blobsSweptMax})`
