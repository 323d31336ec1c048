/** Knows `match` and `test`: which matches of a regular expression a text has. */

import type { Json } from '../../json.ts'
import { type Budget, charge, spend } from '../budget.ts'
import type { Expression } from '../expression.ts'
import { failure } from '../failure.ts'
import { parseRegex } from '../regex/parse.ts'
import { type Program, programOf } from '../regex/program.ts'
import { RegexFault } from '../regex/regex.ts'
import { search } from '../regex/search.ts'
import { pointsOf } from '../text.ts'
import type { ValueBuiltins } from './builtin.ts'

const FLAGS = /^[gimnlpsx]*$/

/** What a call with a regular expression as its first argument is called. */
const TAKE_REGEX = ['test', 'match', 'capture', 'scan', 'splits', 'sub', 'gsub']

export const REGEX: ValueBuiltins = {
  'test/2': ({ budget }, input, regex, flags) => matches(input, regex, flags, budget, true).length > 0,
  '_match/2': ({ budget }, input, regex, flags) => matches(input, regex, flags, budget, false),
}

/** Why a call with a literal regular expression would always fail. */
export function faultOfRegex(name: string, args: readonly Expression[]): string | undefined {
  const [regex, second] = args
  if (!TAKE_REGEX.includes(name) && !(name === 'split' && args.length === 2)) return undefined
  if (regex?.op !== 'literal' || typeof regex.value !== 'string') return undefined
  const flags = args.length > 2 ? args[2] : second
  try {
    compiled(regex.value, flags?.op === 'literal' && typeof flags.value === 'string' ? flags.value : '')
    return undefined
  } catch (error) {
    if (error instanceof RegexFault) return `This is no regular expression: ${error.message}.`
    throw error
  }
}

interface Compiled {
  readonly program: Program
  readonly groups: readonly (string | null)[]
}

/** What each search costs before it has looked at anything, with the match that it makes. */
const SEARCH_STEPS = 20

const CACHE_MAX = 100
const CACHE = new Map<string, Compiled>()

/** @throws RegexFault */
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
  if (typeof input !== 'string') throw failure('%v cannot be matched, as it is not a string', input)
  if (typeof regex !== 'string') throw failure('%v cannot be matched, as it is not a string', regex)
  if (flags !== null && typeof flags !== 'string') throw failure('%v is not a string', flags)
  const wanted = flags ?? ''
  if (!FLAGS.test(wanted)) throw failure('%s is not a valid modifier string', wanted)
  charge(budget, regex.length * 16)
  const { program, groups } = compileOrFail(regex, wanted)
  const points = pointsOf(input, budget)
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
    if (error instanceof RegexFault)
      throw failure(`%s (at offset 0) is not a valid regex: ${error.message}`, regex)
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
