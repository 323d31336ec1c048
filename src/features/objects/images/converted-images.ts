/**
 * Converted images, each kept as a blob of the workspace beside that of its source, by which it is found: whoever may read the object
 * may read it, and it is gone with the bytes of the object. A blob that no row names is removed by the sweeper.
 */

import { Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { LRUCache } from 'lru-cache'
import { privilege } from '../../../access/privileges.ts'
import type { WorkspaceScope } from '../../../access/scope.ts'
import { NO_BYTES } from '../../../core/bytes.ts'
import { Problem } from '../../../core/problem.ts'
import { type Conversion, ImageConverter } from '../../../infra/image-converter.ts'
import { INFRA_LIMITS } from '../../../infra/limits.ts'
import { type Sql, sql } from '../../../infra/postgres/sql.ts'
import { Blobs } from '../blobs.ts'
import type { CatalogueEntry } from '../catalogue.ts'
import { OBJECT_LIMITS } from '../limits.ts'
import { Upload } from '../uploads.ts'

declare module '../../../access/internals.ts' {
  interface PlatformServices {
    readonly convertedImages: ConvertedImages
  }
}

const imagesOf = privilege('objects.images')
export const convertedImagesOf = (scope: WorkspaceScope): ConvertedImages => imagesOf(scope)

const asService = privilege('objects.kept_images')

const { sourceBytesMax } = INFRA_LIMITS.images
const { imagesKeptBytesMax, imagesKeptMax, imageReadNotedMs, imageOutcomesMax, imageOutcomeMs } =
  OBJECT_LIMITS

/** What became of an image. */
export interface ConvertedImage {
  readonly blob: string
  /** In bytes. */
  readonly size: number
  /** Without quotes. */
  readonly etag: string
  readonly contentType: string
}

export class ConvertedImages {
  readonly #converter = new ImageConverter()
  /**
   * By workspace, blob and conversion: what is under way, so that requests at the same moment share it, and what came of it, so that an
   * image that cannot be converted is not tried again by each reader.
   */
  readonly #outcomes = new LRUCache<string, Promise<ConvertedImage>>({
    max: imageOutcomesMax,
    ttl: imageOutcomeMs,
  })

  /** Conversions that run and that wait. */
  get use(): { readonly running: number; readonly waiting: number } {
    return this.#converter.use
  }

  /** @param scope of a caller that may read the entry @throws Problem as {@link ImageConverter.convert} */
  find(scope: WorkspaceScope, entry: CatalogueEntry, conversion: Conversion): Promise<ConvertedImage> {
    const name = nameOf(conversion)
    const key = [scope.ref.tenantId, scope.ref.workspaceId, entry.blob, name].join(':')
    const known = this.#outcomes.get(key)
    if (known !== undefined) return known
    const outcome = this.#findOrConvert(asService(scope), entry, { ...conversion, name })
    this.#outcomes.set(key, outcome)
    outcome.catch((error: unknown) => {
      if (isOfMoment(error) && this.#outcomes.peek(key) === outcome) this.#outcomes.delete(key)
    })
    return outcome
  }

  async #findOrConvert(
    scope: WorkspaceScope,
    entry: CatalogueEntry,
    conversion: Conversion & { readonly name: string },
  ): Promise<ConvertedImage> {
    const { name } = conversion
    const known = await scope.row<ConvertedImage>(findKept(entry.blob, name))
    if (known !== undefined) return known
    const { bytes, format } = await this.#converter.convert(
      scope.ref.tenantId,
      () => readSource(scope, entry),
      conversion,
    )
    const image = await write(scope, bytes, `image/${format}`)
    // Without a row it is converted anew, and the sweeper removes this one.
    await scope
      .batch(keep(entry, name, image), MAKE_ROOM)
      .catch((error: unknown) => scope.logError(error, 'converted image not kept'))
    return image
  }
}

/** True for an error that says nothing about the image. */
const isOfMoment = (error: unknown): boolean =>
  !(error instanceof Problem && (error.code === 'image_unreadable' || error.code === 'image_too_large'))

const nameOf = ({ width, height, fit, formats }: Conversion): string =>
  `${width ?? ''}x${height ?? ''} ${fit} ${formats.join()}`

async function readSource(scope: WorkspaceScope, { blob, size }: CatalogueEntry): Promise<Uint8Array> {
  if (size > sourceBytesMax)
    throw new Problem('image_too_large', {
      detail: `The object has ${size} bytes; an image that is converted has at most ${sourceBytesMax}.`,
      members: { limit_bytes: sourceBytesMax },
    })
  // An object without bytes has no blob.
  if (size === 0) throw new Problem('image_unreadable')
  return buffer(await new Blobs(scope).read(blob))
}

/** Stores a converted image under a name of its own, which an upload of no bytes holds until a row has it: the quota does not count it. */
async function write(scope: WorkspaceScope, bytes: Uint8Array, contentType: string): Promise<ConvertedImage> {
  const upload = new Upload(scope, { chunks: NO_BYTES, length: 0 })
  await upload.begin()
  try {
    const body = Readable.from([bytes], { objectMode: false })
    const { signal } = new AbortController()
    const etag = await new Blobs(scope).write(upload.id, { body, length: bytes.byteLength, signal })
    return { blob: upload.id, size: bytes.byteLength, etag, contentType }
  } catch (error) {
    await upload.abandon().catch(() => {})
    throw error
  }
}

const interval = (ms: number): Sql => sql`${`${ms} milliseconds`}::interval`

/** Finds the image, and notes now and then that it was read. */
const findKept = (source: string, name: string): Sql => sql`
  with noted as (
    update object_images set read_at = now()
    where source = ${source} and conversion = ${name} and read_at < now() - ${interval(imageReadNotedMs)}
  )
  select blob, size, etag, content_type as "contentType" from object_images where source = ${source} and conversion = ${name}`

/**
 * Gives a written image its row, if its source still is that of the object: the lock lets a change of the object wait, so that the sweeper
 * finds the row by the unused source. Otherwise, and if another process was faster, the image is unused at once.
 */
const keep = (
  { key, blob: source }: CatalogueEntry,
  name: string,
  { blob, size, etag, contentType }: ConvertedImage,
): Sql => sql`
  with written as (delete from object_uploads where id = ${blob} returning id),
    current as (select from objects where key = ${key} and blob = ${source} for share),
    kept as (
      insert into object_images (source, conversion, blob, size, etag, content_type)
      select ${source}, ${name}, id, ${size}, ${etag}, ${contentType} from written where exists (select from current)
      on conflict do nothing returning blob
    )
  insert into unused_blobs (blob) select id from written where id not in (select blob from kept)`

/** Removes what was not read for longest, beyond what a workspace may keep. */
const MAKE_ROOM = sql`
  with ranked as (
    select source, conversion, row_number() over latest as place, sum(size) over latest as bytes
    from object_images window latest as (order by read_at desc, source, conversion)
  ), removed as (
    delete from object_images i using ranked r
    where i.source = r.source and i.conversion = r.conversion and (r.place > ${imagesKeptMax} or r.bytes > ${imagesKeptBytesMax})
    returning i.blob
  )
  insert into unused_blobs (blob) select blob from removed`
