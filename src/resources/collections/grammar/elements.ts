/** Lists in the URL: `(a,"b",3)` of `in`, `{a,"b",3}` as PostgreSQL writes arrays, and JSON. */

import type { Literal } from './filter.ts'
import { type Container, checkElements, containerOf } from './json-value.ts'
import { type Piece, pieceAt, readLiteral, refusal, type Source } from './text.ts'

/** `(a,"b,c",3)`, blanks and all; `()` is the list of nothing. */
export function readParentheses(text: string, source: Source): Literal[] {
  const inside = /^\((.*)\)$/su.exec(text)?.[1]
  if (inside === undefined)
    throw refusal(source, '`in` takes a list in parentheses.', `${source.name}=in.(a,b)`)
  return elementsOf(inside, source, false).map((piece) => {
    if (!piece.quoted && piece.text.includes(')'))
      throw refusal(source, 'An element with a parenthesis is written in quotes.')
    return readLiteral(piece, source)
  })
}

/** `{a,"b,c",3}`: blanks around an element are none of it; `{}` is the list of nothing. */
export function readBraces(text: string, source: Source): Piece[] {
  const inside = /^\{(.*)\}$/su.exec(text)?.[1]
  if (inside === undefined) throw refusal(source, 'Here stands a list in braces: {a,"b c"}.')
  return elementsOf(inside.trim(), source, true).map((piece) => {
    if (!piece.quoted && (piece.text === '' || /[{}"\\]/.test(piece.text)))
      throw refusal(source, 'An element that is empty or has braces, quotes or backslashes is quoted.')
    return piece
  })
}

const COMMA = /,/g
const BLANKS = /\s*/y

function elementsOf(inside: string, source: Source, blanks: boolean): Piece[] {
  if (inside === '') return []
  const skip = (at: number) => (blanks ? pastBlanks(inside, at) : at)
  const pieces: Piece[] = []
  for (let at = 0; at <= inside.length; at += 1) {
    const { end, text, quoted } = pieceAt(inside, skip(at), COMMA, source)
    pieces.push({ text: blanks && !quoted ? text.trim() : text, quoted })
    at = skip(end)
    if (at < inside.length && inside[at] !== ',')
      throw refusal(source, `A closing quote is followed by other text at ${at}.`)
  }
  checkElements(pieces, source)
  return pieces
}

/** Where the blanks from a place on end. */
export function pastBlanks(text: string, at: number): number {
  BLANKS.lastIndex = at
  return at + (BLANKS.exec(text)?.[0].length ?? 0)
}

/** What `cs`, `cd` and `ov` take: `{a,"b"}`, or JSON that is an array or an object with members. */
export function readContainer(text: string, source: Source): Container {
  const json = text.startsWith('[') || /^\{\s*"/.test(text) ? jsonOf(text) : undefined
  if (json !== undefined) return containerOf(json, source)
  if (text.startsWith('{')) {
    return { values: readBraces(text, source).map((piece) => readLiteral(piece, source)) }
  }
  const hint = `${source.name}=cs.{a,b}; in JSON: cs.["a",1], cs.{"a":1}`
  throw refusal(source, 'cs, cd and ov take a list in braces, or a JSON array or object.', hint)
}

/** `{"a","b"}` is no JSON, so it is a list in braces. */
function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
