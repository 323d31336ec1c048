/** More events than a history takes: runs that can move do, and whoever sends to one that cannot is told so. */

import { Client, Connection } from '@temporalio/client'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { Runs } from '../support/runs.ts'
import { aRoom, type Room } from '../support/tenants.ts'

let room: Room
let runs: Runs
let connection: Connection
beforeAll(async () => {
  room = await aRoom()
  runs = new Runs(room)
  connection = await Connection.connect({ address: inject('tenon').env['TEMPORAL_ADDRESS'] ?? '' })
})
afterAll(() => connection.close())

const COUNT = 10_000

/** Events that nobody waits for, past the API, which would take a minute. @returns how many were taken */
async function flood(id: string): Promise<number> {
  const { workflow_id } = await runs.read(id)
  const handle = new Client({ connection }).workflow.getHandle(workflow_id)
  let [next, taken] = [0, 0]
  const send = async () => {
    while (next < COUNT) {
      const event = { specversion: '1.0', source: '/flood', id: String(next++), type: 'noise' }
      await handle.signal('event', event).then(
        () => taken++,
        () => {},
      )
    }
  }
  await Promise.all(Array.from({ length: 100 }, send))
  return taken
}

const go = { event: { type: 'go', data: 1 } }
const LISTEN = '  - heard: { listen: { to: { one: { with: { type: go } } } } }'

test('a run hears 10,000 events, and the one that it waits for', async () => {
  const id = await runs.start(await runs.publish(LISTEN))
  await runs.shown(id, 'waiting')
  expect(await flood(id)).toBe(COUNT)
  expect((await runs.send(id, 'signal', go)).status).toBe(202)
  expect(await runs.ended(id)).toMatchObject({ status: 'completed', output: [1] })
}, 180_000)

test('a run that cannot move refuses more, and goes on', async () => {
  const child = await runs.publish(LISTEN)
  const flow = await runs.publish(`  - sub: { run: { workflow: { namespace: n, name: ${child} } } }`)
  const id = await runs.start(flow)
  await runs.shown(id, 'waiting')
  await flood(id)
  expect(await runs.send(id, 'signal', go)).toMatchObject({
    status: 409,
    body: { code: 'state_conflict', detail: expect.stringContaining('as many events') },
  })
  expect(await runs.send(id, 'pause')).toMatchObject({ status: 200 })
  await runs.send(id, 'resume')
  await runs.send(id, 'cancel')
  expect(await runs.ended(id)).toMatchObject({ status: 'cancelled' })
}, 180_000)
