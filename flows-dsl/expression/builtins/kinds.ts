/** Knows the builtins about what a value is, and how it becomes another kind. */

import type { Json } from '../../json.ts'
import { isObject, utf8Length } from '../../json.ts'
import { type Budget, chargeItems, spend } from '../budget.ts'
import { Failure, failure } from '../failure.ts'
import { readJson } from '../read.ts'
import { pointsIn } from '../text.ts'
import { keysIn } from '../values.ts'
import { typeOf, writeJson } from '../write.ts'
import type { ValueBuiltins } from './builtin.ts'

/** Each digit can be read in one way only: the time must not grow with the square of the length. */
const NUMBER = /^[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?$/
const NAMED: Readonly<Record<string, number>> = {
  nan: Number.NaN,
  '-nan': Number.NaN,
  NaN: Number.NaN,
  '-NaN': Number.NaN,
  Infinity: Number.POSITIVE_INFINITY,
  '-Infinity': Number.NEGATIVE_INFINITY,
}
/** The smallest double that has all its digits. */
const NORMAL_MIN = 2.2250738585072014e-308

export const KINDS: ValueBuiltins = {
  'type/0': (_run, input) => typeOf(input),
  'length/0': ({ budget }, input) => lengthOf(input, budget),
  'utf8bytelength/0': ({ budget }, input) => {
    if (typeof input !== 'string') throw failure('%v only strings have UTF-8 byte length', input)
    spend(budget, input.length >> 4)
    return utf8Length(input)
  },
  'tostring/0': ({ budget }, input) => (typeof input === 'string' ? input : writeJson(input, budget)),
  'tojson/0': ({ budget }, input) => writeJson(input, budget),
  'fromjson/0': ({ budget }, input) => {
    if (typeof input !== 'string') throw failure('%v only strings can be parsed', input)
    return readJson(input, budget)
  },
  'tonumber/0': ({ budget }, input) => numberOf(input, budget),
  'toboolean/0': (_run, input) => {
    if (typeof input === 'boolean') return input
    if (input === 'true' || input === 'false') return input === 'true'
    throw failure('%v cannot be parsed as a boolean', input)
  },
  'toarray/0': (_run, input) => (Array.isArray(input) ? input : [input]),
  'error/0': (_run, input) => {
    throw new Failure(undefined, [input])
  },
  'infinite/0': () => Number.POSITIVE_INFINITY,
  'nan/0': () => Number.NaN,
  'isnan/0': (_run, input) => Number.isNaN(double(input)),
  'isinfinite/0': (_run, input) => Math.abs(double(input)) === Number.POSITIVE_INFINITY,
  'isfinite/0': (_run, input) => typeof input === 'number' && Math.abs(input) !== Number.POSITIVE_INFINITY,
  'isnormal/0': (_run, input) => {
    const size = Math.abs(double(input))
    return size >= NORMAL_MIN && size < Number.POSITIVE_INFINITY
  },
  'implode/0': ({ budget }, input) => {
    if (!Array.isArray(input)) throw failure('implode input must be an array')
    chargeItems(budget, input.length)
    return input.map(character).join('')
  },
}

/** jq's length of anything but a boolean. @throws Failure */
export function lengthOf(input: Json, budget: Budget): number {
  if (input === null) return 0
  if (typeof input === 'string') return pointsIn(input, budget)
  if (typeof input === 'number') return Math.abs(input)
  if (Array.isArray(input)) return input.length
  if (isObject(input)) return keysIn(input, budget).length
  throw failure('%v has no length', input)
}

/** A number of decimal digits; no blanks, no other base. */
function numberOf(input: Json, budget: Budget): number {
  if (typeof input === 'number') return input
  if (typeof input !== 'string') throw failure('%v cannot be parsed as a number', input)
  if (Object.hasOwn(NAMED, input)) return NAMED[input] ?? Number.NaN
  spend(budget, input.length >> 4)
  if (!NUMBER.test(input)) throw failure('%v cannot be parsed as a number', input)
  return Number(input)
}

/** @throws Failure where it is no number */
export function double(value: Json): number {
  if (typeof value === 'number') return value
  throw failure('%v number required', value)
}

/** What is no code point becomes the sign for that. */
function character(point: Json): string {
  if (typeof point !== 'number' || Number.isNaN(point)) {
    throw failure("%v can't be imploded, unicode codepoint needs to be numeric", point)
  }
  const whole = Math.trunc(point)
  const valid = whole >= 0 && whole <= 0x10ffff && !(whole >= 0xd800 && whole <= 0xdfff)
  return String.fromCodePoint(valid ? whole : 0xfffd)
}
