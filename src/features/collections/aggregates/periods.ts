/** The periods of a time zone's calendar, by the time zone database of this process. */

import type { BucketUnit } from './aggregate.ts'

const SECOND = 1_000
const [MINUTE, HOUR, DAY] = [60 * SECOND, 3_600 * SECOND, 86_400 * SECOND]

/** A period by its beginning, in milliseconds since 1970. */
export interface Period {
  readonly begin: number
  /** Milliseconds by which the zone is ahead of UTC then. */
  readonly offset: number
}

/** The beginning of a period by the clock that shows it, as if that were UTC: that of a date, which is in no zone, too. */
export function beginOf(local: number, unit: BucketUnit): number {
  const day = new Date(local)
  const [year, month] = [day.getUTCFullYear(), day.getUTCMonth()]
  switch (unit) {
    case 'minute':
      return floorTo(local, MINUTE)
    case 'hour':
      return floorTo(local, HOUR)
    case 'day':
      return floorTo(local, DAY)
    case 'week':
      return floorTo(local - FIRST_MONDAY, 7 * DAY) + FIRST_MONDAY
    case 'month':
      return dateAt(year, month)
    case 'quarter':
      return dateAt(year, month - (month % 3))
    case 'year':
      return dateAt(year, 0)
  }
}

const FIRST_MONDAY = Date.UTC(1970, 0, 5)

const floorTo = (value: number, step: number): number => Math.floor(value / step) * step

/** `Date.UTC` takes the years up to 99 for those of the last century. */
const dateAt = (year: number, month: number): number => new Date(0).setUTCFullYear(year, month, 1)

const OFFSET = /GMT([+-])(\d\d):(\d\d)(?::(\d\d))?$/

/** The calendar of a time zone, which remembers what it has computed: make one for each aggregate. */
export class Calendar {
  readonly #format: Intl.DateTimeFormat
  /** The offsets at the beginnings of days in UTC. */
  readonly #offsets = new Map<number, number>()

  /** @param zone an IANA name, or `UTC` */
  constructor(zone: string) {
    this.#format = new Intl.DateTimeFormat('en', { timeZone: zone, timeZoneName: 'longOffset' })
  }

  /** The period that an instant is in. */
  periodOf(at: number, unit: BucketUnit): Period {
    const local = at + this.#offsetAt(at)
    const begin =
      unit === 'minute' || unit === 'hour'
        ? at - (local - beginOf(local, unit))
        : this.#firstAt(beginOf(local, unit))
    return { begin, offset: this.#offsetAt(begin) }
  }

  /**
   * The first instant at which clocks show a time, which they may do twice. If they skip it, the instant at which they would have shown it
   * without the change: as a rule, that of the change.
   */
  #firstAt(local: number): number {
    const [before, after] = [this.#offsetAt(local - DAY), this.#offsetAt(local + DAY)]
    const shows = (instant: number) => instant + this.#offsetAt(instant) === local
    const [first, second] = [local - Math.max(before, after), local - Math.min(before, after)]
    if (shows(first)) return first
    return shows(second) ? second : local - before
  }

  /** Milliseconds by which the zone is ahead of UTC. No zone changes its clocks twice in a day. */
  #offsetAt(instant: number): number {
    const day = floorTo(instant, DAY)
    const first = this.#offsetAtDay(day)
    return instant === day || first === this.#offsetAtDay(day + DAY) ? first : this.#read(instant)
  }

  #offsetAtDay(day: number): number {
    const known = this.#offsets.get(day)
    if (known !== undefined) return known
    const offset = this.#read(day)
    this.#offsets.set(day, offset)
    return offset
  }

  #read(instant: number): number {
    const [, sign, hours = '0', minutes = '0', seconds = '0'] =
      OFFSET.exec(this.#format.format(instant)) ?? []
    const ahead = (Number(hours) * 60 + Number(minutes)) * MINUTE + Number(seconds) * SECOND
    return sign === '-' ? -ahead : ahead
  }
}
