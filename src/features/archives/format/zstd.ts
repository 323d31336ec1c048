/** Packs and unpacks archives with zstd (RFC 8878), as streams of bounded memory. */

import { pipeline, Readable } from 'node:stream'
import { constants, createZstdCompress, createZstdDecompress } from 'node:zlib'
import { Problem } from '../../../core/problem.ts'
import { ARCHIVE_LIMITS } from '../limits.ts'

const { expansionFactor, expandedFreeBytes } = ARCHIVE_LIMITS
/** That of the tool `zstd`. */
const COMPRESSION_LEVEL = 3
/** Unpacking keeps at most 2^23 bytes in memory; an archive that needs more is refused. */
const WINDOW_LOG_MAX = 23

/** @throws the error of the source */
export async function* packed(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  const params = {
    [constants.ZSTD_c_compressionLevel]: COMPRESSION_LEVEL,
    [constants.ZSTD_c_checksumFlag]: 1,
  }
  yield* through(chunks, createZstdCompress({ params }))
}

/**
 * @throws Problem `archive_invalid` if the bytes are not those of zstd, end early, or become more than an archive of their size may;
 *   and the error of the source
 */
export async function* unpacked(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let packedBytes = 0
  let bytes = 0
  const counted = async function* () {
    for await (const chunk of chunks) {
      packedBytes += chunk.byteLength
      yield chunk
    }
  }
  const params = { [constants.ZSTD_d_windowLogMax]: WINDOW_LOG_MAX }
  try {
    for await (const chunk of through(counted(), createZstdDecompress({ params }))) {
      bytes += chunk.byteLength
      if (bytes > Math.max(expandedFreeBytes, packedBytes * expansionFactor)) throw bomb()
      yield chunk
    }
  } catch (error) {
    throw isOfZstd(error) ? notZstd(error) : error
  }
}

const bomb = () =>
  new Problem('archive_invalid', {
    detail: `The archive unpacks to more than ${expansionFactor} times its own size.`,
  })

const notZstd = (cause: unknown) =>
  new Problem('archive_invalid', {
    detail: 'The archive is not compressed with zstd, is damaged, or is cut off.',
    cause,
  })

/** Codes of zlib's own errors; others are those of the source. */
const isOfZstd = (error: unknown): boolean => /^(ZSTD_|Z_)/.test(String(Object(error).code))

async function* through(
  chunks: AsyncIterable<Uint8Array>,
  transform: ReturnType<typeof createZstdCompress> | ReturnType<typeof createZstdDecompress>,
): AsyncGenerator<Uint8Array> {
  // The error of either end destroys the other; the loop throws it.
  pipeline(Readable.from(chunks, { objectMode: false }), transform, () => {})
  yield* transform as AsyncIterable<Uint8Array>
}
