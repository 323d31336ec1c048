/** Reads and writes the objects of a workspace: entries of its catalogue, whose bytes are blobs in its bucket. */

import { effectOnce } from '../../access/effect-once.ts'
import type { WorkspaceScope } from '../../access/scope.ts'
import { type ByteReply, type ByteSource, NO_BYTES, tooLarge } from '../../core/bytes.ts'
import { checkKey } from '../../core/object-key.ts'
import { Problem } from '../../core/problem.ts'
import { readObjectChange, refusal } from '../../infra/postgres/errors.ts'
import { type Sql, sql, textArray } from '../../infra/postgres/sql.ts'
import { retryContended } from '../../infra/retry.ts'
import { Blobs } from './blobs.ts'
import {
  type CatalogueEntry,
  type CommonPrefix,
  changeObject,
  entryOf,
  findEntry,
  type KeptHeaders,
  type ListedEntry,
  type ListRequest,
  listEntries,
  type ObjectContent,
  redescription,
  removal,
  removalOf,
  renaming,
  replacement,
} from './catalogue.ts'
import {
  type Conditions,
  isToBeSent,
  rangeOf,
  requireChangeable,
  requireVersion,
  tagOf,
} from './conditions.ts'
import { type AnnouncedDigests, expectedDigests, verified } from './digests.ts'
import { OBJECT_LIMITS } from './limits.ts'
import { requireObjectRule } from './object-rules.ts'
import { type Removal, removeBelow } from './removals.ts'
import { Upload, uploadOver } from './uploads.ts'

/** The name of an object. */
export interface ObjectName {
  readonly bucket: string
  readonly key: string
}

/** Headers, metadata and tags of an object. */
export interface Description {
  readonly headers: KeptHeaders
  readonly metadata: Readonly<Record<string, string>>
  readonly tags: Readonly<Record<string, string>>
}

export interface StoredObject {
  readonly etag: string
  /** In bytes. */
  readonly size: number
  /** True if there was no such object before. */
  readonly created: boolean
}

/** How a blob becomes the content of an object. */
interface Replacing {
  readonly conditions: Conditions
  readonly read: { readonly entry: CatalogueEntry | undefined }
  readonly also?: readonly Sql[]
}

export class WorkspaceObjects {
  readonly #scope: WorkspaceScope
  readonly #blobs: Blobs

  constructor(scope: WorkspaceScope) {
    this.#scope = scope
    this.#blobs = new Blobs(scope)
  }

