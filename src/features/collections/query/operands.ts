/** Readers of operands: JSON values, lists, patterns of `like`, and paths of `json_path_eq`. */

import { isObject } from '../../../core/json.ts'
import { CORE_LIMITS } from '../../../core/limits.ts'
import { Problem } from '../../../core/problem.ts'
import { checkNothingLost } from '../../../core/strict-json.ts'
import type { Json } from '../../../core/work.ts'
import { COLLECTION_LIMITS } from '../limits.ts'
import type { Literal, Members, Pattern, PatternPart, Step, Test } from './filter.ts'
import { checkText, type Piece, pieceAt, pieceOf, readLiteral, refusal, type Source } from './syntax.ts'

export type JsonObject = Readonly<Record<string, unknown>>

/** Rejects a filter with too many names and values before each one is checked. */
export function checkParts(filter: JsonObject, source: Source): void {
  const open: object[] = [filter]
  let parts = 0
  for (let value = open.pop(); value !== undefined; value = open.pop()) {
    const members = Object.values(value)
    parts += members.length
    if (parts > COLLECTION_LIMITS.filterPartsMax)
      throw refusal(
        source,
        `A filter has at most ${COLLECTION_LIMITS.filterPartsMax} names and values in all.`,
      )
    for (const member of members) if (typeof member === 'object' && member !== null) open.push(member)
  }
}

/** Checks the depth first, since the sender chooses it. */
export function checkJson(value: unknown, source: Source, depth = 1): Json {
  if (typeof value === 'string') checkText(value, source)
  // JSON has no infinity: serialized again it would be null.
  if (typeof value === 'number' && !Number.isFinite(value))
    throw refusal(source, 'A number is larger than the largest that can be stored.')
  if (typeof value === 'object' && value !== null) checkInside(value, source, depth)
  return value as Json
}

function checkInside(value: object, source: Source, depth: number): void {
  if (depth > CORE_LIMITS.documentDepthMax)
    throw refusal(source, 'A value is nested deeper than a document can be.')
  for (const [name, member] of Object.entries(value)) {
    checkText(name, source)
    checkJson(member, source, depth + 1)
  }
}

/** Rejects lists with too many elements. */
export function checkElements(elements: readonly unknown[], source: Source): void {
  if (elements.length <= COLLECTION_LIMITS.filterValuesMax) return
  const detail = `A list has at most ${COLLECTION_LIMITS.filterValuesMax} elements; this one has ${elements.length}.`
  throw refusal({ ...source, code: 'filter_too_large' }, detail, 'Split the query.')
}

/** The operand of a comparison with an array or an object. */
export type Container = { readonly values: readonly Literal[] } | { readonly members: Members }

/** @throws Problem if it is neither an array nor an object */
export function containerOf(value: unknown, source: Source): Container {
  const json = checkJson(value, source)
  if (isObject(json)) return { members: json as Members }
  if (!Array.isArray(json)) throw refusal(source, 'cs, cd and ov take an array or an object.')
  checkElements(json, source)
  return { values: json.map((element): Literal => [element]) }
}

/** `(a,"b,c",3)`; blanks belong to the elements; `()` is the empty list. */
export function readParentheses(text: string, source: Source): Literal[] {
  const content = /^\((.*)\)$/su.exec(text)?.[1]
  if (content === undefined)
    throw refusal(source, '`in` takes a list in parentheses.', `${source.name}=in.(a,b)`)
  return elementsOf(content, source, false).map((piece) => {
    if (!piece.quoted && piece.text.includes(')'))
      throw refusal(source, 'Write an element with a parenthesis in quotes.')
    return readLiteral(piece, source)
  })
}

