/** Converts between seconds since 1970 and broken-down time in UTC. */

import type { Json } from '../../json.ts'
import { jqError } from '../jq-error.ts'

/** A time as in C: months and days of the year and week count from 0, Sunday first. Seconds may have a fraction. */
export interface BrokenDownTime {
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
const SECONDS_MAX = 1e13

/** @throws JqError if it is more than about 300,000 years from 1970 */
export function timeOfSeconds(seconds: number): BrokenDownTime {
  if (!(Math.abs(seconds) < SECONDS_MAX)) {
    throw jqError('error converting number of seconds since epoch to datetime')
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

/** Seconds from 1970 to a time, whose fields may exceed their ranges. */
export function secondsOf(
  time: Pick<BrokenDownTime, 'year' | 'month' | 'day' | 'hour' | 'minute' | 'second'>,
): number {
  const { year, month, day, hour, minute, second } = time
  return daysUntil(year, month, day) * DAY + hour * 3_600 + minute * 60 + Math.trunc(second)
}

export function weekdayOf(days: number): number {
  return mod(days + 4, 7)
}

/** Days from 1970 to a date (H. Hinnant, "chrono-compatible low-level date algorithms"). */
export function daysUntil(year: number, month: number, day: number): number {
  const years = year + Math.floor(month / 12)
  const months = mod(month, 12)
  const shifted = months < 2 ? years - 1 : years
  const era = Math.floor(shifted / 400)
  const ofEra = shifted - era * 400
  const dayOfYear = Math.floor((153 * ((months + 10) % 12) + 2) / 5) + day - 1
  return era * 146_097 + ofEra * 365 + Math.floor(ofEra / 4) - Math.floor(ofEra / 100) + dayOfYear - 719_468
}

function dateOf(days: number): Pick<BrokenDownTime, 'year' | 'month' | 'day'> {
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

/** The remainder of a division that rounds down: never negative. */
export function mod(value: number, by: number): number {
  return ((value % by) + by) % by
}

/** The time as jq's array of numbers. */
export function partsOfTime(time: BrokenDownTime): number[] {
  const { year, month, day, hour, minute, second, weekday, yearDay } = time
  return [year, month, day, hour, minute, second, weekday, yearDay]
}

/** The time of jq's array of numbers; missing numbers are 0. @throws JqError if it is not one */
export function timeOfParts(parts: Json, name: string): BrokenDownTime {
  if (!Array.isArray(parts) || !parts.every((part) => typeof part === 'number' && Number.isFinite(part))) {
    throw jqError(`${name} requires parsed datetime inputs`)
  }
  const numbers = parts as number[]
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = numbers.map(Math.trunc)
  const days = daysUntil(year, month, day)
  const weekday = numbers[6] ?? weekdayOf(days)
  const yearDay = numbers[7] ?? days - daysUntil(year, 0, 1)
  return { year, month, day, hour, minute, second, weekday, yearDay }
}
