/** Schedules of flows on Temporal: declared by versions, kept in step with them. */

import { beforeAll, expect, test } from 'vitest'
import { limit, quota } from '../../support/fixtures/quotas.ts'
import {
  executionsOf,
  isScheduled,
  onlyScheduleOf,
  publishScheduled,
  type Shown,
  scheduleId,
  schedulesOf,
  withTemporal,
} from '../../support/fixtures/schedules.ts'
import {
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { slowdown } from '../../support/stopwatch.ts'

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
})

const command = (schedule: Shown, verb: string, body: object = {}) =>
  call('POST', `${workspace.flows}/schedules/${schedule.id}/${verb}`, { as: workspace.operator, body })
const read = async (schedule: Shown) =>
  (await call('GET', `${workspace.flows}/schedules/${schedule.id}`, { as: workspace.operator })).body
const ended = async (flow: string) =>
  (await executionsOf(workspace, flow)).filter((one: { status: string }) => one.status === 'completed')
const atLeast = (flow: string, count: number) =>
  eventually(async () => {
    const runs = await ended(flow)
    return runs.length >= count ? runs : undefined
  })

test('every second: starts executions until a version removes the schedule', async () => {
  const name = unique('tick')
  await publishScheduled(workspace, name, '{ every: PT1S }')
  const tick = await onlyScheduleOf(workspace, name)
  const [first, second] = await atLeast(name, 2)
  expect(first).toMatchObject({ output: { done: true }, trigger: { kind: 'schedule', id: tick.id } })
  expect(first.id).not.toBe(second.id)
  const [{ last_run }] = (await schedulesOf(workspace, name)) as unknown as [{ last_run: unknown }]
  expect(last_run).toMatchObject({ id: expect.stringMatching(/^run_/) })
  await publishScheduled(workspace, name, '')
  expect(await schedulesOf(workspace, name)).toEqual([])
  expect(await isScheduled(workspace, tick)).toBe(false)
})

test('several schedules: a new version changes, keeps and removes them', async () => {
  const name = unique('several')
  await publishScheduled(workspace, name, "{ cron: ['0 9 * * *', '0 17 * * *'], every: P1D }")
  const before = await schedulesOf(workspace, name)
  expect(before.map(({ key }) => key).toSorted()).toEqual(['cron:0 17 * * *', 'cron:0 9 * * *', 'every'])
  expect(await Promise.all(before.map((one) => isScheduled(workspace, one)))).toEqual([true, true, true])
  const [nine, five, daily] = ['cron:0 9 * * *', 'cron:0 17 * * *', 'every'].map(
    (key) => before.find((one) => one.key === key) as Shown,
  ) as [Shown, Shown, Shown]
  await command(nine, 'pause', { note: 'holiday' })
  await publishScheduled(
    workspace,
    name,
    "{ cron: ['0 9 * * *', '0 20 * * *'], every: P2D, overlap: allow_all, timezone: Asia/Kolkata }",
  )
  const after = await schedulesOf(workspace, name)
  const found = (key: string) => after.find((one) => one.key === key)
  expect(found('cron:0 9 * * *')).toMatchObject({
    id: nine.id,
    paused: true,
    note: 'holiday',
    version: 2,
    spec: { overlap: 'allow_all', timezone: 'Asia/Kolkata' },
  })
  expect(found('every')).toMatchObject({ id: daily.id, paused: false, spec: { every_ms: 172_800_000 } })
  expect(found('cron:0 17 * * *')).toBeUndefined()
  expect(found('cron:0 20 * * *')?.id).not.toBe(five.id)
  expect(await isScheduled(workspace, five)).toBe(false)
  await withTemporal(async (client) => {
    const changed = await client.schedule.getHandle(scheduleId(workspace, nine)).describe()
    expect(changed).toMatchObject({
      state: { paused: true, note: 'holiday' },
      policies: { overlap: 'ALLOW_ALL', catchupWindow: 60_000 },
      action: { priority: { fairnessKey: workspace.tenantId } },
      spec: { timezone: 'Asia/Calcutta' },
    })
  })
})

