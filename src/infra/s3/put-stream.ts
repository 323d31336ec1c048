/** Writes a stream as one object: in one request, or in parts of bounded memory. There is all of it, or nothing. */

import {
  AbortMultipartUploadCommand,
  type CompletedPart,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  PutObjectCommand,
  type S3Client,
  UploadPartCommand,
} from '@aws-sdk/client-s3'

/** Bytes of a part, which is in memory. Of the 10,000 parts that S3 allows, an object may have 312 GiB. */
const PART_BYTES = 33_554_432

interface Target {
  readonly Bucket: string
  readonly Key: string
}

/** @throws the error of the source, or of the store */
export async function putStream(store: S3Client, to: Target, source: AsyncIterable<Buffer>): Promise<void> {
  const parts = inParts(source)
  const first = (await parts.next()).value ?? Buffer.alloc(0)
  const second = await parts.next()
  if (second.done) {
    await store.send(new PutObjectCommand({ ...to, Body: first }))
    return
  }
  const { UploadId } = await store.send(new CreateMultipartUploadCommand(to))
  const upload = { ...to, UploadId }
  try {
    const Parts: CompletedPart[] = []
    const send = async (Body: Buffer) => {
      const PartNumber = Parts.length + 1
      const { ETag } = await store.send(new UploadPartCommand({ ...upload, PartNumber, Body }))
      Parts.push({ PartNumber, ETag })
    }
    await send(first)
    await send(second.value)
    for await (const part of parts) await send(part)
    await store.send(new CompleteMultipartUploadCommand({ ...upload, MultipartUpload: { Parts } }))
  } catch (error) {
    await store.send(new AbortMultipartUploadCommand(upload)).catch(() => {})
    throw error
  }
}

/** Pieces of one size; the last one may be shorter. */
async function* inParts(source: AsyncIterable<Buffer>): AsyncGenerator<Buffer, undefined> {
  let waiting: Buffer[] = []
  let length = 0
  for await (const chunk of source) {
    waiting.push(chunk)
    length += chunk.length
    if (length < PART_BYTES) continue
    yield Buffer.concat(waiting, length)
    ;[waiting, length] = [[], 0]
  }
  if (length > 0) yield Buffer.concat(waiting, length)
}
