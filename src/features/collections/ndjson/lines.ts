/** Splits a stream of bytes into lines. */

import { Problem } from '../../../core/problem.ts'
import { COLLECTION_LIMITS } from '../limits.ts'

export interface Line {
  /** From 1 on; blank lines count. */
  readonly number: number
  /** Without the line feed; undefined if the line is too long. */
  readonly bytes: Uint8Array | undefined
}

/**
 * Yields the lines that each chunk completes. Bytes after the last line feed are a line, too.
 * @param bytesMax the size of a line up to which its bytes are kept
 * @throws Problem `body_too_large` after `importLineSkippedBytesMax` bytes without a line feed
 */
export async function* splitLines(
  chunks: AsyncIterable<Uint8Array>,
  bytesMax: number,
): AsyncGenerator<Line[]> {
  const splitter = new Splitter(bytesMax)
  for await (const chunk of chunks) yield splitter.push(chunk)
  yield splitter.finish()
}

const LINE_FEED = 0x0a
const NO_BYTES = new Uint8Array()

class Splitter {
  readonly #bytesMax: number
  #number = 0
  /** The beginning of the current line, in a buffer that doubles: a line may come byte by byte. */
  #buffer: Uint8Array = NO_BYTES
  #bytes = 0

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  push(chunk: Uint8Array): Line[] {
    const lines: Line[] = []
    let from = 0
    for (let at = chunk.indexOf(LINE_FEED); at >= 0; at = chunk.indexOf(LINE_FEED, from)) {
      lines.push(this.#completeLine(chunk.subarray(from, at)))
      from = at + 1
    }
    this.#append(chunk.subarray(from))
    return lines
  }

  finish(): Line[] {
    return this.#bytes === 0 ? [] : [this.#completeLine(NO_BYTES)]
  }

  #completeLine(tail: Uint8Array): Line {
    const whole = this.#bytes === 0 && tail.byteLength <= this.#bytesMax
    if (!whole) this.#append(tail)
    const kept = this.#bytes > this.#bytesMax ? undefined : this.#buffer.subarray(0, this.#bytes)
    this.#number += 1
    this.#buffer = NO_BYTES
    this.#bytes = 0
    return { number: this.#number, bytes: whole ? tail : kept }
  }

  #append(piece: Uint8Array): void {
    const before = this.#bytes
    this.#bytes += piece.byteLength
    if (this.#bytes > COLLECTION_LIMITS.importLineBytesMax) throw lineTooLong(this.#number + 1)
    if (this.#bytes > this.#bytesMax) {
      this.#buffer = NO_BYTES
      return
    }
    if (this.#bytes > this.#buffer.byteLength) {
      const larger = new Uint8Array(Math.max(this.#bytes, this.#buffer.byteLength * 2))
      larger.set(this.#buffer.subarray(0, before))
      this.#buffer = larger
    }
    this.#buffer.set(piece, before)
  }
}

function lineTooLong(line: number): Problem {
  const max = COLLECTION_LIMITS.importLineBytesMax
  const detail = `Line ${line} has more than ${max} bytes, so the body is not NDJSON.`
  return new Problem('body_too_large', { detail, members: { limit_bytes: max } })
}
