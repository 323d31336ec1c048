/** Implements the builtins of dates, with the formats of C in its default locale. All times are UTC. */

import { type Budget, checkSize, spend } from '../../budget.ts'
import { fieldOf, type Json } from '../../json.ts'
import type { ValueBuiltins } from '../filter.ts'
import { jqError } from '../jq-error.ts'
import {
  type BrokenDownTime,
  daysUntil,
  mod,
  partsOfTime,
  secondsOf,
  timeOfParts,
  timeOfSeconds,
  weekdayOf,
} from './calendar.ts'

/** Steps of reading or writing a date, besides those for the length of the text. */
const STEPS = 8

const ISO_8601 = '%Y-%m-%dT%H:%M:%SZ'
const FRACTION = /(:\d\d)\.\d{1,9}(?=Z$|[+-]\d\d:?\d\d$)/

/** The most characters that a directive of two characters expands to: `%c`. */
const LETTER_MAX = 24

export const DATES: ValueBuiltins = {
  'mktime/0': ({ budget }, input) => {
    if (!Array.isArray(input)) throw jqError('mktime requires array inputs')
    spend(budget, STEPS + input.length)
    return secondsOf(timeOfParts(input, 'mktime'))
  },
  // Beyond jq: fractions of a second, which are dropped, and offsets, since RFC 3339 is what events and records have.
  'fromdate/0': ({ budget }, input) => {
    if (typeof input !== 'string') throw jqError('strptime/1 requires string inputs and arguments')
    spend(budget, STEPS + input.length)
    return secondsOf(parseIsoTime(input))
  },
  'gmtime/0': ({ budget }, input) => timeAt(input, 'gmtime()', budget),
  'localtime/0': ({ budget }, input) => timeAt(input, 'localtime()', budget),
  'strftime/1': ({ budget }, input, format) => formatted(input, format, 'strftime/1', budget),
  'strflocaltime/1': ({ budget }, input, format) => formatted(input, format, 'strflocaltime/1', budget),
  'strptime/1': ({ budget }, input, format) => {
    if (typeof input !== 'string' || typeof format !== 'string') {
      throw jqError('strptime/1 requires string inputs and arguments')
    }
    spend(budget, STEPS + input.length + format.length)
    const { time, rest } = parseTime(input, format)
    return rest === '' ? partsOfTime(time) : [...partsOfTime(time), rest]
  },
}

function timeAt(input: Json, name: string, budget: Budget): number[] {
  spend(budget, STEPS)
  if (typeof input !== 'number') throw jqError(`${name} requires numeric inputs`)
  return partsOfTime(timeOfSeconds(input))
}

function formatted(input: Json, format: Json, name: string, budget: Budget): string {
  spend(budget, STEPS + (Array.isArray(input) ? input.length : 0))
  const time: BrokenDownTime = typeof input === 'number' ? timeOfSeconds(input) : timeOfParts(input, name)
  if (typeof format !== 'string') throw jqError(`${name} requires a string format`)
  // `%c` expands to nine numbers and names.
  spend(budget, format.length * (format.includes('%c') ? LETTER_MAX : 2))
  checkSize(budget, format.length * LETTER_MAX)
  return formatTime(time, format)
}

const DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'] as const
const MONTHS = 'January February March April May June July August September October November December'.split(
  ' ',
)

/** Directives that stand for several others. */
const COMPOSED: Readonly<Record<string, string>> = {
  c: '%a %b %e %H:%M:%S %Y',
  D: '%m/%d/%y',
  F: '%Y-%m-%d',
  r: '%I:%M:%S %p',
  R: '%H:%M',
  T: '%H:%M:%S',
  x: '%m/%d/%y',
  X: '%H:%M:%S',
}

const WRITERS: Readonly<Record<string, (time: BrokenDownTime) => string>> = {
  a: ({ weekday }) => (DAYS[weekday] ?? '?').slice(0, 3),
  A: ({ weekday }) => DAYS[weekday] ?? '?',
  b: ({ month }) => (MONTHS[month] ?? '?').slice(0, 3),
  h: ({ month }) => (MONTHS[month] ?? '?').slice(0, 3),
  B: ({ month }) => MONTHS[month] ?? '?',
  C: ({ year }) => pad(Math.floor(year / 100)),
  d: ({ day }) => pad(day),
  e: ({ day }) => pad(day, 2, ' '),
  g: (time) => pad(mod(weekOf(time).year, 100)),
  G: (time) => String(weekOf(time).year),
  H: ({ hour }) => pad(hour),
  I: ({ hour }) => pad(mod(hour + 11, 12) + 1),
  j: ({ yearDay }) => pad(yearDay + 1, 3),
  k: ({ hour }) => pad(hour, 2, ' '),
  l: ({ hour }) => pad(mod(hour + 11, 12) + 1, 2, ' '),
  m: ({ month }) => pad(month + 1),
  M: ({ minute }) => pad(minute),
  n: () => '\n',
  p: ({ hour }) => (hour < 12 ? 'AM' : 'PM'),
  P: ({ hour }) => (hour < 12 ? 'am' : 'pm'),
  s: (time) => String(secondsOf(time)),
  S: ({ second }) => pad(Math.floor(second)),
  t: () => '\t',
  u: ({ weekday }) => String(mod(weekday + 6, 7) + 1),
  U: ({ yearDay, weekday }) => pad(Math.floor((yearDay + 7 - weekday) / 7)),
  V: (time) => pad(weekOf(time).week),
  w: ({ weekday }) => String(weekday),
  W: ({ yearDay, weekday }) => pad(Math.floor((yearDay + 7 - mod(weekday + 6, 7)) / 7)),
  y: ({ year }) => pad(mod(year, 100)),
  Y: ({ year }) => String(year),
  z: () => '+0000',
  Z: () => 'UTC',
  '%': () => '%',
}