test('trigger command: starts the newest version at once, also while paused', async () => {
  const name = unique('now')
  await publishScheduled(workspace, name, '{ cron: 0 0 1 1 * }')
  await publishScheduled(workspace, name, '{ cron: 0 0 1 1 * }')
  const schedule = await onlyScheduleOf(workspace, name)
  await command(schedule, 'pause')
  const { status, body } = await command(schedule, 'trigger')
  expect([status, body.version, body.trigger]).toEqual([202, 2, { kind: 'schedule', id: schedule.id }])
  const [run] = await atLeast(name, 1)
  expect(run).toMatchObject({ id: body.id, output: { done: true } })
})

test('start by Temporal: newest version, on behalf of its publisher', async () => {
  const name = unique('cron')
  await publishScheduled(workspace, name, '{ cron: 0 0 1 1 * }')
  await publishScheduled(workspace, name, '{ cron: 0 0 1 1 * }')
  const version = await call('GET', `${workspace.flows}/definitions/${name}/versions/2`, {
    as: workspace.operator,
  })
  const schedule = await onlyScheduleOf(workspace, name)
  const recent = await withTemporal(async (client) => {
    const handle = client.schedule.getHandle(scheduleId(workspace, schedule))
    await handle.trigger()
    const [run] = await atLeast(name, 1)
    expect(run).toMatchObject({
      version: 2,
      input: {},
      started_by: version.body.created_by,
      trigger: { kind: 'schedule', id: schedule.id },
    })
    const { workflowId } = (await handle.describe()).info.recentActions[0]?.action.workflow ?? {}
    const trigger = client.workflow.getHandle(workflowId ?? '')
    expect(await trigger.result()).toEqual({ run_id: run.id })
    return (await trigger.describe()).typedSearchAttributes.getAll()
  })
  expect(recent).toEqual(expect.arrayContaining([expect.objectContaining({ value: workspace.tenantId })]))
})

test('paused: starts nothing, even if Temporal is not paused; resumed: starts again', async () => {
  const name = unique('paused')
  await publishScheduled(workspace, name, '{ every: PT1S }')
  const schedule = await onlyScheduleOf(workspace, name)
  await atLeast(name, 1)
  const paused = await command(schedule, 'pause', { note: 'lunch' })
  expect([paused.status, paused.body]).toMatchObject([200, { paused: true, note: 'lunch' }])
  expect((await command(schedule, 'pause', { note: 'still' })).body).toMatchObject({
    paused: true,
    note: 'still',
  })
  expect((await read(schedule)).next).toEqual([])
  await withTemporal(async (client) => {
    const handle = client.schedule.getHandle(scheduleId(workspace, schedule))
    expect((await handle.describe()).state).toEqual({ paused: true, note: 'still' })
    await eventually(async () =>
      (await handle.describe()).info.runningActions.length === 0 ? true : undefined,
    )
    const before = await executionsOf(workspace, name)
    const { numActionsTaken } = (await handle.describe()).info
    await handle.unpause()
    await eventually(async () =>
      (await handle.describe()).info.numActionsTaken > numActionsTaken + 1 ? true : undefined,
    )
    expect(await executionsOf(workspace, name)).toHaveLength(before.length)
    const resumed = await command(schedule, 'resume')
    expect([resumed.status, resumed.body]).toMatchObject([200, { paused: false, note: null }])
    await atLeast(name, before.length + 1)
  })
  expect((await read(schedule)).next.length).toBeGreaterThan(0)
  await publishScheduled(workspace, name, '')
})

