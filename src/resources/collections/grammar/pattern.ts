/** Patterns of `like` and `ilike`: `%` or `*` any run, `_` one character, `\` takes the next as it is. */

import { LIMITS } from '../../../core/limits.ts'
import type { Pattern, PatternPart } from './filter.ts'
import { checkText, refusal, type Source } from './text.ts'

const WILD: Readonly<Record<string, 'any' | 'one'>> = { '%': 'any', '*': 'any', _: 'one' }

/** @throws Problem `filter_too_large`: each wildcard multiplies the work of a store's matcher */
export function readPattern(text: string, source: Source): Pattern {
  checkText(text, source)
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
