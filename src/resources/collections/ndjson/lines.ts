/** NDJSON as it arrives: bytes in, numbered lines out; no line is held that is longer than what is taken. */

import { LIMITS } from '../../../core/limits.ts'
import { Problem } from '../../../core/problem.ts'

export interface Line {
  /** From 1 on; blank lines count. */
  readonly number: number
  /** Without the line feed; undefined where it was too long to be kept. */
  readonly bytes: Uint8Array | undefined
}

/**
 * The lines that each chunk completes; what comes after the last line feed is a line where it is not empty.
 * @param bytesMax of a line that is kept
 * @throws Problem `body_too_large` where no line feed comes for so long that it can be no NDJSON
 */
export async function* linesOf(chunks: AsyncIterable<Uint8Array>, bytesMax: number): AsyncGenerator<Line[]> {
  const splitter = new Splitter(bytesMax)
  for await (const chunk of chunks) yield splitter.take(chunk)
  yield splitter.rest()
}

const LINE_FEED = 0x0a
const NOTHING = new Uint8Array()

class Splitter {
  readonly #bytesMax: number
  #number = 0
  /** The beginning of the line under way, in a buffer that doubles: a line may come byte by byte. */
  #held: Uint8Array = NOTHING
  #bytes = 0

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax
  }

  take(chunk: Uint8Array): Line[] {
    const lines: Line[] = []
    let from = 0
    for (let at = chunk.indexOf(LINE_FEED); at >= 0; at = chunk.indexOf(LINE_FEED, from)) {
      lines.push(this.#end(chunk.subarray(from, at)))
      from = at + 1
    }
    this.#hold(chunk.subarray(from))
    return lines
  }

  rest(): Line[] {
    return this.#bytes === 0 ? [] : [this.#end(NOTHING)]
  }

  #end(tail: Uint8Array): Line {
    const whole = this.#bytes === 0 && tail.byteLength <= this.#bytesMax
    if (!whole) this.#hold(tail)
    const kept = this.#bytes > this.#bytesMax ? undefined : this.#held.subarray(0, this.#bytes)
    this.#number += 1
    this.#held = NOTHING
    this.#bytes = 0
    return { number: this.#number, bytes: whole ? tail : kept }
  }

  #hold(piece: Uint8Array): void {
    const before = this.#bytes
    this.#bytes += piece.byteLength
    if (this.#bytes > LIMITS.importLineSkippedBytesMax) throw endless(this.#number + 1)
    if (this.#bytes > this.#bytesMax) {
      this.#held = NOTHING
      return
    }
    if (this.#bytes > this.#held.byteLength) {
      const larger = new Uint8Array(Math.max(this.#bytes, this.#held.byteLength * 2))
      larger.set(this.#held.subarray(0, before))
      this.#held = larger
    }
    this.#held.set(piece, before)
  }
}

function endless(line: number): Problem {
  const max = LIMITS.importLineSkippedBytesMax
  const detail = `Line ${line} has more than ${max} bytes: this is no NDJSON.`
  return new Problem('body_too_large', { detail, members: { limit_bytes: max } })
}
