/** Copies one small file out of a tar archive that streams by (POSIX.1-1988 ustar, as pg_basebackup writes it). */

import type { Chunks } from '../repository/sealed-stream.ts'

const BLOCK = 512
const NAME_BYTES = 100
/** Octal digits at 124. */
const SIZE = { at: 124, end: 135 }
/** A number that octal digits cannot express is binary, marked by this bit (GNU). */
const BINARY = 0x80

/** @param onMember gets the file, once; never, if the archive has none of that name @returns the archive, unchanged */
export async function* watchTar(archive: Chunks, wanted: string, onMember: (bytes: Buffer) => void): Chunks {
  let header = Buffer.alloc(0)
  let found: Buffer[] | undefined
  // Bytes of the current file, and of its padding, that are still to come.
  let [left, padding] = [0, 0]
  for await (const chunk of archive) {
    for (let at = 0; at < chunk.length; ) {
      if (left > 0) {
        const piece = chunk.subarray(at, at + left)
        found?.push(piece)
        left -= piece.length
        at += piece.length
        if (left === 0 && found !== undefined) onMember(Buffer.concat(found))
      } else if (padding > 0) {
        const skipped = Math.min(padding, chunk.length - at)
        padding -= skipped
        at += skipped
      } else {
        const piece = chunk.subarray(at, at + BLOCK - header.length)
        header = Buffer.concat([header, piece])
        at += piece.length
        if (header.length < BLOCK) continue
        left = sizeOf(header)
        padding = (BLOCK - (left % BLOCK)) % BLOCK
        found = nameOf(header) === wanted ? [] : undefined
        header = Buffer.alloc(0)
      }
    }
    yield chunk
  }
}

const nameOf = (header: Buffer): string => header.toString('latin1', 0, NAME_BYTES).replace(/\0.*$/s, '')

function sizeOf(header: Buffer): number {
  if (((header[SIZE.at] ?? 0) & BINARY) === 0)
    return Number.parseInt(header.toString('latin1', SIZE.at, SIZE.end), 8) || 0
  return header.readUIntBE(SIZE.end - 5, 6)
}
