/** Reads and stores all objects of a workspace for archives: entries of the catalogue and their bytes. Nobody is told. */

import { createHash } from 'node:crypto'
import Type, { type Static } from 'typebox'
import type { WorkspaceScope } from '../../access/scope.ts'
import { type ByteSource, digested, tooLarge } from '../../core/bytes.ts'
import { randomIds } from '../../core/ids.ts'
import { checkKey } from '../../core/object-key.ts'
import { Problem } from '../../core/problem.ts'
import { readObjectChange } from '../../infra/postgres/errors.ts'
import { type Sql, sql } from '../../infra/postgres/sql.ts'
import { allRows } from '../operation-helpers.ts'
import { Blobs } from './blobs.ts'
import { BodyPieces } from './body-pieces.ts'
import { endOfUpload } from './catalogue.ts'
import { OBJECT_LIMITS } from './limits.ts'
import { MultipartUploads, type UploadName } from './multipart-uploads.ts'
import { KeptByHeader, Metadata, Tags } from './object-fields.ts'
import { Upload } from './uploads.ts'
import { objectsOf } from './workspace-objects.ts'

const { restoredPartBytes, partsMax } = OBJECT_LIMITS
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

/** An object of an archive, as it is stored here. */
interface Restored {
  readonly line: ObjectLine
  /** The id that the creator of the object has in this workspace; null without a creator. */
  readonly owner: string | null
  readonly source: ByteSource
  /** Throws once the workspace is not being made any more: of a large object, nothing further is stored then. */
  readonly requireBeingMade: () => Promise<void>
}

/**
 * Stores an object as an archive has it. One of the same key stays as it is, so that it may be repeated; of a large one, an attempt goes on
 * with the parts that are there.
 * @throws Problem `InvalidKey`, `EntityTooLarge`, `digest_mismatch`, `quota_exceeded`, `dependency_unavailable`
 */
export async function restoreObject(service: WorkspaceScope, object: Restored): Promise<void> {
  const { key, size } = object.line
  checkKey(key)
  const { objectBytesMax } = new Blobs(service)
  if (size > objectBytesMax) throw tooLarge(objectBytesMax)
  if (await isStored(service, key)) return
  try {
    await (size > restoredPartBytes ? restoreInParts(service, object) : restoreAtOnce(service, object))
  } catch (error) {
    if (!(await isStored(service, key)) && !isOver(error)) throw error
    // An attempt that was given up has gone on. What is repeated goes on with the parts that it finds, or finds the object.
    const detail =
      'The upload of the object was ended, by another attempt of the import or by the object store. It is tried again.'
    throw new Problem('overloaded', { detail, cause: error })
  }
}

/** True if the upload was ended meanwhile, which is no fault of the archive. */
const isOver = (error: unknown): boolean =>
  readObjectChange(error) === 'upload' ||
  (error instanceof Problem && ['NoSuchUpload', 'upload_expired'].includes(error.code))

/** True if the object is there. Then attempts that went on beside the one that has stored it have no use for what they began. */
async function isStored(service: WorkspaceScope, key: string): Promise<boolean> {
  const stored = sql`select from objects where key = ${key}`
  const [rows = []] = await service.batch(stored, endOfOthers(key, sql`exists (${stored})`))
  return rows.length > 0
}

/** Ends the uploads that attempts of imports have begun for an object, so that the sweeper removes them. Uploads that users resume stay. */
const endOfOthers = (key: string, isStored = sql`true`): Sql => sql`
  update object_uploads u set expires_at = now() where key = ${key} and is_internal and expires_at > now() and ${isStored}
    and not exists (select from resumable_uploads r where r.parts_upload = u.id)`

async function restoreAtOnce(service: WorkspaceScope, object: Restored): Promise<void> {
  const { line, source } = object
  const upload = new Upload(service, source)
  await upload.begin()
  try {
    const blobs = new Blobs(service)
    const stored = await upload.send((body, signal) =>
      blobs.write(upload.id, { body, length: line.size, signal }),
    )
    requireTag(line, stored)
    await service.batch(...insertionOf(upload.id, object))
  } catch (error) {
    await upload.abandon().catch(() => {})
    throw error
  }
}

