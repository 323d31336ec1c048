/** Implements the builtins that test the type of a value and convert it to another. */

import { type Budget, chargeItems, checkSize, measure, spend } from '../../budget.ts'
import { isObject, type Json, parseNumbersExactly, utf8Length } from '../../json.ts'
import { countCodePoints } from '../code-points.ts'
import type { ValueBuiltins } from '../filter.ts'
import { JqError, jqError } from '../jq-error.ts'
import { isTrue, keysIn } from '../operators.ts'
import { typeOf, writeJson } from '../write-json.ts'

/** Unambiguous, so that matching takes linear time. */
const NUMBER = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?$/
const NAMED: Readonly<Record<string, number>> = {
  nan: Number.NaN,
  '-nan': Number.NaN,
  NaN: Number.NaN,
  '-NaN': Number.NaN,
  Infinity: Number.POSITIVE_INFINITY,
  '-Infinity': Number.NEGATIVE_INFINITY,
}
/** The smallest normal double. */
const NORMAL_MIN = 2.2250738585072014e-308

export const TYPE_CONVERSIONS: ValueBuiltins = {
  'type/0': (_context, input) => typeOf(input),
  'length/0': ({ budget }, input) => lengthOf(input, budget),
  'utf8bytelength/0': ({ budget }, input) => {
    if (typeof input !== 'string') throw jqError('%v only strings have UTF-8 byte length', input)
    spend(budget, input.length >> 4)
    return utf8Length(input)
  },
  'tostring/0': ({ budget }, input) => (typeof input === 'string' ? input : writeJson(input, budget)),
  'tojson/0': ({ budget }, input) => writeJson(input, budget),
  'fromjson/0': ({ budget }, input) => {
    if (typeof input !== 'string') throw jqError('%v only strings can be parsed', input)
    return readJson(input, budget)
  },
  'tonumber/0': ({ budget }, input) => numberOf(input, budget),
  'toboolean/0': (_context, input) => {
    if (typeof input === 'boolean') return input
    if (input === 'true' || input === 'false') return input === 'true'
    throw jqError('%v cannot be parsed as a boolean', input)
  },
  'not/0': (_context, input) => !isTrue(input),
  'toarray/0': (_context, input) => (Array.isArray(input) ? input : [input]),
  'error/0': (_context, input) => {
    throw new JqError(undefined, [input])
  },
  'infinite/0': () => Number.POSITIVE_INFINITY,
  'nan/0': () => Number.NaN,
  'isnan/0': (_context, input) => Number.isNaN(double(input)),
  'isinfinite/0': (_context, input) => Math.abs(double(input)) === Number.POSITIVE_INFINITY,
  'isfinite/0': (_context, input) =>
    typeof input === 'number' && Math.abs(input) !== Number.POSITIVE_INFINITY,
  'isnormal/0': (_context, input) => {
    const size = Math.abs(double(input))
    return size >= NORMAL_MIN && size < Number.POSITIVE_INFINITY
  },
  'implode/0': ({ budget }, input) => {
    if (!Array.isArray(input)) throw jqError('implode input must be an array')
    chargeItems(budget, input.length)
    return input.map(character).join('')
  },
}

/** @throws JqError for booleans */
export function lengthOf(input: Json, budget: Budget): number {
  if (input === null) return 0
  if (typeof input === 'string') return countCodePoints(input, budget)
  if (typeof input === 'number') return Math.abs(input)
  if (Array.isArray(input)) return input.length
  if (isObject(input)) return keysIn(input, budget).length
  throw jqError('%v has no length', input)
}

/** A decimal number without blanks. */
function numberOf(input: Json, budget: Budget): number {
  if (typeof input === 'number') return input
  if (typeof input !== 'string') throw jqError('%v cannot be parsed as a number', input)
  if (Object.hasOwn(NAMED, input)) return NAMED[input] ?? Number.NaN
  spend(budget, input.length >> 4)
  if (!NUMBER.test(input)) throw jqError('%v cannot be parsed as a number', input)
  return Number(input)
}

/** @throws JqError if it is not a number */
export function double(value: Json): number {
  if (typeof value === 'number') return value
  throw jqError('%v number required', value)
}

/** Invalid code points become U+FFFD. */
function character(point: Json): string {
  if (typeof point !== 'number' || Number.isNaN(point)) {
    throw jqError("%v can't be imploded, unicode codepoint needs to be numeric", point)
  }
  const whole = Math.trunc(point)
  const valid = whole >= 0 && whole <= 0x10ffff && !(whole >= 0xd800 && whole <= 0xdfff)
  return String.fromCodePoint(valid ? whole : 0xfffd)
}

const TEXT_OR_NAME = /"(?:[^"\\]|\\.)*"|-?\b(?:nan|NaN|Infinity)\b/g
/** Nesting up to which names of numbers are read, which is recursive. */
const NESTING_MAX = 256
const BLANK = /^[ \t\r\n]*$/

/** `fromjson`. @throws JqError if it is not JSON; FlowError (expression) if it is too large or too deep */
function readJson(text: string, budget: Budget): Json {
  checkSize(budget, text.length)
  spend(budget, 1 + (text.length >> 2))
  const trimmed = text.trim()
  if (/^-?nan$/i.test(trimmed)) return Number.NaN
  const value = parse(text)
  measure(value, budget)
  return value
}

function parse(text: string): Json {
  let parsed: ReturnType<typeof parseNumbersExactly> | undefined
  try {
    parsed = parseNumbersExactly(text)
  } catch {
    if (BLANK.test(text)) throw notJson('Expected JSON value', text)
  }
  if (parsed?.lossy !== undefined)
    throw jqError('The integer %s is beyond 2^53 and would lose digits; keep it as text', parsed.lossy)
  if (parsed !== undefined) return parsed.value
  try {
    return parseNamed(text)
  } catch {
    throw notJson(messageFor(text), text)
  }
}

/** jq reads names of numbers (`nan`, `Infinity`), which JSON does not have. */
function parseNamed(text: string): Json {
  if (nestingOf(text) > NESTING_MAX) throw new SyntaxError('nested too deeply for names of numbers')
  // More dashes than any run of them in the text, so that the mark does not occur in it.
  const runs = text.match(/-+/g) ?? []
  const mark = `nan${'-'.repeat(runs.reduce((most, context) => Math.max(most, context.length), 0) + 1)}`
  const renamed = text.replace(TEXT_OR_NAME, (found) => {
    if (found.startsWith('"')) return found
    if (/nan/i.test(found)) return `"${mark}"`
    return found.startsWith('-') ? '-1e999' : '1e999'
  })
  return JSON.parse(renamed, (_key, value: Json) => (value === mark ? Number.NaN : value)) as Json
}

/** jq's message in the simple cases. */
function messageFor(text: string): string {
  const quote = text.indexOf("'")
  if (quote >= 0) {
    return `Invalid string literal; expected ", but got ' at line 1, column ${text.indexOf("'", quote + 1) + 2}`
  }
  return `Invalid numeric literal at EOF at line 1, column ${text.length}`
}

function notJson(message: string, text: string): JqError {
  return jqError(`${message} (while parsing '%s')`, text)
}

/** The greatest nesting of brackets in a text, those in strings included. */
function nestingOf(text: string): number {
  let [open, most] = [0, 0]
  for (const bracket of text.replace(/[^[\]{}]+/g, '')) {
    open += bracket === '[' || bracket === '{' ? 1 : -1
    most = Math.max(most, open)
  }
  return most
}
