/** Knows the calendar: which day and time of UTC a number of seconds is. Reads no clock and no zone. */

import type { Json } from '../../json.ts'
import { failure } from '../failure.ts'

/** Seconds hold their fraction; months and days of the year and week count from 0, Sunday first. */
export interface Moment {
  readonly year: number
  readonly month: number
  readonly day: number
  readonly hour: number
  readonly minute: number
  readonly second: number
  readonly weekday: number
  readonly yearDay: number
}

const DAY = 86_400
/** About 300,000 years. */
const SECONDS_MAX = 1e13

/** @throws Failure where it is too far from 1970 */
export function momentOf(seconds: number): Moment {
  if (!(Math.abs(seconds) < SECONDS_MAX)) {
    throw failure('error converting number of seconds since epoch to datetime')
  }
  const whole = Math.floor(seconds)
  const days = Math.floor(whole / DAY)
  const rest = whole - days * DAY
  const date = dateOf(days)
  return {
    ...date,
    hour: Math.floor(rest / 3_600),
    minute: Math.floor((rest % 3_600) / 60),
    second: (rest % 60) + (seconds - whole),
    weekday: weekdayOf(days),
    yearDay: days - daysUntil(date.year, 0, 1),
  }
}

/** Seconds from 1970 to a moment; what is beyond the end of a month or a day is carried on. */
export function secondsOf(
  moment: Pick<Moment, 'year' | 'month' | 'day' | 'hour' | 'minute' | 'second'>,
): number {
  const { year, month, day, hour, minute, second } = moment
  return daysUntil(year, month, day) * DAY + hour * 3_600 + minute * 60 + Math.trunc(second)
}

export function weekdayOf(days: number): number {
  return (((days + 4) % 7) + 7) % 7
}

/** Days from 1970 to a date (H. Hinnant, "chrono-compatible low-level date algorithms"). */
export function daysUntil(year: number, month: number, day: number): number {
  const years = year + Math.floor(month / 12)
  const months = ((month % 12) + 12) % 12
  const shifted = months < 2 ? years - 1 : years
  const era = Math.floor(shifted / 400)
  const ofEra = shifted - era * 400
  const dayOfYear = Math.floor((153 * ((months + 10) % 12) + 2) / 5) + day - 1
  return era * 146_097 + ofEra * 365 + Math.floor(ofEra / 4) - Math.floor(ofEra / 100) + dayOfYear - 719_468
}

function dateOf(days: number): Pick<Moment, 'year' | 'month' | 'day'> {
  const shifted = days + 719_468
  const era = Math.floor(shifted / 146_097)
  const ofEra = shifted - era * 146_097
  const year = Math.floor(
    (ofEra - Math.floor(ofEra / 1_460) + Math.floor(ofEra / 36_524) - Math.floor(ofEra / 146_096)) / 365,
  )
  const dayOfYear = ofEra - (365 * year + Math.floor(year / 4) - Math.floor(year / 100))
  const month = Math.floor((5 * dayOfYear + 2) / 153)
  const day = dayOfYear - Math.floor((153 * month + 2) / 5) + 1
  return { year: year + era * 400 + (month >= 10 ? 1 : 0), month: (month + 2) % 12, day }
}

/** The moment as jq's array of numbers. */
export function brokenDown(moment: Moment): number[] {
  const { year, month, day, hour, minute, second, weekday, yearDay } = moment
  return [year, month, day, hour, minute, second, weekday, yearDay]
}

/** jq's array of numbers as a moment; what is missing is 0. @throws Failure where it is none */
export function momentFrom(parts: Json, name: string): Moment {
  if (!Array.isArray(parts) || !parts.every((part) => typeof part === 'number' && Number.isFinite(part))) {
    throw failure(`${name} requires parsed datetime inputs`)
  }
  const numbers = parts as number[]
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = numbers.map(Math.trunc)
  const days = daysUntil(year, month, day)
  const weekday = numbers[6] ?? weekdayOf(days)
  const yearDay = numbers[7] ?? days - daysUntil(year, 0, 1)
  return { year, month, day, hour, minute, second, weekday, yearDay }
}
