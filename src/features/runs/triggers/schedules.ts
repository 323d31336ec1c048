/** Schedules as Temporal takes them: the Temporal Schedule of a row, which starts the workflow `scheduledStart`, and its times. */

import { cronNumbers } from '../../../../flows-dsl/compile/cron.ts'
import type { ScheduledStartInput, TargetRef } from '../../../core/execution.ts'
import { uuidOf } from '../../../core/ids.ts'
import { MINUTE_MS } from '../../../core/units.ts'
import { QUEUES } from '../../../core/work.ts'
import type { Scheduled, Timing } from '../../../infra/temporal/schedules.ts'
import type { ScheduleSpec } from './trigger.ts'
import { spelledZone, type ZoneClock, zoneClock } from './zone-clock.ts'

/** A schedule as Temporal has to have it. */
export interface ScheduleRow {
  readonly id: string
  readonly kind: 'schedule'
  readonly key: string
  readonly spec: ScheduleSpec
  readonly paused: boolean
  readonly note: string | null
  /** The name of its target. */
  readonly name: string
}

const SECOND_MS = 1_000

/** The Temporal Schedule of a row. */
export function toTemporalSchedule(
  target: TargetRef,
  { id, key, spec, paused, note, name }: ScheduleRow,
): Scheduled {
  const input: ScheduledStartInput = { trigger_id: id, target, patience_ms: spec.catch_up_ms }
  return {
    definition: 'scheduledStart',
    type: `${name} (schedule)`,
    queue: QUEUES.flows,
    subject: target.id,
    uuid: uuidOf(id),
    input,
    summary: `Schedule ${key} of ${target.kind} ${name}`,
    attributes: { FlowId: target.id, FlowName: name, TriggerKind: 'schedule' },
    timing: timingOf(spec),
    paused,
    note: note ?? '',
  }
}

/**
 * `after` is implemented as an interval with an overlap policy of one buffered start: the workflow lasts as long as the run and
 * the pause, and the buffered start follows when it ends.
 */
function timingOf(spec: ScheduleSpec): Timing {
  const { cron, every_ms, after_ms, timezone, overlap, catch_up_ms, jitter_ms } = spec
  const everyMs = every_ms ?? (after_ms === undefined ? undefined : Math.max(SECOND_MS, floor(after_ms)))
  return {
    ...(cron !== undefined && cronTiming(cron, timezone)),
    ...(everyMs !== undefined && { intervals: [{ everyMs }] }),
    ...(jitter_ms !== undefined && { jitterMs: jitter_ms }),
    overlap,
    catchUpMs: catch_up_ms,
  }
}

const floor = (ms: number): number => ms - (ms % SECOND_MS)

/** By default, a start that is late by more than this is skipped. */
export const CATCH_UP_MS = 60_000

type CalendarSpec = NonNullable<Timing['skip']>[number]

/** Times that Temporal looks at until it finds one that is not left out. */
const LOOKS_MAX = 40_000

/**
 * The times of an expression. As in Vixie cron, one whose minute or hour begins with `*` follows the clock: it has each time that a
 * clock in the zone shows, also those that it shows twice. A fixed time, such as `30 2 * * *`, that a change of the clocks skips is
 * skipped on that day, and one that it repeats has the second of the two times.
 * @param text in capitals, with single spaces
 */
function cronTiming(
  text: string,
  timezone: string | undefined,
): Pick<Timing, 'crons' | 'intervals' | 'skip' | 'timezone'> {
  if (timezone === undefined) return { crons: cronsOf(text) }
  const times = (followsClock(text) ? clockTimes(text, zoneClock(timezone)) : undefined) ?? {
    crons: cronsOf(text),
  }
  return { ...times, timezone: spelledZone(timezone) }
}

/**
 * Describes the fault of an expression that follows the clock, has times when the clocks change, and has them so rarely that
 * Temporal would miss some then; undefined if it has none.
 * @param text in capitals, with single spaces
 */
export function cronTimingFault(text: string, timezone: string | undefined): string | undefined {
  if (timezone === undefined || !followsClock(text)) return undefined
  const clock = zoneClock(timezone)
  const [minutes = [], hours = [], days = [], months = [], weekdays = []] = cronNumbers(text)
  const isAffected = clock.changes.some(({ month, day, weekday, hour }) => {
    const isDay = [days.includes(day), weekdays.includes(weekday)]
    const matches = hasBothDays(text) ? isDay.some(Boolean) : isDay.every(Boolean)
    return matches && months.includes(month) && hours.includes(hour)
  })
  if (!isAffected) return undefined
  const gapDays = gapDaysOf(days, months)
  if (phasesOf(minutes, clock).length * 24 * gapDays <= LOOKS_MAX) return undefined
  const most = Math.floor(LOOKS_MAX / (24 * gapDays * clock.fullHours.length))
  return `\`${text}\` has ${minutes.length} minutes of an hour, and clocks in ${timezone} change at one of its times: write several expressions of at most ${most} minutes each, such as \`0,30 …\` and \`15,45 …\`, or leave \`timezone\` out.`
}

