/** Checksums that S3 clients send for the bytes of an upload, in a header or in the trailer of an aws-chunked body. */

import { createHash } from 'node:crypto'
import { crc32 } from 'node:zlib'
import { Crc32c, Crc64Nvme } from '@aws-sdk/checksums/crc'
import { Problem } from '../../core/problem.ts'
import { readDigest, type Verification } from '../../features/objects/digests.ts'

/** Computes a checksum. */
type Summer = Verification['sum']

function crc32Summer(): Summer {
  let sum = 0
  return {
    update: (chunk) => {
      sum = crc32(chunk, sum)
    },
    digest: () => {
      const bytes = Buffer.alloc(4)
      bytes.writeUInt32BE(sum)
      return bytes
    },
  }
}

const ALGORITHMS: Readonly<Record<string, { readonly bytes: number; readonly open: () => Summer }>> = {
  crc32: { bytes: 4, open: crc32Summer },
  crc32c: { bytes: 4, open: () => new Crc32c() },
  crc64nvme: { bytes: 8, open: () => new Crc64Nvme() },
  sha1: { bytes: 20, open: () => createHash('sha1') },
  sha256: { bytes: 32, open: () => createHash('sha256') },
}

const PREFIX = 'x-amz-checksum-'

/** The names of checksum headers. */
export const CHECKSUM_HEADERS: readonly string[] = Object.keys(ALGORITHMS).map((name) => `${PREFIX}${name}`)

/** Headers that describe checksums, and are none. */
const ABOUT = new Set([`${PREFIX}algorithm`, `${PREFIX}mode`, `${PREFIX}type`])

/**
 * The checksums that a request announces.
 * @param headers names and values; a name without a value has it in the trailer
 * @param trailer gets its values before the end of the bytes
 * @throws Problem `InvalidArgument` for an unknown algorithm, or a value that is no checksum of its algorithm
 */
export function checksumsOf(
  headers: readonly (readonly [name: string, value: string | undefined])[],
  trailer: ReadonlyMap<string, string>,
): Verification[] {
  return headers
    .filter(([name]) => name.startsWith(PREFIX) && !ABOUT.has(name))
    .map(([header, value]) => {
      const algorithm = ALGORITHMS[header.slice(PREFIX.length)]
      if (algorithm === undefined)
        throw new Problem('InvalidArgument', {
          detail: `${header} is not supported. Use one of ${CHECKSUM_HEADERS.join(', ')}.`,
        })
      const read = (text: string) => readChecksum(header, text, algorithm.bytes)
      const early = value === undefined ? undefined : read(value)
      return { header, sum: algorithm.open(), expected: () => early ?? read(trailer.get(header) ?? '') }
    })
}

function readChecksum(header: string, base64: string, bytes: number): Buffer {
  const sum = readDigest(base64, bytes)
  if (sum !== undefined) return sum
  throw new Problem('InvalidArgument', { detail: `${header} is not a checksum of ${bytes} bytes in base64.` })
}

/** The digest of `x-amz-content-sha256`, which the signature covers. @param hex 64 digits */
export const signedDigest = (hex: string): Verification => ({
  header: 'x-amz-content-sha256',
  sum: createHash('sha256'),
  expected: () => Buffer.from(hex, 'hex'),
  problem: 'XAmzContentSHA256Mismatch',
})
