/** The values by which documents are grouped. */

import type { Json } from '../../../core/work.ts'
import type { ValueAt } from '../query/evaluate.ts'
import { canonicalOf, dayMs, type Format, minuteMs } from '../schemas/canonical-text.ts'
import type { Bucket, Group } from './aggregate.ts'
import { dateText, instantText } from './answers.ts'
import { beginOf, Calendar } from './periods.ts'

export interface GroupValue {
  /** By which groups are told apart, ordered and continued. */
  readonly key: Json
  /** The value of the answer. */
  readonly shown: Json
}

const NONE: GroupValue = { key: null, shown: null }

/** @returns the value of a document in a column of groups */
export function groupColumn({ path, bucket, as }: Group): (valueAt: ValueAt) => GroupValue {
  if (bucket !== undefined) {
    const periodAt = as === 'date' ? dates(bucket) : instants(bucket)
    return (valueAt) => periodAt(valueAt(path))
  }
  return (valueAt) => {
    const value = (valueAt(path) ?? null) as Json
    return value === null ? NONE : { key: formOf(value, as), shown: value }
  }
}

/** The canonical text of a value, or the value itself if it does not have the format. */
export const formOf = (value: Json, as: Format | undefined): Json =>
  (as !== undefined && typeof value === 'string' ? canonicalOf(as, value) : undefined) ?? value

/** Values that are no dates are in the group null. */
function dates({ unit }: Bucket): (value: unknown) => GroupValue {
  return (value) => {
    const day = typeof value === 'string' ? dayMs(value) : undefined
    if (day === undefined) return NONE
    const seconds = beginOf(day, unit) / 1_000
    return { key: seconds, shown: dateText(seconds) }
  }
}

function instants({ unit, zone }: Bucket): (value: unknown) => GroupValue {
  const calendar = new Calendar(zone)
  return (value) => {
    const at = typeof value === 'string' ? minuteMs(value) : undefined
    if (at === undefined) return NONE
    const { begin, offset } = calendar.periodOf(at, unit)
    const seconds = begin / 1_000
    return { key: seconds, shown: instantText(seconds, offset / 1_000) }
  }
}
