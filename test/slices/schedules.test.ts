/** Flows that start by the clock, on Temporal: as the versions declare it, and for as long. */

import { beforeAll, expect, test } from 'vitest'
import { aRoom, call, eventually, type Room, unique } from '../support/tenants.ts'

let room: Room
beforeAll(async () => {
  room = await aRoom()
})

async function publish(name: string, schedule: string): Promise<void> {
  const source = `document: { dsl: '1.0.3', namespace: n, name: ${name}, version: '1.0.0' }
${schedule === '' ? '' : `schedule: ${schedule}`}
do: [{ a: { set: { done: true } } }]`
  const drafted = await call('GET', `${room.flows}/definitions/${name}`, { as: room.operator })
  const [method, path] = drafted.status === 200 ? ['PUT', `/definitions/${name}`] : ['POST', '/definitions']
  const headers = { 'content-type': 'application/yaml' }
  const made = await call(method as string, `${room.flows}${path}`, {
    as: room.operator,
    body: source,
    headers,
  })
  expect(made.body.faults).toEqual([])
  const published = await call('POST', `${room.flows}/definitions/${name}/versions`, {
    as: room.operator,
    body: {},
  })
  expect(published.status).toBe(201)
}

const executions = async (flow: string) =>
  (await call('GET', `${room.flows}/definitions/${flow}/executions`, { as: room.operator })).body.data

test('a flow runs each second by itself', async () => {
  const name = unique('tick')
  await publish(name, '{ every: PT1S }')
  const [first, second] = await eventually(async () => {
    const ended = (await executions(name)).filter((one: { status: string }) => one.status === 'completed')
    return ended.length > 1 ? ended : undefined
  })
  expect(first).toMatchObject({ output: { done: true }, trigger: { kind: 'schedule' } })
  expect(first.id).not.toBe(second.id)
  await publish(name, '')
})
