/** Reads the text of a regular expression: characters, escapes and bracket expressions. */

import { classOf, namedSet, negated, type PointSet, RegexError } from './code-point-sets.ts'

const PLAIN: Readonly<Record<string, number>> = { t: 9, n: 10, v: 11, f: 12, r: 13, a: 7, e: 27 }

export class Scanner {
  readonly #points: readonly string[]
  /** Index of the next code point. */
  position = 0

  constructor(text: string) {
    this.#points = Array.from(text)
  }

  get ended(): boolean {
    return this.position >= this.#points.length
  }

  peek(ahead = 0): string | undefined {
    return this.#points[this.position + ahead]
  }

  next(): string {
    const point = this.#points[this.position++]
    if (point === undefined) throw new RegexError('end pattern at escape')
    return point
  }

  isNext(text: string): boolean {
    return Array.from(text).every((sign, i) => this.peek(i) === sign)
  }

  take(text: string): boolean {
    if (!this.isNext(text)) return false
    this.position += text.length
    return true
  }

  /** Consumes everything up to and including a sign. @returns what precedes it @throws RegexError if it is missing */
  until(sign: string): string {
    const end = this.#points.indexOf(sign, this.position)
    if (end < 0) throw new RegexError(`a \`${sign}\` is missing`)
    const text = this.#points.slice(this.position, end).join('')
    this.position = end + 1
    return text
  }

  /** A decimal number, if one follows. */
  number(): number | undefined {
    const digits = this.#digits(Number.POSITIVE_INFINITY, /^[0-9]$/)
    return digits === '' ? undefined : Number(digits)
  }

  /** The code point of an escape. @param letter after the `\` */
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
    if (!/^[0-9a-fA-F]*$/.test(digits) || point > 0x10ffff) throw new RegexError('invalid code point value')
    return point
  }
}

/** Parses a bracket expression after its `[`. A `]` at the beginning is a literal. */
export function parseClass(scanner: Scanner): PointSet {
  const isNegated = scanner.take('^')
  const sets: PointSet[] = []
  for (let first = true; first || !scanner.take(']'); first = false) {
    if (scanner.ended) throw new RegexError('premature end of char-class')
    sets.push(parseItem(scanner))
  }
  return isNegated ? negated(union(sets)) : union(sets)
}

function union(sets: readonly PointSet[]): PointSet {
  const [only] = sets
  if (sets.length === 1 && only !== undefined) return only
  return (point) => {
    for (const set of sets) if (set(point)) return true
    return false
  }
}

function parseItem(scanner: Scanner): PointSet {
  if (scanner.take('[:')) {
    const set = namedSet(scanner.until(':'))
    if (!scanner.take(']')) throw new RegexError('premature end of char-class')
    return set
  }
  const from = parsePoint(scanner)
  if (typeof from !== 'number') return from
  if (scanner.peek() !== '-' || scanner.peek(1) === ']' || scanner.peek(1) === undefined)
    return (point) => point === from
  scanner.next()
  const to = parsePoint(scanner)
  if (typeof to !== 'number') return (point) => point === from || point === 45 || to(point)
  if (to < from) throw new RegexError('empty range in char class')
  return (point) => point >= from && point <= to
}

function parsePoint(scanner: Scanner): number | PointSet {
  const sign = scanner.next()
  if (sign !== '\\') return sign.codePointAt(0) ?? 0
  const letter = scanner.next()
  if (letter === 'b') return 8
  if ((letter === 'p' || letter === 'P') && scanner.take('{')) {
    const set = namedSet(scanner.until('}'))
    return letter === 'p' ? set : negated(set)
  }
  return classOf(letter) ?? scanner.escaped(letter)
}