  /**
   * Stores the stream as it comes; stores nothing if it ends early.
   * @throws Problem `quota_exceeded`, `EntityTooLarge`, `body_incomplete`, `digest_mismatch`, `PreconditionFailed`, `upload_expired`, …
   */
  async put(
    { bucket, key }: ObjectName,
    source: ByteSource,
    {
      conditions = {},
      digests = {},
      ...description
    }: Description & { conditions?: Conditions; digests?: AnnouncedDigests },
  ): Promise<StoredObject> {
    const max = OBJECT_LIMITS.requestBytesMax
    if ((source.length ?? 0) > max) throw tooLarge(max)
    const chunks = verified(source.chunks, expectedDigests(digests))
    await this.requireName({ bucket, key })
    const upload = new Upload(this.#scope, { ...source, chunks })
    return this.#fill(upload, { bucket, key }, conditions, async () => {
      const etag = await upload.send((body, signal) =>
        this.#blobs.write(upload.id, { body, length: upload.length, signal }),
      )
      return { size: upload.bytes, etag, ...description }
    })
  }

  /**
   * Makes the blob of an upload the content of an object, and gives the upload up if that fails.
   * @param write writes the blob, once the conditions are met @throws Problem `upload_expired`, `PreconditionFailed`, and what `write` throws
   */
  async #fill(
    upload: Upload,
    { bucket, key }: ObjectName,
    conditions: Conditions,
    write: () => Promise<Omit<ObjectContent, 'blob'>>,
  ): Promise<StoredObject> {
    const [found] = await upload.begin(entryOf(key))
    const entry = found as CatalogueEntry | undefined
    try {
      requireChangeable(conditions, entry)
      const content = { blob: upload.id, ...(await write()) }
      return await this.replace({ bucket, key }, content, { conditions, read: { entry } })
    } catch (error) {
      // If the database is away, its lease ends it.
      await upload.abandon().catch(() => {})
      throw readObjectChange(error) === 'upload' ? uploadOver() : error
    }
  }

  /** Checks a condition before the work that it decides about. @returns the entry, for {@link replace} @throws Problem `PreconditionFailed` */
  async requireChangeable(
    { key }: ObjectName,
    conditions: Conditions,
  ): Promise<{ readonly entry: CatalogueEntry | undefined }> {
    const entry = await findEntry(this.#scope, key)
    requireChangeable(conditions, entry)
    return { entry }
  }

  /**
   * Makes a blob, which an upload has written, the content of an object. The right to write it may have ended while the bytes came.
   * @param options `read` the entry as it was read before; `also` earlier statements of the same transaction
   * @throws Problem `forbidden`, `PreconditionFailed`; an error for which `readObjectChange` is `upload` if the upload is over
   */
  async replace(
    { bucket, key }: ObjectName,
    content: ObjectContent,
    { conditions, read, also = [] }: Replacing,
  ): Promise<StoredObject> {
    await requireObjectRule(this.#scope, 'write', key)
    return changeObject(
      this.#scope,
      key,
      (known) => {
        requireChangeable(conditions, known)
        const stored = { etag: tagOf(content), size: content.size, created: known === undefined }
        return effectOnce(this.#scope, async (inside) => {
          await inside.batch(...also, ...replacement({ bucket, key, known }, content))
          return { bucket, key, ...stored }
        })
      },
      read,
    )
  }

  /** @returns the object, a range of it, or 304 @throws Problem `NoSuchKey`, `PreconditionFailed`, `InvalidRange` */
  async get(
    { bucket, key }: ObjectName,
    conditions: Conditions,
    { caching = 'private', represent = asItIs }: Reading = {},
  ): Promise<ByteReply> {
    const entry = await represent(await this.describe({ bucket, key }))
    if (!isToBeSent(conditions, entry)) return unchanged(entry, caching)
    const range = rangeOf(conditions, entry)
    const headers = headersOf(entry, caching)
    if (entry.size === 0) return { status: 200, headers, chunks: NO_BYTES }
    const body = await this.#blobs.read(entry.blob, range)
    const reply = { chunks: body, discard: () => body.destroy() }
    if (range === undefined) return { status: 200, headers, ...reply }
    const { first, last } = range
    return {
      status: 206,
      headers: {
        ...headers,
        'content-length': String(last - first + 1),
        'content-range': `bytes ${first}-${last}/${entry.size}`,
      },
      ...reply,
    }
  }

  /** As `get`, without the body and without ranges. */
  async head(
    { bucket, key }: ObjectName,
    conditions: Conditions,
    { caching = 'private', represent = asItIs }: Reading = {},
  ): Promise<ByteReply> {
    const entry = await represent(await this.describe({ bucket, key }))
    if (!isToBeSent(conditions, entry)) return unchanged(entry, caching)
    return { status: 200, headers: headersOf(entry, caching) }
  }

  /** Checks a name before there is an object of it. @throws Problem `InvalidKey`, `KeyTooLongError`, `AccessDenied`, `NoSuchBucket` */
  async requireName({ bucket, key }: ObjectName): Promise<void> {
    checkKey(key)
    await this.#blobs.requireOwn(bucket)
  }

  /** The catalogue's entry of an object. @throws Problem `NoSuchKey`, and as {@link requireName} */
  async describe({ bucket, key }: ObjectName): Promise<CatalogueEntry> {
    await this.requireName({ bucket, key })
    const entry = await findEntry(this.#scope, key)
    if (entry === undefined) throw new Problem('NoSuchKey')
    return entry
  }

  /** @throws Problem `NoSuchKey`, which S3 itself does not report; `PreconditionFailed` */
  async delete({ bucket, key }: ObjectName, conditions: Conditions): Promise<void> {
    await this.requireName({ bucket, key })
    await changeObject(this.#scope, key, (known) => {
      if (known === undefined) throw new Problem('NoSuchKey')
      requireChangeable(conditions, known)
      return effectOnce(this.#scope, async (inside) => {
        await inside.batch(removal({ bucket, key, known }))
        return { bucket, key, deleted: true as const }
      })
    })
  }

  /** @throws Problem as of {@link Blobs.requireOwn} */
  requireOwn(bucket: string): Promise<void> {
    return this.#blobs.requireOwn(bucket)
  }

  /**
   * Changes what is kept with the bytes.
   * @param of `ifMatch` the version that it must have; `outputOf` the output of the operation, of the changed entry
   * @throws Problem `NoSuchKey`, `PreconditionFailed`
   */
  async update<T>(
    { bucket, key }: ObjectName,
    {
      ifMatch,
      change,
      outputOf,
    }: {
      ifMatch?: string | undefined
      change: (kept: Description) => Description
      outputOf: (entry: CatalogueEntry) => T
    },
  ): Promise<T> {
    await this.requireName({ bucket, key })
    return changeObject(this.#scope, key, (known) => {
      if (known === undefined) throw new Problem('NoSuchKey')
      requireVersion(ifMatch, known)
      const { headers, metadata, tags } = change(known)
      return effectOnce(this.#scope, async (inside) => {
        const changed = redescription({ bucket, key, known }, { headers, metadata, tags })
        const [, [entry] = []] = await inside.batch(changed, entryOf(key))
        return outputOf(entry as unknown as CatalogueEntry)
      })
    })
  }

  /**
   * Copies an object within the bucket. The store copies the bytes.
   * @param description of the copy, made of that of the source; absent: the same
   * @param conditions of the copy; `source` those of what is copied
   * @throws Problem `NoSuchKey`, `PreconditionFailed`, `EntityTooLarge`, `quota_exceeded`
   */
  async copy(
    { bucket, key }: ObjectName,
    from: string,
    options: {
      description?: (source: Description) => Description
      conditions?: Conditions
      source?: Conditions
    } = {},
  ): Promise<StoredObject & { readonly modifiedMs: number }> {
    checkKey(key)
    const source = await this.describe({ bucket, key: from })
    requireChangeable(options.source ?? {}, source)
    if (source.size > OBJECT_LIMITS.requestBytesMax) throw tooLarge(OBJECT_LIMITS.requestBytesMax)
    const { headers, metadata, tags } = options.description?.(source) ?? source
    const upload = new Upload(this.#scope, { chunks: NO_BYTES, length: source.size })
    const stored = await this.#fill(upload, { bucket, key }, options.conditions ?? {}, async () => {
      const etag = source.size === 0 ? source.etag : await this.#blobs.copy(source.blob, upload.id)
      return { size: source.size, etag, headers, metadata, tags }
    })
    return { ...stored, modifiedMs: Date.now() }
  }

  /**
   * Gives an object another key, in one step and without touching its bytes.
   * @param conditions of an object that has that key
   * @throws Problem `NoSuchKey`, `PreconditionFailed`; `conflict` if both keys are the same
   */
  async move({ bucket, key }: ObjectName, to: string, conditions: Conditions): Promise<StoredObject> {
    checkKey(to)
    if (key === to) throw new Problem('conflict', { detail: 'The object has this key already.' })
    await this.requireName({ bucket, key })
    return changeObject(this.#scope, key, async (known) => {
      if (known === undefined) throw new Problem('NoSuchKey')
      const { entry } = await this.requireChangeable({ bucket, key: to }, conditions)
      return effectOnce(this.#scope, async (inside) => {
        await inside.batch(...renaming({ bucket, key, known }, { key: to, known: entry }))
        return { bucket, key: to, etag: tagOf(known), size: known.size, created: entry === undefined }
      })
    })
  }

  /**
   * Removes objects by their keys, at most `OBJECT_LIMITS.objectsRemovedMax`; or all below a prefix, which is a removal that goes on
   * if they are more.
   * @returns how many there were, or the removal
   */
  async removeAll(
    bucket: string,
    which: { readonly keys: readonly string[] } | { readonly prefix: string },
  ): Promise<{ removed: number } | Removal> {
    await this.#blobs.requireOwn(bucket)
    const statements =
      'keys' in which
        ? [sql`select where false`, removalOf(bucket, sql`key = any(${textArray(which.keys)}::text[])`)]
        : removeBelow(this.#scope, bucket, which.prefix)
    const remove = () =>
      effectOnce(this.#scope, async (inside) => {
        const [[removal] = [], [row] = []] = await inside.batch(...statements)
        return (removal as Removal | undefined) ?? { removed: Number(row?.['removed'] ?? 0) }
      })
    return retryContended('Others change these objects all the time.', () =>
      remove().catch((error: unknown) => {
        if (refusal(error) !== 'deadlock') throw error
        return undefined
      }),
    )
  }

  /**
   * At most `size` objects and common prefixes, in the byte order of keys.
   * @returns `next` the `after` of the next page; undefined if there is none
   */
  async list(
    bucket: string,
    request: ListRequest,
  ): Promise<{ items: readonly (ListedEntry | CommonPrefix)[]; next: string | undefined }> {
    await this.#blobs.requireOwn(bucket)
    const found = await listEntries(this.#scope, { ...request, size: request.size + 1 })
    const items = found.slice(0, request.size)
    const last = found.length > items.length ? items.at(-1) : undefined
    return { items, next: last && ('key' in last ? last.key : last.prefix) }
  }
}