/** The object is described when it is there. */
const NOT_DESCRIBED = { headers: {}, metadata: {}, tags: {} }

/** Stores an object in parts. Each attempt sends the same bytes in the same parts. If the last attempt fails, the purge of the import removes the parts. */
async function restoreInParts(service: WorkspaceScope, object: Restored): Promise<void> {
  const { line } = object
  const uploads = new MultipartUploads(service, objectsOf(service), true)
  const bucket = await new Blobs(service).bucket()
  const name = { bucket, key: line.key }
  const upload = (await uploads.resume(line.key)) ?? (await uploads.begin(name, NOT_DESCRIBED))
  try {
    await sendParts(uploads, { ...name, upload }, object)
  } catch (error) {
    if (!isLost(error)) throw error
    if (!(await isAssembled(uploads, { ...name, upload }, line.size)))
      await service.batch(sql`update object_uploads set expires_at = now() where id = ${upload}`)
    throw new Problem('NoSuchUpload', { cause: error })
  }
  await service.batch(...insertionOf(upload, object), endOfOthers(line.key))
}

/** Makes the blob of the parts that are there, and of those that are missing. */
async function sendParts(
  uploads: MultipartUploads,
  name: UploadName,
  { line, source, requireBeingMade }: Restored,
): Promise<void> {
  const md5 = createHash('md5')
  const pieces = new BodyPieces({ ...source, chunks: digested(source.chunks, md5) })
  const partBytes = Math.max(restoredPartBytes, Math.ceil(line.size / partsMax))
  for (let number = 1, left = line.size; left > 0; number += 1, left -= partBytes) {
    const length = Math.min(partBytes, left)
    const chunks = pieces.take(length)
    // Asked before each one, since an attempt that was given up may go on with the same upload.
    await requireBeingMade()
    const stored = await uploads.sizeOfPart(name, number)
    if (stored !== length) await uploads.putPart(name, number, { chunks, length })
    else for await (const _ of chunks);
  }
  requireTag(line, md5.digest('hex'))
  await uploads.assemble(name, line.size)
}

/**
 * True if the store refuses the upload, or its parts make no such object. Another attempt may have made the blob of it, whose object is not
 * there yet; or the store has dropped what was sent, as it does with incomplete uploads after some time if it is told so.
 */
const isLost = (error: unknown): boolean =>
  error instanceof Problem &&
  ['NoSuchKey', 'InvalidRequest', 'InvalidPart', 'EntityTooSmall'].includes(error.code)

/** True if the blob of an upload is there. Then its parts are all known, and the next attempt goes on behind them. */
const isAssembled = (uploads: MultipartUploads, name: UploadName, bytes: number): Promise<boolean> =>
  uploads.assemble(name, bytes).then(
    () => true,
    (error: unknown) => {
      if (isLost(error) || isOver(error)) return false
      throw error
    },
  )

/** The statements that make a blob an object, and end its upload. They belong into one batch. */
function insertionOf(blob: string, { line, owner }: Restored): readonly Sql[] {
  const { key, size, etag, headers, metadata, tags, created_at, modified_at } = line
  return [
    endOfUpload(blob),
    sql`insert into objects (key, version, blob, size, etag, headers, metadata, tags, owner, created_at, modified_at)
      values (${key}, ${randomIds.uuid()}, ${blob}, ${size}, ${etag}, ${headers}, ${metadata}, ${tags},
        ${owner}, ${created_at}, ${modified_at})`,
  ]
}

/**
 * An object that was sent in parts keeps its tag, which no other way of sending gives; that of the others is their MD5.
 * @throws Problem `digest_mismatch`
 */
function requireTag({ etag, key }: ObjectLine, md5: string): void {
  if (etag.includes('-') || etag === md5) return
  throw new Problem('digest_mismatch', {
    detail: `The bytes of ${key.slice(0, 200)} do not have its entity tag.`,
  })
}
