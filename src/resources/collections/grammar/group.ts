/** Groups of filters in the URL: `or=(a.eq.1,not.and(b.gt.2,"c,d".like."x,*"))` (data-plane §1.9, `group`). */

import { nearest } from '../../../../flows-dsl/faults.ts'
import type { Budget } from './budget.ts'
import { pastBlanks } from './elements.ts'
import { type Key, noOperator, readExpression, toKey } from './expression.ts'
import { type Filter, negated } from './filter.ts'
import { isOperator, OPERATOR_NAMES, unknownOperator } from './operators.ts'
import { BETWEEN_NAMES, type PathPiece, pieceAt, quotedAt, refusal, type Source } from './text.ts'

/**
 * @param kind what the members are joined by
 * @throws Problem with the place in the text where it cannot be read on
 */
export function readGroup(kind: string, text: string, source: Source, budget: Budget): Filter {
  const reader = new GroupReader(text, source, budget)
  return reader.whole(kind)
}

const GROUP = /(not\.)?(or|and)(?=\()/y
const OPERATOR = /(?:not\.)?([a-z_]+)(?:\([a-z]*\))?\./y
const NAME_ENDS = /->|[.,()]/g
const VALUE_ENDS = /[,)]/g

class GroupReader {
  readonly #text: string
  readonly #source: Source
  readonly #budget: Budget
  #at = 0

  constructor(text: string, source: Source, budget: Budget) {
    this.#text = text
    this.#source = source
    this.#budget = budget
  }

  whole(kind: string): Filter {
    const filter = this.#group(kind, 1)
    if (this.#at < this.#text.length) throw this.#stuck('the end')
    return filter
  }

  #group(kind: string, depth: number): Filter {
    this.#budget.open(depth, this.#source)
    this.#take('(')
    const of = [this.#term(depth)]
    while (this.#text[this.#at] === ',') {
      this.#take(',')
      of.push(this.#term(depth))
    }
    this.#take(')')
    return { kind: kind === 'or' ? 'any' : 'all', of }
  }

  /** One sign of the grammar, and the blanks behind it. */
  #take(sign: string): void {
    if (this.#text[this.#at] !== sign) throw this.#stuck(sign === ')' ? 'a comma or )' : sign)
    this.#at = pastBlanks(this.#text, this.#at + 1)
  }

  #term(depth: number): Filter {
    const [head, not, kind] = this.#match(GROUP) ?? []
    if (head === undefined || kind === undefined) return this.#filter()
    this.#at += head.length
    const group = this.#group(kind, depth + 1)
    return not === undefined ? group : negated(group)
  }

  #filter(): Filter {
    const from = this.#at
    const pieces = this.#path()
    if (pieces.length === 0) throw this.#noPath()
    const key = toKey(pieces, this.#text.slice(from, this.#at), this.#source)
    const [head, operator] = this.#match(OPERATOR) ?? []
    if (head === undefined || operator === undefined) throw this.#noOperator(key, pieces)
    const end = this.#valueEnd(operator, this.#at + head.length)
    const text = this.#text.slice(this.#at, end)
    this.#at = end
    return readExpression(key, text, this.#source, this.#budget)
  }

  /** Up to the leftmost name that is an operator or `not`; such a name of a field is written in quotes. */
  #path(): PathPiece[] {
    const pieces: PathPiece[] = []
    for (let by = ''; ; ) {
      const { end, ...piece } = pieceAt(this.#text, this.#at, NAME_ENDS, this.#source)
      if (by !== '->' && by !== '->>' && !piece.quoted && isOperatorOrNot(piece.text)) return pieces
      pieces.push({ ...piece, by })
      BETWEEN_NAMES.lastIndex = end
      by = BETWEEN_NAMES.exec(this.#text)?.[0] ?? ''
      this.#at = end + by.length
      if (by === '') return pieces
    }
  }

  /** In a group a value ends at a comma or parenthesis, unless it is quoted or in brackets of its own. */
  #valueEnd(operator: string, from: number): number {
    const first = this.#text[from]
    if (first === '"') return quotedAt(this.#text, from, this.#source).end
    const closing = first === undefined ? undefined : CLOSED_BY[first]
    const inBrackets = closing !== undefined && (first === '{' || BRACKETED.includes(operator))
    const end = inBrackets ? this.#closed(first ?? '', closing, from) : undefined
    return end ?? pieceAt(this.#text, from, VALUE_ENDS, this.#source).end
  }

  /** Behind the bracket that closes the one at `from`; those in quotes do not count. */
  #closed(opening: string, closing: string, from: number): number | undefined {
    let depth = 0
    for (let at = from; at < this.#text.length; at++) {
      const char = this.#text[at]
      if (char === '"') at = quotedAt(this.#text, at, this.#source).end - 1
      else if (char === opening) depth += 1
      else if (char === closing) depth -= 1
      if (depth === 0) return at + 1
    }
    return undefined
  }

  #match(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.#at
    return pattern.exec(this.#text)
  }

  #noPath(): Error {
    const detail = `At ${this.#at} there should be a field. not, and the name of an operator, are none without quotes.`
    return refusal(this.#source, detail, '"eq".eq.1 is the field eq; not stands behind a field: a.not.eq.1')
  }

  #noOperator(key: Key, pieces: readonly PathPiece[]): Error {
    const meant = pieces.slice(1).find(({ text, by }) => by === '.' && nearest(text, OPERATOR_NAMES))
    if (meant === undefined) return noOperator({ ...key, before: '' }, key.before, this.#source)
    const before = key.before.slice(0, key.before.indexOf(`.${meant.text}`))
    const written = (operator: string) => `${before}.${operator}.…`
    return unknownOperator(meant.text, { source: this.#source, written })
  }

  #stuck(wanted: string): Error {
    const hint = `${this.#source.name}=(a.eq.1,b.in.(2,3)); values with commas or parentheses in quotes`
    return refusal(this.#source, `At ${this.#at} there should be ${wanted}.`, hint)
  }
}

const CLOSED_BY: Readonly<Record<string, string>> = { '{': '}', '(': ')', '[': ']' }
/** Operators whose values have brackets of their own. */
const BRACKETED = ['in', 'json_path_eq', 'cs', 'cd', 'ov']

const isOperatorOrNot = (name: string): boolean => name === 'not' || isOperator(name)