/** strftime. Unknown directives stay as they are. */
function formatTime(time: BrokenDownTime, format: string): string {
  return replaceDirectives(expanded(format), (letter) => fieldOf(WRITERS, letter)?.(time))
}

function expanded(format: string): string {
  return replaceDirectives(format, (letter) => fieldOf(COMPOSED, letter))
}

function replaceDirectives(format: string, replacement: (letter: string) => string | undefined): string {
  return format.replace(/%([a-zA-Z%])/g, (whole, letter: string) => replacement(letter) ?? whole)
}

function pad(value: number, width = 2, sign = '0'): string {
  return String(value).padStart(width, sign)
}

/** The week of ISO 8601: the first week of a year contains its first Thursday. */
function weekOf({ year, yearDay, weekday }: BrokenDownTime): {
  readonly year: number
  readonly week: number
} {
  const monday = mod(weekday + 6, 7)
  const week = Math.floor((yearDay - monday + 10) / 7)
  if (week < 1) return { year: year - 1, week: weeksIn(year - 1, mod(monday - yearDay - 1, 7)) }
  const days = isLeap(year) ? 366 : 365
  return week === 53 && yearDay - monday + 3 >= days ? { year: year + 1, week: 1 } : { year, week }
}

/** @param last the weekday of 31 December, Monday first */
function weeksIn(year: number, last: number): number {
  return last === 3 || (last === 4 && isLeap(year)) ? 53 : 52
}

