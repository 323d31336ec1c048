/** Schedules while Temporal hangs or dies, on a stack of our own: nothing is half done, and all of it comes back. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { type OwnPlatform, ownPlatform } from '../support/own-platform.ts'
import { executionsOf, publishScheduled } from '../support/schedules.ts'
import type { Started } from '../support/start.ts'
import { aRoom, call as callAt, eventually, type Room } from '../support/tenants.ts'

let own: OwnPlatform
let started: Started
let room: Room

beforeAll(async () => {
  own = await ownPlatform()
  started = own.started
  room = own.room
}, 120_000)
afterAll(() => own?.end())

const call = (method: string, path: string, body?: object) =>
  callAt(method, path, { as: room.operator, at: started.running, ...(body !== undefined && { body }) })
const publish = (name: string, schedule: string) =>
  publishScheduled(room, name, schedule, undefined, started.running)

function pidOfTemporal(): number {
  const pid = started.stack.supervisor.pid('temporal')
  if (pid === undefined) throw new Error('temporal does not run')
  return pid
}

test('Temporal hangs: nothing of a schedule changes; who has none is published, who is foreign is not asked of', async () => {
  expect((await publish('rare', '{ cron: 0 0 1 1 * }')).status).toBe(201)
  const [rare] = (await call('GET', `${room.flows}/schedules`)).body.data
  const other = await aRoom(started.running)
  const pid = pidOfTemporal()
  process.kill(pid, 'SIGSTOP')
  try {
    const [changed, made, plain, paused, foreign] = await Promise.all([
      publish('rare', '{ cron: 0 0 2 1 * }'),
      publish('often', '{ every: PT1S }'),
      publish('plain', ''),
      call('POST', `${room.flows}/schedules/${rare.id}/pause`, {}),
      call('POST', `${other.flows}/schedules/${rare.id}/pause`, {}),
    ])
    expect([changed.status, made.status, plain.status]).toEqual([503, 503, 201])
    expect([paused.body.code, foreign.status]).toEqual(['dependency_unavailable', 404])
    const listed = await call('GET', `${room.flows}/schedules`)
    expect(listed).toMatchObject({ status: 200, body: { data: [rare] } })
    expect((await call('GET', `${room.flows}/definitions/often`)).body.latest_version).toBe(0)
  } finally {
    process.kill(pid, 'SIGCONT')
  }
  await eventually(async () => {
    const { status } = await publish('rare', '{ cron: 0 0 2 1 * }')
    return status === 201 ? true : undefined
  }, 60_000)
  const { body } = await call('GET', `${room.flows}/schedules`)
  expect(body.data).toMatchObject([{ key: 'cron:0 0 2 1 *', flow_name: 'rare' }])
}, 120_000)

test('Temporal dies and comes back: schedules go on by themselves, without another start of the platform', async () => {
  await eventually(async () => ((await publish('tick', '{ every: PT1S }')).status === 201 ? true : undefined))
  const ran = async (): Promise<number> =>
    (await executionsOf(room, 'tick', started.running)).filter(
      ({ status }: { status: string }) => status === 'completed',
    ).length
  await eventually(async () => ((await ran()) > 1 ? true : undefined))
  process.kill(pidOfTemporal(), 'SIGKILL')
  const before = await ran()
  await eventually(async () => ((await ran()) > before + 2 ? true : undefined), 90_000)
  const [tick] = (await call('GET', `${room.flows}/schedules?flow=tick`)).body.data
  await eventually(async () => {
    const { status, body } = await call('GET', `${room.flows}/schedules/${tick.id}`)
    return status === 200 && body.next.length > 0 ? true : undefined
  }, 30_000)
  await eventually(
    async () =>
      (await call('POST', `${room.flows}/schedules/${tick.id}/pause`, {})).status === 200 ? true : undefined,
    30_000,
  )
}, 150_000)
