/**
 * Schedules in time zones when the clocks change: the times that Temporal has for them, against an oracle that looks at a clock in
 * each minute.
 */

import { msToTs, tsToMs } from '@temporalio/common/lib/time.js'
import { expect, test } from 'vitest'
import {
  onlyScheduleOf,
  publishScheduled,
  scheduleId,
  schedulesOf,
} from '../../support/fixtures/schedules.ts'
import { createTestWorkspace, unique } from '../../support/fixtures/tenants.ts'
import { withReadingClient } from '../../support/stack/temporal.ts'

const [MINUTE_MS, HOUR_MS] = [60_000, 3_600_000]
/** Temporal lists at most 1,000 times: those of each minute, from the day before to the morning after. */
const AROUND_MS = 8 * HOUR_MS
/** A year from now, so that all changes are to come. */
const YEAR = new Date().getUTCFullYear() + 1

interface Clock {
  readonly minute: number
  readonly hour: number
  readonly day: number
  readonly month: number
  readonly weekday: number
}

/** Shows the local time of a zone. */
function clockOf(timeZone: string): (atMs: number) => Clock {
  const options = { hourCycle: 'h23', year: 'numeric', month: 'numeric', day: 'numeric' } as const
  const format = new Intl.DateTimeFormat('en', { timeZone, ...options, hour: 'numeric', minute: 'numeric' })
  return (atMs) => {
    const parts = Object.fromEntries(
      format.formatToParts(atMs).map(({ type, value }) => [type, Number(value)]),
    )
    const { minute = 0, hour = 0, day = 0, month = 0, year = 0 } = parts
    return { minute, hour, day, month, weekday: new Date(Date.UTC(year, month - 1, day)).getUTCDay() }
  }
}

/** The first minutes after each change of the clocks in the year; noon of a day for a zone without any. */
function changesOf(timeZone: string): number[] {
  const clock = clockOf(timeZone)
  const offset = (atMs: number) => {
    const { minute, hour } = clock(atMs)
    return (hour * 60 + minute - Math.floor(atMs / MINUTE_MS) + 1e9 - (1e9 % 1_440)) % 1_440
  }
  const changes: number[] = []
  for (let hour = Date.UTC(YEAR, 0); hour < Date.UTC(YEAR + 1, 0); hour += HOUR_MS)
    if (offset(hour - HOUR_MS) !== offset(hour)) changes.push(hour)
  return changes.length === 0 ? [Date.UTC(YEAR, 5, 1, 12)] : changes
}

/** `*`, numbers, ranges and lists, with steps. */
function matches(field: string, value: number, max: number): boolean {
  return field.split(',').some((part) => {
    const [range = '', step = '1'] = part.split('/')
    const [from = 0, to = part.includes('/') ? max : from] =
      range === '*' ? [0, max] : range.split('-').map(Number)
    // Steps of days and months count from 1, the others from 0.
    const first = range === '*' && max !== 59 && max !== 23 && max !== 6 ? 1 : from
    return value >= first && value <= to && (value - first) % Number(step) === 0
  })
}

/** Each minute of the interval at which the clock shows a time of the expression. */
function timesShown(cron: string, timeZone: string, [fromMs, toMs]: readonly [number, number]): number[] {
  const [minute = '', hour = '', day = '', month = '', weekday = ''] = cron.split(' ')
  const clock = clockOf(timeZone)
  const found: number[] = []
  for (let at = fromMs; at < toMs; at += MINUTE_MS) {
    const now = clock(at)
    const days = [matches(day, now.day, 31), matches(weekday, now.weekday, 6)]
    const isDay = day === '*' || weekday === '*' ? days.every(Boolean) : days.some(Boolean)
    if (
      matches(minute, now.minute, 59) &&
      matches(hour, now.hour, 23) &&
      matches(month, now.month, 12) &&
      isDay
    )
      found.push(at)
  }
  return found
}

/** Without the earlier of two times that look alike. */
function onceEach(times: readonly number[], timeZone: string): number[] {
  const clock = clockOf(timeZone)
  return [...new Map(times.map((at) => [JSON.stringify(clock(at)), at])).values()].toSorted((a, b) => a - b)
}

/** These follow the clock, as their minute or hour begins with `*`; they have no hole and no gap when an hour is repeated. */
const FOLLOWING = [
  '*/15 * * * *',
  '*/30 * * * *',
  '0 * * * *',
  '20,50 * * * *',
  '*/7 * * * *',
  '* * * * 0,6',
].concat([
  '*/15 * * * 1-5',
  '0,30 * * 3,4,10,11 *',
  '*/20 0-6 * * *',
  '0 */2 * * *',
  '5/10 */3 */2 * *',
  '*/10 * 1 * 0',
])
/** A fixed time, such as `30 2 * * *`, that a change of the clocks skips is skipped on that day, and one that it repeats has the second of the two times. */
const FIXED = ['30 2 * * *', '0 9 * * 1-5', '30 5 * * *', '0 20 * * *']

