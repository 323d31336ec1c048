/** Encrypts streams in frames and decrypts them: one that was altered, cut, reordered or given another name is refused. */

import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto'

/** Begins each sealed file, and names the version of the format. */
const MAGIC = Buffer.from('TNB1')
const SALT_BYTES = 16
const TAG_BYTES = 16
/** Bytes of text in each frame but the last one. */
export const FRAME_BYTES = 262_144

export type Chunks = AsyncIterable<Buffer>

/** A file is not what was written under its name with this key. */
export class SealBroken extends Error {
  constructor(name: string, why: string) {
    super(`${name} cannot be decrypted: ${why}. It was altered, or belongs to another repository.`)
    this.name = 'SealBroken'
  }
}

/**
 * Encrypts with AES-256-GCM under a key of this file alone, which follows from the key of the repository, a random salt and the name.
 * The nonce of a frame is its number and whether it is the last one, so that order and end are authentic.
 */
export async function* seal(repositoryKey: Buffer, name: string, source: Chunks): Chunks {
  const salt = randomBytes(SALT_BYTES)
  const key = fileKey(repositoryKey, salt, name)
  yield Buffer.concat([MAGIC, salt])
  let number = 0
  for await (const { bytes, isLast } of inPieces(source, FRAME_BYTES)) {
    const cipher = createCipheriv('aes-256-gcm', key, nonceOf(number, isLast))
    yield Buffer.concat([cipher.update(bytes), cipher.final(), cipher.getAuthTag()])
    number += 1
  }
}

/**
 * Decrypts what {@link seal} has made under the same name.
 * @throws SealBroken before any text of an altered frame, and at the end of a file that was cut
 */
export async function* unseal(repositoryKey: Buffer, name: string, source: Chunks): Chunks {
  const iterator = source[Symbol.asyncIterator]()
  const { head, rest } = await readHead(iterator, MAGIC.length + SALT_BYTES)
  if (!head.subarray(0, MAGIC.length).equals(MAGIC)) throw new SealBroken(name, 'it is no sealed file')
  const key = fileKey(repositoryKey, head.subarray(MAGIC.length), name)
  let number = 0
  for await (const { bytes, isLast } of inPieces(following(rest, iterator), FRAME_BYTES + TAG_BYTES)) {
    if (bytes.length < TAG_BYTES) throw new SealBroken(name, 'its end is missing')
    const decipher = createDecipheriv('aes-256-gcm', key, nonceOf(number, isLast))
    decipher.setAuthTag(bytes.subarray(-TAG_BYTES))
    const text = decipher.update(bytes.subarray(0, -TAG_BYTES))
    try {
      decipher.final()
    } catch {
      throw new SealBroken(name, `frame ${number} is not authentic`)
    }
    yield text
    number += 1
  }
}

const fileKey = (repositoryKey: Buffer, salt: Buffer, name: string): Buffer =>
  Buffer.from(hkdfSync('sha256', repositoryKey, salt, `tenon-backup:${name}`, 32))

function nonceOf(number: number, isLast: boolean): Buffer {
  const nonce = Buffer.alloc(12)
  nonce.writeUIntBE(number, 0, 6)
  nonce[11] = isLast ? 1 : 0
  return nonce
}

/** Cuts a stream into pieces of a size; the last one may be shorter, or empty. */
async function* inPieces(source: Chunks, size: number): AsyncIterable<{ bytes: Buffer; isLast: boolean }> {
  let waiting: Buffer[] = []
  let length = 0
  for await (const chunk of source) {
    waiting.push(chunk)
    length += chunk.length
    if (length <= size) continue
    const all = Buffer.concat(waiting, length)
    let at = 0
    // What fills a piece exactly may be the last one.
    for (; all.length - at > size; at += size) yield { bytes: all.subarray(at, at + size), isLast: false }
    waiting = [all.subarray(at)]
    length -= at
  }
  yield { bytes: Buffer.concat(waiting, length), isLast: true }
}

async function readHead(
  iterator: AsyncIterator<Buffer>,
  size: number,
): Promise<{ head: Buffer; rest: Buffer }> {
  let read = Buffer.alloc(0)
  while (read.length < size) {
    const next = await iterator.next()
    if (next.done) return { head: read, rest: Buffer.alloc(0) }
    read = Buffer.concat([read, next.value])
  }
  return { head: read.subarray(0, size), rest: read.subarray(size) }
}

async function* following(first: Buffer, iterator: AsyncIterator<Buffer>): Chunks {
  yield first
  for (let next = await iterator.next(); !next.done; next = await iterator.next()) yield next.value
}
