/** Knows what a cron expression may say: five fields, each checked for itself. */

import type { Checker } from './checker.ts'
import type { Located, LocatedScalar } from './located.ts'

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
