/** The words of aggregates that both grammars share: functions, periods and time zones. */

import { didYouMean, nearest } from '../../../../flows-dsl/diagnostics/diagnostics.ts'
import { refusal, type Source } from '../query/syntax.ts'
import { BUCKET_UNITS, type Bucket, type BucketUnit, MEASURE_NAMES, type MeasureName } from './aggregate.ts'

/** Words of other products, and what they are called here. */
const FOREIGN: Readonly<Record<string, string>> = {
  average: 'avg',
  mean: 'avg',
  total: 'sum',
  distinct: 'count_distinct',
  approx_distinct: 'count_distinct',
  countdistinct: 'count_distinct',
  n_unique: 'count_distinct',
  minimum: 'min',
  maximum: 'max',
  date_trunc: 'bucket',
  time_bucket: 'bucket',
}

const FUNCTIONS = [...MEASURE_NAMES, 'bucket']

export const isMeasure = (word: string): word is MeasureName =>
  (MEASURE_NAMES as readonly string[]).includes(word)

export const isFunction = (word: string): boolean => FUNCTIONS.includes(word)

/** The function that a word of another product or a misspelt one means. */
export function meantFunction(word: string): string | undefined {
  const lower = word.toLowerCase()
  if (isFunction(lower)) return lower
  if (isUnit(lower)) return 'bucket'
  return Object.hasOwn(FOREIGN, lower) ? FOREIGN[lower] : nearest(lower, FUNCTIONS)
}

const isUnit = (word: string): word is BucketUnit => (BUCKET_UNITS as readonly string[]).includes(word)

/** @throws Problem if the word is no period */
function readUnit(word: string, source: Source): BucketUnit {
  if (isUnit(word)) return word
  const all = `There are ${BUCKET_UNITS.join(', ')}.`
  throw refusal(source, `${word.slice(0, 50)} is not a period. ${all}`, didYouMean(word, BUCKET_UNITS))
}

/** Areas and places, which mean the same to every time zone database; `CET` and `EST` do not. */
const ZONE = /^(?:UTC|[A-Za-z]{2,20}(?:\/[A-Za-z0-9_+-]{1,30}){1,2})$/

/** @throws Problem if the text is not the name of a time zone */
function readZone(text: string, source: Source): string {
  if (ZONE.test(text) && isKnownZone(text)) return text
  const [first = ''] = text.toLowerCase()
  const alike = Intl.supportedValuesOf('timeZone').filter(
    (zone) => ZONE.test(zone) && zone.toLowerCase().startsWith(first),
  )
  const near = nearest(text, alike)
  const hint =
    near === undefined
      ? 'Write the IANA name of an area and a place, such as Europe/Berlin, or UTC.'
      : `Did you mean ${near}?`
  throw refusal(source, `${JSON.stringify(text.slice(0, 50))} is not a time zone.`, hint)
}

function isKnownZone(zone: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone: zone })
    return true
  } catch {
    return false
  }
}

export const readBucket = (unit: string, zone: string | undefined, source: Source): Bucket => ({
  unit: readUnit(unit, source),
  zone: zone === undefined ? 'UTC' : readZone(zone, source),
})
