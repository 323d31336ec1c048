/** Compiles the triggers of a flow: clock, events and webhooks (OWS 1.0 "Schedule"). */

import type { EventStrategy, Schedule } from '../ir.ts'
import { omitUndefined } from '../json.ts'
import { compileStrategy } from '../tasks/event-filters.ts'
import type { CompileContext } from './compile-context.ts'
import { optionalDuration } from './duration.ts'
import { entryOf, type MapNode, type ScalarNode, type SourceNode, valueAt } from './source-nodes.ts'
import { isTimezone, timezones } from './timezones.ts'
import { compileWebhooks } from './webhooks.ts'

const CLOCK_TRIGGERS = ['every', 'cron', 'after']
export const TRIGGERS = [...CLOCK_TRIGGERS, 'on', 'webhook']
const READS = ['data', 'envelope', 'raw'] as const
export const OVERLAPS = ['skip', 'buffer_one', 'buffer_all', 'cancel_other', 'allow_all'] as const
/** Each cron expression becomes a Temporal schedule of its own. */
export const CRONS_MAX = 20
/** Options of the clock, each with the triggers that it applies to. */
export const CLOCK_OPTIONS: Readonly<Record<string, readonly string[]>> = {
  timezone: ['cron'],
  overlap: ['every', 'cron'],
  jitter: ['every', 'cron'],
  catchUp: CLOCK_TRIGGERS,
}
const CATCH_UP_MS_MIN = 10_000

export function compileSchedule(flow: MapNode, context: CompileContext): Schedule | undefined {
  const map = context.optionalMap(flow, 'schedule', [...TRIGGERS, 'read', ...Object.keys(CLOCK_OPTIONS)])
  if (map === undefined) return undefined
  if (!map.entries.some(({ key }) => TRIGGERS.includes(key))) {
    const hint = `Write one of: ${TRIGGERS.join(', ')}.`
    return context.report('missing_key', map, '`schedule` must say when.', hint)
  }
  for (const key of Object.keys(CLOCK_OPTIONS)) checkApplies(map, key, context)
  return omitUndefined({
    everyMs: compileEvery(map, context),
    cron: compileCron(map, context),
    afterMs: optionalDuration(map, 'after', 0, context),
    timezone: compileTimezone(map, context),
    overlap: context.optionalChoice(map, 'overlap', OVERLAPS),
    catchUpMs: compileCatchUp(map, context),
    jitterMs: optionalDuration(map, 'jitter', 0, context),
    on: compileOn(map, context),
    read: compileRead(map, context),
    webhooks: compileWebhooks(map, context),
  })
}

/** Filters are evaluated before an execution exists, so they see nothing but the event. */
function compileOn(map: MapNode, context: CompileContext): EventStrategy | undefined {
  const inner = context.optionalMap(map, 'on', ['one', 'any', 'all'], ['until'])
  if (inner === undefined) return undefined
  return context.onlyVariables([], () => compileStrategy(inner, '`on`', context))
}

function compileRead(map: MapNode, context: CompileContext): Schedule['read'] {
  if (entryOf(map, 'on') === undefined && context.optionalText(map, 'read') !== undefined) {
    const at = valueAt(map, 'read') ?? map
    return context.report('value_invalid', at, '`read` belongs to `on`, which is not there.')
  }
  return context.optionalChoice(map, 'read', READS)
}

/** Temporal schedules have a resolution of one second. */
function compileEvery(map: MapNode, context: CompileContext): number | undefined {
  const everyMs = optionalDuration(map, 'every', 1, context)
  if (everyMs === undefined || everyMs % 1_000 === 0) return everyMs
  return context.report('duration_invalid', valueAt(map, 'every') ?? map, '`every` must be in whole seconds.')
}

function compileCatchUp(map: MapNode, context: CompileContext): number | undefined {
  const catchUpMs = optionalDuration(map, 'catchUp', 1, context)
  if (catchUpMs === undefined || catchUpMs >= CATCH_UP_MS_MIN) return catchUpMs
  const message = '`catchUp` must be at least 10 seconds.'
  return context.report('duration_invalid', valueAt(map, 'catchUp') ?? map, message)
}

/** One expression, or a list of them. */
function compileCron(map: MapNode, context: CompileContext): readonly string[] | undefined {
  const given = valueAt(map, 'cron')
  if (given === undefined) return undefined
  const items = given.kind === 'list' ? given.items : [given]
  if (items.length === 0) {
    return context.report('wrong_type', given, '`cron` must be an expression, or a list of them.')
  }
  if (items.length > CRONS_MAX) {
    return context.report('value_invalid', given, `\`cron\` has at most ${CRONS_MAX} expressions.`)
  }
  const crons: string[] = []
  for (const item of items) {
    const cron = compileCronExpression(item, context)
    if (cron === undefined) continue
    if (crons.includes(cron)) context.report('value_invalid', item, `\`${cron}\` is there already.`)
    crons.push(cron)
  }
  return crons
}

