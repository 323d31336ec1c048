/** Schedules while Temporal hangs or crashes: no partial changes, all continue afterwards. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { executionsOf, publishScheduled } from '../support/fixtures/schedules.ts'
import { createTestWorkspace, eventually, type TestWorkspace } from '../support/fixtures/tenants.ts'
import { killServer, type OwnPlatform, sharedPlatform, whileStopped } from '../support/stack/own-platform.ts'
import type { Started } from '../support/stack/start.ts'

/** Longer than the shortest `catchUp`. */
const STANDSTILL_MS = 12_500

let own: OwnPlatform
let started: Started
let workspace: TestWorkspace

beforeAll(async () => {
  own = await sharedPlatform()
  started = own.started
  workspace = own.workspace
})
afterAll(async () => {
  // Those of a test that failed would go on in the platform that the next file shares.
  const { data = [] } =
    workspace === undefined ? {} : (await call('GET', `${workspace.flows}/schedules`)).body
  for (const { id } of data) await call('POST', `${workspace.flows}/schedules/${id}/pause`, {})
  await own?.end()
})

const call = (method: string, path: string, body?: object) =>
  own.call(method, path, { as: workspace.operator, ...(body !== undefined && { body }) })
const publish = (name: string, schedule: string) =>
  publishScheduled(workspace, name, schedule, undefined, started.running)

test('Temporal hangs: schedule changes get 503 and change nothing, lists do not tell the next times, flows without a schedule are published, foreign ids get 404', async () => {
  expect((await publish('rare', '{ cron: 0 0 1 1 * }')).status).toBe(201)
  const [rare] = (await call('GET', `${workspace.flows}/schedules`)).body.data
  const other = await createTestWorkspace(started.running)
  await whileStopped(started, 'temporal', async () => {
    const [changed, made, plain, paused, foreign] = await Promise.all([
      publish('rare', '{ cron: 0 0 2 1 * }'),
      publish('often', '{ every: PT1S }'),
      publish('plain', ''),
      call('POST', `${workspace.flows}/schedules/${rare.id}/pause`, {}),
      call('POST', `${other.flows}/schedules/${rare.id}/pause`, {}),
    ])
    expect([changed.status, made.status, plain.status]).toEqual([503, 503, 201])
    expect([paused.body.code, foreign.status]).toEqual(['dependency_unavailable', 404])
    const listed = await call('GET', `${workspace.flows}/schedules`)
    expect(listed).toMatchObject({ status: 200, body: { data: [{ ...rare, next: null }] } })
    expect((await call('GET', `${workspace.flows}/definitions/often`)).body.latest_version).toBe(0)
  })
  await eventually(async () => {
    const { status } = await publish('rare', '{ cron: 0 0 2 1 * }')
    return status === 201 ? true : undefined
  }, 60_000)
  const { body } = await call('GET', `${workspace.flows}/schedules`)
  expect(body.data).toMatchObject([{ key: 'cron:0 0 2 1 *', flow_name: 'rare' }])
})

/** The counters of the only schedule of a flow. */
async function scheduleCounters(flow: string) {
  const [{ id }] = (await call('GET', `${workspace.flows}/schedules?flow=${flow}`)).body.data
  const { status, body } = await call('GET', `${workspace.flows}/schedules/${id}`)
  return status === 200 ? { id, taken: body.taken, missed: body.missed } : undefined
}

test('Temporal stalls: missed starts are made up for as far back as `catchUp` allows', async () => {
  const each = 'every: PT1S, overlap: allow_all'
  for (const [name, catchUp] of [
    ['near', 'PT10S'],
    ['far', 'PT1H'],
  ] as const)
    expect((await publish(name, `{ ${each}, catchUp: ${catchUp} }`)).status).toBe(201)
  const begun = await eventually(async () => {
    const now = await scheduleCounters('near')
    return now !== undefined && now.taken > 0 ? now : undefined
  })
  const stoppedMs = Date.now()
  await whileStopped(started, 'temporal', () =>
    eventually(async () => (Date.now() - stoppedMs > STANDSTILL_MS ? true : undefined)),
  )
  // Temporal may need time to recover.
  const near = await eventually(async () => {
    const now = await scheduleCounters('near')
    return now !== undefined && now.missed > 0 ? now : undefined
  }, 60_000)
  const seconds = (Date.now() - stoppedMs) / 1_000
  const far = await eventually(async () => {
    const now = await scheduleCounters('far')
    return now !== undefined && now.taken > STANDSTILL_MS / 1_000 ? now : undefined
  }, 60_000)
  expect(far.missed).toBe(0)
  // Starts of the ten seconds before it recovered, and of those just before it stalled.
  expect(near.taken - begun.taken).toBeGreaterThanOrEqual(8)
  expect(near.missed).toBeLessThanOrEqual(seconds - 8)
  await eventually(async () => {
    const executions = await executionsOf(workspace, 'near', started.running)
    const ended = executions.filter(({ status }: { status: string }) => status === 'completed')
    return ended.length >= near.taken ? true : undefined
  }, 60_000)
  // Paused only now, as pausing drops starts that are about to begin.
  for (const { id } of [near, far])
    expect((await call('POST', `${workspace.flows}/schedules/${id}/pause`, {})).status).toBe(200)
})

test('Temporal crashes and restarts: schedules continue by themselves', async () => {
  await eventually(async () => ((await publish('tick', '{ every: PT1S }')).status === 201 ? true : undefined))
  const ran = async (): Promise<number> =>
    (await executionsOf(workspace, 'tick', started.running)).filter(
      ({ status }: { status: string }) => status === 'completed',
    ).length
  await eventually(async () => ((await ran()) > 1 ? true : undefined))
  killServer(started, 'temporal')
  const before = await ran()
  await eventually(async () => ((await ran()) > before + 2 ? true : undefined), 60_000)
  const [tick] = (await call('GET', `${workspace.flows}/schedules?flow=tick`)).body.data
  await eventually(async () => {
    const { status, body } = await call('GET', `${workspace.flows}/schedules/${tick.id}`)
    return status === 200 && body.next.length > 0 ? true : undefined
  }, 30_000)
  await eventually(
    async () =>
      (await call('POST', `${workspace.flows}/schedules/${tick.id}/pause`, {})).status === 200
        ? true
        : undefined,
    30_000,
  )
})
