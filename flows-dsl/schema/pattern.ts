/** Knows which regular expressions a schema may hold, and matches them within the budget. */

import { type Budget, spend } from '../expression/budget.ts'

const LENGTH_MAX = 256
/** A repetition whose number is open or a range: where a backtracking engine has choices. */
const OPEN = /[*+?]|\{\d+,\d*\}/g
/** Sets and escaped characters stand for one character; inside them signs mean themselves. */
const ATOMS = /\\(?:u\{[^}]*\}|[pPk][{<][^}>]*[}>]|[\s\S])|\[(?:\\[\s\S]|[^\]\\])*\]/g

/** Why a pattern is not taken; undefined where it is. */
export function patternFault(pattern: string): string | undefined {
  if (pattern.length > LENGTH_MAX) return `is longer than ${LENGTH_MAX} characters`
  if (!compiles(pattern)) return 'is not a regular expression (ECMA-262, unicode mode)'
  if (/\\[1-9]|\\k</.test(pattern)) return 'refers to a group'
  const bare = pattern.replaceAll(ATOMS, 'x')
  if (/[|(]/.test(bare)) return 'has groups or alternatives'
  return (bare.match(OPEN) ?? []).length > 1 ? 'has more than one open repetition' : undefined
}

/**
 * Whether a text holds a match. One open repetition costs at most the square of the text, and nothing where it must
 * begin at the start; that is paid for before.
 * @throws FlowError (expression) where the budget ends
 */
export function matches(pattern: string, text: string, budget: Budget): boolean {
  const isBound = pattern.startsWith('^') || (pattern.replaceAll(ATOMS, 'x').match(OPEN) ?? []).length === 0
  spend(budget, 1 + (isBound ? text.length / 16 : (text.length * text.length) / 64))
  return new RegExp(pattern, 'u').test(text)
}

function compiles(pattern: string): boolean {
  try {
    return new RegExp(pattern, 'u') instanceof RegExp
  } catch {
    return false
  }
}
