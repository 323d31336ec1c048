/** One filter as it stands behind a field in the URL: `not.`, an operator, perhaps `(any)`, and a value. */

import type { Budget } from './budget.ts'
import { readBraces, readContainer, readParentheses } from './elements.ts'
import { type Filter, type Literal, negated, type Path, type Pattern, type Test } from './filter.ts'
import { readPathTest } from './json-path.ts'
import type { Container } from './json-value.ts'
import { type Operand, readOperator } from './operators.ts'
import { readPattern } from './pattern.ts'
import { type PathPiece, type Piece, pieceOf, readLiteral, refusal, type Source, toPath } from './text.ts'

/** A field, and how it was written. */
export interface Key {
  readonly path: Path
  /** Its last name stands behind `->>`: what has an order is compared as text. */
  readonly asText: boolean
  /** What stands before the operator, for hints. */
  readonly before: string
}

export function toKey(pieces: readonly PathPiece[], before: string, source: Source): Key {
  return { path: toPath(pieces, source), asText: pieces.at(-1)?.by === '->>', before: before.slice(0, 100) }
}

const EXPRESSION = /^(not\.)?([a-z_]+)(?:\(([a-z]*)\))?\.(.*)$/su

/** The value reaches to the end of the text, commas and all. */
export function readExpression(key: Key, text: string, source: Source, budget: Budget): Filter {
  const [, not, name, quantifier, value = ''] = EXPRESSION.exec(text) ?? []
  if (name === undefined) throw noOperator(key, text, source)
  const operand = new TextOperand(value, pieceOf(value), key, source)
  const filter = readOperator(key.path, { name, quantifier }, operand, budget)
  return not === undefined ? filter : negated(filter)
}

export function noOperator({ before }: Key, text: string, source: Source): Error {
  const detail = `The filter ${before.slice(0, 50)}${text.slice(0, 50)} has no operator.`
  return refusal({ ...source, code: 'filter_operator_missing' }, detail, `${before}eq.${text.slice(0, 100)}`)
}

class TextOperand implements Operand {
  readonly source: Source
  readonly isNull = false
  readonly #text: string
  readonly #piece: Piece
  readonly #key: Key

  constructor(text: string, piece: Piece, key: Key, source: Source) {
    this.#text = text
    this.#piece = piece
    this.#key = key
    this.source = source
  }

  literal(): Literal {
    return readLiteral(this.#piece, this.source)
  }

  comparable(): Literal {
    const literal = this.literal()
    return this.#key.asText ? [this.#piece.text] : literal
  }

  list(): Literal[] {
    return readParentheses(this.#text, this.source)
  }

  pattern(): Pattern {
    return readPattern(this.#piece.text, this.source)
  }

  pathTest(): Test {
    return readPathTest(this.#text, this.source)
  }

  container(): Container {
    return readContainer(this.#text, this.source)
  }

  word(): string {
    return this.#text.toLowerCase()
  }

  each(): Operand[] {
    return readBraces(this.#text, this.source).map(
      (piece) => new TextOperand(piece.text, piece, this.#key, this.source),
    )
  }

  written(operator: string): string {
    return `${this.#key.before}${operator}.…`
  }
}