test('list: more schedules than are read at once, some paused: `next` of each is that of the schedule itself', async () => {
  const name = unique('listed')
  const lines = Array.from({ length: 13 }, (_, n) => `'${n} 3 * * *'`)
  await publishScheduled(workspace, name, `{ cron: [${lines.join()}] }`)
  const [first] = await schedulesOf(workspace, name)
  await command(first as Shown, 'pause')
  await eventually(async () => {
    const listed = await schedulesOf(workspace, name)
    expect(listed).toHaveLength(13)
    const alone = await Promise.all(listed.map(async (one) => (await read(one)).next))
    expect(alone.map(({ length }: unknown[]) => length > 0)).toEqual(listed.map(({ paused }) => !paused))
    // Between the two reads, a time may have come.
    const isSame = JSON.stringify(listed.map(({ next }) => next)) === JSON.stringify(alone)
    return isSame ? true : undefined
  })
  await publishScheduled(workspace, name, '')
})

const local = (time: string, timeZone: string) => {
  const parts = new Intl.DateTimeFormat('en-GB', {
    timeZone,
    weekday: 'short',
    day: 'numeric',
    month: 'short',
    hour: '2-digit',
    minute: '2-digit',
  }).formatToParts(new Date(time))
  return Object.fromEntries(parts.map(({ type, value }) => [type, value]))
}

async function nextOf(schedule: string): Promise<string[]> {
  const name = unique('next')
  expect((await publishScheduled(workspace, name, schedule)).status).toBe(201)
  return (await read(await onlyScheduleOf(workspace, name))).next
}

test('cron expression: matches the times it names, in its time zone', async () => {
  const summer = await nextOf("{ cron: '30 2 27-31 MAR,OCT *', timezone: Europe/Berlin }")
  const hours = summer.map((time) => {
    expect(local(time, 'Europe/Berlin')).toMatchObject({ hour: '02', minute: '30' })
    return new Date(time).getUTCHours()
  })
  // Ten times span a clock change at any time of the year.
  expect(new Set(hours)).toEqual(new Set([0, 1]))
  const many = await nextOf("{ cron: '5/20 22-23 * JAN-MAR,12 7' }")
  expect(many).toHaveLength(10)
  for (const time of many) {
    const { minute, hour, month, weekday } = local(time, 'UTC')
    expect(['05', '25', '45'].includes(String(minute)), time).toBe(true)
    expect(['22', '23'].includes(String(hour)), time).toBe(true)
    expect([weekday, ['Jan', 'Feb', 'Mar', 'Dec'].includes(String(month))]).toEqual(['Sun', true])
  }
  const either = (await nextOf("{ cron: '0 0 13 * FRI' }")).map((time) => local(time, 'UTC'))
  for (const { day, weekday } of either) expect(day === '13' || weekday === 'Fri').toBe(true)
  expect(either.some(({ day, weekday }) => day === '13' && weekday !== 'Fri')).toBe(true)
  expect(either.some(({ day, weekday }) => day !== '13' && weekday === 'Fri')).toBe(true)
})

// A fixed time, such as `30 2 * * *`, that a change of the clocks skips is skipped on that day, and one that it repeats has the second of the two times.
// Clocks in Europe change on the last Sundays of March and October.
test('clock change: a skipped fixed time is skipped, a repeated one has the second of the two times', async () => {
  const spring = await nextOf("{ cron: '30 2 * MAR SUN', timezone: Europe/Berlin }")
  const autumn = await nextOf("{ cron: '30 2 * OCT SUN', timezone: Europe/Berlin }")
  expect([spring.length, autumn.length]).toEqual([10, 10])
  for (const time of spring) expect(Number(local(time, 'Europe/Berlin')['day']), time).toBeLessThan(25)
  for (const time of autumn) {
    const isLast = Number(local(time, 'Europe/Berlin')['day']) > 24
    expect(new Date(time).getUTCHours(), time).toBe(isLast ? 1 : 0)
  }
  expect(new Set(autumn.map((time) => new Date(time).getUTCHours())).size).toBe(2)
})

test.each([
  '*/100 * * * *',
  '59 23 31 DEC *',
  '0 0 29 2 *',
  '0-59/7 */5 1-31/2 1-12 0-7',
  '0 0 * * 5-7',
  '0 0 * * 0,7',
  '1,2,3,4 0 * feb-APR sat',
])('cron expression accepted by the language: accepted by Temporal: %s', async (line) => {
  expect(
    await nextOf(`{ cron: '${line}', jitter: P365D, catchUp: P365D, timezone: us/eastern }`),
  ).not.toEqual([])
})

