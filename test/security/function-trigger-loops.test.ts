/** Functions whose own effects start them again: the chain ends at its limit. */

import { beforeAll, expect, test } from 'vitest'
import { SHARED_LIMITS } from '../../src/features/limits.ts'
import { emitAt } from '../support/fixtures/event-triggers.ts'
import {
  completed,
  deployTriggered,
  handled,
  onTopics,
  runsOf,
  type TriggeredFunction,
} from '../support/fixtures/function-triggers.ts'
import { call, createTestWorkspace, type TestWorkspace, unique } from '../support/fixtures/tenants.ts'

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
})

const MAX = SHARED_LIMITS.chainDepthMax

test('function that publishes its own trigger event: ends at the limit, and shows the dropped event', async () => {
  const topic = unique('loop')
  const source = `export default (event, { tenon }) => tenon.events.publish('${topic}', { after: event.data })`
  const fn = await deployTriggered(workspace, { ...onTopics(topic), scopes: ['events:write'] }, source)
  await emitAt(workspace, topic, {})
  const runs = await completed(fn, MAX)
  expect(await handled(fn, MAX + 1)).toMatchObject({ started: MAX, dropped: 1 })
  expect(await runsOf(fn)).toHaveLength(runs.length)
})

test('function that changes the documents that start it: ends at the limit', async () => {
  const collection = unique('loop').replace('-', '_')
  const source = `export default (event, { tenon }) => tenon.collections.create('${collection}', { a: 1 })`
  const topics = onTopics(`collections.${collection}.created`)
  const fn = await deployTriggered(workspace, { ...topics, scopes: ['collections:write'] }, source)
  await call('POST', `/v1/collections/${collection}/documents`, { as: workspace.service, body: {} })
  await completed(fn, MAX)
  expect(await handled(fn, MAX + 1)).toMatchObject({ started: MAX, dropped: 1 })
})

test('two functions that start each other by two topics: end at the limit', async () => {
  const [ping, pong] = [unique('ping'), unique('pong')]
  const publishing = (topic: string) =>
    `export default (_, { tenon }) => tenon.events.publish('${topic}', {})`
  const scopes = ['events:write']
  const [one, two] = await Promise.all([
    deployTriggered(workspace, { ...onTopics(ping), scopes }, publishing(pong)),
    deployTriggered(workspace, { ...onTopics(pong), scopes }, publishing(ping)),
  ])
  await call('POST', '/v1/events/publish', {
    ...{ as: workspace.service, body: { topic: ping, data: {} } },
    headers: { 'tenon-chain-depth': String(MAX - 4) },
  })
  expect(await handled(one, 3)).toMatchObject({ started: 2, dropped: 1 })
  expect(await handled(two, 2)).toMatchObject({ started: 2, dropped: 0 })
  const depthsOf = async (of: TriggeredFunction) =>
    (await completed(of, 2)).map(({ trigger }) => (trigger as { chain_depth?: number }).chain_depth)
  expect([await depthsOf(one), await depthsOf(two)]).toEqual([
    [MAX - 3, MAX - 1],
    [MAX - 2, MAX],
  ])
})