function checkApplies(map: MapNode, option: string, context: CompileContext): void {
  const given = valueAt(map, option)
  const triggers = CLOCK_OPTIONS[option] ?? []
  if (given === undefined || triggers.some((one) => entryOf(map, one) !== undefined)) return
  const names = triggers.map((one) => `\`${one}\``).join(', ')
  context.report('value_invalid', given, `\`${option}\` does nothing without ${names}.`)
}

function compileTimezone(map: MapNode, context: CompileContext): string | undefined {
  const name = context.optionalText(map, 'timezone')
  if (name === undefined || isTimezone(name)) return name
  const message = `\`${name}\` is no time zone of the IANA database.`
  return context.reportUnknown('value_invalid', valueAt(map, 'timezone') ?? map, message, name, timezones())
}

interface CronField {
  readonly name: string
  readonly from: number
  readonly to: number
  /** Names of the numbers from `from` on. */
  readonly words?: readonly string[]
}

const MONTHS = ['JAN', 'FEB', 'MAR', 'APR', 'MAY', 'JUN', 'JUL', 'AUG', 'SEP', 'OCT', 'NOV', 'DEC']
const DAYS = ['SUN', 'MON', 'TUE', 'WED', 'THU', 'FRI', 'SAT']
const CRON_FIELDS: readonly CronField[] = [
  { name: 'minute', from: 0, to: 59 },
  { name: 'hour', from: 0, to: 23 },
  { name: 'day of the month', from: 1, to: 31 },
  { name: 'month', from: 1, to: 12, words: MONTHS },
  { name: 'day of the week', from: 0, to: 7, words: DAYS },
]
export const CRON_CHARS_MAX = 200
const DAYS_OF_MONTHS = [31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
const CRON_PART = /^(?:(\*)|([A-Z0-9]+)(?:-([A-Z0-9]+))?)(?:\/(\d{1,4}))?$/i

/** Checks an expression such as `0 9 * * MON-FRI`. @returns it in capitals, with single spaces between its fields */
function compileCronExpression(given: SourceNode, context: CompileContext): string | undefined {
  const text = context.text(given, '`cron`')
  if (text === undefined) return undefined
  const scalar = given as ScalarNode
  if (text.length > CRON_CHARS_MAX) {
    const message = `A cron expression has at most ${CRON_CHARS_MAX} characters.`
    return context.report('cron_invalid', given, message)
  }
  const words = [...text.matchAll(/\S+/g)]
  if (words.length !== CRON_FIELDS.length) {
    const hint = 'Minute, hour, day of the month, month, day of the week: 0 9 * * MON-FRI.'
    return context.report('cron_invalid', given, `A cron expression has 5 fields, not ${words.length}.`, hint)
  }
  const values = CRON_FIELDS.map((field, index) => {
    const word = words[index]
    return word && cronValues(word[0], word.index, field, scalar, context)
  })
  if (values.some((one) => one === undefined)) return undefined
  if (!dayExists([...(values[2] ?? [])], [...(values[3] ?? [])], words[4]?.[0])) {
    return context.report('cron_invalid', scalar.locationOf(words[2]?.index ?? 0), 'No month has such a day.')
  }
  return words.map(([word]) => word.toUpperCase()).join(' ')
}

/** The numbers that a field matches. */
function cronValues(
  text: string,
  offset: number,
  field: CronField,
  given: ScalarNode,
  context: CompileContext,
): ReadonlySet<number> | undefined {
  const values = new Set<number>()
  for (const part of text.split(',')) {
    const range = cronRange(part, field)
    if (range === undefined) {
      const message = `\`${part}\` is no ${field.name}.`
      return context.report('cron_invalid', given.locationOf(offset), message, cronHint(field))
    }
    for (let value = range.from; value <= range.to; value += range.step) values.add(value)
  }
  return values
}

/** `*`, `5` or `1-5`, each optionally with a step such as `/15`. */
function cronRange(part: string, field: CronField) {
  const found = CRON_PART.exec(part)
  if (found === null) return undefined
  const [, all, first = '', last, by] = found
  const step = by === undefined ? 1 : Number(by)
  const from = all === undefined ? cronNumber(first, field) : field.from
  const isOpen = all !== undefined || (by !== undefined && last === undefined)
  const to = isOpen ? field.to : cronNumber(last ?? first, field)
  if (from === undefined || to === undefined || from > to || step < 1) return undefined
  return { from, to, step }
}

function cronNumber(text: string, { from, to, words = [] }: CronField): number | undefined {
  const index = words.indexOf(text.toUpperCase())
  if (index >= 0) return from + index
  const value = /^\d{1,4}$/.test(text) ? Number(text) : undefined
  return value !== undefined && value >= from && value <= to ? value : undefined
}

function cronHint({ from, to, words }: CronField): string {
  const named = words === undefined ? '' : ` or ${words[0]} to ${words.at(-1)}`
  return `It is *, ${from} to ${to}${named}, a range, a list, or one of these with a step.`
}

/** Tests if a month has one of the days. If the day of the week is restricted, too, either of the two matches. */
function dayExists(days: readonly number[], months: readonly number[], weekday = '*'): boolean {
  const first = Math.min(...days)
  return weekday !== '*' || months.some((month) => first <= (DAYS_OF_MONTHS[month - 1] ?? 0))
}