function isLeap(year: number): boolean {
  return (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0
}

/** @throws JqError if the text is no time of RFC 3339; `Z` stands for any offset in its message, as in jq */
function parseIsoTime(text: string): BrokenDownTime {
  const format = '%Y-%m-%dT%H:%M:%S%z'
  const fields: TimeFields = {}
  const plain = text.replace(FRACTION, '$1')
  if (readFormat(plain, format, fields) !== plain.length) throw mismatch(text, ISO_8601)
  return timeOfFields(fields)
}

interface TimeFields {
  year?: number
  century?: number
  month?: number
  day?: number
  hour?: number
  minute?: number
  second?: number
  yearDay?: number
  afternoon?: boolean
  seconds?: number
  /** Seconds east of UTC. */
  offset?: number
}

type Store = (fields: TimeFields, value: number) => unknown

const IGNORED: Store = () => undefined
const setDay: Store = (fields, value) => (fields.day = value)
const setHour: Store = (fields, value) => (fields.hour = value)
const setHalfDayHour: Store = (fields, value) => (fields.hour = value % 12)

const NUMBERS: Readonly<
  Record<string, readonly [digitsMax: number, least: number, most: number, store: Store]>
> = {
  C: [2, 0, 99, (fields, value) => (fields.century = value)],
  d: [2, 1, 31, setDay],
  e: [2, 1, 31, setDay],
  g: [2, 0, 99, IGNORED],
  G: [4, 0, 9_999, IGNORED],
  H: [2, 0, 23, setHour],
  I: [2, 1, 12, setHalfDayHour],
  j: [3, 1, 366, (fields, value) => (fields.yearDay = value - 1)],
  k: [2, 0, 23, setHour],
  l: [2, 1, 12, setHalfDayHour],
  m: [2, 1, 12, (fields, value) => (fields.month = value - 1)],
  M: [2, 0, 59, (fields, value) => (fields.minute = value)],
  s: [15, 0, 1e13, (fields, value) => (fields.seconds = value)],
  S: [2, 0, 61, (fields, value) => (fields.second = value)],
  u: [1, 1, 7, IGNORED],
  U: [2, 0, 53, IGNORED],
  V: [2, 1, 53, IGNORED],
  w: [1, 0, 6, IGNORED],
  W: [2, 0, 53, IGNORED],
  y: [2, 0, 99, (fields, value) => (fields.year = value < 69 ? 2_000 + value : 1_900 + value)],
  Y: [4, 0, 9_999, (fields, value) => (fields.year = value)],
}

const BLANKS = /[ \t-\r]*/y

const mismatch = (text: string, format: string) =>
  jqError('date "%p" does not match format "%p"', text, format)

/** strptime. @returns the time and the rest of the text @throws JqError if the text does not match the format */
function parseTime(text: string, format: string): { readonly time: BrokenDownTime; readonly rest: string } {
  const fields: TimeFields = {}
  const end = readFormat(text, format, fields)
  if (end < 0) throw mismatch(text, format)
  return { time: timeOfFields(fields), rest: text.slice(end) }
}

/** @returns the position after what matches, or -1 */
function readFormat(text: string, format: string, fields: TimeFields): number {
  let at = 0
  for (const [token] of expanded(format).matchAll(/%?[\s\S]/g)) {
    at = readToken(text, at, token, fields)
    if (at < 0) return -1
  }
  return at
}

/** @param token a directive or a character of a format @returns the position after what it matches, or -1 */
function readToken(text: string, start: number, token: string, fields: TimeFields): number {
  if (token === '%n' || token === '%t' || /^[ \t-\r]$/.test(token)) return after(text, start, BLANKS)
  if (token === '%%') return text[start] === '%' ? start + 1 : -1
  if (!token.startsWith('%')) return text[start] === token ? start + 1 : -1
  if (token === '%Z') return after(text, start, /[A-Za-z]*/y)
  if (token === '%z') return readOffset(text, start, fields)
  const letter = token.slice(1)
  const begin = after(text, start, BLANKS)
  const named = fieldOf(NAMES, letter)
  return named === undefined ? readNumber(text, begin, letter, fields) : readName(text, begin, named, fields)
}

const OFFSET = /([+-])(\d\d):?(\d\d)?|Z/y

/** jq ignores the offset, which yields another instant than the text names. */
function readOffset(text: string, start: number, fields: TimeFields): number {
  OFFSET.lastIndex = start
  const found = OFFSET.exec(text)
  if (found === null) return -1
  const [whole, sign, hours = 0, minutes = 0] = found
  fields.offset = (sign === '-' ? -1 : 1) * (Number(hours) * 3_600 + Number(minutes) * 60)
  return start + whole.length
}

function after(text: string, start: number, pattern: RegExp): number {
  pattern.lastIndex = start
  const found = pattern.exec(text)
  return found === null ? -1 : start + found[0].length
}

type NameRule = readonly [names: readonly string[], store: Store]

const MONTH: NameRule = [MONTHS, (fields, month) => (fields.month = month)]
const HALF_DAY: NameRule = [['AM', 'PM'], (fields, half) => (fields.afternoon = half === 1)]
const NAMES: Readonly<Record<string, NameRule>> = {
  a: [DAYS, IGNORED],
  A: [DAYS, IGNORED],
  b: MONTH,
  B: MONTH,
  h: MONTH,
  p: HALF_DAY,
  P: HALF_DAY,
}

/** Reads a full name or its first three letters, in any case. */
function readName(text: string, start: number, [names, store]: NameRule, fields: TimeFields): number {
  for (const [index, name] of names.entries()) {
    for (const spelled of [name, name.slice(0, 3)]) {
      if (text.slice(start, start + spelled.length).toLowerCase() !== spelled.toLowerCase()) continue
      store(fields, index)
      return start + spelled.length
    }
  }
  return -1
}

function readNumber(text: string, start: number, letter: string, fields: TimeFields): number {
  const rule = fieldOf(NUMBERS, letter)
  if (rule === undefined) return -1
  const [digitsMax, least, most, store] = rule
  const digits = /^\d*/.exec(text.slice(start, start + digitsMax))?.[0] ?? ''
  const value = Number(digits)
  if (digits === '' || value < least || value > most) return -1
  store(fields, value)
  return start + digits.length
}

function timeOfFields(fields: TimeFields): BrokenDownTime {
  if (fields.seconds !== undefined) return timeOfSeconds(fields.seconds)
  const { month = 0, day = 1, hour = 0, minute = 0, second = 0, afternoon = false, century } = fields
  const year = century === undefined ? (fields.year ?? 1_970) : century * 100 + ((fields.year ?? 0) % 100)
  const byYearDay = fields.yearDay !== undefined && fields.month === undefined
  const days = byYearDay ? daysUntil(year, 0, 1) + (fields.yearDay ?? 0) : daysUntil(year, month, day)
  const date = byYearDay ? timeOfSeconds(days * 86_400) : { year, month, day }
  const local = {
    ...date,
    hour: afternoon ? (hour % 12) + 12 : hour,
    minute,
    second,
    weekday: weekdayOf(days),
    yearDay: days - daysUntil(year, 0, 1),
  }
  return fields.offset ? timeOfSeconds(secondsOf(local) - fields.offset) : local
}
