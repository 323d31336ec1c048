/** Reads bodies in the encoding `aws-chunked`: chunks that are signed or not, and a trailer with checksums. */

import { createHash, type Hash } from 'node:crypto'
import { Problem } from '../../core/problem.ts'
import { API_LIMITS } from '../limits.ts'
import type { SignatureChain } from './signature.ts'

export interface ChunkedBody {
  readonly chunks: AsyncIterable<Uint8Array>
  /** Verifies the signatures of chunks and trailer; undefined if they have none. */
  readonly chain: SignatureChain | undefined
  /** The names of the headers that follow the chunks. */
  readonly trailer: ReadonlySet<string>
  /** Called with the trailer, before the end of the bytes. */
  readonly onTrailer: (values: ReadonlyMap<string, string>) => void
}

/**
 * The bytes of the chunks. The last ones come only after the trailer was verified, so that nobody has all bytes of a body whose end
 * is wrong.
 * @throws Problem `body_incomplete`, `InvalidRequest` if the encoding is malformed, `SignatureDoesNotMatch`
 */
export async function* decodeChunked(body: ChunkedBody): AsyncGenerator<Uint8Array> {
  const reader = new LineReader(body.chunks)
  try {
    yield* decode(reader, body)
  } finally {
    // The rest of a body that is wrong is read and thrown away, so that its sender reads the reply.
    reader.close()
  }
}

async function* decode(
  reader: LineReader,
  { chain, trailer, onTrailer }: ChunkedBody,
): AsyncGenerator<Uint8Array> {
  let held: Uint8Array | undefined
  for (;;) {
    const { bytes, signature } = readHead(await reader.line())
    const hash = chain && createHash('sha256')
    let left = bytes
    while (left > 0) {
      const piece = await reader.upTo(left)
      hash?.update(piece)
      left -= piece.byteLength
      if (held !== undefined) yield held
      held = piece
    }
    verify(chain, hash, signature)
    if (bytes === 0) break
    if ((await reader.line()) !== '') throw malformed('A chunk is longer than its head says.')
  }
  onTrailer(await readTrailer(reader, chain, trailer))
  if (!(await reader.isAtEnd())) throw malformed('Bytes follow the last chunk.')
  if (held !== undefined) yield held
}

function verify(
  chain: SignatureChain | undefined,
  hash: Hash | undefined,
  signature: string | undefined,
): void {
  if (chain === undefined || hash === undefined) return
  chain.verifyChunk(hash.digest('hex'), signature ?? '')
}

/** `10000;chunk-signature=…`, or the length alone. */
function readHead(line: string): { bytes: number; signature: string | undefined } {
  const [, hex = '', signature] = /^([0-9a-fA-F]{1,10})(?:;chunk-signature=([0-9a-f]{64}))?$/.exec(line) ?? []
  if (hex === '') throw malformed('A chunk begins with its length in hex digits.')
  return { bytes: Number.parseInt(hex, 16), signature }
}

const TRAILER_SIGNATURE = 'x-amz-trailer-signature'

async function readTrailer(
  reader: LineReader,
  chain: SignatureChain | undefined,
  announced: ReadonlySet<string>,
): Promise<Map<string, string>> {
  const values = new Map<string, string>()
  for (
    let line = await reader.lineOrEnd();
    line !== '' && line !== undefined;
    line = await reader.lineOrEnd()
  ) {
    const [, name = '', value = ''] = /^([\w-]+):\s*(.*?)\s*$/.exec(line) ?? []
    const known = name.toLowerCase()
    if (values.has(known) || !(announced.has(known) || known === TRAILER_SIGNATURE))
      throw malformed('The trailer has a header that x-amz-trailer does not announce, or one twice.')
    values.set(known, value)
  }
  const signature = values.get(TRAILER_SIGNATURE)
  values.delete(TRAILER_SIGNATURE)
  if (values.size < announced.size)
    throw malformed('The trailer lacks a header that x-amz-trailer announces.')
  const text = [...values].map(([name, value]) => `${name}:${value}\n`).join('')
  if (chain !== undefined && announced.size > 0) chain.verifyTrailer(text, signature ?? '')
  return values
}

const malformed = (detail: string) =>
  new Problem('InvalidRequest', { detail: `The aws-chunked body is malformed. ${detail}` })

/** Reads lines and bytes in turn from a stream. */
class LineReader {
  readonly #source: AsyncIterator<Uint8Array>
  #buffer: Buffer = Buffer.alloc(0)
  #isOver = false

  constructor(chunks: AsyncIterable<Uint8Array>) {
    this.#source = chunks[Symbol.asyncIterator]()
  }

  /** The text up to CRLF, without it. @throws Problem `body_incomplete` */
  async line(): Promise<string> {
    const line = await this.lineOrEnd()
    if (line === undefined) throw new Problem('body_incomplete')
    return line
  }

  /** As {@link line}; undefined at the end of the stream. */
  async lineOrEnd(): Promise<string | undefined> {
    for (;;) {
      const end = this.#buffer.indexOf('\r\n')
      if (end >= 0)
        return this.#take(end + 2)
          .subarray(0, end)
          .toString('latin1')
      if (this.#buffer.byteLength > API_LIMITS.chunkLineBytesMax) throw malformed('A line is too long.')
      if (await this.#fill()) continue
      if (this.#buffer.byteLength === 0) return undefined
      throw new Problem('body_incomplete')
    }
  }

  /** At least one byte, at most `max`. @throws Problem `body_incomplete` */
  async upTo(max: number): Promise<Buffer> {
    while (this.#buffer.byteLength === 0) if (!(await this.#fill())) throw new Problem('body_incomplete')
    return this.#take(Math.min(max, this.#buffer.byteLength))
  }

  /** Reads no more. */
  close(): void {
    void this.#source.return?.().catch(() => {})
  }

  async isAtEnd(): Promise<boolean> {
    return this.#buffer.byteLength === 0 && !(await this.#fill())
  }

  #take(bytes: number): Buffer {
    const taken = this.#buffer.subarray(0, bytes)
    this.#buffer = this.#buffer.subarray(bytes)
    return taken
  }

  async #fill(): Promise<boolean> {
    if (this.#isOver) return false
    const next = await this.#source.next()
    if (next.done === true) {
      this.#isOver = true
      return false
    }
    const bytes = Buffer.from(next.value.buffer, next.value.byteOffset, next.value.byteLength)
    this.#buffer = this.#buffer.byteLength === 0 ? bytes : Buffer.concat([this.#buffer, bytes])
    return true
  }
}
