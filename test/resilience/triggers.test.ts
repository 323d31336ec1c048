/** Crashes between an event and the execution it starts: exactly one execution per event. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { change } from '../support/fixtures/outbox.ts'
import { asSuperuser, eventually, type TestWorkspace } from '../support/fixtures/tenants.ts'
import { killServer, type OwnPlatform, sharedPlatform } from '../support/stack/own-platform.ts'
import { repeated } from '../support/stack/soak.ts'
import type { Started } from '../support/stack/start.ts'

/** How often the worker is killed, each time after `EVENTS` events. */
const STRIKES = repeated(2, 3)
const EVENTS = repeated(12, 25)

let own: OwnPlatform
let started: Started
let workspace: TestWorkspace
let call: OwnPlatform['call']
beforeAll(async () => {
  own = await sharedPlatform()
  ;({ started, workspace, call } = own)
})
afterAll(() => own?.end())

async function publish(name: string, type: string): Promise<void> {
  const source = `document: { dsl: '1.0.3', namespace: n, name: ${name}, version: '1.0.0' }\nschedule: { on: { one: { with: { type: ${type} } } } }\ndo: [{ a: { set: { done: true } } }]`
  const headers = { 'content-type': 'application/yaml' }
  await call('POST', `${workspace.flows}/definitions`, { as: workspace.operator, body: source, headers })
  const { status } = await call('POST', `${workspace.flows}/definitions/${name}/versions`, {
    as: workspace.operator,
    body: {},
  })
  expect(status).toBe(201)
}

const emit = async (topic: string, n: number) => {
  const { status } = await call('POST', '/v1/events/publish', {
    as: workspace.service,
    body: { topic, data: { n } },
  })
  expect(status).toBe(202)
}

/** The numbers of the events passed to executions, once `count` of them have completed. */
const numbers = (flow: string, count: number) =>
  eventually(async () => {
    const rows = await asSuperuser<{ n: number; status: string }>(
      `select coalesce(input -> 0 -> 'n', input -> 0 -> 'document' -> 'n')::integer as n, e.status
       from tenon.executions e join tenon.flows f on f.id = e.flow_id where f.name = $1`,
      [flow],
      started.running,
    )
    const ended = rows.filter(({ status }) => status === 'completed')
    return ended.length >= count ? rows.map(({ n }) => n).toSorted((a, b) => a - b) : undefined
  }, 90_000)

const upTo = (count: number) => Array.from({ length: count }, (_, n) => n)

test('worker killed repeatedly while events arrive: one execution per event', async () => {
  await publish('killed', 'orders')
  for (const strike of upTo(STRIKES)) {
    for (const n of upTo(EVENTS)) await emit('orders', strike * EVENTS + n)
    // Some executions have started by then, others have not.
    await numbers('killed', strike * EVENTS + 1)
    killServer(started, 'worker')
  }
  expect(await numbers('killed', STRIKES * EVENTS)).toEqual(upTo(STRIKES * EVENTS))
})

test('Temporal killed while documents change: one execution per change once it is back', async () => {
  await publish('changed', 'collections.things.created')
  const write = (n: number) => change(workspace, [{ collection: 'things', document: { n } }], started.running)
  for (const n of upTo(10)) await write(n)
  killServer(started, 'temporal')
  for (const n of upTo(10)) await write(10 + n)
  expect(await numbers('changed', 20)).toEqual(upTo(20))
})
