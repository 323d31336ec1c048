/** Knows where the reader of a regular expression stands, and how escapes are written. */

import { RegexFault } from './regex.ts'

const PLAIN: Readonly<Record<string, number>> = { t: 9, n: 10, v: 11, f: 12, r: 13, a: 7, e: 27 }

export class Scanner {
  readonly #points: readonly string[]
  #at = 0

  constructor(text: string) {
    this.#points = Array.from(text)
  }

  get ended(): boolean {
    return this.#at >= this.#points.length
  }

  peek(ahead = 0): string | undefined {
    return this.#points[this.#at + ahead]
  }

  next(): string {
    const point = this.#points[this.#at++]
    if (point === undefined) throw new RegexFault('end pattern at escape')
    return point
  }

  sees(text: string): boolean {
    return Array.from(text).every((sign, i) => this.peek(i) === sign)
  }

  take(text: string): boolean {
    if (!this.sees(text)) return false
    this.#at += text.length
    return true
  }

  /** All up to a sign, which is taken too. @throws RegexFault where it does not come */
  until(sign: string): string {
    const end = this.#points.indexOf(sign, this.#at)
    if (end < 0) throw new RegexFault(`a \`${sign}\` is missing`)
    const text = this.#points.slice(this.#at, end).join('')
    this.#at = end + 1
    return text
  }

  /** Digits, if they stand here. */
  number(): number | undefined {
    let digits = ''
    while (/^[0-9]$/.test(this.peek() ?? '')) digits += this.next()
    return digits === '' ? undefined : Number(digits)
  }

  /** Goes back to a place that `mark` gave. */
  reset(mark: number): void {
    this.#at = mark
  }

  get mark(): number {
    return this.#at
  }

  /** The code point that a letter behind a `\` stands for, if it is one with a meaning of its own. */
  escaped(letter: string): number {
    const plain = PLAIN[letter]
    if (plain !== undefined) return plain
    if (letter === 'x') return this.take('{') ? this.#hex(this.until('}')) : this.#hex(this.#digits(2))
    if (letter === 'u') return this.#hex(this.#digits(4))
    if (letter === '0') return Number.parseInt(`0${this.#digits(2, /^[0-7]$/)}`, 8)
    return letter.codePointAt(0) ?? 0
  }

  #digits(most: number, pattern = /^[0-9a-fA-F]$/): string {
    let digits = ''
    while (digits.length < most && pattern.test(this.peek() ?? '')) digits += this.next()
    return digits
  }

  #hex(digits: string): number {
    const point = digits === '' ? 0 : Number.parseInt(digits, 16)
    if (!/^[0-9a-fA-F]*$/.test(digits) || point > 0x10ffff) throw new RegexFault('invalid code point value')
    return point
  }
}
