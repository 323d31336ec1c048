/** Reads the text of an expression: position, matching, the names in scope, and the nesting depth. */

import { fieldOf } from '../../json.ts'
import type { Expression, ExpressionDiagnostic } from '../expression.ts'

const NESTING_MAX = 64
const BLANK = /(?:[ \t\r\n]|#[^\n]*)*/y
const WORD = /[A-Za-z_][A-Za-z0-9_]*/y

/** Thrown within the parser only: `parseExpression` catches it and returns the diagnostic. */
export class ExpressionSyntaxError extends Error {
  readonly diagnostic: ExpressionDiagnostic

  constructor(diagnostic: ExpressionDiagnostic) {
    super(diagnostic.message)
    this.diagnostic = diagnostic
  }
}

/** The names in scope. Functions are written as `name/arity`. */
export interface Names {
  readonly variables: readonly string[]
  readonly functions: readonly string[]
  readonly labels: readonly string[]
}

/** The entry points of the grammar for parsers in other files. */
export interface Grammar {
  /** A whole expression: pipes, commas, bindings. */
  readonly query: (reader: Reader) => Expression
  /** Operators, but neither a pipe nor a comma. */
  readonly operators: (reader: Reader) => Expression
  /** A term with its suffixes. */
  readonly postfix: (reader: Reader) => Expression
}

/** Signs that authors write as in other languages, and what jq has instead. */
const OTHER_LANGUAGES: Readonly<Record<string, string>> = {
  '=': 'Write `==` to compare.',
  '&': 'Write `and`.',
  '|': 'Write `or`; `|` passes a value on to the next filter.',
  '`': 'Texts are in double quotes; values go into them as "\\(.name)".',
  "'": 'Texts are in double quotes.',
  '!': 'Write `not` after a value, as in `.paid | not`.',
  ')': 'A function without arguments has no parentheses: `now`.',
}

export class Reader {
  readonly text: string
  readonly grammar: Grammar
  names: Names
  offset = 0
  #nesting = 0

  constructor(text: string, names: Names, grammar: Grammar) {
    this.text = text
    this.names = names
    this.grammar = grammar
  }

  /** Consumes what a sticky pattern matches here, if it does. */
  match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.offset
    const found = pattern.exec(this.text)?.[0]
    if (found !== undefined) this.offset += found.length
    return found
  }

  blank(): void {
    this.match(BLANK)
  }

  /** Tests if a sign follows, after blanks. */
  isNext(sign: string): boolean {
    this.blank()
    return this.text.startsWith(sign, this.offset)
  }

  /** Consumes a sign after blanks if it follows. */
  take(sign: string): boolean {
    if (!this.isNext(sign)) return false
    this.offset += sign.length
    return true
  }

  expect(sign: string): void {
    if (!this.take(sign)) throw this.syntaxError(`Expected \`${sign}\` but found ${this.describeNext()}.`)
  }

  word(): string | undefined {
    return this.match(WORD)
  }

  /** Consumes a word after blanks if it follows as a whole. */
  takeWord(word: string): boolean {
    this.blank()
    const start = this.offset
    if (this.word() === word) return true
    this.offset = start
    return false
  }

  expectWord(word: string): void {
    if (!this.takeWord(word)) throw this.syntaxError(`Expected \`${word}\` but found ${this.describeNext()}.`)
  }

  /** The name of a function or parameter in a definition. */
  expectName(): string {
    this.blank()
    const name = this.word()
    if (name === undefined) throw this.syntaxError(`Expected a name but found ${this.describeNext()}.`)
    return name
  }

  /** The name after a `$` that is already consumed. */
  expectVariableName(): string {
    const name = this.word()
    if (name === undefined) throw this.syntaxError('A name must follow `$`.')
    return name
  }

  /** The character here, for messages. */
  describeNext(): string {
    const point = this.text.codePointAt(this.offset)
    return point === undefined ? 'the end' : `\`${String.fromCodePoint(point)}\``
  }

  syntaxError(message: string, offset = this.offset, hint?: string): ExpressionSyntaxError {
    return new ExpressionSyntaxError({ offset, message, ...(hint !== undefined && { hint }) })
  }

  /** The diagnostic of a sign that cannot follow here. */
  unexpected(offset = this.offset): ExpressionSyntaxError {
    this.offset = offset
    const hint = fieldOf(OTHER_LANGUAGES, this.text[offset] ?? '')
    return this.syntaxError(`Did not expect ${this.describeNext()} here.`, offset, hint)
  }

  /** Bounds the recursion of the parser: a text of any length is rejected before the stack overflows. */
  nested<T>(read: (reader: Reader) => T): T {
    if (++this.#nesting > NESTING_MAX)
      throw this.syntaxError(`The expression is nested deeper than ${NESTING_MAX} levels.`)
    const result = read(this)
    this.#nesting--
    return result
  }

  /** Reads with additional names in scope. */
  withNames<T>(more: Partial<Names>, read: (reader: Reader) => T): T {
    const outer = this.names
    this.names = {
      variables: [...(more.variables ?? []), ...outer.variables],
      functions: [...(more.functions ?? []), ...outer.functions],
      labels: [...(more.labels ?? []), ...outer.labels],
    }
    const result = read(this)
    this.names = outer
    return result
  }
}
