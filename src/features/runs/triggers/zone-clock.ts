/** The offsets of a time zone, and when its clocks change, as far as the IANA database knows the years to come. */

export interface ZoneClock {
  /** The minutes of an hour of UTC at which an hour of the zone begins: one for most zones. */
  readonly fullHours: readonly number[]
  /** The times that clocks show in the hours around each change. */
  readonly changes: readonly ClockHour[]
}

/** The month counts from 1, the day of the week from Sunday, which is 0. */
interface ClockHour {
  readonly month: number
  readonly day: number
  readonly weekday: number
  readonly hour: number
}

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
/** Zones that follow the moon change their clocks in another month of each year. */
const DAYS_AHEAD = 3_653
/** Hours before and after a change in which a search of calendar times goes astray. */
const AROUND = [-2, -1, 0, 1, 2]

/** By the canonical spelling. */
const known = new Map<string, ZoneClock>()

/** @param timezone an IANA name */
export function zoneClock(timezone: string): ZoneClock {
  const name = spelledZone(timezone)
  const clock = known.get(name) ?? readClock(readerOf(name), Date.now())
  known.set(name, clock)
  return clock
}

/** The canonical spelling of a time zone, which Temporal requires. */
export const spelledZone = (timezone: string): string =>
  new Intl.DateTimeFormat('en', { timeZone: timezone }).resolvedOptions().timeZone

type Reader = (atMs: number) => ClockHour & { readonly offset: number }

function readClock(read: Reader, nowMs: number): ZoneClock {
  const days = Array.from({ length: DAYS_AHEAD }, (_, n) => nowMs - (nowMs % HOUR_MS) + (n - 1) * DAY_MS)
  const offsets = days.map((atMs) => read(atMs).offset)
  const changes = days.flatMap((untilMs, n) => {
    const before = offsets[n - 1]
    if (before === undefined || before === offsets[n]) return []
    let atMs = untilMs
    while (read(atMs - HOUR_MS).offset !== before) atMs -= HOUR_MS
    return AROUND.map((hours) => read(atMs + hours * HOUR_MS))
  })
  return { fullHours: [...new Set(offsets.map((offset) => (1_440 - offset) % 60))], changes }
}

/** Reads the clock of a zone, and by how many minutes it is ahead of UTC. */
function readerOf(timeZone: string): Reader {
  const numeric = { year: 'numeric', month: 'numeric', day: 'numeric', hour: 'numeric' } as const
  const format = new Intl.DateTimeFormat('en', {
    timeZone,
    hourCycle: 'h23',
    ...numeric,
    timeZoneName: 'longOffset',
  })
  return (atMs) => {
    const parts = Object.fromEntries(format.formatToParts(atMs).map(({ type, value }) => [type, value]))
    const [year = 0, month = 0, day = 0, hour = 0] = (['year', 'month', 'day', 'hour'] as const).map((part) =>
      Number(parts[part]),
    )
    const [, sign, hours = '0', minutes = '0'] =
      /^GMT([+-])(\d+):(\d+)/.exec(parts['timeZoneName'] ?? '') ?? []
    const ahead = Number(hours) * 60 + Number(minutes)
    const weekday = new Date(Date.UTC(year, month - 1, day)).getUTCDay()
    return { month, day, weekday, hour, offset: sign === '-' ? -ahead : ahead }
  }
}