test('`after`: the next execution starts that long after the end of the last', async () => {
  const name = unique('after')
  await publishScheduled(workspace, name, '{ after: PT1.5S }', '[{ nap: { wait: PT2S } }]')
  const [first, second, third] = await atLeast(name, 3)
  const pause = (a: { ended_at: string }, b: { started_at: string }) =>
    Date.parse(b.started_at) - Date.parse(a.ended_at)
  for (const ms of [pause(first, second), pause(second, third)]) {
    expect(ms).toBeGreaterThanOrEqual(1_500)
    expect(ms).toBeLessThan(6_000 * slowdown())
  }
  await publishScheduled(workspace, name, '')
})

const statuses = async (flow: string): Promise<string[]> =>
  (await executionsOf(workspace, flow)).map(({ status }: { status: string }) => status)

test('overlap skip, allow_all, cancel_other: left out, started as well, or replaces the running one', async () => {
  const day = '[{ nap: { wait: P1D } }]'
  const [skip, both, other] = [unique('skip'), unique('both'), unique('other')]
  await publishScheduled(workspace, skip, '{ every: PT1S }', day)
  await publishScheduled(workspace, both, '{ every: PT1S, overlap: allow_all }', day)
  await publishScheduled(workspace, other, '{ every: PT1S, overlap: cancel_other }', day)
  await eventually(async () => ((await statuses(both)).length > 1 ? true : undefined))
  await eventually(async () => {
    const seen = await statuses(other)
    return seen[0] === 'cancelled' && seen.includes('waiting') ? true : undefined
  })
  const skipping = await onlyScheduleOf(workspace, skip)
  await eventually(async () => ((await read(skipping)).skipped > 1 ? true : undefined))
  expect(await executionsOf(workspace, skip)).toHaveLength(1)
  for (const name of [skip, both, other]) await publishScheduled(workspace, name, '')
  for (const name of [skip, both, other])
    for (const { id } of await executionsOf(workspace, name))
      await call('POST', `${workspace.flows}/executions/${id}/cancel`, { as: workspace.operator, body: {} })
})

test('flow deleted: its schedule is deleted; refused while an execution is open', async () => {
  const name = unique('deleted')
  await publishScheduled(workspace, name, '{ cron: 0 0 1 1 * }', '[{ nap: { wait: P1D } }]')
  const schedule = await onlyScheduleOf(workspace, name)
  const { body } = await command(schedule, 'trigger')
  const remove = () => call('DELETE', `${workspace.flows}/definitions/${name}`, { as: workspace.operator })
  expect((await remove()).status).toBe(409)
  expect([await isScheduled(workspace, schedule), (await schedulesOf(workspace, name)).length]).toEqual([
    true,
    1,
  ])
  await call('POST', `${workspace.flows}/executions/${body.id}/cancel`, { as: workspace.operator, body: {} })
  await eventually(async () => ((await remove()).status === 200 ? true : undefined))
  expect(await isScheduled(workspace, schedule)).toBe(false)
  expect((await command(schedule, 'trigger')).status).toBe(404)
})

test('schedule missing in Temporal: recreated by the reconciler', async () => {
  const name = unique('lost')
  await publishScheduled(workspace, name, '{ cron: 0 0 1 1 * }')
  const schedule = await onlyScheduleOf(workspace, name)
  await withTemporal((client) => client.schedule.getHandle(scheduleId(workspace, schedule)).delete())
  await eventually(async () => ((await isScheduled(workspace, schedule)) ? true : undefined), 30_000)
})

