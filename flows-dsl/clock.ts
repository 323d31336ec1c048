/** Knows when a flow runs by the clock (OWS 1.0 "Schedule"), and what is ours of it: zone, overlap, lateness. */

import type { Checker } from './checker.ts'
import { checkCron } from './cron.ts'
import { durationIn } from './duration.ts'
import type { Schedule } from './ir.ts'
import { entryOf, type Located, type LocatedMap } from './located.ts'
import { isTimezone, timezones } from './timezones.ts'

export const CLOCK_TRIGGERS = ['every', 'cron', 'after']
export const OVERLAPS = ['skip', 'buffer_one', 'buffer_all', 'cancel_other', 'allow_all'] as const
/** Each is a schedule of its own. */
export const CRONS_MAX = 20
/** What must be there for a key to mean something. */
export const CLOCK_BELONGS: Readonly<Record<string, readonly string[]>> = {
  timezone: ['cron'],
  overlap: ['every', 'cron'],
  jitter: ['every', 'cron'],
  catchUp: CLOCK_TRIGGERS,
}
export const CLOCK_OPTIONS = Object.keys(CLOCK_BELONGS)
const SECOND_MS = 1_000
const CATCH_UP_MS_MIN = 10_000

export function compileClock(map: LocatedMap, checker: Checker): Schedule {
  const everyMs = compileEvery(map, checker)
  const cron = compileCron(map, checker)
  const afterMs = duration(map, 'after', 0, checker)
  for (const key of CLOCK_OPTIONS) checkBelongs(map, key, checker)
  const timezone = compileTimezone(map, checker)
  const overlap = compileOverlap(map, checker)
  const catchUpMs = compileCatchUp(map, checker)
  const jitterMs = duration(map, 'jitter', 0, checker)
  return {
    ...(everyMs !== undefined && { everyMs }),
    ...(cron !== undefined && { cron }),
    ...(afterMs !== undefined && { afterMs }),
    ...(timezone !== undefined && { timezone }),
    ...(overlap !== undefined && { overlap }),
    ...(catchUpMs !== undefined && { catchUpMs }),
    ...(jitterMs !== undefined && { jitterMs }),
  }
}

function duration(map: LocatedMap, key: string, minMs: 0 | 1, checker: Checker): number | undefined {
  const value = entryOf(map, key)?.value
  return value && durationIn(value, `\`${key}\``, minMs, checker)
}

/** The clock of schedules goes in seconds. */
function compileEvery(map: LocatedMap, checker: Checker): number | undefined {
  const given = entryOf(map, 'every')?.value
  const everyMs = duration(map, 'every', 1, checker)
  if (given === undefined || everyMs === undefined || everyMs % SECOND_MS === 0) return everyMs
  return checker.fault('duration_invalid', given, '`every` must be in whole seconds.')
}

function compileCatchUp(map: LocatedMap, checker: Checker): number | undefined {
  const given = entryOf(map, 'catchUp')?.value
  const catchUpMs = duration(map, 'catchUp', 1, checker)
  if (given === undefined || catchUpMs === undefined || catchUpMs >= CATCH_UP_MS_MIN) return catchUpMs
  return checker.fault('duration_invalid', given, '`catchUp` must be at least 10 seconds.')
}

/** One expression, or a list of them. */
function compileCron(map: LocatedMap, checker: Checker): readonly string[] | undefined {
  const given = entryOf(map, 'cron')?.value
  if (given === undefined) return undefined
  if (given.kind === 'list' && given.items.length === 0) {
    return checker.fault('wrong_type', given, '`cron` must be an expression, or a list of them.')
  }
  const items: readonly Located[] = given.kind === 'list' ? given.items : [given]
  if (items.length > CRONS_MAX) {
    return checker.fault('value_invalid', given, `\`cron\` has at most ${CRONS_MAX} expressions.`)
  }
  const lines: string[] = []
  for (const item of items) {
    const line = checkCron(item, checker)
    if (line === undefined) continue
    if (lines.includes(line)) checker.fault('value_invalid', item, `\`${line}\` is there already.`)
    lines.push(line)
  }
  return lines
}

function checkBelongs(map: LocatedMap, key: string, checker: Checker): void {
  const given = entryOf(map, key)?.value
  const owners = CLOCK_BELONGS[key] ?? []
  if (given === undefined || owners.some((one) => entryOf(map, one) !== undefined)) return
  const names = owners.map((one) => `\`${one}\``).join(', ')
  checker.fault('value_invalid', given, `\`${key}\` does nothing without ${names}.`)
}

function compileTimezone(map: LocatedMap, checker: Checker): string | undefined {
  const given = entryOf(map, 'timezone')?.value
  const name = given && checker.text(given, '`timezone`')
  if (given === undefined || name === undefined || isTimezone(name)) return name
  const message = `\`${name}\` is no time zone of the IANA database.`
  return checker.unknown('value_invalid', given, message, name, timezones())
}

function compileOverlap(map: LocatedMap, checker: Checker): Schedule['overlap'] {
  const given = entryOf(map, 'overlap')?.value
  const text = given && checker.text(given, '`overlap`')
  if (given === undefined || text === undefined) return undefined
  const overlap = OVERLAPS.find((one) => one === text)
  return (
    overlap ?? checker.unknown('value_invalid', given, `\`overlap\` cannot be \`${text}\`.`, text, OVERLAPS)
  )
}
