/** Implements the builtins of dates, with the formats of C in its default locale. All times are UTC. */

import type { Json } from '../../json.ts'
import { type Budget, checkSize, spend } from '../budget.ts'
import { jqError } from '../failure.ts'
import type { ValueBuiltins } from '../filter.ts'
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

/** What reading or writing a date costs, besides what is there to read or write. */
const STEPS = 8

/** Characters that two of a format can become: `%c`. */
const LETTER_MAX = 24

export const DATES: ValueBuiltins = {
  'mktime/0': ({ budget }, input) => {
    if (!Array.isArray(input)) throw jqError('mktime requires array inputs')
    spend(budget, STEPS + input.length)
    return secondsOf(timeOfParts(input, 'mktime'))
  },
  'gmtime/0': ({ budget }, input) => broken(input, 'gmtime()', budget),
  'localtime/0': ({ budget }, input) => broken(input, 'localtime()', budget),
  'strftime/1': ({ budget }, input, format) => written(input, format, 'strftime/1', budget),
  'strflocaltime/1': ({ budget }, input, format) => written(input, format, 'strflocaltime/1', budget),
  'strptime/1': ({ budget }, input, format) => {
    if (typeof input !== 'string' || typeof format !== 'string') {
      throw jqError('strptime/1 requires string inputs and arguments')
    }
    spend(budget, STEPS + input.length + format.length)
    const { time, rest } = parseTime(input, format)
    return rest === '' ? partsOfTime(time) : [...partsOfTime(time), rest]
  },
}

function broken(input: Json, name: string, budget: Budget): number[] {
  spend(budget, STEPS)
  if (typeof input !== 'number') throw jqError(`${name} requires numeric inputs`)
  return partsOfTime(timeOfSeconds(input))
}

function written(input: Json, format: Json, name: string, budget: Budget): string {
  spend(budget, STEPS + (Array.isArray(input) ? input.length : 0))
  const time: BrokenDownTime = typeof input === 'number' ? timeOfSeconds(input) : timeOfParts(input, name)
  if (typeof format !== 'string') throw jqError(`${name} requires a string format`)
  // Of two characters `%c` makes nine numbers and names.
  spend(budget, format.length * (format.includes('%c') ? LETTER_MAX : 2))
  checkSize(budget, format.length * LETTER_MAX)
  return formatTime(time, format)
}

const DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'] as const
const MONTHS = 'January February March April May June July August September October November December'.split(
  ' ',
)

/** Formats that stand for others. */
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
  a: ({ weekday }) => dayName(weekday).slice(0, 3),
  A: ({ weekday }) => dayName(weekday),
  b: ({ month }) => monthName(month).slice(0, 3),
  h: ({ month }) => monthName(month).slice(0, 3),
  B: ({ month }) => monthName(month),
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

/** A letter that has no meaning stays as it is. */
function formatTime(time: BrokenDownTime, format: string): string {
  return format.replace(/%([a-zA-Z%])/g, (whole, letter: string) => {
    const composed = Object.hasOwn(COMPOSED, letter) ? COMPOSED[letter] : undefined
    if (composed !== undefined) return formatTime(time, composed)
    const write = Object.hasOwn(WRITERS, letter) ? WRITERS[letter] : undefined
    return write === undefined ? whole : write(time)
  })
}

function pad(value: number, width = 2, sign = '0'): string {
  return String(value).padStart(width, sign)
}

function dayName(weekday: number): string {
  return DAYS[weekday] ?? '?'
}

function monthName(month: number): string {
  return MONTHS[month] ?? '?'
}

/** The week of ISO 8601: the one with the first Thursday of the year is the first. */
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

interface Read {
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
}

type Reader = (read: Read, value: number) => unknown

/** Letter → digits at most, what the number must be, what becomes of it. */
const NUMBERS: Readonly<Record<string, readonly [digits: number, least: number, most: number, set: Reader]>> =
  {
    C: [2, 0, 99, (read, value) => (read.century = value)],
    d: [2, 1, 31, (read, value) => (read.day = value)],
    e: [2, 1, 31, (read, value) => (read.day = value)],
    g: [2, 0, 99, () => undefined],
    G: [4, 0, 9_999, () => undefined],
    H: [2, 0, 23, (read, value) => (read.hour = value)],
    I: [2, 1, 12, (read, value) => (read.hour = value % 12)],
    j: [3, 1, 366, (read, value) => (read.yearDay = value - 1)],
    k: [2, 0, 23, (read, value) => (read.hour = value)],
    l: [2, 1, 12, (read, value) => (read.hour = value % 12)],
    m: [2, 1, 12, (read, value) => (read.month = value - 1)],
    M: [2, 0, 59, (read, value) => (read.minute = value)],
    s: [15, 0, 1e13, (read, value) => (read.seconds = value)],
    S: [2, 0, 61, (read, value) => (read.second = value)],
    u: [1, 1, 7, () => undefined],
    U: [2, 0, 53, () => undefined],
    V: [2, 1, 53, () => undefined],
    w: [1, 0, 6, () => undefined],
    W: [2, 0, 53, () => undefined],
    y: [2, 0, 99, (read, value) => (read.year = value < 69 ? 2_000 + value : 1_900 + value)],
    Y: [4, 0, 9_999, (read, value) => (read.year = value)],
  }