test.each(['Europe/Berlin', 'America/New_York', 'Australia/Lord_Howe', 'Asia/Kathmandu'])(
  '%s: when the clocks change: a schedule has the times that a clock shows, of a repeated fixed time the second, of a skipped one none',
  async (zone) => {
    const workspace = await createTestWorkspace()
    const changes = changesOf(zone)
    const clock = clockOf(zone)
    const onDay = changes.map((at) => `*/15 * ${clock(at).day} ${clock(at).month} *`)
    // Temporal can look through two minutes of an hour, with two offsets, over a year.
    const rare = `*/${zone === 'Australia/Lord_Howe' ? 30 : 20} * * 10 *`
    const following = [...FOLLOWING, ...onDay, rare]
    const name = unique('dst')
    const crons = [...following, ...FIXED].map((cron) => `'${cron}'`).join(', ')
    const made = await publishScheduled(workspace, name, `{ cron: [${crons}], timezone: ${zone} }`)
    expect(made.status, JSON.stringify(made.body)).toBe(201)
    const schedules = await schedulesOf(workspace, name)
    await withReadingClient(async (client) => {
      for (const schedule of schedules)
        for (const at of changes) {
          const cron = schedule.key.replace(/^cron:/, '')
          const range = [at - AROUND_MS, at + AROUND_MS] as const
          const all = timesShown(cron, zone, range)
          const expected = following.includes(cron) ? all : onceEach(all, zone)
          const { startTime } = await client.workflowService.listScheduleMatchingTimes({
            namespace: client.options.namespace,
            scheduleId: scheduleId(workspace, schedule),
            startTime: msToTs(range[0] - 1_000),
            endTime: msToTs(range[1] - 1_000),
          })
          const seen = startTime.map((time) => new Date(tsToMs(time)).toISOString())
          expect(seen, `${cron} around ${new Date(at).toISOString()}`).toEqual(
            expected.map((one) => new Date(one).toISOString()),
          )
        }
    })
  },
)

test('next times: those that the clock shows on the day of the change, in the API as in Temporal', async () => {
  const workspace = await createTestWorkspace()
  const zone = 'Europe/Berlin'
  const [at = 0] = changesOf(zone).toReversed()
  const { day, month } = clockOf(zone)(at)
  const name = unique('dst')
  const cron = `*/15 * ${day} ${month} *`
  await publishScheduled(workspace, name, `{ cron: '${cron}', timezone: ${zone} }`)
  const schedule = await onlyScheduleOf(workspace, name)
  const id = scheduleId(workspace, schedule)
  const { info } = await withReadingClient((client) => client.schedule.getHandle(id).describe())
  const [first] = info.nextActionTimes
  const fromMs = first?.getTime() ?? 0
  const expected = timesShown(cron, zone, [fromMs, fromMs + 3 * HOUR_MS]).slice(
    0,
    info.nextActionTimes.length,
  )
  expect(info.nextActionTimes.map((time) => time.getTime())).toEqual(expected)
})

test.each([
  ['* * * OCT *', 'Europe/Berlin', 4],
  ['*/10 * * OCT,NOV *', 'America/New_York', 4],
  ['*/20 * * 4 *', 'Australia/Lord_Howe', 2],
])(
  '%s in %s: more times than Temporal can look through: refused, and names how many an expression may have',
  async (cron, zone, most) => {
    const workspace = await createTestWorkspace()
    const { status, body } = await publishScheduled(
      workspace,
      unique('dst'),
      `{ cron: '${cron}', timezone: ${zone} }`,
    )
    expect([status, body.code]).toEqual([422, 'flow_invalid'])
    expect(body.detail).toContain(`several expressions of at most ${most} minutes each`)
  },
)

test.each([
  ['* * * JUL *', 'Europe/Berlin'],
  ['0 * 29 2 *', 'Europe/Berlin'],
  ['* * 1 * *', 'Europe/Berlin'],
  ['*/5 8-9 * OCT *', 'Europe/Berlin'],
  ['* * * OCT *', 'Asia/Kathmandu'],
])('%s in %s: no clock changes then: accepted', async (cron, zone) => {
  const workspace = await createTestWorkspace()
  const { status } = await publishScheduled(
    workspace,
    unique('dst'),
    `{ cron: '${cron}', timezone: ${zone} }`,
  )
  expect(status).toBe(201)
})
