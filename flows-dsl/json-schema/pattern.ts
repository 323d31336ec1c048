/** Translates ECMA-262 patterns to the engine of expressions and matches them in linear time. */

import { type Budget, spend } from '../budget.ts'
import { codePointsOf } from '../jq/code-points.ts'
import { RegexError } from '../regex/code-point-sets.ts'
import { parseRegex } from '../regex/parse.ts'
import { type Program, programOf } from '../regex/program.ts'
import { search } from '../regex/search.ts'

const LENGTH_MAX = 256
/** Cache of compiled patterns. */
const PROGRAMS = new Map<string, Program>()
const PROGRAMS_MAX = 100

/** The reason to reject a pattern; undefined if it is accepted. */
export function patternError(pattern: string): string | undefined {
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
 * Tests if a text contains a match.
 * @throws FlowError (expression) if the budget is exhausted
 */
export function matches(pattern: string, text: string, budget: Budget): boolean {
  const program = PROGRAMS.get(pattern) ?? programFor(pattern)
  if (program === undefined) return false
  // Charged on cache hits, too: the cost must not depend on the cache, or replays would differ.
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

const TOKEN =
  /\\u\{([0-9a-fA-F]+)\}|\\u([dD][89abAB][0-9a-fA-F]{2})\\u([dD][c-fC-F][0-9a-fA-F]{2})|\\u([0-9a-fA-F]{4})|\\(?:c[A-Za-z]|0)|\\[\s\S]|[\s\S]/gu
const OUTSIDE: Readonly<Record<string, string>> = {
  '\\d': '[0-9]',
  '\\D': '[^0-9]',
  '\\w': '[A-Za-z0-9_]',
  '\\W': '[^A-Za-z0-9_]',
  '.': '[^\\n\\r\\u2028\\u2029]',
  $: '\\z',
}
const INSIDE: Readonly<Record<string, string>> = { '\\d': '0-9', '\\w': 'A-Za-z0-9_', '[': '\\[' }

/** Translates a valid ECMA-262 pattern to Oniguruma syntax; undefined if it has no equivalent. */
function translated(pattern: string): string | undefined {
  let text = ''
  /** The start in `text` of the set that is being read. */
  let set: number | undefined
  for (const [token, point, high, low, unit] of pattern.matchAll(TOKEN)) {
    const known = set === undefined ? OUTSIDE : INSIDE
    const isEnd = set !== undefined && token === ']'
    // Oniguruma has no set of nothing, or of everything, and none within a set.
    if (isEnd && /^\[\^?$/.test(text.slice(set))) return undefined
    if (set !== undefined && (token === '\\D' || token === '\\W')) return undefined
    if (set === undefined && token === '[') set = text.length
    if (high !== undefined && low !== undefined) text += `\\x{${paired(high, low)}}`
    else if (point !== undefined || unit !== undefined) text += `\\x{${point ?? unit}}`
    else if (/^\\(?:c|0)/.test(token)) text += `\\x{${controlOf(token)}}`
    else text += (Object.hasOwn(known, token) && known[token]) || token
    if (isEnd) set = undefined
  }
  return text
}

function paired(high: string, low: string): string {
  const point = (Number.parseInt(high, 16) - 0xd800) * 0x400 + Number.parseInt(low, 16) - 0xdc00 + 0x10000
  return point.toString(16)
}

function controlOf(token: string): string {
  return token === '\\0' ? '0' : (token.charCodeAt(2) % 32).toString(16)
}
