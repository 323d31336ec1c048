/** Compiles when a flow starts by itself: clock, events and webhooks (OWS 1.0 "Schedule"). */

import type { Checker } from './checker.ts'
import { durationIn } from './duration.ts'
import type { EventStrategy, Schedule, Webhook } from './ir.ts'
import { entryOf, type Located, type LocatedMap, type LocatedScalar } from './located.ts'
import { compileStrategy } from './tasks/event-filters.ts'
import { isTimezone, timezones } from './timezones.ts'

const CLOCK_TRIGGERS = ['every', 'cron', 'after']
const TRIGGERS = [...CLOCK_TRIGGERS, 'on', 'webhook']
const READS = ['data', 'envelope', 'raw'] as const

export function compileSchedule(flow: LocatedMap, checker: Checker): Schedule | undefined {
  const given = entryOf(flow, 'schedule')?.value
  const map = given && checker.map(given, '`schedule`')
  if (map === undefined) return undefined
  checker.keys(map, '`schedule`', [...TRIGGERS, 'read', ...CLOCK_OPTIONS])
  if (!map.entries.some(({ key }) => TRIGGERS.includes(key))) {
    const hint = `Write one of: ${TRIGGERS.join(', ')}.`
    return checker.fault('missing_key', map, '`schedule` must say when.', hint)
  }
  const clock = compileClock(map, checker)
  const on = compileOn(map, checker)
  const read = compileRead(map, checker)
  const webhooks = compileWebhooks(map, checker)
  return {
    ...clock,
    ...(on !== undefined && { on }),
    ...(read !== undefined && { read }),
    ...(webhooks !== undefined && { webhooks }),
  }
}

/** Events are looked at before there is a run, so that the filters see nothing but the event. */
function compileOn(map: LocatedMap, checker: Checker): EventStrategy | undefined {
  const given = entryOf(map, 'on')?.value
  const inner = given && checker.map(given, '`on`')
  if (inner === undefined) return undefined
  checker.keys(inner, '`on`', ['one', 'any', 'all'], ['until'])
  return checker.only([], () => compileStrategy(inner, '`on`', checker))
}

function compileRead(map: LocatedMap, checker: Checker): Schedule['read'] {
  const given = entryOf(map, 'read')?.value
  const text = given && checker.text(given, '`read`')
  if (given === undefined || text === undefined) return undefined
  if (entryOf(map, 'on') === undefined) {
    return checker.fault('value_invalid', given, '`read` belongs to `on`, which is not there.')
  }
  const read = READS.find((one) => one === text)
  return read ?? checker.unknown('value_invalid', given, `\`read\` cannot be \`${text}\`.`, text, READS)
}

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
  const afterMs = durationBelow(map, 'after', 0, checker)
  for (const key of CLOCK_OPTIONS) checkBelongs(map, key, checker)
  const timezone = compileTimezone(map, checker)
  const overlap = compileOverlap(map, checker)
  const catchUpMs = compileCatchUp(map, checker)
  const jitterMs = durationBelow(map, 'jitter', 0, checker)
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

function durationBelow(map: LocatedMap, key: string, minMs: 0 | 1, checker: Checker): number | undefined {
  const value = entryOf(map, key)?.value
  return value && durationIn(value, `\`${key}\``, minMs, checker)
}

/** The clock of schedules goes in seconds. */
function compileEvery(map: LocatedMap, checker: Checker): number | undefined {
  const given = entryOf(map, 'every')?.value
  const everyMs = durationBelow(map, 'every', 1, checker)
  if (given === undefined || everyMs === undefined || everyMs % SECOND_MS === 0) return everyMs
  return checker.fault('duration_invalid', given, '`every` must be in whole seconds.')
}