/** @returns the moment, and what of the text is left @throws JqError where the text is not as the format says */
function parseTime(text: string, format: string): { readonly time: BrokenDownTime; readonly rest: string } {
  const read: Read = {}
  const at = readAll(text, 0, expanded(format), read)
  if (at < 0) throw jqError('date "%s" does not match format "%s"', text, format)
  return { time: timeOfFields(read), rest: text.slice(at) }
}

function expanded(format: string): string {
  return format.replace(/%([a-zA-Z%])/g, (whole, letter: string) =>
    Object.hasOwn(COMPOSED, letter) ? (COMPOSED[letter] ?? whole) : whole,
  )
}

/** @returns where it stands behind what it has read, or -1 */
function readAll(text: string, start: number, format: string, read: Read): number {
  let at = start
  for (let i = 0; i < format.length && at >= 0; i++) {
    const sign = format[i] ?? ''
    if (isBlank(sign.charCodeAt(0))) at = blank(text, at)
    else if (sign !== '%') at = text[at] === sign ? at + 1 : -1
    else at = readOne(text, at, format[++i] ?? '', read)
  }
  return at
}

function blank(text: string, start: number): number {
  let at = start
  while (isBlank(text.charCodeAt(at))) at++
  return at
}

function readOne(text: string, start: number, letter: string, read: Read): number {
  switch (letter) {
    case '%':
      return text[start] === '%' ? start + 1 : -1
    case 'n':
    case 't':
      return blank(text, start)
    case 'a':
    case 'A':
      return readName(text, blank(text, start), DAYS, () => undefined)
    case 'b':
    case 'B':
    case 'h':
      return readName(text, blank(text, start), MONTHS, (month) => {
        read.month = month
      })
    case 'p':
    case 'P':
      return readName(text, blank(text, start), ['AM', 'PM'], (half) => {
        read.afternoon = half === 1
      })
    case 'Z':
      return behind(text, start, /[A-Za-z]*/y)
    case 'z':
      // The zone is read and passed over, as in jq, whose times are UTC.
      return behind(text, start, /[+-]\d\d:?(?:\d\d)?|Z/y)
    default:
      return readNumber(text, blank(text, start), letter, read)
  }
}

function behind(text: string, start: number, pattern: RegExp): number {
  pattern.lastIndex = start
  const found = pattern.exec(text)
  return found === null ? -1 : start + found[0].length
}

/** Full names, or their first three letters; case makes no difference. */
function readName(
  text: string,
  start: number,
  names: readonly string[],
  set: (index: number) => void,
): number {
  for (const [index, name] of names.entries()) {
    for (const spelled of [name, name.slice(0, 3)]) {
      if (text.slice(start, start + spelled.length).toLowerCase() !== spelled.toLowerCase()) continue
      set(index)
      return start + spelled.length
    }
  }
  return -1
}

function readNumber(text: string, start: number, letter: string, read: Read): number {
  const rule = Object.hasOwn(NUMBERS, letter) ? NUMBERS[letter] : undefined
  if (rule === undefined) return -1
  const [digits, least, most, set] = rule
  let end = start
  while (end < start + digits && isDigit(text.charCodeAt(end))) end++
  const value = Number(text.slice(start, end))
  if (end === start || value < least || value > most) return -1
  set(read, value)
  return end
}

function isDigit(code: number): boolean {
  return code >= 48 && code <= 57
}

function isBlank(code: number): boolean {
  return code === 32 || (code >= 9 && code <= 13)
}

function timeOfFields(read: Read): BrokenDownTime {
  if (read.seconds !== undefined) return timeOfSeconds(read.seconds)
  const { month = 0, day = 1, hour = 0, minute = 0, second = 0, afternoon = false, century } = read
  const year = century === undefined ? (read.year ?? 1_970) : century * 100 + ((read.year ?? 0) % 100)
  const byYearDay = read.yearDay !== undefined && read.month === undefined
  const days = byYearDay ? daysUntil(year, 0, 1) + (read.yearDay ?? 0) : daysUntil(year, month, day)
  const date = byYearDay ? timeOfSeconds(days * 86_400) : { year, month, day }
  return {
    year: date.year,
    month: date.month,
    day: date.day,
    hour: afternoon ? (hour % 12) + 12 : hour,
    minute,
    second,
    weekday: weekdayOf(days),
    yearDay: days - daysUntil(year, 0, 1),
  }
}
