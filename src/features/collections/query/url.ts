/** Parses the filters of a URL: `field=operator.value` pairs, and groups such as `or=(a.eq.1,not.and(b.gt.2))`. */

import { nearest } from '../../../../flows-dsl/diagnostics/diagnostics.ts'
import { ALL, type Filter, negated, ofOwnField, type Path } from './filter.ts'
import {
  pastBlanks,
  readBraces,
  readContainer,
  readParentheses,
  readPathTest,
  readPattern,
} from './operands.ts'
import {
  isOperator,
  OPERATOR_NAMES,
  type Operand,
  RELATED_NAMES,
  readOperator,
  unknownOperator,
} from './operators.ts'
import {
  BETWEEN_NAMES,
  Budget,
  type FilterOptions,
  type PathPiece,
  type Piece,
  pieceAt,
  pieceOf,
  quotedAt,
  readLiteral,
  refusal,
  type Source,
  splitPath,
  toPath,
} from './syntax.ts'

const GROUP = /^(not\.)?(or|and)$/

/** Keys that are or may become parameters; a field of such a name is written in quotes. */
const RESERVED = /^(not|expand|having|limit|offset|count|columns|on_conflict|apikey)$|^(page|csv)\[/

/** All pairs hold; the same field may come more than once. */
export function readFilters(pairs: readonly (readonly [string, string])[], options?: FilterOptions): Filter {
  const budget = new Budget(options)
  return { kind: 'all', of: pairs.map((pair) => readPair(pair, budget)) }
}

/** `total.gt.100,or(n.gte.2,n.is.null)`, with or without parentheses around all of it; all hold. */
export function readHaving(text: string): Filter {
  const source: Source = { code: 'filter_invalid', in: 'query', name: 'having' }
  const group = /^\s*\(.*\)\s*$/su.test(text) ? text.trim() : `(${text})`
  return new GroupReader(group, source, new Budget()).whole('and')
}

const PAGE_SIZE = 'page[size]=20'
const PAGE_AFTER = 'page[after]=, with page.next of the page before'

const GROUPS = 'GET …/aggregate?select=status,n:count()&having=n.gt.1'

/** Parameters of other backends or other routes, and what there is instead. */
const MEANT: Readonly<Record<string, string>> = {
  limit: `Pages: ${PAGE_SIZE}.`,
  offset: `Pages: ${PAGE_AFTER}.`,
  having: `Groups: ${GROUPS}.`,
}

/** Names of other backends that may as well be fields, and what they are called here. */
const FOREIGN: Readonly<Record<string, string>> = {
  page_size: PAGE_SIZE,
  per_page: PAGE_SIZE,
  page: PAGE_AFTER,
  page_after: PAGE_AFTER,
  after: PAGE_AFTER,
  cursor: PAGE_AFTER,
  sort: 'order=a.desc',
  order_by: 'order=a.desc',
  fields: 'select=a,b',
  include: 'expand=customer(name)',
  populate: 'expand=customer(name)',
  group_by: GROUPS,
}
const PARAMETERS = ['select', 'order', 'expand', 'count', 'page[size]', 'page[after]']

/** Rejects a pair that is no filter because its name is meant as a parameter. */
function refuseMisspelt(key: string, text: string, source: Source): void {
  const [, , operator = ''] = EXPRESSION.exec(text) ?? []
  if (isOperator(operator) || RELATED_NAMES.includes(operator)) return
  const meant = Object.hasOwn(FOREIGN, key) ? FOREIGN[key] : nearest(key, PARAMETERS)
  if (meant === undefined) return
  const field = `A filter of a field of that name has an operator: ${key.slice(0, 50)}=eq.${text.slice(0, 50)}`
  throw refusal(
    { ...source, code: 'unknown_parameter' },
    `${key.slice(0, 50)} is not a parameter of this route.`,
    `Did you mean ${meant}? ${field}`,
  )
}

function readPair([key, text]: readonly [string, string], budget: Budget): Filter {
  const source: Source = { code: 'filter_invalid', in: 'query', name: key }
  const [, not, kind] = GROUP.exec(key) ?? []
  if (kind !== undefined) {
    const group = new GroupReader(text, source, budget).whole(kind)
    return not === undefined ? group : negated(group)
  }
  if (RESERVED.test(key)) {
    const quoted = `A field of that name is written in quotes: "${key}"=eq.…`
    const meant = MEANT[key]
    const hint = meant === undefined ? quoted : `${meant} ${quoted}`
    throw refusal({ ...source, code: 'unknown_parameter' }, `${key} is not a parameter of this route.`, hint)
  }
  refuseMisspelt(key, text, source)
  return readExpression(toKey(splitPath(key, source), `${key}=`, source), text, source, budget)
}

/** A field and its notation. */
interface Key {
  readonly path: Path
  /** True if its last name stands behind `->>`: comparisons use its text. */
  readonly asText: boolean
  /** True if its first name is in quotes: a field of the document, and no reference. */
  readonly isOwn: boolean
  /** The text before the operator, for hints. */
  readonly before: string
}

function toKey(pieces: readonly PathPiece[], before: string, source: Source): Key {
  return {
    path: toPath(pieces, source),
    asText: pieces.at(-1)?.by === '->>',
    isOwn: pieces[0]?.quoted === true,
    before: before.slice(0, 100),
  }
}

const EXPRESSION = /^(not\.)?([a-z_]+)(?:\(([a-z]*)\))?\.(.*)$/su

/** The value reaches to the end of the text, commas and all. */
function readExpression(key: Key, text: string, source: Source, budget: Budget): Filter {
  const [, not, name, quantifier, value = ''] = EXPRESSION.exec(text) ?? []
  if (name === undefined) throw noOperator(key, text, source)
  const operand = textOperand(value, pieceOf(value), { key, source, budget })
  const read = readOperator(key.path, { name, quantifier }, operand, budget)
  const filter = key.isOwn ? ofOwnField(read) : read
  return not === undefined ? filter : negated(filter)
}

function noOperator({ before }: Key, text: string, source: Source): Error {
  const detail = `The filter ${before.slice(0, 50)}${text.slice(0, 50)} has no operator.`
  return refusal({ ...source, code: 'filter_operator_missing' }, detail, `${before}eq.${text.slice(0, 100)}`)
}

function textOperand(
  text: string,
  piece: Piece,
  on: { readonly key: Key; readonly source: Source; readonly budget: Budget },
): Operand {
  const { key, source, budget } = on
  const literal = () => readLiteral(piece, source)
  return {
    source,
    isNull: false,
    literal,
    comparable: () => (key.asText ? [piece.text] : literal()),
    list: () => readParentheses(text, source),
    pattern: () => readPattern(piece.text, source),
    pathTest: () => readPathTest(text, source),
    container: () => readContainer(text, source),
    word: () => text.toLowerCase(),
    each: () => readBraces(text, source).map((element) => textOperand(element.text, element, on)),
    filter: () => (text === '()' ? ALL : new GroupReader(text, source, budget).whole('and')),
    written: (operator) => `${key.before}${operator}.…`,
  }
}

const GROUP_START = /(not\.)?(or|and)(?=\()/y
const OPERATOR = /(?:not\.)?([a-z_]+)(?:\([a-z]*\))?\./y
/** Without a filter in parentheses, the same word is a field. */
const RELATED_OPERATOR = new RegExp(`(?:not\\.)?(?:${RELATED_NAMES.join('|')})\\.\\(`, 'y')
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

  /** @param kind joins the members: `or`, `and`. @throws Problem with the offset at which the text cannot be read on */
  whole(kind: string): Filter {
    const filter = this.#group(kind, 1)
    if (this.#at < this.#text.length) throw this.#unexpected('the end')
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

  /** Consumes a character of the grammar and the blanks behind it. */
  #take(sign: string): void {
    if (this.#text[this.#at] !== sign) throw this.#unexpected(sign === ')' ? 'a comma or )' : sign)
    this.#at = pastBlanks(this.#text, this.#at + 1)
  }

  #term(depth: number): Filter {
    const [head, not, kind] = this.#match(GROUP_START) ?? []
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
      if (pieces.length > 0 && by === '.' && this.#match(RELATED_OPERATOR) !== null) return pieces
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

  /** The offset behind the bracket that closes the one at `from`; brackets in quotes do not count. */
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
    return refusal(
      this.#source,
      detail,
      'Write "eq".eq.1 for a field named eq, and a.not.eq.1 to negate an operator.',
    )
  }

  #noOperator(key: Key, pieces: readonly PathPiece[]): Error {
    const misspelt = pieces.slice(1).find(({ text, by }) => by === '.' && nearest(text, OPERATOR_NAMES))
    if (misspelt === undefined) return noOperator({ ...key, before: '' }, key.before, this.#source)
    const before = key.before.slice(0, key.before.indexOf(`.${misspelt.text}`))
    const written = (operator: string) => `${before}.${operator}.…`
    return unknownOperator(misspelt.text, { source: this.#source, written })
  }

  #unexpected(expected: string): Error {
    const hint = `${this.#source.name}=(a.eq.1,b.in.(2,3)); values with commas or parentheses in quotes`
    return refusal(this.#source, `At ${this.#at} there should be ${expected}.`, hint)
  }
}

const CLOSED_BY: Readonly<Record<string, string>> = { '{': '}', '(': ')', '[': ']' }
/** Operators whose values have brackets of their own. */
const BRACKETED = ['in', 'json_path_eq', 'cs', 'cd', 'ov', ...RELATED_NAMES]

const isOperatorOrNot = (name: string): boolean => name === 'not' || isOperator(name)
