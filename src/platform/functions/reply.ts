/** Reads what comes out of a function's process: noise, then at most one frame. None of it is believed. */

import { LIMITS } from '../../core/limits.ts'

export interface Frame {
  readonly kind: string
  readonly text: string
}

export type Heard = Frame | 'too_large' | 'too_loud' | undefined

/**
 * Stdout of one process. User code owns it too, so bytes before the frame are just what it printed; a frame has the
 * nonce of this call, and its size is judged before one byte of it is kept.
 */
export class Reply {
  readonly #mark: Buffer
  #got: Buffer = Buffer.alloc(0)

  constructor(nonce: string) {
    this.#mark = Buffer.from(`\n${nonce} `)
  }

  /** Takes what came. @returns the frame when it is whole, or why there will be none */
  take(chunk: Buffer): Heard {
    this.#got = Buffer.concat([this.#got, chunk])
    const at = this.#got.indexOf(this.#mark)
    if (at < 0) return this.#got.length > LIMITS.functionNoiseBytesMax ? 'too_loud' : undefined
    const start = at + this.#mark.length
    const end = this.#got.indexOf(10, start)
    if (end < 0) return this.#got.length - start > 64 ? 'too_loud' : undefined
    const [kind = '', size = ''] = this.#got.toString('latin1', start, end).split(' ')
    const bytes = /^[0-9]{1,15}$/.test(size) ? Number(size) : Number.POSITIVE_INFINITY
    if (bytes > LIMITS.functionResultBytesMax) return 'too_large'
    const from = end + 1
    if (this.#got.length < from + bytes) return undefined
    return { kind, text: this.#got.toString('utf8', from, from + bytes) }
  }

  /** What was printed before the frame, if any. */
  noise(): Buffer {
    const at = this.#got.indexOf(this.#mark)
    return at < 0 ? this.#got : this.#got.subarray(0, at)
  }
}

/** What a function printed; the last 64 KiB are kept. */
export class Log {
  #kept: Buffer = Buffer.alloc(0)
  #bytes = 0

  /** @returns whether it is still within what a process may write */
  add(chunk: Buffer): boolean {
    this.#bytes += chunk.length
    this.#kept = Buffer.concat([this.#kept, chunk])
    if (this.#kept.length > LIMITS.functionLogBytesMax)
      this.#kept = this.#kept.subarray(this.#kept.length - LIMITS.functionLogBytesMax)
    return this.#bytes <= LIMITS.functionNoiseBytesMax + LIMITS.functionLogBytesMax
  }

  get ranOutOfMemory(): boolean {
    return /Fatal JavaScript out of memory|heap limit/.test(this.#text())
  }

  /** The last lines, without what the engine says when it dies: that has addresses and paths of the host. */
  lines(): string[] {
    const said = this.#text()
      .split(/\n*<--- Last few GCs --->|\n*#\n# Fatal/)[0]
      ?.replaceAll(/data:(?:application|text)\/javascript;base64,[^\s:]*/g, 'function.ts')
    const text = Buffer.from((said ?? '').trimEnd())
    const shown = text.subarray(Math.max(0, text.length - LIMITS.functionLogShownBytesMax)).toString()
    return shown === '' ? [] : shown.split('\n')
  }

  #text(): string {
    return this.#kept.toString()
  }
}