function compileCatchUp(map: LocatedMap, checker: Checker): number | undefined {
  const given = entryOf(map, 'catchUp')?.value
  const catchUpMs = durationBelow(map, 'catchUp', 1, checker)
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

interface Field {
  readonly name: string
  readonly from: number
  readonly to: number
  /** Words for the numbers from `from` on. */
  readonly words?: readonly string[]
}

const MONTHS = ['JAN', 'FEB', 'MAR', 'APR', 'MAY', 'JUN', 'JUL', 'AUG', 'SEP', 'OCT', 'NOV', 'DEC']
const DAYS = ['SUN', 'MON', 'TUE', 'WED', 'THU', 'FRI', 'SAT']
const FIELDS: readonly Field[] = [
  { name: 'minute', from: 0, to: 59 },
  { name: 'hour', from: 0, to: 23 },
  { name: 'day of the month', from: 1, to: 31 },
  { name: 'month', from: 1, to: 12, words: MONTHS },
  { name: 'day of the week', from: 0, to: 7, words: DAYS },
]
export const CRON_CHARS_MAX = 200
const LENGTHS = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
const PART = /^(?:(\*)|([A-Z0-9]+)(?:-([A-Z0-9]+))?)(?:\/(\d{1,4}))?$/i

/** Checks an expression such as `0 9 * * MON-FRI`. @returns it with single spaces between its fields */
export function checkCron(given: Located, checker: Checker): string | undefined {
  const text = checker.text(given, '`cron`')
  if (text === undefined) return undefined
  const scalar = given as LocatedScalar
  if (text.length > CRON_CHARS_MAX) {
    return checker.fault('cron_invalid', given, `A cron expression has at most ${CRON_CHARS_MAX} characters.`)
  }
  const words = [...text.matchAll(/\S+/g)]
  if (words.length !== FIELDS.length) {
    const hint = 'Minute, hour, day of the month, month, day of the week: 0 9 * * MON-FRI.'
    return checker.fault('cron_invalid', given, `A cron expression has 5 fields, not ${words.length}.`, hint)
  }
  const values = FIELDS.map((field, index) => {
    const word = words[index]
    return word && valuesOf(word[0], word.index, field, scalar, checker)
  })
  if (values.some((one) => one === undefined)) return undefined
  if (!exists([...(values[2] ?? [])], [...(values[3] ?? [])], words[4]?.[0])) {
    return checker.fault('cron_invalid', scalar.placeOf(words[2]?.index ?? 0), 'No month has such a day.')
  }
  return words.map(([word]) => word.toUpperCase()).join(' ')
}

/** The numbers that a field stands for. */
function valuesOf(
  text: string,
  offset: number,
  field: Field,
  given: LocatedScalar,
  checker: Checker,
): ReadonlySet<number> | undefined {
  const values = new Set<number>()
  for (const part of text.split(',')) {
    const range = rangeOf(part, field)
    if (range === undefined) {
      const message = `\`${part}\` is no ${field.name}.`
      return checker.fault('cron_invalid', given.placeOf(offset), message, hintFor(field))
    }
    for (let value = range.from; value <= range.to; value += range.step) values.add(value)
  }
  return values
}

/** `*`, `5`, `1-5`, each with a step: a star, then `/15`. */
function rangeOf(
  part: string,
  field: Field,
): { readonly from: number; readonly to: number; readonly step: number } | undefined {
  const found = PART.exec(part)
  if (found === null) return undefined
  const [, all, first, last, by] = found
  const step = by === undefined ? 1 : Number(by)
  const from = all === undefined ? numberOf(first ?? '', field) : field.from
  const open = all !== undefined || (by !== undefined && last === undefined)
  const to = open ? field.to : numberOf(last ?? first ?? '', field)
  if (from === undefined || to === undefined || from > to || step < 1) return undefined
  return { from, to, step }
}

function numberOf(text: string, { from, to, words = [] }: Field): number | undefined {
  const index = words.indexOf(text.toUpperCase())
  if (index >= 0) return from + index
  const value = /^\d{1,4}$/.test(text) ? Number(text) : undefined
  return value !== undefined && value >= from && value <= to ? value : undefined
}

function hintFor({ from, to, words }: Field): string {
  const named = words === undefined ? '' : ` or ${words[0]} to ${words.at(-1)}`
  return `It is *, ${from} to ${to}${named}, a range, a list, or one of these with a step.`
}

/** Where the day of the week is named too, either of the two days counts. */
function exists(days: readonly number[], months: readonly number[], weekday = '*'): boolean {
  const first = Math.min(...days)
  return weekday !== '*' || months.some((month) => first <= (LENGTHS[month - 1] ?? 0))
}

export const WEBHOOKS_MAX = 16
export const WEBHOOK_HEADERS_MAX = 16
export const WEBHOOK_NAME = '^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?$'
export const WEBHOOK_HEADER = '^[a-z][a-z0-9-]{0,62}$'
/** What a run is shown is kept with it and shown to others, so that no credential may be among it. */
export const SECRET_HEADER = 'auth|cookie|credential|key|password|secret|session|signature|token'
const WEBHOOK_DEFAULT = 'default'

const [NAME, HEADER, SECRET] = [WEBHOOK_NAME, WEBHOOK_HEADER, SECRET_HEADER].map((text) => new RegExp(text))

/** Compiles `webhook`: one, or a list of them whose names differ. */
export function compileWebhooks(schedule: LocatedMap, checker: Checker): readonly Webhook[] | undefined {
  const given = entryOf(schedule, 'webhook')?.value
  if (given === undefined) return undefined
  const items: readonly Located[] = given.kind === 'list' ? given.items : [given]
  if (items.length === 0 || items.length > WEBHOOKS_MAX) {
    return checker.fault('value_invalid', given, `\`webhook\` is one to ${WEBHOOKS_MAX} of them.`)
  }
  const named = new Set<string>()
  return items.map((item) => compileWebhook(item, named, checker)).filter((one) => one !== undefined)
}

function compileWebhook(given: Located, named: Set<string>, checker: Checker): Webhook | undefined {
  const map = checker.map(given, 'A webhook')
  if (map === undefined) return undefined
  checker.keys(map, 'a webhook', ['name', 'headers'])
  const name = compileName(map, checker)
  const headers = compileHeaders(map, checker)
  if (name === undefined || headers === undefined) return undefined
  if (named.has(name)) {
    return checker.fault('value_invalid', map, `Two webhooks are named \`${name}\`.`, 'Give each a `name`.')
  }
  named.add(name)
  return { name, ...(headers.length > 0 && { headers }) }
}

function compileName(map: LocatedMap, checker: Checker): string | undefined {
  const given = entryOf(map, 'name')?.value
  if (given === undefined) return WEBHOOK_DEFAULT
  const name = checker.text(given, '`name`')
  if (name === undefined || NAME?.test(name)) return name
  const hint = 'Small letters, digits and inner hyphens, 63 at most.'
  return checker.fault('value_invalid', given, '`name` cannot be the name of a webhook.', hint)
}

function compileHeaders(map: LocatedMap, checker: Checker): readonly string[] | undefined {
  const given = entryOf(map, 'headers')?.value
  if (given === undefined) return []
  if (given.kind !== 'list') return checker.fault('wrong_type', given, '`headers` must be a list of names.')
  if (given.items.length > WEBHOOK_HEADERS_MAX) {
    return checker.fault('value_invalid', given, `\`headers\` are ${WEBHOOK_HEADERS_MAX} at most.`)
  }
  const names = given.items.map((item) => compileHeader(item, checker))
  return names.every((name) => name !== undefined) ? names : undefined
}

function compileHeader(given: Located, checker: Checker): string | undefined {
  const name = checker.text(given, 'A header')
  if (name === undefined) return undefined
  if (!HEADER?.test(name)) {
    return checker.fault('value_invalid', given, `\`${name}\` is no name of a header.`, 'Small letters.')
  }
  if (!SECRET?.test(name)) return name
  const hint = 'What a run is shown is kept with it; credentials do not belong there.'
  return checker.fault('value_invalid', given, `\`${name}\` may carry a credential.`, hint)
}
