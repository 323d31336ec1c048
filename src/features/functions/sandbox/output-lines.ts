/** The log of one invocation: lines within a limit, and the last of them for a problem document. */

import { StringDecoder } from 'node:string_decoder'
import { FUNCTION_LIMITS } from '../limits.ts'
import type { LogLine } from './invocation.ts'

const {
  logBytesMax: functionLogBytesMax,
  logShownBytesMax: functionLogShownBytesMax,
  sandbox: limits,
} = FUNCTION_LIMITS
const TRUNCATED = 'log truncated'
/** PostgreSQL stores no NUL, and a terminal obeys escapes. */
const CONTROL = /(?![\t\n])\p{Cc}/gu

export class InvocationLog {
  readonly #write: (line: LogLine) => void
  #bytes = 0
  #shown: string[] = []
  #shownBytes = 0

  constructor(write: (line: LogLine) => void) {
    this.#write = write
  }

  /** Adds a line. After the limit of a run, one line says so, and the rest is dropped. */
  add(level: LogLine['level'], text: string): void {
    if (this.#bytes > functionLogBytesMax) return
    this.#bytes += Buffer.byteLength(text) + limits.logLineCostBytes
    const isLast = this.#bytes > functionLogBytesMax
    const printed = isLast ? TRUNCATED : text.replaceAll(CONTROL, '\u{fffd}')
    const line = { at: Date.now(), level: isLast ? 'warn' : level, text: printed } as const
    this.#show(line.text)
    this.#write(line)
  }

  /** The last lines. */
  lines(): readonly string[] {
    return this.#shown
  }

  #show(text: string): void {
    for (const line of text.split('\n')) {
      this.#shown.push(line)
      this.#shownBytes += Buffer.byteLength(line) + 1
    }
    while (this.#shownBytes > functionLogShownBytesMax && this.#shown.length > 1)
      this.#shownBytes -= Buffer.byteLength(this.#shown.shift() ?? '') + 1
  }
}

/** Bytes that code or the engine wrote past the frames, as lines of text. */
export class RawOutput {
  readonly #add: (text: string) => void
  /** Chunks end anywhere, also within a character. */
  readonly #decoder = new StringDecoder('utf8')
  #rest = ''
  #bytes = 0
  #crash = ''

  constructor(add: (text: string) => void) {
    this.#add = add
  }

  /** @returns false once there is more than a process may write */
  take(chunk: Buffer): boolean {
    this.#bytes += chunk.length
    if (this.#bytes > FUNCTION_LIMITS.noiseBytesMax) return false
    const lines = (this.#rest + this.#decoder.write(chunk)).split('\n')
    this.#rest = lines.pop() ?? ''
    if (this.#rest.length > limits.logLineBytesMax) this.#rest = this.#pass(this.#rest)
    for (const line of lines) this.#pass(line)
    return true
  }

  /** Adds an incomplete last line. */
  flush(): void {
    this.#rest = this.#pass(this.#rest + this.#decoder.end())
  }

  /** True if V8 ended the process because its heap was full. */
  get ranOutOfMemory(): boolean {
    return /Fatal JavaScript out of memory|heap limit/.test(this.#crash)
  }

  /** The engine's crash report contains addresses and paths of the host. */
  #pass(line: string): '' {
    if (this.#crash !== '' || CRASH.test(line)) {
      this.#crash += `${line}\n`
      return ''
    }
    const text = line.replaceAll(/data:(?:application|text)\/javascript;base64,[^\s:]*/g, 'function.ts')
    if (text.trim() !== '') this.#add(clipped(text))
    return ''
  }
}

/** The mark says that the text may end within a secret. */
const clipped = (text: string) =>
  text.length > limits.logLineBytesMax ? `${text.slice(0, limits.logLineBytesMax - 1)}…` : text

const CRASH = /^<--- Last few GCs --->|^#$|^# Fatal|^Fatal JavaScript/
