/** Implements the builtins that cut, join, compare and match strings. */

import { type Budget, charge, checkSize, spend } from '../../budget.ts'
import type { Json } from '../../json.ts'
import { RegexError } from '../../regex/code-point-sets.ts'
import { parseRegex } from '../../regex/parse.ts'
import { type Program, programOf } from '../../regex/program.ts'
import { search } from '../../regex/search.ts'
import { codePointsOf, splitText } from '../code-points.ts'
import type { Expression } from '../expression.ts'
import type { ValueBuiltins } from '../filter.ts'
import { jqError } from '../jq-error.ts'
import { valuesIn } from '../operators.ts'
import { writeJson } from '../write-json.ts'

/** White space of C. */
const BLANK_BEFORE = /^[\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/
const BLANK =
  '\t\n\v\f\r \u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000'

export const STRINGS: ValueBuiltins = {
  'test/2': ({ budget }, input, regex, flags) => matches(input, regex, flags, budget, true).length > 0,
  '_match/2': ({ budget }, input, regex, flags) => matches(input, regex, flags, budget, false),
  'startswith/1': ({ budget }, input, part) => {
    const [text, start] = stringPair(input, part, 'startswith', budget)
    return text.startsWith(start)
  },
  'endswith/1': ({ budget }, input, part) => {
    const [text, end] = stringPair(input, part, 'endswith', budget)
    return text.endsWith(end)
  },
  'ltrimstr/1': ({ budget }, input, part) => withoutStart(...stringPair(input, part, 'startswith', budget)),
  'rtrimstr/1': ({ budget }, input, part) => withoutEnd(...stringPair(input, part, 'endswith', budget)),
  'trimstr/1': ({ budget }, input, part) => {
    const [text, edge] = stringPair(input, part, 'startswith', budget)
    return withoutEnd(withoutStart(text, edge), edge)
  },
  'trim/0': ({ budget }, input) => trimmed(input, true, true, budget),
  'ltrim/0': ({ budget }, input) => trimmed(input, true, false, budget),
  'rtrim/0': ({ budget }, input) => trimmed(input, false, true, budget),
  'split/1': ({ budget }, input, separator) => {
    if (typeof input !== 'string' || typeof separator !== 'string') {
      throw jqError('split input and separator must be strings')
    }
    return splitText(input, separator, budget)
  },
  'join/1': ({ budget }, input, separator) => join(input, separator, budget),
  'ascii_downcase/0': ({ budget }, input) => {
    return cased(input, budget, (text) => text.replace(/[A-Z]+/g, (part) => part.toLowerCase()))
  },
  'ascii_upcase/0': ({ budget }, input) => {
    return cased(input, budget, (text) => text.replace(/[a-z]+/g, (part) => part.toUpperCase()))
  },
  'explode/0': ({ budget }, input) => {
    if (typeof input !== 'string') throw jqError('explode input must be a string')
    return codePointsOf(input, budget)
  },
  'ascii/0': (_context, input) => {
    if (typeof input !== 'number' || !(input >= 0 && input < 128)) {
      throw jqError('%v is not the code of an ASCII character', input)
    }
    return String.fromCharCode(input)
  },
}

/** Two strings to compare, which is charged. */
function stringPair(input: Json, part: Json, name: string, budget: Budget): [string, string] {
  if (typeof input === 'string' && typeof part === 'string') {
    spend(budget, Math.min(input.length, part.length) >> 6)
    return [input, part]
  }
  throw jqError(`${name}() requires string inputs`)
}

function withoutStart(text: string, start: string): string {
  return text.startsWith(start) ? text.slice(start.length) : text
}

function withoutEnd(text: string, end: string): string {
  return text.endsWith(end) ? text.slice(0, text.length - end.length) : text
}

function trimmed(input: Json, before: boolean, after: boolean, budget: Budget): string {
  if (typeof input !== 'string') throw jqError('trim input must be a string')
  spend(budget, input.length >> 4)
  const start = before ? (BLANK_BEFORE.exec(input)?.[0].length ?? 0) : 0
  let end = input.length
  while (after && end > start && BLANK.includes(input[end - 1] ?? '')) end--
  return input.slice(start, end)
}

function cased(input: Json, budget: Budget, change: (text: string) => string): string {
  if (typeof input !== 'string') throw jqError('explode input must be a string')
  charge(budget, input.length)
  return change(input)
}

/** Numbers and booleans are written as JSON, null is empty. It fails where jq's pairwise sums fail. */
function join(input: Json, separator: Json, budget: Budget): Json {
  const texts: string[] = []
  let size = 0
  for (const item of valuesIn(input, budget)) {
    spend(budget, 1)
    if (texts.length > 0 && typeof separator !== 'string' && separator !== null) {
      throw jqError('%v and %v cannot be added', texts.join(''), separator)
    }
    const between = typeof separator === 'string' ? separator : ''
    if (typeof item === 'object' && item !== null) {
      const before = texts.length === 0 ? '' : texts.join(between) + between
      throw jqError('%v and %v cannot be added', before, item)
    }
    const text = item === null ? '' : typeof item === 'string' ? item : writeJson(item, budget)
    size += text.length + between.length
    checkSize(budget, size)
    texts.push(text)
  }
  charge(budget, size)
  return texts.join(typeof separator === 'string' ? separator : '')
}

const FLAGS = /^[gimnlpsx]*$/

/** Builtins whose first argument is a regular expression. */
const TAKE_REGEX = ['test', 'match', 'capture', 'scan', 'splits', 'sub', 'gsub']

/** The error of a call with an invalid literal regular expression; undefined if it is valid. */
export function diagnoseRegex(name: string, args: readonly Expression[]): string | undefined {
  const [regex, second] = args
  if (!TAKE_REGEX.includes(name) && !(name === 'split' && args.length === 2)) return undefined
  if (regex?.op !== 'literal' || typeof regex.value !== 'string') return undefined
  const flags = args.length > 2 ? args[2] : second
  try {
    compiled(regex.value, flags?.op === 'literal' && typeof flags.value === 'string' ? flags.value : '')
    return undefined
  } catch (error) {
    if (error instanceof RegexError) return `This is no regular expression: ${error.message}.`
    throw error
  }
}

interface Compiled {
  readonly program: Program
  readonly groups: readonly (string | null)[]
}

/** Steps of each search, its match included, besides those that depend on the text. */
const SEARCH_STEPS = 20

const CACHE_MAX = 100
const CACHE = new Map<string, Compiled>()

/** @throws RegexError */
function compiled(regex: string, flags: string): Compiled {
  const name = `${flags}/${regex}`
  const known = CACHE.get(name)
  if (known !== undefined) return known
  const parsed = parseRegex(regex, flags)
  const fresh = { program: programOf(parsed.regex), groups: parsed.groups }
  if (CACHE.size >= CACHE_MAX) CACHE.clear()
  CACHE.set(name, fresh)
  return fresh
}

function matches(input: Json, regex: Json, flags: Json, budget: Budget, onlyTest: boolean): Json[] {
  if (typeof input !== 'string') throw jqError('%v cannot be matched, as it is not a string', input)
  if (typeof regex !== 'string') throw jqError('%v cannot be matched, as it is not a string', regex)
  if (flags !== null && typeof flags !== 'string') throw jqError('%v is not a string', flags)
  const wanted = flags ?? ''
  if (!FLAGS.test(wanted)) throw jqError('%s is not a valid modifier string', wanted)
  charge(budget, regex.length * 16)
  const { program, groups } = compileOrFail(regex, wanted)
  const points = codePointsOf(input, budget)
  const how = { points, budget, longest: wanted.includes('l'), notEmpty: wanted.includes('n') }
  const found: Json[] = []
  for (let from = 0; from <= points.length; ) {
    spend(budget, SEARCH_STEPS + program.length)
    const slots = search(program, groups.length, from, how)
    if (slots === undefined) break
    found.push(onlyTest ? null : described(slots, groups, points, budget))
    if (onlyTest || !wanted.includes('g')) break
    const [begin = 0, end = 0] = slots
    from = end === begin ? end + 1 : end
  }
  return found
}

function compileOrFail(regex: string, flags: string): Compiled {
  try {
    return compiled(regex, flags)
  } catch (error) {
    if (error instanceof RegexError)
      throw jqError(`%s (at offset 0) is not a valid regex: ${error.message}`, regex)
    throw error
  }
}

function described(
  slots: readonly number[],
  groups: readonly (string | null)[],
  points: readonly number[],
  budget: Budget,
): Json {
  const part = (group: number): { offset: number; length: number; string: string | null } => {
    const [begin = -1, end = -1] = slots.slice(group * 2, group * 2 + 2)
    if (begin < 0) return { offset: -1, length: 0, string: null }
    spend(budget, end - begin)
    return { offset: begin, length: end - begin, string: textOf(points, begin, end) }
  }
  return { ...part(0), captures: groups.map((name, i) => ({ ...part(i + 1), name })) }
}

function textOf(points: readonly number[], begin: number, end: number): string {
  let text = ''
  for (let i = begin; i < end; i++) text += String.fromCodePoint(points[i] ?? 0)
  return text
}
