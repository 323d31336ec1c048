/** Events and document changes that start runs of functions: once each, in order, bounded, and in chains that end. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { inAnyState } from '../../../src/access/openers.ts'
import { createTriggerScopes } from '../../../src/activities/flow/background-work.ts'
import type { Platform } from '../../../src/app/platform.ts'
import { randomIds } from '../../../src/core/ids.ts'
import type { TenantId, WorkspaceId } from '../../../src/core/tenant.ts'
import { publishEvent } from '../../../src/features/events/events-api.ts'
import { FUNCTION_LIMITS } from '../../../src/features/functions/limits.ts'
import { SHARED_LIMITS } from '../../../src/features/limits.ts'
import { eventTriggerConsumers } from '../../../src/features/runs/triggers/event-consumers.ts'
import { emitAt } from '../../support/fixtures/event-triggers.ts'
import {
  completed,
  configure,
  deployTriggered,
  handled,
  onTopics,
  runsOf,
  triggersOf,
} from '../../support/fixtures/function-triggers.ts'
import { publishedChanges } from '../../support/fixtures/outbox.ts'
import { suspendWorkspace } from '../../support/fixtures/suspension.ts'
import {
  addTestWorkspace,
  asSuperuser,
  call,
  createTestWorkspace,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { openInProcessPlatform } from '../../support/stack/in-process-platform.ts'

let platform: Platform
let workspace: TestWorkspace
beforeAll(async () => {
  platform = openInProcessPlatform()
  workspace = await createTestWorkspace()
})
afterAll(async () => {
  await platform?.close()
})

const emit = (topic: string, n: number, at = workspace) => emitAt(at, topic, { n })
const numbers = (runs: readonly { input: { data: Readonly<Record<string, unknown>> } }[]) =>
  runs.map(({ input }) => input.data['n'])

test('event: starts one run with the event as its input, on behalf of the trigger', async () => {
  const topic = unique('orders')
  const fn = await deployTriggered(workspace, onTopics(`${topic}.created`, `${topic}.*`))
  const event = await emit(`${topic}.created`, 1)
  await emit(unique('other'), 2)
  await emit(`${topic}.changed`, 3)
  const runs = await completed(fn, 2)
  expect(numbers(runs)).toEqual([1, 3])
  const [{ id: triggerId, ...trigger }] = await triggersOf(fn)
  expect(runs[0]).toMatchObject({
    input: { specversion: '1.0', id: event, type: `${topic}.created`, data: { n: 1 } },
    trigger: { kind: 'event', id: triggerId, chain_depth: 1 },
    started_by: `trigger:${triggerId}`,
  })
  expect(trigger).toMatchObject({
    ...{ kind: 'event', seen: 2, started: 2, dropped: 0, last_run_id: runs[1]?.id },
    ...{ topics: [`${topic}.created`, `${topic}.*`], last_run_at: expect.any(String) },
  })
})

test('topics: added ones hear from now on, removed ones start nothing, a deleted function neither', async () => {
  const [first, second] = [unique('first'), unique('second')]
  await emit(first, 0)
  const fn = await deployTriggered(workspace, {})
  expect(await triggersOf(fn)).toEqual([])
  await configure(fn, onTopics(first))
  await emit(first, 1)
  await emit(second, 2)
  expect(numbers(await completed(fn, 1))).toEqual([1])
  await configure(fn, onTopics(second))
  await emit(first, 3)
  await emit(second, 4)
  expect(numbers(await completed(fn, 2))).toEqual([1, 4])
  await configure(fn, { triggers: [] })
  expect(await triggersOf(fn)).toEqual([])
  await configure(fn, onTopics(second))
  await call('DELETE', `/v1/functions/${fn.id}`, { as: workspace.operator })
  const left = await asSuperuser('select from tenon.triggers where target_id = $1', [fn.id])
  expect(left).toEqual([])
})

test('document change: starts a run, also for a function that heard only events before', async () => {
  const [topic, collection] = [unique('turned'), unique('c').replace('-', '_')]
  const create = (n: number) =>
    call('POST', `/v1/collections/${collection}/documents`, { as: workspace.service, body: { n } })
  const fn = await deployTriggered(workspace, onTopics(topic))
  await create(1)
  expect(await publishedChanges(workspace, collection)).toHaveLength(1)
  await configure(fn, onTopics(topic, `collections.${collection}.created`))
  await create(2)
  const [run] = await completed(fn, 1)
  expect(run?.input).toMatchObject({
    type: `collections.${collection}.created`,
    data: { version: 1, document: { n: 2 } },
  })
})

test('document that is updated and deleted: starts a run for each, in order', async () => {
  const collection = unique('c').replace('-', '_')
  const at = `collections.${collection}`
  const fn = await deployTriggered(workspace, onTopics(`${at}.updated`, `${at}.deleted`))
  const path = `/v1/collections/${collection}/documents`
  const as = workspace.service
  const { id } = (await call('POST', path, { as, body: { n: 1 } })).body
  expect((await call('PATCH', `${path}/${id}`, { as, body: { n: 2 } })).status).toBe(200)
  expect((await call('DELETE', `${path}/${id}`, { as })).status).toBe(200)
  const runs = await completed(fn, 2)
  expect(runs.map(({ input }) => input)).toMatchObject([
    { type: `${at}.updated`, data: { id, version: 2, document: { n: 2 } } },
    { type: `${at}.deleted`, data: { id } },
  ])
})

test('event delivered twice: starts one run', async () => {
  const topic = unique('twice')
  const fn = await deployTriggered(workspace, onTopics(topic))
  await emit(topic, 1)
  await completed(fn, 1)
  await asSuperuser(
    `with t as (update tenon.triggers set revision = revision + 1 where target_id = $1 returning id)
     update tenon.trigger_states s set events_offset = '0-0' from t where s.trigger_id = t.id`,
    [fn.id],
  )
  await emit(topic, 2)
  expect(numbers(await completed(fn, 2))).toEqual([1, 2])
  expect(await handled(fn, 3)).toMatchObject({ seen: 3 })
  expect(await runsOf(fn)).toHaveLength(2)
})

test('backlog: a function of one run at a time never has more than two in flight, and misses no event', async () => {
  const topic = unique('flood')
  const source =
    'export default async (event) => { await new Promise((done) => setTimeout(done, 50)); return event }'
  const fn = await deployTriggered(workspace, { ...onTopics(topic), concurrency: 1 }, source)
  for (let n = 1; n <= 6; n++) await emit(topic, n)
  const runs = await completed(fn, 6)
  expect(numbers(runs)).toEqual([1, 2, 3, 4, 5, 6])
  const inFlight = runs.map(
    ({ created_at: at }) =>
      runs.filter((other) => other.created_at <= at && (other.ended_at ?? at) > at).length,
  )
  expect(Math.max(...inFlight)).toBeLessThanOrEqual(FUNCTION_LIMITS.triggers.inFlightFactor)
  expect(await handled(fn, 6)).toMatchObject({ seen: 6, started: 6, dropped: 0 })
})

const refOf = ({ tenantId, workspaceId }: TestWorkspace) => ({
  tenantId: tenantId as TenantId,
  workspaceId: workspaceId as WorkspaceId,
})

test('chain of events at its limit: starts no further run, and counts the event', async () => {
  const topic = unique('loop')
  const fn = await deployTriggered(workspace, onTopics(topic))
  for (const chainDepth of [SHARED_LIMITS.chainDepthMax, SHARED_LIMITS.chainDepthMax - 1]) {
    const actor = { subject: 'test', role: 'service', chainDepth } as const
    const scope = inAnyState(platform.access, refOf(workspace), actor)
    await publishEvent.run(scope, { topic, data: { n: chainDepth } })
  }
  const runs = await completed(fn, 1)
  expect(runs).toMatchObject([{ trigger: { kind: 'event', chain_depth: SHARED_LIMITS.chainDepthMax } }])
  expect(await handled(fn, 2)).toMatchObject({ seen: 2, started: 1, dropped: 1 })
})

test('suspended workspace: its events are dropped, not kept for later', async () => {
  const sibling = await addTestWorkspace(workspace)
  const fn = await deployTriggered(sibling, onTopics('never'))
  const [{ id: triggerId }] = await triggersOf(fn)
  expect((await suspendWorkspace(sibling, sibling.operator)).status).toBe(200)
  const openScope = createTriggerScopes(platform.access)
  const services = { starter: platform.triggers, openScope, log: platform.log }
  const trigger = {
    ...{ ref: refOf(sibling), streams: ['events' as const], events_offset: '0-0', changes_offset: '0-0' },
    ...{ triggerId, target: { kind: 'function', id: fn.id }, revision: 1, correlations: [] },
    spec: { topics: ['never'], streams: ['events' as const] },
  }
  const event = { id: randomIds.uuid(), source: 'x', type: 'never', data: {} }
  const entry = { id: '1-1', topic: 'never', source: 'x', text: JSON.stringify(event), frame: '' }
  const outcome = await eventTriggerConsumers(services).open(triggerId).handle(trigger, [entry], undefined)
  expect(outcome).toMatchObject({ count: 1, state: { counts: { seen: 1, started: 0, dropped: 1 } } })
  expect(await runsOf(fn)).toEqual([])
})

test.each([
  ['orders.**', /not a topic/],
  ['*', /not a topic/],
  ['collections.orders', /names no changes/],
  ['collections.orders.renamed', /names no changes/],
  ['collections.*.created', /names no changes/],
])('topic %s: refused with its place', async (topic, message) => {
  const refused = await call('POST', '/v1/functions', {
    as: workspace.operator,
    body: {
      ...{ workspace_id: workspace.workspaceId, name: unique('fn'), source: 'export default () => 1' },
      config: { triggers: [{ topics: ['a'] }, { topics: ['b', topic] }] },
    },
  })
  expect([refused.status, refused.body.code]).toEqual([400, 'validation_failed'])
  expect(refused.body.errors).toMatchObject([{ pointer: '/config/triggers/1/topics/1' }])
  expect(refused.body.detail).toMatch(message)
})
