/** Reads and stores all objects of a workspace for archives: entries of the catalogue and their bytes. Nobody is told. */

import Type, { type Static } from 'typebox'
import type { WorkspaceScope } from '../../access/scope.ts'
import type { ByteSource } from '../../core/bytes.ts'
import { randomIds } from '../../core/ids.ts'
import { checkKey } from '../../core/object-key.ts'
import { Problem } from '../../core/problem.ts'
import { readObjectChange } from '../../infra/postgres/errors.ts'
import { sql } from '../../infra/postgres/sql.ts'
import { allRows } from '../operation-helpers.ts'
import { Blobs } from './blobs.ts'
import { endOfUpload } from './catalogue.ts'
import { OBJECT_LIMITS } from './limits.ts'
import { KeptByHeader, Metadata, Tags } from './object-fields.ts'
import { Upload } from './uploads.ts'

const PAGE = 500

/** An object in an archive; its bytes are a member of their own. */
export const ObjectLine = Type.Object(
  {
    key: Type.String({ minLength: 1 }),
    size: Type.Integer({ minimum: 0 }),
    etag: Type.String({ pattern: '^[0-9a-f]{32}(?:-[0-9]{1,5})?$' }),
    headers: KeptByHeader,
    metadata: Metadata,
    tags: Tags,
    owner: Type.Union([Type.String({ minLength: 1, maxLength: 200 }), Type.Null()]),
    created_at: Type.String({ format: 'date-time', pattern: 'Z$' }),
    modified_at: Type.String({ format: 'date-time', pattern: 'Z$' }),
  },
  { additionalProperties: false },
)
export type ObjectLine = Static<typeof ObjectLine>

/** All entries in the order of their keys, each with the name of its blob. @param service scope with the rights of a service key */
export const allObjects = (service: WorkspaceScope): AsyncGenerator<ObjectLine & { readonly blob: string }> =>
  allRows(
    PAGE,
    (after) =>
      service.rows<ObjectLine & { blob: string }>(sql`
        select key, size, etag, headers, metadata, tags, owner, created_at, modified_at, blob from objects
        where key > ${after} order by key limit ${PAGE}`),
    ({ key }) => key,
  )

/** The bytes of an object. @throws Problem `dependency_unavailable` if the store does not have all of them (any more) */
export async function* readBytes(
  service: WorkspaceScope,
  { blob, size }: { readonly blob: string; readonly size: number },
): AsyncGenerator<Uint8Array> {
  if (size > 0) yield* new Blobs(service).readExactly(blob, size)
}

/**
 * Stores an object as an archive has it. One of the same key stays as it is, so that it may be repeated.
 * @param owner the user here who has created it
 * @throws Problem `InvalidKey`, `EntityTooLarge`, `digest_mismatch`, `quota_exceeded`, `dependency_unavailable`
 */
export async function restoreObject(
  service: WorkspaceScope,
  line: ObjectLine,
  owner: string | null,
  source: ByteSource,
): Promise<void> {
  const { key, size, headers, metadata, tags, created_at, modified_at } = line
  checkKey(key)
  if (size > OBJECT_LIMITS.requestBytesMax)
    throw new Problem('EntityTooLarge', {
      detail: `An object of an archive has at most ${OBJECT_LIMITS.requestBytesMax} bytes.`,
    })
  if ((await service.row(sql`select from objects where key = ${key}`)) !== undefined) return
  const upload = new Upload(service, source)
  await upload.begin()
  try {
    const blobs = new Blobs(service)
    const stored = await upload.send((body, signal) => blobs.write(upload.id, { body, length: size, signal }))
    const etag = etagOf(line, stored)
    await service.batch(
      endOfUpload(upload.id),
      sql`insert into objects (key, version, blob, size, etag, headers, metadata, tags, owner, created_at, modified_at)
        values (${key}, ${randomIds.uuid()}, ${upload.id}, ${size}, ${etag}, ${headers}, ${metadata}, ${tags},
          ${owner}, ${created_at}, ${modified_at})`,
    )
  } catch (error) {
    await upload.abandon().catch(() => {})
    throw readObjectChange(error) === undefined ? error : new Problem('upload_expired', { cause: error })
  }
}

/** An object that was sent in parts keeps its tag, which no other way of sending gives; the others have their MD5. */
function etagOf({ etag, key }: ObjectLine, stored: string): string {
  if (etag.includes('-') || etag === stored) return etag
  throw new Problem('digest_mismatch', {
    detail: `The bytes of ${key.slice(0, 200)} do not have its entity tag.`,
  })
}
