/** Knows how a moment is written by a format of C (strftime, in the locale of C). */

import { type Moment, secondsOf } from './calendar.ts'

export const DAYS = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'] as const
export const MONTHS = [
  'January',
  'February',
  'March',
  'April',
  'May',
  'June',
  'July',
  'August',
  'September',
  'October',
  'November',
  'December',
] as const

/** Formats that stand for others. */
export const COMPOSED: Readonly<Record<string, string>> = {
  c: '%a %b %e %H:%M:%S %Y',
  D: '%m/%d/%y',
  F: '%Y-%m-%d',
  r: '%I:%M:%S %p',
  R: '%H:%M',
  T: '%H:%M:%S',
  x: '%m/%d/%y',
  X: '%H:%M:%S',
}

const WRITERS: Readonly<Record<string, (moment: Moment) => string>> = {
  a: ({ weekday }) => dayName(weekday).slice(0, 3),
  A: ({ weekday }) => dayName(weekday),
  b: ({ month }) => monthName(month).slice(0, 3),
  h: ({ month }) => monthName(month).slice(0, 3),
  B: ({ month }) => monthName(month),
  C: ({ year }) => pad(Math.floor(year / 100)),
  d: ({ day }) => pad(day),
  e: ({ day }) => pad(day, 2, ' '),
  g: (moment) => pad(mod(weekOf(moment).year, 100)),
  G: (moment) => String(weekOf(moment).year),
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
  s: (moment) => String(secondsOf(moment)),
  S: ({ second }) => pad(Math.floor(second)),
  t: () => '\t',
  u: ({ weekday }) => String(mod(weekday + 6, 7) + 1),
  U: ({ yearDay, weekday }) => pad(Math.floor((yearDay + 7 - weekday) / 7)),
  V: (moment) => pad(weekOf(moment).week),
  w: ({ weekday }) => String(weekday),
  W: ({ yearDay, weekday }) => pad(Math.floor((yearDay + 7 - mod(weekday + 6, 7)) / 7)),
  y: ({ year }) => pad(mod(year, 100)),
  Y: ({ year }) => String(year),
  z: () => '+0000',
  Z: () => 'UTC',
  '%': () => '%',
}

/** A letter that has no meaning stays as it is. */
export function formatTime(moment: Moment, format: string): string {
  return format.replace(/%([a-zA-Z%])/g, (whole, letter: string) => {
    const composed = Object.hasOwn(COMPOSED, letter) ? COMPOSED[letter] : undefined
    if (composed !== undefined) return formatTime(moment, composed)
    const write = Object.hasOwn(WRITERS, letter) ? WRITERS[letter] : undefined
    return write === undefined ? whole : write(moment)
  })
}

function pad(value: number, width = 2, sign = '0'): string {
  return String(value).padStart(width, sign)
}

function mod(value: number, by: number): number {
  return ((value % by) + by) % by
}

function dayName(weekday: number): string {
  return DAYS[weekday] ?? '?'
}

function monthName(month: number): string {
  return MONTHS[month] ?? '?'
}

/** The week of ISO 8601: the one with the first Thursday of the year is the first. */
function weekOf({ year, yearDay, weekday }: Moment): { readonly year: number; readonly week: number } {
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
