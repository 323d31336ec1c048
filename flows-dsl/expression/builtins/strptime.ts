/** Knows how a moment is read by a format of C (strptime, in the locale of C). */

import { failure } from '../failure.ts'
import { daysUntil, type Moment, momentOf, weekdayOf } from './calendar.ts'
import { COMPOSED, DAYS, MONTHS } from './strftime.ts'

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

/** @returns the moment, and what of the text is left @throws Failure where the text is not as the format says */
export function parseTime(text: string, format: string): { readonly moment: Moment; readonly rest: string } {
  const read: Read = {}
  const at = readAll(text, 0, expanded(format), read)
  if (at < 0) throw failure('date "%s" does not match format "%s"', text, format)
  return { moment: momentBy(read), rest: text.slice(at) }
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

function momentBy(read: Read): Moment {
  if (read.seconds !== undefined) return momentOf(read.seconds)
  const { month = 0, day = 1, hour = 0, minute = 0, second = 0, afternoon = false, century } = read
  const year = century === undefined ? (read.year ?? 1_970) : century * 100 + ((read.year ?? 0) % 100)
  const byYearDay = read.yearDay !== undefined && read.month === undefined
  const days = byYearDay ? daysUntil(year, 0, 1) + (read.yearDay ?? 0) : daysUntil(year, month, day)
  const date = byYearDay ? momentOf(days * 86_400) : { year, month, day }
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
