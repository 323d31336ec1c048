/** Which regular expressions a schema may hold, and which of them are cheap whatever they are matched with. */

import { LIMITS } from '../../core/limits.ts'

/** A repetition whose number is open or a range: where a backtracking engine has choices. */
const OPEN = /[*+]|\{\d+,\d*\}/g
/** Sets and escaped characters stand for one character; inside them `(`, `*` and `|` mean themselves. */
const ATOMS = /\\(?:u\{[^}]*\}|[pPk][{<][^}>]*[}>]|[\s\S])|\[(?:\\[\s\S]|[^\]\\])*\]/g
/** `(a+)+`, `(?:[a-z]*){2,}`: nothing but a repetition, repeated. Exponential in any engine that backtracks. */
const REPEATED_REPETITION = /\((?:\?:|\?<\w+>)?[^()*+{|](?:[*+]|\{\d+,\d*\})\??\)(?:[*+]|\{\d+(?:,\d*)?\})/

/** Why a pattern is not taken; undefined where it is. What this cannot tell is stopped by the clock: validate.ts. */
export function patternFault(pattern: string): string | undefined {
  if (pattern.length > LIMITS.patternCharsMax) return `is longer than ${LIMITS.patternCharsMax} characters`
  if (!compiles(pattern)) return 'is not a regular expression (ECMA-262, unicode mode)'
  if (REPEATED_REPETITION.test(pattern.replaceAll(ATOMS, 'x')))
    return 'repeats a repetition, which can take for ever'
  return undefined
}

/** The same for a pattern of names: all of an object's are joined into one, so none may count or name groups. */
export function namePatternFault(pattern: string): string | undefined {
  if (/\\[1-9]|\\k<|\(\?</.test(pattern))
    return 'refers to a group or names one, which a pattern of names must not'
  return patternFault(pattern)
}

/** Whether matching takes at most quadratic time: one open repetition at most, no choice, no back reference. */
export function isCalm(pattern: string): boolean {
  if (/\\[1-9]|\\k</.test(pattern)) return false
  const bare = pattern.replaceAll(ATOMS, 'x')
  return !/[|(]/.test(bare) && [...bare.matchAll(OPEN)].length <= 1
}

function compiles(pattern: string): boolean {
  try {
    return new RegExp(pattern, 'u') instanceof RegExp
  } catch {
    return false
  }
}
