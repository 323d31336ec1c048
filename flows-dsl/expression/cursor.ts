/** Knows where the reader of an expression stands in its text, and how to stop it. */

import type { ExpressionFault } from './expression.ts'

/** Thrown by the parser for its own use: `parseExpression` catches it and answers with the fault. */
export class Stop extends Error {
  readonly fault: ExpressionFault

  constructor(fault: ExpressionFault) {
    super(fault.message)
    this.fault = fault
  }
}

const BLANK = /(?:[ \t\r\n]|#[^\n]*)*/y
const WORD = /[A-Za-z_][A-Za-z0-9_]*/y

export class Cursor {
  readonly text: string
  offset = 0

  constructor(text: string) {
    this.text = text
  }

  /** Takes what a sticky pattern matches here, or nothing. */
  match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.offset
    const found = pattern.exec(this.text)?.[0]
    if (found !== undefined) this.offset += found.length
    return found
  }

  blank(): void {
    this.match(BLANK)
  }

  /** Whether a sign stands here, after blanks. */
  sees(sign: string): boolean {
    this.blank()
    return this.text.startsWith(sign, this.offset)
  }

  /** Takes a sign after blanks if it stands here. */
  take(sign: string): boolean {
    if (!this.sees(sign)) return false
    this.offset += sign.length
    return true
  }

  expect(sign: string): void {
    if (!this.take(sign)) throw this.stop(`Expected \`${sign}\` but found ${this.here()}.`)
  }

  word(): string | undefined {
    return this.match(WORD)
  }

  /** Takes one word after blanks if it stands here as a whole. */
  takeWord(word: string): boolean {
    this.blank()
    const start = this.offset
    if (this.word() === word) return true
    this.offset = start
    return false
  }

  expectWord(word: string): void {
    if (!this.takeWord(word)) throw this.stop(`Expected \`${word}\` but found ${this.here()}.`)
  }

  /** The character here, for messages. */
  here(): string {
    const point = this.text.codePointAt(this.offset)
    return point === undefined ? 'the end' : `\`${String.fromCodePoint(point)}\``
  }

  stop(message: string, offset = this.offset, hint?: string): Stop {
    return new Stop({ offset, message, ...(hint !== undefined && { hint }) })
  }
}
