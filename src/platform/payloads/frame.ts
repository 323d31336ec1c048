/** A payload as bytes, and back: whether it is compressed, its metadata, its data. */

import { promisify } from 'node:util'
import { constants, deflateRaw, deflateRawSync, inflateRaw, inflateRawSync } from 'node:zlib'
import type { Payload } from '@temporalio/common'
import { LIMITS } from '../../core/limits.ts'

const deflate = promisify(deflateRaw)
const inflate = promisify(inflateRaw)

/** So little is done at once: the way to another thread and back costs more. */
const AT_ONCE_BYTES = 16_384
/** Beyond the fastest level each step costs more time than it saves bytes of JSON. */
const LEVEL = constants.Z_BEST_SPEED
const PLAIN = Buffer.from([0])
const COMPRESSED = Buffer.from([1])

/** Metadata as JSON of base64, with its length before it; then the data. */
export function toBytes({ metadata, data }: Payload): Buffer {
  const texts = Object.entries(metadata ?? {}).map(([name, value]) => [
    name,
    Buffer.from(value).toString('base64'),
  ])
  const head = Buffer.from(JSON.stringify(Object.fromEntries(texts)))
  const length = Buffer.alloc(4)
  length.writeUInt32BE(head.length)
  // Where there is none, it may be an empty array.
  return Buffer.concat([length, head, Buffer.from(data ?? [])])
}

/** The inverse of {@link toBytes}. */
export function fromBytes(bytes: Buffer): Payload {
  const end = 4 + bytes.readUInt32BE(0)
  const head: Record<string, string> = JSON.parse(bytes.subarray(4, end).toString())
  const metadata = Object.entries(head).map(([name, value]) => [name, Buffer.from(value, 'base64')])
  return { metadata: Object.fromEntries(metadata), data: bytes.subarray(end) }
}

/** Compressed, where that is worth its time. */
export async function squeeze(bytes: Buffer): Promise<Buffer> {
  if (bytes.length <= LIMITS.payloads.plainBytesMax) return Buffer.concat([PLAIN, bytes])
  const options = { level: LEVEL }
  const smaller =
    bytes.length <= AT_ONCE_BYTES ? deflateRawSync(bytes, options) : await deflate(bytes, options)
  return Buffer.concat(smaller.length < bytes.length ? [COMPRESSED, smaller] : [PLAIN, bytes])
}

/** The inverse of {@link squeeze}; bytes come from somebody who has the tenant's key. */
export async function expand(squeezed: Buffer): Promise<Buffer> {
  const bytes = squeezed.subarray(1)
  if (squeezed[0] !== COMPRESSED[0]) return bytes
  if (bytes.length > AT_ONCE_BYTES) return inflate(bytes)
  try {
    return inflateRawSync(bytes, { maxOutputLength: 4 * AT_ONCE_BYTES })
  } catch {
    // It holds much more than it seems.
    return inflate(bytes)
  }
}
