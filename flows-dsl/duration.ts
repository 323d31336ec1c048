/** Knows how long a duration is and how one is written (OWS 1.0 "Duration"). */

import type { Checker } from './checker.ts'
import { isObject, type Json } from './json.ts'
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
const ISO = /^P(?=.)(?:(\d+)D)?(?:T(?=.)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d{1,3})?)S)?)?$/

/** A duration from `minMs`, which is 0 or 1, to 365 days. */
export function durationIn(given: Located, what: string, minMs: 0 | 1, checker: Checker): number | undefined {
  const durationMs = durationOf(given, checker)
  if (durationMs === undefined || (durationMs >= minMs && durationMs <= DURATION_MS_MAX)) return durationMs
  const least = minMs === 0 ? '0' : '1 millisecond'
  return checker.fault('duration_invalid', given, `${what} must be between ${least} and 365 days.`)
}

/** `1 minute 1 second`; nothing is `0 seconds`. */
export function durationText(durationMs: number): string {
  const parts = UNITS.map((unit) => partOf(durationMs, unit)).filter(Boolean)
  return parts.length === 0 ? '0 seconds' : parts.join(' ')
}

/** The duration that a value of JSON says, 0 or more; undefined where it says none. */
export function durationMsOf(value: Json): number | undefined {
  if (typeof value === 'string') return isoMs(value)
  if (!isObject(value)) return undefined
  let sum = 0
  for (const [unit, count] of Object.entries(value)) {
    const unitMs = Object.hasOwn(UNIT_MS, unit) ? UNIT_MS[unit as keyof typeof UNIT_MS] : undefined
    if (unitMs === undefined || typeof count !== 'number' || !Number.isInteger(count) || count < 0)
      return undefined
    sum += count * unitMs
  }
  return sum <= DURATION_MS_MAX ? sum : undefined
}

function isoMs(text: string): number | undefined {
  const found = ISO.exec(text)
  if (found === null) return undefined
  const [, days = 0, hours = 0, minutes = 0, seconds = 0] = found
  const whole =
    Number(days) * UNIT_MS.days + Number(hours) * UNIT_MS.hours + Number(minutes) * UNIT_MS.minutes
  return whole + Math.round(Number(seconds) * UNIT_MS.seconds)
}

function durationOf(given: Located, checker: Checker): number | undefined {
  if (given.kind === 'map') return sumOf(given, checker)
  const text = checker.text(given, 'A duration')
  if (text === undefined) return undefined
  const hint = 'Write {seconds: 2}, or an ISO 8601 duration of days and time: PT2S, P1DT12H.'
  return isoMs(text) ?? checker.fault('duration_invalid', given, `\`${text}\` is no duration.`, hint)
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