/** `{a,"b,c",3}`; blanks around an element are ignored; `{}` is the empty list. */
export function readBraces(text: string, source: Source): Piece[] {
  const content = /^\{(.*)\}$/su.exec(text)?.[1]
  if (content === undefined) throw refusal(source, 'Write a list in braces: {a,"b c"}.')
  return elementsOf(content.trim(), source, true).map((piece) => {
    if (!piece.quoted && (piece.text === '' || /[{}"\\]/.test(piece.text)))
      throw refusal(source, 'Write an element that is empty or has braces, quotes or backslashes in quotes.')
    return piece
  })
}

const COMMA = /,/g
const BLANKS = /\s*/y

function elementsOf(content: string, source: Source, blanks: boolean): Piece[] {
  if (content === '') return []
  const skip = (at: number) => (blanks ? pastBlanks(content, at) : at)
  const pieces: Piece[] = []
  for (let at = 0; at <= content.length; at += 1) {
    const { end, text, quoted } = pieceAt(content, skip(at), COMMA, source)
    pieces.push({ text: blanks && !quoted ? text.trim() : text, quoted })
    at = skip(end)
    if (at < content.length && content[at] !== ',')
      throw refusal(source, `A closing quote is followed by other text at ${at}.`)
  }
  checkElements(pieces, source)
  return pieces
}

/** The offset after the blanks that begin at `at`. */
export function pastBlanks(text: string, at: number): number {
  BLANKS.lastIndex = at
  return at + (BLANKS.exec(text)?.[0].length ?? 0)
}

/** Reads the operand of `cs`, `cd` and `ov`: `{a,"b"}`, or JSON that is an array or an object with members. */
export function readContainer(text: string, source: Source): Container {
  const json = text.startsWith('[') || /^\{\s*"/.test(text) ? jsonOf(text, source) : undefined
  if (json !== undefined) return containerOf(json, source)
  if (text.startsWith('{')) {
    return { values: readBraces(text, source).map((piece) => readLiteral(piece, source)) }
  }
  const hint = `${source.name}=cs.{a,b}; in JSON: cs.["a",1], cs.{"a":1}`
  throw refusal(source, 'cs, cd and ov take a list in braces, or a JSON array or object.', hint)
}

/**
 * Parses JSON; undefined for texts such as `{"a","b"}`, which is a list in braces.
 * @throws Problem for numbers that would be rounded and names that come twice, as in a body
 */
function jsonOf(text: string, source: Source): unknown {
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return undefined
  }
  try {
    checkNothingLost(text, value)
  } catch (error) {
    if (!(error instanceof Problem)) throw error
    const code = error.code === 'number_unsafe' ? error.code : source.code
    throw refusal({ ...source, code }, error.message)
  }
  return value
}

const WILD: Readonly<Record<string, 'any' | 'one'>> = { '%': 'any', '*': 'any', _: 'one' }

/** @throws Problem `filter_too_large`: each wildcard multiplies the work of a store's matcher */
export function readPattern(text: string, source: Source): Pattern {
  checkText(text, source)
  if (text.length > COLLECTION_LIMITS.patternCharsMax) {
    const detail = `A pattern has at most ${COLLECTION_LIMITS.patternCharsMax} characters.`
    throw refusal({ ...source, code: 'filter_too_large' }, detail)
  }
  const parts: PatternPart[] = []
  let literal = ''
  const flush = () => {
    if (literal !== '') parts.push({ text: literal })
    literal = ''
  }
  for (const [token] of text.matchAll(/\\.|./gsu)) {
    const wild = WILD[token]
    if (wild === undefined) {
      literal += token.length > 1 && token.startsWith('\\') ? token.slice(1) : token
      continue
    }
    flush()
    if (wild === 'one' || parts.at(-1) !== 'any') parts.push(wild)
  }
  flush()
  if (parts.filter((part) => part === 'any').length > COLLECTION_LIMITS.patternWildcardsMax) {
    const detail = `A pattern has at most ${COLLECTION_LIMITS.patternWildcardsMax} runs of % or *.`
    throw refusal({ ...source, code: 'filter_too_large' }, detail)
  }
  return parts
}

/** The text that a pattern begins with, if it begins with one. */
export function prefixOf([first]: Pattern): string | undefined {
  return typeof first === 'object' ? first.text : undefined
}

/** True if an index of trigrams narrows the texts that match: three characters of a word follow each other. */
export const hasTrigrams = (pattern: Pattern): boolean =>
  pattern.some((part) => typeof part === 'object' && /[\p{L}\p{N}]{3}/u.test(part.text))

/** The first text by code point behind all that begin with `prefix`; undefined if there is none. */
export function behindPrefix(prefix: string): string | undefined {
  const points = Array.from(prefix, (char) => char.codePointAt(0) ?? 0)
  while (points.at(-1) === LAST_POINT) points.pop()
  const last = points.pop()
  if (last === undefined) return undefined
  // No text contains lone surrogates; the code point behind them comes next.
  return String.fromCodePoint(...points, last + 1 === HALVES.from ? HALVES.to : last + 1)
}

const LAST_POINT = 0x10ffff
const HALVES = { from: 0xd800, to: 0xe000 }

const STEPS: readonly [RegExp, (text: string) => Step][] = [
  [/\[\*\]/y, () => 'every'],
  [/\[(0|[1-9][0-9]{0,8})\]/y, (text) => ({ index: Number(text) })],
  [/\['((?:[^'\\]|\\.)*)'\]/suy, (text) => ({ member: text.replaceAll(/\\(.)/gsu, '$1') })],
  [/\.([\p{L}\p{N}_$-]+)/uy, (text) => ({ member: text })],
]

/** `(<path>,<literal>)`; the parentheses are optional, and the comma may be a colon. */
export function readPathTest(text: string, source: Source): Test {
  const content = /^\((.*)\)$/su.exec(text)?.[1] ?? text
  const { steps, end } = readSteps(content, source)
  if (content[end] !== ',' && content[end] !== ':') {
    const expected = "a step (`.name`, `[0]`, `[*]`, `['name']`) or a comma"
    throw refusal(
      source,
      `At ${end} of the path there should be ${expected}.`,
      `${source.name}=json_path_eq.($.a.b,value)`,
    )
  }
  return { op: 'at', steps, value: readLiteral(pieceOf(content.slice(end + 1)), source) }
}

/** The steps at the beginning of a text, and their end. `$` and the first dot are optional. */
export function readSteps(text: string, source: Source): { steps: Step[]; end: number } {
  const steps: Step[] = []
  const bare = /^[\p{L}_]/u.test(text)
  const rest = bare ? `.${text}` : text
  let at = rest.startsWith('$') ? 1 : 0
  for (;;) {
    const step = stepAt(rest, at)
    if (step === undefined) return { steps, end: bare ? at - 1 : at }
    if (steps.length >= COLLECTION_LIMITS.pathDepthMax)
      throw refusal(source, `A path has at most ${COLLECTION_LIMITS.pathDepthMax} steps.`)
    if (typeof step.step === 'object' && 'member' in step.step) checkText(step.step.member, source)
    steps.push(step.step)
    at = step.end
  }
}

function stepAt(text: string, at: number): { step: Step; end: number } | undefined {
  for (const [pattern, make] of STEPS) {
    pattern.lastIndex = at
    const found = pattern.exec(text)
    if (found !== null) return { step: make(found[1] ?? ''), end: at + found[0].length }
  }
  return undefined
}
