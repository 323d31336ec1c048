/**
 * Frames between the worker and a function's process, over its stdin and stdout.
 *
 * To the process: `kind` (1 byte), `id`, size of `json`, size of `bytes` (4 bytes each, big endian), then both. From the
 * process the same, after the nonce of the invocation (16 bytes).
 */

import { FUNCTION_LIMITS } from '../limits.ts'

const { sandbox: limits } = FUNCTION_LIMITS

/** `json` and `bytes` are empty if the kind has none. */
interface Frame {
  readonly kind: string
  readonly id: number
  readonly json: Buffer
  readonly bytes: Buffer
}

/** To the process: code (`json` is its source map), invocation, value, error, bytes, end of a body. */
export type HostFrameKind = 'code' | 'invoke' | 'value' | 'error' | 'bytes' | 'end'
const HOST_KINDS: Readonly<Record<HostFrameKind, string>> = {
  code: 'c',
  invoke: 'i',
  value: 'v',
  error: 'e',
  bytes: 'b',
  end: 'z',
}

/**
 * From the process, with the largest sizes. `pull` and `drop` read a content of an object, `push` and `abandon` write one; their JSON is
 * its number.
 */
const GUEST_KINDS = {
  g: { kind: 'began', json: 0, bytes: 0 },
  c: { kind: 'call', json: limits.callBytesMax, bytes: limits.chunkBytesMax },
  f: { kind: 'fetch', json: limits.headBytesMax, bytes: limits.bodyBytesMax },
  l: { kind: 'log', json: 16, bytes: limits.logLineBytesMax },
  r: { kind: 'result', json: FUNCTION_LIMITS.resultBytesMax, bytes: 0 },
  x: { kind: 'error', json: limits.errorBytesMax, bytes: 0 },
  h: { kind: 'respond', json: limits.headBytesMax, bytes: 0 },
  w: { kind: 'write', json: 0, bytes: limits.chunkBytesMax },
  q: { kind: 'read', json: 0, bytes: 0 },
  p: { kind: 'pull', json: 10, bytes: 0 },
  d: { kind: 'drop', json: 10, bytes: 0 },
  s: { kind: 'push', json: 10, bytes: limits.chunkBytesMax },
  a: { kind: 'abandon', json: 10, bytes: 0 },
} as const

type GuestFrameKind = (typeof GUEST_KINDS)[keyof typeof GUEST_KINDS]['kind']
export interface GuestFrame extends Frame {
  readonly kind: GuestFrameKind
}

const NONE: Buffer = Buffer.alloc(0)

export function encodeFrame(kind: HostFrameKind, id: number, json: Buffer | string, bytes = NONE): Buffer {
  const text = typeof json === 'string' ? Buffer.from(json) : json
  const head = Buffer.alloc(HEAD_BYTES)
  head.write(HOST_KINDS[kind], 'latin1')
  head.writeUInt32BE(id, 1)
  head.writeUInt32BE(text.length, 5)
  head.writeUInt32BE(bytes.length, 9)
  return Buffer.concat([head, text, bytes])
}

const HEAD_BYTES = 13
const NONCE_BYTES = 16

/** Output of the process: a frame, or bytes that belong to none, or why no more can be read. */
export type Output =
  | { readonly frame: GuestFrame }
  | { readonly noise: Buffer }
  | { readonly broken: 'too_large' | 'malformed' }

/**
 * Reads the stdout of one invocation. Its code can write to it, too: bytes without its nonce are its own output. The sizes
 * of a frame are checked before a byte of it is stored.
 */
export class FrameReader {
  readonly #nonce: Buffer
  #chunks: Buffer[] = []
  #size = 0
  #needed = NONCE_BYTES + HEAD_BYTES

  constructor(nonce: Buffer) {
    this.#nonce = nonce
  }

  /** Takes a chunk. Nothing may be taken after `broken`. */
  *take(chunk: Buffer): Generator<Output, void> {
    this.#chunks.push(chunk)
    this.#size += chunk.length
    // Joined once, when all of the frame is there.
    if (this.#size < this.#needed) return
    let rest = Buffer.concat(this.#chunks)
    this.#needed = NONCE_BYTES + HEAD_BYTES
    for (;;) {
      const noise = this.#noiseBefore(rest)
      if (noise > 0) yield { noise: rest.subarray(0, noise) }
      rest = rest.subarray(noise)
      if (rest.length < NONCE_BYTES + HEAD_BYTES) break
      const sizes = sizesOf(rest)
      if ('broken' in sizes) {
        yield sizes
        return
      }
      const { kind, id, json, bytes } = sizes
      const end = json + bytes
      if (rest.length < end) {
        this.#needed = end
        break
      }
      const from = NONCE_BYTES + HEAD_BYTES
      yield { frame: { kind, id, json: rest.subarray(from, json), bytes: rest.subarray(json, end) } }
      rest = rest.subarray(end)
    }
    this.#chunks = [rest]
    this.#size = rest.length
  }

  /** Bytes that cannot be the begin of a frame. */
  #noiseBefore(received: Buffer): number {
    const at = received.indexOf(this.#nonce)
    if (at >= 0) return at
    for (let length = Math.min(NONCE_BYTES - 1, received.length); length > 0; length--)
      if (received.subarray(received.length - length).equals(this.#nonce.subarray(0, length)))
        return received.length - length
    return received.length
  }
}

/** `json` is where the JSON ends, `bytes` how many follow. */
type Sizes =
  | { readonly kind: GuestFrameKind; readonly id: number; readonly json: number; readonly bytes: number }
  | { readonly broken: 'too_large' | 'malformed' }

function sizesOf(received: Buffer): Sizes {
  const letter = received.toString('latin1', NONCE_BYTES, NONCE_BYTES + 1)
  const max = Object.hasOwn(GUEST_KINDS, letter) ? GUEST_KINDS[letter as keyof typeof GUEST_KINDS] : undefined
  if (max === undefined) return { broken: 'malformed' }
  const [id, json, bytes] = [1, 5, 9].map((at) => received.readUInt32BE(NONCE_BYTES + at)) as [
    number,
    number,
    number,
  ]
  if (json > max.json || bytes > max.bytes)
    return { broken: max.kind === 'result' ? 'too_large' : 'malformed' }
  return { kind: max.kind, id, json: NONCE_BYTES + HEAD_BYTES + json, bytes }
}
