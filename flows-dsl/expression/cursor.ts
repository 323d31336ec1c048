/** Knows where the reader of an expression stands in its text, and how to stop it. */

import type { Expression, ExpressionFault } from './expression.ts'

/** Thrown by the parser for its own use: `parseExpression` catches it and answers with the fault. */
export class Stop extends Error {
  readonly fault: ExpressionFault

  constructor(fault: ExpressionFault) {
    super(fault.message)
    this.fault = fault
  }
}

/**
 * What the parts of the grammar share: the place, the variables that exist, and the way back into the whole.
 */
export interface Reader {
  readonly cursor: Cursor
  readonly variables: readonly string[]
  readonly nested: (reader: Reader) => Expression
  readonly variable: (reader: Reader) => Expression
  nesting: number
}

const NESTING_MAX = 64

/** Guards the recursion of the parser: a text of any length is refused before the stack is. */
export function deeper<T>(reader: Reader, read: (reader: Reader) => T): T {
  if (++reader.nesting > NESTING_MAX) throw reader.cursor.stop(`Nested deeper than ${NESTING_MAX}.`)
  const result = read(reader)
  reader.nesting--
  return result
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

  /** Takes a sign after blanks if it stands here. */
  take(sign: string): boolean {
    this.blank()
    if (!this.text.startsWith(sign, this.offset)) return false
    this.offset += sign.length
    return true
  }

  expect(sign: string): void {
    if (!this.take(sign)) throw this.stop(`Expected \`${sign}\` but found ${this.here()}.`)
  }

  word(): string | undefined {
    return this.match(WORD)
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
