/**
 * The tar format of archives: plain files with names that a header has room for, as ustar (POSIX.1-1988) has them; sizes above 8 GiB as
 * GNU tar writes them. Everything else that tar can express, such as links, long names and devices, is refused, since no archive needs it.
 */

import { Problem } from '../../../core/problem.ts'

const BLOCK = 512
const NAME_BYTES_MAX = 100
const PREFIX_BYTES_MAX = 155
/** The largest size that eleven octal digits express. */
const OCTAL_MAX = 0o77777777777

/** Where the fields of a header are. */
const FIELD = {
  name: [0, 100],
  mode: [100, 8],
  uid: [108, 8],
  gid: [116, 8],
  size: [124, 12],
  mtime: [136, 12],
  checksum: [148, 8],
  type: [156, 1],
  link: [157, 100],
  magic: [257, 8],
  prefix: [345, 155],
} as const

const MAGIC = 'ustar\u000000'
const PLAIN_FILE = '0'
const SPACE = 0x20

/** The header of a plain file. @param path ASCII; what is longer than 100 characters has a part of its folders in the prefix @param size in bytes */
export function tarHeader(path: string, size: number): Buffer {
  const { prefix, name } = splitPath(path)
  const block = Buffer.alloc(BLOCK)
  const write = (field: keyof typeof FIELD, text: string) => block.write(text, FIELD[field][0], 'latin1')
  write('name', name)
  write('prefix', prefix)
  write('mode', '0000644')
  write('uid', '0000000')
  write('gid', '0000000')
  write('mtime', '00000000000')
  write('type', PLAIN_FILE)
  write('magic', MAGIC)
  writeSize(block, size)
  const sum = `${checksumOf(block).toString(8).padStart(6, '0')}\u0000 `
  write('checksum', sum)
  return block
}

/** What follows the content of a file, so that the next header begins at a multiple of 512. */
export const tarPadding = (size: number): Buffer => Buffer.alloc((BLOCK - (size % BLOCK)) % BLOCK)

/** The end of an archive. */
export const TAR_END = Buffer.alloc(2 * BLOCK)

function writeSize(block: Buffer, size: number): void {
  const [at, length] = FIELD.size
  if (size <= OCTAL_MAX) {
    block.write(size.toString(8).padStart(length - 1, '0'), at, 'latin1')
    return
  }
  block[at] = 0x80
  block.writeBigUInt64BE(BigInt(size), at + length - 8)
}

function splitPath(path: string): { readonly prefix: string; readonly name: string } {
  const at = path.length > NAME_BYTES_MAX ? path.indexOf('/', path.length - NAME_BYTES_MAX - 1) : 0
  const prefix = path.slice(0, Math.max(at, 0))
  const name = at > 0 ? path.slice(at + 1) : path
  const hasRoom = name.length <= NAME_BYTES_MAX && prefix.length <= PREFIX_BYTES_MAX
  if (!hasRoom || !/^[\x21-\x7e]+$/.test(path))
    throw new TypeError('the name has no place in the header of tar')
  return { prefix, name }
}

/** The sum of the bytes of a header, its own field taken as spaces. */
function checksumOf(block: Buffer): number {
  const [at, length] = FIELD.checksum
  return block.reduce((sum, byte, n) => sum + (n >= at && n < at + length ? SPACE : byte), 0)
}

export interface TarFile {
  readonly name: string
  /** In bytes. */
  readonly size: number
  /** Read to its end before the next file. */
  readonly content: AsyncGenerator<Uint8Array>
}

/**
 * The files of an archive, in their order. Memory holds one chunk.
 * @throws Problem `archive_invalid` for anything but plain files, and for an archive without its end
 */
export async function* readTar(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<TarFile> {
  const reader = new ByteReader(chunks)
  try {
    for (;;) {
      const block = await reader.exactly(BLOCK)
      if (isZero(block)) break
      const { name, size } = parseHeader(block)
      const content = reader.upTo(size)
      yield { name, size, content }
      // What the caller has left unread.
      for await (const _ of content);
      const padding = await reader.exactly(tarPadding(size).byteLength)
      if (!isZero(padding)) throw broken(`What follows ${name} is not padding.`)
    }
    await reader.requireZeros()
  } finally {
    await reader.close()
  }
}

function parseHeader(block: Buffer): { name: string; size: number } {
  const text = (field: keyof typeof FIELD) => {
    const [at, length] = FIELD[field]
    return block.toString('latin1', at, at + length).split('\0', 1)[0] ?? ''
  }
  const name = text('prefix') === '' ? text('name') : `${text('prefix')}/${text('name')}`
  if (Number.parseInt(text('checksum'), 8) !== checksumOf(block))
    throw broken('The header of a member is damaged.')
  const shown = JSON.stringify(name)
  const [typeAt] = FIELD.type
  if (block.toString('latin1', typeAt, typeAt + 1) !== PLAIN_FILE || text('link') !== '')
    throw broken(`The member ${shown} is not a plain file.`)
  const [magicAt, magicLength] = FIELD.magic
  const isUstar = block.toString('latin1', magicAt, magicAt + magicLength) === MAGIC
  if (!isUstar) throw broken(`The member ${shown} has a header of another form.`)
  return { name, size: parseSize(block, shown) }
}

function parseSize(block: Buffer, shown: string): number {
  const [at, length] = FIELD.size
  if (block[at] === 0x80) {
    const size = block.readBigUInt64BE(at + length - 8)
    if (size <= BigInt(Number.MAX_SAFE_INTEGER) && isZero(block.subarray(at + 1, at + length - 8)))
      return Number(size)
  }
  const text = block.toString('latin1', at, at + length)
  if (!/^[0-7]{11}$/.test(text.slice(0, -1)) || !' \0'.includes(text.slice(-1)))
    throw broken(`The size of the member ${shown} is not a number.`)
  return Number.parseInt(text, 8)
}

const isZero = (bytes: Uint8Array): boolean => bytes.every((byte) => byte === 0)

const broken = (detail: string) => new Problem('archive_invalid', { detail })
const cut = () => broken('The archive is cut off: it ends before its last member.')

/** Reads a stream of bytes by length. */
class ByteReader {
  readonly #source: AsyncIterator<Uint8Array>
  #rest: Uint8Array = new Uint8Array()

  constructor(chunks: AsyncIterable<Uint8Array>) {
    this.#source = chunks[Symbol.asyncIterator]()
  }

  /** @throws Problem `archive_invalid` if there are fewer */
  async exactly(bytes: number): Promise<Buffer> {
    const pieces: Uint8Array[] = []
    for await (const piece of this.upTo(bytes)) pieces.push(piece)
    return Buffer.concat(pieces)
  }

  /** @throws Problem `archive_invalid` if there are fewer */
  async *upTo(bytes: number): AsyncGenerator<Uint8Array> {
    let left = bytes
    while (left > 0) {
      if (this.#rest.byteLength === 0 && !(await this.#fill())) throw cut()
      const piece = this.#rest.subarray(0, left)
      this.#rest = this.#rest.subarray(piece.byteLength)
      left -= piece.byteLength
      yield piece
    }
  }

  /** Behind the end, tar fills its last record with zeros. */
  async requireZeros(): Promise<void> {
    do {
      if (!isZero(this.#rest)) throw broken('Something follows the end of the archive.')
    } while (await this.#fill())
  }

  async close(): Promise<void> {
    await this.#source.return?.()
  }

  async #fill(): Promise<boolean> {
    const { done, value } = await this.#source.next()
    if (done === true) return false
    this.#rest = value
    return true
  }
}
