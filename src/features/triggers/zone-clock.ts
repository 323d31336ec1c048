/** The offsets of a time zone, and the months in which its clocks change, as far as the IANA database knows the years to come. */

export interface ZoneClock {
  /** The minutes of an hour of UTC at which an hour of the zone begins: one for most zones. */
  readonly fullHours: readonly number[]
  /** Months, from 1, in which clocks are set forward or back. */
  readonly changeMonths: ReadonlySet<number>
}

const DAY_MS = 86_400_000
/** Zones that follow the moon change their clocks in another month of each year. */
const DAYS_AHEAD = 3_653

const known = new Map<string, ZoneClock>()

/** @param timezone an IANA name */
export function zoneClock(timezone: string): ZoneClock {
  const clock = known.get(timezone) ?? readClock(timezone, Date.now())
  known.set(timezone, clock)
  return clock
}

function readClock(timeZone: string, nowMs: number): ZoneClock {
  const format = new Intl.DateTimeFormat('en', { timeZone, month: 'numeric', timeZoneName: 'longOffset' })
  const days = Array.from({ length: DAYS_AHEAD }, (_, n) => dayOf(format, nowMs + (n - 1) * DAY_MS))
  const changeMonths = days.flatMap((day, n) => {
    const before = days[n - 1] ?? day
    return before.offset === day.offset ? [] : [before.month, day.month]
  })
  const fullHours = [...new Set(days.map(({ offset }) => (1_440 - offset) % 60))]
  return { fullHours, changeMonths: new Set(changeMonths) }
}

/** The month, and the minutes by which the zone is ahead of UTC. */
function dayOf(format: Intl.DateTimeFormat, atMs: number): { month: number; offset: number } {
  const parts = Object.fromEntries(format.formatToParts(atMs).map(({ type, value }) => [type, value]))
  const [, sign = '+', hours = '0', minutes = '0'] =
    /^GMT([+-])(\d+):(\d+)/.exec(parts['timeZoneName'] ?? '') ?? []
  const ahead = Number(hours) * 60 + Number(minutes)
  return { month: Number(parts['month']), offset: sign === '-' ? -ahead : ahead }
}