/** Which caches may keep a reply: that of the reader alone, or any. */
type Caching = 'private' | 'public'

export interface Reading {
  /** Default: `private`. */
  readonly caching?: Caching
  /** Puts something in the place of the object, such as a smaller image. Conditions and ranges are about that. Default: nothing. */
  readonly represent?: ((entry: CatalogueEntry) => Promise<CatalogueEntry>) | undefined
}

const asItIs = async (entry: CatalogueEntry): Promise<CatalogueEntry> => entry

function headersOf(entry: CatalogueEntry, caching: Caching): Record<string, string> {
  const { headers, metadata, size, modifiedMs } = entry
  const { 'cache-control': kept, ...others } = headers
  const cacheControl = caching === 'public' ? publicly(kept) : kept && privately(kept)
  return {
    'content-type': 'application/octet-stream',
    ...others,
    ...(cacheControl !== undefined && { 'cache-control': cacheControl }),
    ...Object.fromEntries(Object.entries(metadata).map(([name, value]) => [`x-meta-${name}`, value])),
    'accept-ranges': 'bytes',
    'content-length': String(size),
    etag: tagOf(entry),
    'last-modified': new Date(modifiedMs).toUTCString(),
  }
}

/** Directives for the reader alone: a shared cache would serve the object to requests without its right. */
export function privately(directives: string): string {
  const kept = directives
    .split(',')
    .filter((one) => !/^\s*(public|private|s-maxage|proxy-revalidate)\b/i.test(one))
  return ['private', ...kept.map((one) => one.trim()).filter((one) => one !== '')].join(', ')
}

/** Directives for all caches; without any, each use of a copy asks again whether it is current. */
function publicly(directives = 'max-age=0, must-revalidate'): string {
  return /\b(public|private|no-store)\b/i.test(directives) ? directives : `public, ${directives}`
}

/** The reply of 304 (RFC 9110 §15.4.5). */
function unchanged(entry: CatalogueEntry, caching: Caching): ByteReply {
  const { etag = '', 'last-modified': date = '', ...others } = headersOf(entry, caching)
  const kept = Object.entries(others).filter(([name]) => name === 'cache-control' || name === 'vary')
  return { status: 304, headers: { etag, 'last-modified': date, ...Object.fromEntries(kept) } }
}

/** The workspace's objects, under a session of its own at the store. */
export const objectsOf = (scope: WorkspaceScope): WorkspaceObjects => new WorkspaceObjects(scope)
