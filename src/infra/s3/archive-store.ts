/** Archives of workspaces in the platform's own bucket: streams that are written in parts, and read in ranges, of bounded memory. */

import {
  AbortMultipartUploadCommand,
  type CompletedPart,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  ListMultipartUploadsCommand,
  S3Client,
  UploadPartCommand,
} from '@aws-sdk/client-s3'
import { PAYLOAD_BUCKET } from '../../core/object-key.ts'
import { notFound, Problem } from '../../core/problem.ts'
import type { Config } from '../config.ts'
import { INFRA_LIMITS } from '../limits.ts'
import { unavailable } from '../unavailable.ts'
import type { Buckets } from './buckets.ts'
import { statusOf } from './errors.ts'
import { rootOf, storeOf, timeoutsOf } from './options.ts'

const { partBytes, storeTimeoutMs } = INFRA_LIMITS.archives

export class ArchiveStore {
  readonly #s3: S3Client
  readonly #buckets: Buckets

  constructor(config: Config, buckets: Buckets) {
    this.#buckets = buckets
    this.#s3 = new S3Client({
      ...storeOf(config, timeoutsOf(storeTimeoutMs)),
      credentials: rootOf(config),
    })
  }

  /**
   * Writes an archive, in the place of one of the same name. If the source fails, there is none.
   * @returns its size in bytes
   * @throws the error of the source; Problem `dependency_unavailable`
   */
  async write(name: string, chunks: AsyncIterable<Uint8Array>): Promise<number> {
    await this.#buckets.make(PAYLOAD_BUCKET, 'platform')
    const target = { Bucket: PAYLOAD_BUCKET, Key: name }
    await this.#asProblem(this.#abandonUploads(name))
    const { UploadId } = await this.#asProblem(this.#s3.send(new CreateMultipartUploadCommand(target)))
    const upload = { ...target, UploadId }
    try {
      const Parts: CompletedPart[] = []
      let size = 0
      for await (const Body of inParts(chunks)) {
        const PartNumber = Parts.length + 1
        const part = new UploadPartCommand({ ...upload, PartNumber, Body })
        const { ETag } = await this.#asProblem(this.#s3.send(part))
        Parts.push({ PartNumber, ETag })
        size += Body.byteLength
      }
      const complete = new CompleteMultipartUploadCommand({ ...upload, MultipartUpload: { Parts } })
      await this.#asProblem(this.#s3.send(complete))
      return size
    } catch (error) {
      await this.#s3.send(new AbortMultipartUploadCommand(upload)).catch(() => {})
      throw error
    }
  }

  /** Removes the parts of an attempt whose process has died. */
  async #abandonUploads(Prefix: string): Promise<void> {
    const list = new ListMultipartUploadsCommand({ Bucket: PAYLOAD_BUCKET, Prefix })
    const { Uploads = [] } = await this.#s3.send(list)
    for (const { Key, UploadId } of Uploads)
      await this.#s3.send(new AbortMultipartUploadCommand({ Bucket: PAYLOAD_BUCKET, Key, UploadId }))
  }

  /**
   * Reads an archive from a byte on. No connection waits for the reader.
   * @param size of the archive in bytes
   * @throws Problem `not_found` if there is no such archive, `dependency_unavailable`
   */
  async *read(name: string, size: number, first = 0): AsyncGenerator<Uint8Array> {
    for (let at = first; at < size; at += partBytes) {
      const Range = `bytes=${at}-${Math.min(at + partBytes, size) - 1}`
      yield await this.#readRange(name, Range)
    }
  }

  async #readRange(Key: string, Range: string): Promise<Uint8Array> {
    const get = async () => {
      const { Body } = await this.#s3.send(new GetObjectCommand({ Bucket: PAYLOAD_BUCKET, Key, Range }))
      return (await Body?.transformToByteArray()) ?? new Uint8Array()
    }
    return this.#asProblem(get())
  }

  /** Removes an archive, also one that is not there, and what attempts to write it have left. @throws Problem `dependency_unavailable` */
  async remove(name: string): Promise<void> {
    await this.#asProblem(this.#abandonUploads(name))
    await this.#asProblem(this.#s3.send(new DeleteObjectCommand({ Bucket: PAYLOAD_BUCKET, Key: name })))
  }

  close(): void {
    this.#s3.destroy()
  }

  #asProblem<T>(answer: Promise<T>): Promise<T> {
    return answer.catch((error: unknown) => {
      if (error instanceof Problem) throw error
      throw statusOf(error) === 404 ? notFound('archive') : unavailable('s3', error)
    })
  }
}

/** Pieces of one size; at least one, since an upload has a part. */
async function* inParts(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
  let gathered: Uint8Array[] = []
  let bytes = 0
  let isFirst = true
  for await (const chunk of chunks) {
    gathered.push(chunk)
    bytes += chunk.byteLength
    if (bytes < partBytes) continue
    yield Buffer.concat(gathered)
    ;[gathered, bytes, isFirst] = [[], 0, false]
  }
  if (isFirst || bytes > 0) yield Buffer.concat(gathered)
}
