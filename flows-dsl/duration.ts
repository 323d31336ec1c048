/** Knows how long a duration is and how one is written (OWS 1.0 "Duration"). */

import type { Checker } from './checker.ts'
import { isObject, type Json, type JsonObject } from './json.ts'
import { entryOf, type Located, type LocatedMap } from './located.ts'

const UNIT_MS = {
  days: 86_400_000,
  hours: 3_600_000,
  minutes: 60_000,
  seconds: 1_000,
  milliseconds: 1,
} as const
const UNITS = ['days', 'hours', 'minutes', 'seconds', 'milliseconds'] as const

/** The longest that anything may last. */
export const DURATION_MS_MAX = 365 * UNIT_MS.days

/** ISO 8601, without years and months, whose length nobody knows. */
const ISO = /^P(?=.)(?:(\d+)W)?(?:(\d+)D)?(?:T(?=.)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d{1,3})?)S)?)?$/

/** A duration from `minMs`, which is 0 or 1, to 365 days. */
export function durationIn(given: Located, what: string, minMs: 0 | 1, checker: Checker): number | undefined {
  const durationMs = durationOf(given, checker)
  if (durationMs === undefined || (durationMs >= minMs && durationMs <= DURATION_MS_MAX)) return durationMs
  const least = minMs === 0 ? '0' : '1 millisecond'
  return checker.fault('duration_invalid', given, `${what} must be between ${least} and 365 days.`)
}

/** The length of a duration that data hold: its text, or its parts; undefined where it is none of at least `minMs`. */
export function millisecondsOf(value: Json, minMs: 0 | 1 = 1): number | undefined {
  const ms = typeof value === 'string' ? isoOf(value) : isObject(value) ? partsOf(value) : undefined
  return ms !== undefined && ms >= minMs && ms <= DURATION_MS_MAX ? ms : undefined
}

/** `1 minute 1 second`; nothing is `0 seconds`. */
export function durationText(durationMs: number): string {
  const parts = UNITS.map((unit) => partOf(durationMs, unit)).filter(Boolean)
  return parts.length === 0 ? '0 seconds' : parts.join(' ')
}

function durationOf(given: Located, checker: Checker): number | undefined {
  if (given.kind === 'map') return sumOf(given, checker)
  const text = checker.text(given, 'A duration')
  if (text === undefined) return undefined
  const durationMs = isoOf(text)
  if (durationMs !== undefined) return durationMs
  const hint = 'Write {seconds: 2}, or an ISO 8601 duration of weeks, days and time: PT2S, P1DT12H.'
  return checker.fault('duration_invalid', given, `\`${text}\` is no duration.`, hint)
}

function isoOf(text: string): number | undefined {
  const found = ISO.exec(text)
  if (found === null) return undefined
  const [, weeks = 0, days = 0, hours = 0, minutes = 0, seconds = 0] = found
  const whole = (Number(weeks) * 7 + Number(days)) * UNIT_MS.days + Number(hours) * UNIT_MS.hours
  return whole + Number(minutes) * UNIT_MS.minutes + Math.round(Number(seconds) * UNIT_MS.seconds)
}

function partsOf(value: JsonObject): number | undefined {
  let sum = 0
  for (const [key, count] of Object.entries(value)) {
    const unit = UNITS.find((one) => one === key)
    if (unit === undefined || typeof count !== 'number' || !Number.isInteger(count) || count < 0)
      return undefined
    sum += count * UNIT_MS[unit]
  }
  return sum
}

function sumOf(map: LocatedMap, checker: Checker): number | undefined {
  checker.keys(map, 'a duration', UNITS)
  if (map.entries.some(({ key }) => !UNITS.some((unit) => unit === key))) return undefined
  let sum = 0
  for (const unit of UNITS) {
    const given = entryOf(map, unit)?.value
    if (given === undefined) continue
    const count = given.kind === 'scalar' ? given.value : undefined
    if (typeof count !== 'number' || !Number.isInteger(count) || count < 0) {
      return checker.fault('duration_invalid', given, `\`${unit}\` must be a whole number, 0 or more.`)
    }
    sum += count * UNIT_MS[unit]
  }
  return sum
}

/** The count of one unit in what the larger units leave. */
function partOf(durationMs: number, unit: (typeof UNITS)[number]): string {
  const larger = UNITS[UNITS.indexOf(unit) - 1]
  const rest = larger === undefined ? durationMs : durationMs % UNIT_MS[larger]
  const count = Math.floor(rest / UNIT_MS[unit])
  return count === 0 ? '' : `${count} ${count === 1 ? unit.slice(0, -1) : unit}`
}
