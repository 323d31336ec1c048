/** Patterns of `like` and `ilike`: `%` or `*` any run, `_` one character, `\` takes the next as it is. */

import { LIMITS } from '../../../core/limits.ts'
import type { Pattern, PatternPart } from './filter.ts'
import { checkText, refusal, type Source } from './text.ts'

const WILD: Readonly<Record<string, 'any' | 'one'>> = { '%': 'any', '*': 'any', _: 'one' }

/** @throws Problem `filter_too_large`: each wildcard multiplies the work of a store's matcher */
export function readPattern(text: string, source: Source): Pattern {
  checkText(text, source)
  if (text.length > LIMITS.likeCharsMax) {
    const detail = `A pattern has at most ${LIMITS.likeCharsMax} characters.`
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
  if (parts.filter((part) => part === 'any').length > LIMITS.likeWildcardsMax) {
    const detail = `A pattern has at most ${LIMITS.likeWildcardsMax} runs of % or *.`
    throw refusal({ ...source, code: 'filter_too_large' }, detail)
  }
  return parts
}

/** The text that a pattern begins with, if it begins with one. */
export function prefixOf([first]: Pattern): string | undefined {
  return typeof first === 'object' ? first.text : undefined
}

/** The first text by code point behind all that begin with `prefix`; undefined where there is none. */
export function behindPrefix(prefix: string): string | undefined {
  const points = Array.from(prefix, (char) => char.codePointAt(0) ?? 0)
  while (points.at(-1) === LAST_POINT) points.pop()
  const last = points.pop()
  if (last === undefined) return undefined
  // Half surrogates are in no text; the point behind them comes next.
  return String.fromCodePoint(...points, last + 1 === HALVES.from ? HALVES.to : last + 1)
}

const LAST_POINT = 0x10ffff
const HALVES = { from: 0xd800, to: 0xe000 }
