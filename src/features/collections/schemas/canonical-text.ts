/** Canonical texts of formatted values: one text for each value, in code-point order. */

/** Formats whose values are more than their text. */
export const FORMATS = ['date-time', 'date', 'uuid', 'decimal', 'int64'] as const
export type Format = (typeof FORMATS)[number]

export const isFormat = (name: unknown): name is Format =>
  typeof name === 'string' && Object.hasOwn(CANONICAL, name)

/**
 * The canonical text of a value: equal for texts of equal meaning, and ordered by code point as the values are.
 * `tenon.canonical` computes the same in SQL.
 * @param text any text; every text that JSON Schema's format accepts has a canonical one
 * @returns undefined if the text is not of the format
 */
export const canonicalOf = (format: Format, text: string): string | undefined => CANONICAL[format](text)

/** The formats whose values are numbers. */
export const NUMBER_FORMATS = ['decimal', 'int64'] as const
export type NumberFormat = (typeof NUMBER_FORMATS)[number]

export const isNumberFormat = (format: string | undefined): format is NumberFormat =>
  NUMBER_FORMATS.some((one) => one === format)

/** The canonical text of a literal in a query, in which a timestamp may be shorter: `2026-01-01` is its midnight in UTC. */
export function canonicalLiteral(format: Format, text: string): string | undefined {
  return canonicalOf(format, format === 'date-time' ? (completeTimestamp(text) ?? text) : text)
}

/** The value that a member of a document is compared by; itself if it has no format or does not fit it. */
export function sortKey(format: Format | undefined, value: unknown): unknown {
  if (format === undefined || typeof value !== 'string') return value
  return canonicalOf(format, value) ?? value
}

const SHORT = /^(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d)(:\d\d(?:\.\d+)?)?(Z|[+-]\d\d:\d\d)?)?$/i

/** Completes a date, or a date and time, to RFC 3339: midnight and UTC by default. */
export function completeTimestamp(text: string): string | undefined {
  const [, date, minute = '00:00', second = ':00', offset = 'Z'] = SHORT.exec(text) ?? []
  return date === undefined ? undefined : `${date}T${minute}${second}${offset}`
}

const CANONICAL: Readonly<Record<Format, (text: string) => string | undefined>> = {
  'date-time': instant,
  date: (text) => (dayOf(text) === undefined ? undefined : text),
  uuid: (text) =>
    /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(text) ? text.toLowerCase() : undefined,
  decimal: exactNumber,
  int64: (text) => (isInt64(text) ? exactNumber(text) : undefined),
}

const DATE = /^(\d{4})-(\d\d)-(\d\d)$/

/** Days since 0000-01-01. Counted 400 years later, when the calendar is the same and `Date.UTC` treats no year specially. */
function dayOf(text: string): number | undefined {
  const [year = 0, month = 0, day = 0] = DATE.exec(text)?.slice(1).map(Number) ?? []
  const time = Date.UTC(year + 400, month - 1, day)
  const exists = month >= 1 && month <= 12 && day >= 1 && new Date(time).getUTCMonth() === month - 1
  return exists ? (time - Date.UTC(400, 0, 1)) / 86_400_000 : undefined
}

/** Of the day before which canonical texts count none. */
const YEAR_0_MS = -62_167_219_200_000

/** The beginning of a date in UTC, in milliseconds since 1970. @returns undefined if the text is no date */
export function dayMs(text: string): number | undefined {
  const day = dayOf(text)
  return day === undefined ? undefined : YEAR_0_MS + day * 86_400_000
}

/** The minute of an instant, in milliseconds since 1970. @returns undefined if the text is no instant */
export function minuteMs(text: string): number | undefined {
  const canonical = instant(text)
  return canonical === undefined ? undefined : YEAR_0_MS + (Number(canonical.slice(0, 10)) - 1_440) * 60_000
}

/** RFC 3339 §5.6; a suffix (RFC 9557) is ignored. */
const INSTANT = /^(\d{4}-\d\d-\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d+))?(?:Z|([+-])(\d\d):(\d\d))(?:\[.*\])?$/is

/**
 * Minutes in UTC since the last day before the year 0, ten digits; seconds, two; and the fraction without trailing zeros.
 * Offsets are whole minutes, so a leap second (60) keeps its place.
 */
function instant(text: string): string | undefined {
  const [, date = '', hour, minute, second = '', fraction = '', sign, ...offset] = INSTANT.exec(text) ?? []
  const day = dayOf(date)
  const [hours, minutes] = [Number(hour), Number(minute)]
  const [offsetHours, offsetMinutes] = offset.map((digits) => Number(digits ?? 0)) as [number, number]
  if (day === undefined || hours > 23 || minutes > 59 || Number(second) > 60) return undefined
  if (offsetHours > 23 || offsetMinutes > 59) return undefined
  const ahead = (offsetHours * 60 + offsetMinutes) * (sign === '-' ? -1 : 1)
  const at = (day + 1) * 1_440 + hours * 60 + minutes - ahead
  if (second === '60' && at % 1_440 !== 1_439) return undefined
  const rest = fraction.replace(/0+$/, '')
  return `${String(at).padStart(10, '0')}${second}${rest === '' ? '' : `.${rest}`}`
}

/** Characters of a decimal. */
const DECIMAL_CHARS_MAX = 100
const DECIMAL = /^(-?)(0|[1-9][0-9]*)(?:\.([0-9]+))?$/

const isInt64 = (text: string): boolean =>
  /^-?(0|[1-9][0-9]{0,18})$/.test(text) && BigInt.asIntN(64, BigInt(text)) === BigInt(text)

/**
 * `1` for zero. Otherwise the number is 0.digits times a power of ten: `2`, the exponent + 500 in three digits, and the digits; for a
 * negative number `0`, what each of these digits lacks to 9, and `:`, which comes after all digits.
 */
function exactNumber(text: string): string | undefined {
  const [found, sign, whole = '', fraction = ''] = DECIMAL.exec(text) ?? []
  if (found === undefined || text.length > DECIMAL_CHARS_MAX) return undefined
  const digits = `${whole}${fraction}`.replace(/^0+/, '')
  if (digits === '') return '1'
  const exponent = whole.length + digits.length - (whole.length + fraction.length)
  const key = `${exponent + 500}${digits.replace(/0+$/, '')}`
  return sign === '' ? `2${key}` : `0${key.replace(/[0-9]/g, (digit) => String(9 - Number(digit)))}:`
}
