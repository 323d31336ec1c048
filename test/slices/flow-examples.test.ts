/** Examples on the platform itself: what they take for granted of its functions in their cases is so. */

import { readFile } from 'node:fs/promises'
import { beforeAll, expect, test } from 'vitest'
import { aRoom, call, eventually, type Room } from '../support/tenants.ts'

let room: Room
beforeAll(async () => {
  room = await aRoom()
})

/** Publishes an example and starts it. @returns the execution's id */
async function started(name: string, input: object): Promise<string> {
  const source = await readFile(`flows-dsl/examples/${name}.yaml`, 'utf8')
  const as = room.operator
  const made = await call('POST', `${room.flows}/definitions`, { as, body: { name, source } })
  expect(made.body.faults).toEqual([])
  await call('POST', `${room.flows}/definitions/${name}/versions`, { as, body: {} })
  const run = await call('POST', `${room.flows}/definitions/${name}/executions`, { as, body: { input } })
  expect(run.status, JSON.stringify(run.body)).toBe(201)
  return run.body.id
}

const ended = (id: string) =>
  eventually(async () => {
    const { body } = await call('GET', `${room.flows}/executions/${id}`, { as: room.operator })
    return body.status === 'completed' || body.status === 'faulted' ? body : undefined
  })

const documents = async (collection: string) => {
  const { body } = await call('GET', `/v1/collections/${collection}/documents`, { as: room.service })
  return body.data
}

test('contacts are imported, and who has no address is told', async () => {
  const contacts = [{ email: 'ada@example.com' }, { email: 'nobody' }, { email: 'bob@example.com' }]
  const { output } = await ended(await started('contact-import', { contacts }))
  expect(output).toEqual({ imported: 2, refused: ['nobody is no e-mail address.'] })
  const kept = (await documents('contacts')).map(({ email }: { email: string }) => email)
  expect(kept.toSorted()).toEqual(['ada@example.com', 'bob@example.com'])
})

test('the report of the night adds up the orders of the day, and is kept', async () => {
  const day = new Date().toISOString().slice(0, 10)
  for (const [product, price, on] of [
    ['mug', 9, day],
    ['pen', 2, day],
    ['mug', 9, day],
    ['mug', 9, '2020-01-01'],
  ]) {
    const body = { product, price, day: on }
    await call('POST', '/v1/collections/orders/documents', { as: room.service, body })
  }
  const { output } = await ended(await started('nightly-report', {}))
  expect(output).toEqual({ count: 3, revenue: 20, best: 'mug', id: expect.any(String) })
  expect(await documents('reports')).toMatchObject([{ count: 3, revenue: 20, best: 'mug' }])
})

test('whoever signs up twice is told so', async () => {
  const { output } = await ended(await started('signup', { name: 'ada', age: 36 }))
  expect(output).toEqual({ id: expect.any(String) })
  const again = await call('POST', `${room.flows}/definitions/signup/executions`, {
    as: room.operator,
    body: { input: { name: 'ada', age: 36 } },
  })
  expect(await ended(again.body.id)).toMatchObject({ status: 'faulted', error: { status: 409 } })
})

test('readings are gathered until the batch is closed', async () => {
  const id = await started('sensor-batch', { sensor: '/oven' })
  const signal = (event: object) =>
    call('POST', `${room.flows}/executions/${id}/signal`, { as: room.operator, body: { event } })
  for (const [number, fahrenheit] of [68, 212].entries()) {
    await signal({ source: '/oven', id: `r${number}`, type: 'sensor.reading', data: { fahrenheit } })
  }
  await signal({ source: '/oven', id: 'end', type: 'sensor.closed' })
  expect(await ended(id)).toMatchObject({ status: 'completed', output: { count: 2, hottest: 100 } })
})

test('a function judges a comment, which is published', async () => {
  const source = 'export default ({ text }: { text: string }) => ({ toxicity: text === "Lovely!" ? 0.1 : 1 })'
  const body = { workspace_id: room.workspaceId, name: 'judge-comment', source }
  expect((await call('POST', '/v1/functions', { as: room.operator, body })).status).toBe(201)
  const { output } = await ended(await started('moderation', { text: 'Lovely!' }))
  expect(output).toEqual({ published: expect.any(String) })
  expect(await documents('comments')).toMatchObject([{ text: 'Lovely!' }])
})

test('a customer is welcomed by a flow of its own, and trained by another', async () => {
  const flow = (name: string, version: string, task: string) =>
    `document: { dsl: '1.0.3', namespace: examples, name: ${name}, version: '${version}' }\ndo: [{ a: { ${task} } }]`
  for (const [name, version, task] of [
    ['welcome-mail', '1.0.0', 'wait: PT0.1S'],
    ['training', '1.2.0', 'set: { trainer: Bob }'],
  ] as const) {
    const body = { name, source: flow(name, version, task) }
    await call('POST', `${room.flows}/definitions`, { as: room.operator, body })
    await call('POST', `${room.flows}/definitions/${name}/versions`, { as: room.operator, body: {} })
  }
  const { output } = await ended(await started('onboarding', { email: 'ada@example.com', plan: 'team' }))
  expect(output).toEqual({ account: expect.any(String), trainer: 'Bob' })
})
