/** Knows which regular expressions a schema may hold, and matches them in time that grows with the text alone. */

import { type Budget, spend } from '../expression/budget.ts'
import { parseRegex } from '../expression/regex/parse.ts'
import { type Program, programOf } from '../expression/regex/program.ts'
import { search } from '../expression/regex/search.ts'
import { RegexError } from '../expression/regex/sets.ts'
import { codePointsOf } from '../expression/text.ts'
import { translated } from './translate.ts'

const LENGTH_MAX = 256
/** Those that were used last; a schema asks the same of many values. */
const PROGRAMS = new Map<string, Program>()
const PROGRAMS_MAX = 100

/** Why a pattern is not taken; undefined where it is. */
export function patternFault(pattern: string): string | undefined {
  if (pattern.length > LENGTH_MAX) return `is longer than ${LENGTH_MAX} characters`
  if (!compiles(pattern)) return 'is not a regular expression (ECMA-262, unicode mode)'
  try {
    return programFor(pattern) === undefined ? 'has a set that is not supported' : undefined
  } catch (error) {
    if (error instanceof RegexError) return `cannot be matched in linear time: ${error.message}`
    throw error
  }
}

/**
 * Whether a text holds a match.
 * @throws FlowError (expression) where the budget ends
 */
export function matches(pattern: string, text: string, budget: Budget): boolean {
  const program = PROGRAMS.get(pattern) ?? programFor(pattern)
  if (program === undefined) return false
  // The same whether it was there or not: a replay may find other programs in memory.
  spend(budget, 1 + program.length)
  if (PROGRAMS.size >= PROGRAMS_MAX) PROGRAMS.clear()
  PROGRAMS.set(pattern, program)
  const how = { points: codePointsOf(text, budget), budget, longest: false, notEmpty: false }
  return search(program, 0, 0, how) !== undefined
}

/** @throws RegexError */
function programFor(pattern: string): Program | undefined {
  const text = translated(pattern)
  return text === undefined ? undefined : programOf(parseRegex(text, '').regex)
}

function compiles(pattern: string): boolean {
  try {
    return new RegExp(pattern, 'u') instanceof RegExp
  } catch {
    return false
  }
}
