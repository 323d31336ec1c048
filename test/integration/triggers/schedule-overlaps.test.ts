/** Overlap policies of schedules on Temporal: which starts wait for a running execution, and their order. */

import { beforeAll, expect, test } from 'vitest'
import {
  executionsOf,
  onlyScheduleOf,
  publishScheduled,
  type Shown,
  scheduleId,
  withTemporal,
} from '../../support/fixtures/schedules.ts'
import { resumeWorkspace, suspendWorkspace } from '../../support/fixtures/suspension.ts'
import {
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'

const LISTEN = '[{ heard: { listen: { to: { one: { with: { type: go } } } } } }]'

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
})

const send = (id: string, verb: string, body: object = {}) =>
  call('POST', `${workspace.flows}/executions/${id}/${verb}`, { as: workspace.operator, body })

/** Lets an execution complete. @returns when it ended */
async function finish(name: string, id: string): Promise<number> {
  expect((await send(id, 'signal', { event: { type: 'go' } })).status).toBe(202)
  return eventually(async () => {
    const run = (await executionsOf(workspace, name)).find((one) => one.id === id)
    return run.status === 'completed' ? Date.parse(run.ended_at) : undefined
  })
}

/** The id of the `count`th execution once it waits, all earlier ones being completed. */
async function waitingExecution(name: string, count: number): Promise<string> {
  const runs = await eventually(async () => {
    const all = await executionsOf(workspace, name)
    return all[count - 1]?.status === 'waiting' ? all : undefined
  })
  expect(runs.map(({ status }: { status: string }) => status)).toEqual([
    ...Array.from({ length: count - 1 }, () => 'completed'),
    'waiting',
  ])
  return runs[count - 1].id
}

/** The description of the schedule in Temporal. */
const scheduleStatus = (schedule: Shown) =>
  withTemporal(async (client) => {
    const { info, raw } = await client.schedule.getHandle(scheduleId(workspace, schedule)).describe()
    const actions = info.recentActions.map((one) => ({
      due: one.scheduledAt.getTime(),
      taken: one.takenAt.getTime(),
    }))
    return { actions, waiting: Number(raw.info?.bufferSize), skipped: info.numActionsSkippedOverlap }
  })

type ScheduleStatus = Awaited<ReturnType<typeof scheduleStatus>>

const whenStatus = (schedule: Shown, is: (now: ScheduleStatus) => boolean) =>
  eventually(async () => {
    const now = await scheduleStatus(schedule)
    return is(now) ? now : undefined
  })

async function stopSchedule(name: string): Promise<void> {
  await publishScheduled(workspace, name, '')
  for (const { id } of await executionsOf(workspace, name)) await send(id, 'cancel')
}

test('buffer_one: the first start during an execution runs after it, the others are skipped', async () => {
  const name = unique('one')
  await publishScheduled(workspace, name, '{ every: PT1S, overlap: buffer_one }', LISTEN)
  const schedule = await onlyScheduleOf(workspace, name)
  const first = await waitingExecution(name, 1)
  expect((await whenStatus(schedule, ({ skipped }) => skipped > 1)).waiting).toBe(1)
  const endedAt = await finish(name, first)
  await waitingExecution(name, 2)
  const { actions, skipped } = await scheduleStatus(schedule)
  const [before, after] = actions
  expect(actions).toHaveLength(2)
  expect(after?.due).toBe(Number(before?.due) + 1_000)
  expect(after?.due).toBeLessThan(endedAt)
  expect(after?.taken).toBeGreaterThan(endedAt)
  await whenStatus(schedule, (now) => now.skipped > skipped + 1)
  await waitingExecution(name, 2)
  await stopSchedule(name)
})

test('buffer_all: all starts during an execution run after it, one by one, in order', async () => {
  const name = unique('all')
  await publishScheduled(workspace, name, '{ every: PT1S, overlap: buffer_all }', LISTEN)
  const schedule = await onlyScheduleOf(workspace, name)
  await waitingExecution(name, 1)
  await whenStatus(schedule, ({ waiting }) => waiting > 2)
  const ends: number[] = []
  for (const count of [1, 2, 3]) ends.push(await finish(name, await waitingExecution(name, count)))
  await waitingExecution(name, 4)
  const { actions, skipped } = await scheduleStatus(schedule)
  expect([actions.length, skipped]).toEqual([4, 0])
  for (const [n, endedAt] of ends.entries()) {
    expect(actions[n + 1]?.due).toBe(Number(actions[n]?.due) + 1_000)
    expect(actions[n + 1]?.taken).toBeGreaterThan(endedAt)
  }
  expect(actions[3]?.due).toBeLessThan(ends[0] as number)
  await stopSchedule(name)
})

test.each(['buffer_one', 'buffer_all'])(
  '%s, schedule paused: buffered starts are dropped',
  async (overlap) => {
    const name = unique('paused')
    await publishScheduled(workspace, name, `{ every: PT1S, overlap: ${overlap} }`, LISTEN)
    const schedule = await onlyScheduleOf(workspace, name)
    const first = await waitingExecution(name, 1)
    await whenStatus(schedule, ({ waiting }) => waiting > 0)
    const sendCommand = (verb: string) =>
      call('POST', `${workspace.flows}/schedules/${schedule.id}/${verb}`, {
        as: workspace.operator,
        body: {},
      })
    await sendCommand('pause')
    await finish(name, first)
    await whenStatus(schedule, ({ waiting }) => waiting === 0)
    expect(await executionsOf(workspace, name)).toHaveLength(1)
    const resumedAt = Date.now()
    await sendCommand('resume')
    await waitingExecution(name, 2)
    expect((await scheduleStatus(schedule)).actions.at(-1)?.due).toBeGreaterThan(resumedAt - 1_000)
    await stopSchedule(name)
  },
)

test.each(['buffer_one', 'buffer_all'])(
  '%s, workspace suspended: starts due meanwhile are dropped',
  async (overlap) => {
    const name = unique('held')
    await publishScheduled(workspace, name, `{ every: PT1S, overlap: ${overlap} }`, LISTEN)
    const schedule = await onlyScheduleOf(workspace, name)
    const first = await waitingExecution(name, 1)
    expect((await suspendWorkspace(workspace, workspace.operator)).status).toBe(200)
    const { waiting, skipped } = await scheduleStatus(schedule)
    await whenStatus(schedule, (now) => now.waiting + now.skipped > waiting + skipped + 2)
    const resumedAt = Date.now()
    expect((await resumeWorkspace(workspace, workspace.operator)).status).toBe(200)
    await finish(name, first)
    await waitingExecution(name, 2)
    expect((await scheduleStatus(schedule)).actions.at(-1)?.due).toBeGreaterThanOrEqual(resumedAt)
    await stopSchedule(name)
  },
)