test('quota of schedules: refuses versions that exceed it, counts removals', async () => {
  const mine = await createTestWorkspace()
  await limit(mine, { schedules: 2 })
  const name = unique('quota')
  expect((await publishScheduled(mine, name, "{ cron: ['0 1 * * *', '0 2 * * *'] }")).status).toBe(201)
  const refused = await publishScheduled(mine, name, "{ cron: ['0 1 * * *', '0 2 * * *', '0 3 * * *'] }")
  expect(refused.body).toMatchObject({ code: 'quota_exceeded', quota: 'schedules', limit: 2, used: 2 })
  expect((await publishScheduled(mine, name, "{ cron: ['0 3 * * *', '0 4 * * *'] }")).status).toBe(201)
  expect(await quota(mine, 'schedules')).toMatchObject({ limit: 2, used: 2 })
  await call('DELETE', `${mine.flows}/definitions/${name}`, { as: mine.operator })
  expect(await quota(mine, 'schedules')).toMatchObject({ used: 0, remaining: 2 })
})

test('quota of concurrent executions reached: starts again once an execution ends', async () => {
  const mine = await createTestWorkspace()
  const name = unique('full')
  await limit(mine, { concurrent_executions: 1 })
  await publishScheduled(mine, name, '{ every: PT1S, overlap: allow_all }', '[{ nap: { wait: P1D } }]')
  const schedule = await onlyScheduleOf(mine, name)
  const [first] = await eventually(async () => {
    const { taken } = (await call('GET', `${mine.flows}/schedules/${schedule.id}`, { as: mine.operator }))
      .body
    return taken > 3 ? await executionsOf(mine, name) : undefined
  })
  expect(await executionsOf(mine, name)).toHaveLength(1)
  await call('POST', `${mine.flows}/executions/${first.id}/cancel`, { as: mine.operator, body: {} })
  await eventually(async () => ((await executionsOf(mine, name)).length > 1 ? true : undefined))
  await publishScheduled(mine, name, '')
})

test('suspended workspace: starts nothing, and nothing is made up for after resume', async () => {
  const mine = await createTestWorkspace()
  const name = unique('held')
  await publishScheduled(mine, name, '{ every: PT1S }')
  const schedule = await onlyScheduleOf(mine, name)
  await eventually(async () => ((await executionsOf(mine, name)).length > 0 ? true : undefined))
  await call('POST', `/v1/workspaces/${mine.workspaceId}/suspend`, { as: mine.operator, body: {} })
  await withTemporal(async (client) => {
    const handle = client.schedule.getHandle(scheduleId(mine, schedule))
    const actions = async () => (await handle.describe()).info.numActionsTaken
    const passed = async (count: number) => {
      const from = await actions()
      await eventually(async () => ((await actions()) >= from + count ? true : undefined))
    }
    // A suspension reaches every process within five seconds.
    await passed(6)
    const before = (await executionsOf(mine, name)).length
    await passed(3)
    expect(await executionsOf(mine, name)).toHaveLength(before)
    await call('POST', `/v1/workspaces/${mine.workspaceId}/resume`, { as: mine.operator })
    const from = await actions()
    await eventually(async () => ((await executionsOf(mine, name)).length > before ? true : undefined))
    const began = (await executionsOf(mine, name)).length - before
    expect(began).toBeLessThanOrEqual((await actions()) - from + 1)
  })
  await publishScheduled(mine, name, '')
})

test('other workspace: 404', async () => {
  const name = unique('theirs')
  await publishScheduled(workspace, name, '{ cron: 0 0 1 1 * }')
  const schedule = await onlyScheduleOf(workspace, name)
  const other = await createTestWorkspace()
  for (const [method, tail] of [
    ['GET', ''],
    ['POST', '/pause'],
    ['POST', '/resume'],
    ['POST', '/trigger'],
  ]) {
    const reply = await call(method as string, `${other.flows}/schedules/${schedule.id}${tail}`, {
      as: other.operator,
      ...(method === 'POST' && { body: {} }),
    })
    expect([reply.status, reply.body.code]).toEqual([404, 'not_found'])
  }
  expect((await call('GET', `${other.flows}/schedules`, { as: other.operator })).body.data).toEqual([])
  expect(await executionsOf(workspace, name)).toEqual([])
})
