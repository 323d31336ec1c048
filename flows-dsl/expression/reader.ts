/** Knows what the parts of the grammar share: the place, the names that exist there, and how deep it goes. */

import { Cursor } from './cursor.ts'
import type { Expression } from './expression.ts'

const NESTING_MAX = 64

/** The names that can be used at one place. Functions are written as `name/arity`. */
export interface Names {
  readonly variables: readonly string[]
  readonly functions: readonly string[]
  readonly labels: readonly string[]
}

/** The ways from one part of the grammar into another. */
export interface Grammar {
  /** All there is: pipes, commas, bindings. */
  readonly query: (reader: Reader) => Expression
  /** Operators, but neither a pipe nor a comma. */
  readonly operators: (reader: Reader) => Expression
  /** A term with what is attached to it. */
  readonly postfix: (reader: Reader) => Expression
}

export class Reader {
  readonly cursor: Cursor
  readonly grammar: Grammar
  names: Names
  #nesting = 0

  constructor(text: string, names: Names, grammar: Grammar) {
    this.cursor = new Cursor(text)
    this.names = names
    this.grammar = grammar
  }

  /** Guards the recursion of the parser: a text of any length is refused before the stack is. */
  deeper<T>(read: (reader: Reader) => T): T {
    if (++this.#nesting > NESTING_MAX) throw this.cursor.stop(`Nested deeper than ${NESTING_MAX}.`)
    const result = read(this)
    this.#nesting--
    return result
  }

  /** Reads what may use more names than what is around it. */
  within<T>(more: Partial<Names>, read: (reader: Reader) => T): T {
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
