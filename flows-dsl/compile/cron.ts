/** Checks cron expressions: five fields of numbers or names, as lists, ranges and steps. */

import { CRONS } from '../diagnostics/remedies.ts'
import { fieldOf } from '../json.ts'

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

/** An error in an expression. */
export interface CronDiagnostic {
  readonly message: string
  readonly hint?: string
  /** The index at which the wrong field begins; absent for an error of the whole. */
  readonly offset?: number
}

/**
 * Checks an expression such as `0 9 * * MON-FRI`.
 * @returns it in capitals, with single spaces between its fields; or at least one error
 */
export function parseCron(
  text: string,
): { readonly cron: string } | { readonly diagnostics: CronDiagnostic[] } {
  if (text.length > CRON_CHARS_MAX)
    return { diagnostics: [{ message: `A cron expression has at most ${CRON_CHARS_MAX} characters.` }] }
  const words = [...text.matchAll(/\S+/g)]
  if (words.length !== CRON_FIELDS.length) {
    return {
      diagnostics: [
        { message: `A cron expression has 5 fields, not ${words.length}.`, hint: fieldsHint(words) },
      ],
    }
  }
  const diagnostics: CronDiagnostic[] = []
  const values = CRON_FIELDS.map((field, index) => {
    const [word = '', offset = 0] = [words[index]?.[0], words[index]?.index]
    return cronValues(word, field, (diagnostic) => diagnostics.push({ ...diagnostic, offset }))
  })
  if (diagnostics.length > 0) return { diagnostics }
  if (!dayExists([...(values[2] ?? [])], [...(values[3] ?? [])], words[4]?.[0]))
    return { diagnostics: [{ message: 'No month has such a day.', offset: words[2]?.index ?? 0 }] }
  return { cron: words.map(([word]) => word.toUpperCase()).join(' ') }
}

/** The next step for a cron without five fields: many begin with seconds, or are names such as `@daily`. */
function fieldsHint(words: readonly RegExpExecArray[]): string {
  const [first = '', ...rest] = words.map(([word]) => word)
  const named = fieldOf(CRONS, first.toLowerCase())
  if (named !== undefined) return `Write ${named}.`
  if (rest.length === CRON_FIELDS.length && first === '0') return `Leave out the seconds: ${rest.join(' ')}.`
  return 'Write minute, hour, day of the month, month and day of the week, such as 0 9 * * MON-FRI.'
}

/** The numbers that the fields of a valid expression match, in the order of the fields; Sunday is 0. */
export function cronNumbers(cron: string): number[][] {
  const words = cron.split(' ')
  return CRON_FIELDS.map((field, index) => {
    const values = [...(cronValues(words[index] ?? '', field, () => {}) ?? [])]
    return index === CRON_FIELDS.length - 1 ? [...new Set(values.map((value) => value % 7))] : values
  })
}

/** The numbers that a field matches; undefined after it has reported an error. */
function cronValues(
  text: string,
  field: CronField,
  report: (diagnostic: CronDiagnostic) => void,
): ReadonlySet<number> | undefined {
  const values = new Set<number>()
  for (const part of text.split(',')) {
    const range = cronRange(part, field)
    if (range === undefined) {
      report({ message: `\`${part}\` is not a valid ${field.name}.`, hint: cronHint(field) })
      return undefined
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
  return `Write *, ${from} to ${to}${named}, a range, a list, or one of these with a step.`
}

/** Tests if a month has one of the days. If the day of the week is restricted, too, either of the two matches. */
function dayExists(days: readonly number[], months: readonly number[], weekday = '*'): boolean {
  const first = Math.min(...days)
  return weekday !== '*' || months.some((month) => first <= (DAYS_OF_MONTHS[month - 1] ?? 0))
}