function followsClock(text: string): boolean {
  const [minute = '', hour = ''] = text.split(' ')
  return minute.startsWith('*') || hour.startsWith('*')
}

/**
 * Temporal's search of calendar times jumps over an hour that is repeated, but times of an interval do not depend on a clock, and a
 * calendar that leaves some of them out is compared with each. So these are all times at which the minute may be right with an
 * offset of the zone, without those at which its clock shows another.
 * @returns undefined if the times are so rare that Temporal would search for too long
 */
function clockTimes(text: string, clock: ZoneClock): Pick<Timing, 'intervals' | 'skip'> | undefined {
  const [minutes = [], hours = [], days = [], months = [], weekdays = []] = cronNumbers(text)
  const phases = phasesOf(minutes, clock)
  if (isLeapDay(text, days, months) || phases.length * 24 * gapDaysOf(days, months) > LOOKS_MAX)
    return undefined
  const others = {
    minute: without(minutes, 0, 59),
    hour: without(hours, 0, 23),
    dayOfMonth: without(days, 1, 31),
    month: without(months, 1, 12).map((month) => MONTHS[month - 1] as (typeof MONTHS)[number]),
    dayOfWeek: without(weekdays, 0, 6).map((day) => WEEKDAYS[day] as (typeof WEEKDAYS)[number]),
  }
  const { minute, hour, month, dayOfMonth, dayOfWeek } = others
  // If both days are given, a day is left out only if neither matches (POSIX).
  const otherDays = hasBothDays(text) ? [{ dayOfMonth, dayOfWeek }] : [{ dayOfMonth }, { dayOfWeek }]
  const left = [{ minute }, { hour }, { month }, ...otherDays]
  const skip = left.filter((one) => Object.values(one).every(({ length }) => length > 0))
  return {
    intervals: intervalsOf(phases),
    skip: skip.map((one): CalendarSpec => ({ minute: '*', hour: '*', ...one })),
  }
}

/** The minutes of an hour of UTC at which a clock of the zone can show one of these. */
const phasesOf = (minutes: readonly number[], { fullHours }: ZoneClock): number[] => [
  ...new Set(minutes.flatMap((minute) => fullHours.map((full) => (minute + full) % 60))),
]

/** The fewest intervals that have these minutes of each hour. */
function intervalsOf(minutes: readonly number[]): NonNullable<Timing['intervals']> {
  const isPeriod = (period: number) => minutes.every((minute) => minutes.includes((minute + period) % 60))
  const period = PERIODS.find(isPeriod) ?? 60
  const first = minutes.filter((minute) => minute < period)
  return first.map((minute) => ({ everyMs: period * MINUTE_MS, offsetMs: minute * MINUTE_MS }))
}

const PERIODS = [1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30]
const MONTHS = [
  ...(['JANUARY', 'FEBRUARY', 'MARCH', 'APRIL', 'MAY', 'JUNE'] as const),
  ...(['JULY', 'AUGUST', 'SEPTEMBER', 'OCTOBER', 'NOVEMBER', 'DECEMBER'] as const),
]
const WEEKDAYS = ['SUNDAY', 'MONDAY', 'TUESDAY', 'WEDNESDAY', 'THURSDAY', 'FRIDAY', 'SATURDAY'] as const

const without = (numbers: readonly number[], from: number, to: number): number[] =>
  Array.from({ length: to - from + 1 }, (_, n) => from + n).filter((one) => !numbers.includes(one))

/** The most days between two days of the expression. */
function gapDaysOf(days: readonly number[], months: readonly number[]): number {
  return months.length < 12 ? 366 : days.length < 31 ? 62 : 7
}

/** It has a day in four years, on which no clock changes. */
function isLeapDay(text: string, days: readonly number[], months: readonly number[]): boolean {
  return months.join() === '2' && Math.min(...days) === 29 && text.endsWith(' *')
}

function hasBothDays(text: string): boolean {
  const [, , day, , weekday] = text.split(' ')
  return day !== '*' && weekday !== '*'
}

/** If both days are given, either matches (POSIX); Temporal requires both, so each gets an expression of its own. */
function cronsOf(text: string): string[] {
  if (!hasBothDays(text)) return [text]
  const [minute, hour, day, month, weekday] = text.split(' ')
  return [`${minute} ${hour} ${day} ${month} *`, `${minute} ${hour} * ${month} ${weekday}`]
}
