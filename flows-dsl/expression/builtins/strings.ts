/** Knows the builtins that cut, join and compare strings. */

import type { Json } from '../../json.ts'
import { type Budget, charge, checkSize, spend } from '../budget.ts'
import { failure } from '../failure.ts'
import { pointsOf, splitText } from '../text.ts'
import { keysIn } from '../values.ts'
import { writeJson } from '../write.ts'
import type { ValueBuiltins } from './builtin.ts'

/** What C takes for blank. */
const BLANK_BEFORE = /^[\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+/
const BLANK =
  '\t\n\v\f\r \u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000'

export const STRINGS: ValueBuiltins = {
  'startswith/1': ({ budget }, input, part) => {
    const [text, start] = both(input, part, 'startswith', budget)
    return text.startsWith(start)
  },
  'endswith/1': ({ budget }, input, part) => {
    const [text, end] = both(input, part, 'endswith', budget)
    return text.endsWith(end)
  },
  'ltrimstr/1': ({ budget }, input, part) => withoutStart(...both(input, part, 'startswith', budget)),
  'rtrimstr/1': ({ budget }, input, part) => withoutEnd(...both(input, part, 'endswith', budget)),
  'trimstr/1': ({ budget }, input, part) => {
    const [text, edge] = both(input, part, 'startswith', budget)
    return withoutEnd(withoutStart(text, edge), edge)
  },
  'trim/0': ({ budget }, input) => trimmed(input, true, true, budget),
  'ltrim/0': ({ budget }, input) => trimmed(input, true, false, budget),
  'rtrim/0': ({ budget }, input) => trimmed(input, false, true, budget),
  'split/1': ({ budget }, input, separator) => {
    if (typeof input !== 'string' || typeof separator !== 'string') {
      throw failure('split input and separator must be strings')
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
    if (typeof input !== 'string') throw failure('explode input must be a string')
    return pointsOf(input, budget)
  },
  'ascii/0': (_run, input) => {
    if (typeof input !== 'number' || !(input >= 0 && input < 128)) {
      throw failure('%v is not the code of an ASCII character', input)
    }
    return String.fromCharCode(input)
  },
}

/** To compare the one with an end of the other is paid for. */
function both(input: Json, part: Json, name: string, budget: Budget): [string, string] {
  if (typeof input === 'string' && typeof part === 'string') {
    spend(budget, Math.min(input.length, part.length) >> 6)
    return [input, part]
  }
  throw failure(`${name}() requires string inputs`)
}

function withoutStart(text: string, start: string): string {
  return text.startsWith(start) ? text.slice(start.length) : text
}

function withoutEnd(text: string, end: string): string {
  return text.endsWith(end) ? text.slice(0, text.length - end.length) : text
}

function trimmed(input: Json, before: boolean, after: boolean, budget: Budget): string {
  if (typeof input !== 'string') throw failure('trim input must be a string')
  spend(budget, input.length >> 4)
  const start = before ? (BLANK_BEFORE.exec(input)?.[0].length ?? 0) : 0
  let end = input.length
  while (after && end > start && BLANK.includes(input[end - 1] ?? '')) end--
  return input.slice(start, end)
}

function cased(input: Json, budget: Budget, change: (text: string) => string): string {
  if (typeof input !== 'string') throw failure('explode input must be a string')
  charge(budget, input.length)
  return change(input)
}

/** Numbers and booleans are written out, null is empty; the sums that jq makes on the way decide what fails. */
function join(input: Json, separator: Json, budget: Budget): Json {
  if (typeof input !== 'object' || input === null) throw failure('Cannot iterate over %v', input)
  const items = Array.isArray(input) ? input : keysIn(input, budget).map((key) => input[key] ?? null)
  const texts: string[] = []
  let size = 0
  for (const item of items) {
    spend(budget, 1)
    if (texts.length > 0 && typeof separator !== 'string' && separator !== null) {
      throw failure('%v and %v cannot be added', texts.join(''), separator)
    }
    const between = typeof separator === 'string' ? separator : ''
    if (typeof item === 'object' && item !== null) {
      const before = texts.length === 0 ? '' : texts.join(between) + between
      throw failure('%v and %v cannot be added', before, item)
    }
    const text = item === null ? '' : typeof item === 'string' ? item : writeJson(item, budget)
    size += text.length + between.length
    checkSize(budget, size)
    texts.push(text)
  }
  charge(budget, size)
  return texts.join(typeof separator === 'string' ? separator : '')
}
