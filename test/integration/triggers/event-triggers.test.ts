// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Event triggers: which events start a flow, each once, and limited chains. */

import { Client } from 'pg'
import { beforeAll, expect, inject, test } from 'vitest'
import { type ExecutionTrigger, isBefore } from '../../../src/core/execution.ts'
import { admitExecution } from '../../../src/features/flows/executions/start-execution.ts'
import { SHARED_LIMITS } from '../../../src/features/limits.ts'
import { sql } from '../../../src/infra/postgres/sql.ts'
import {
  emitAt,
  ended,
  type Published,
  publishOn,
  type Run,
  runsOf,
} from '../../support/fixtures/event-triggers.ts'
import { publishedChanges } from '../../support/fixtures/outbox.ts'
import {
  addTestWorkspace,
  asSuperuser,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { openInProcessPlatform, scopeOf } from '../../support/stack/in-process-platform.ts'

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
})

/** Publishes a flow started by events that match `on`. */
const publish = (
  on: string,
  { at = workspace, ...more }: NonNullable<Parameters<typeof publishOn>[2]> & { at?: TestWorkspace } = {},
): Promise<Published> => publishOn(at, on, more)

const emit = (topic: string, data: unknown, at = workspace) => emitAt(at, topic, data)

/** Executions of the flow, once all events published before have been processed. */
async function executionsAfterDelivery(flow: Published, at = workspace): Promise<Run[]> {
  const topic = unique('mark')
  const marker = await publish(`{ one: { with: { type: ${topic} } } }`, { at })
  await emit(topic, {}, at)
  await ended(marker, 1)
  const offsetsOf = async (id: string) =>
    (
      await asSuperuser<{ events_offset: string }>(
        'select events_offset from tenon.trigger_states where trigger_id = $1',
        [id],
      )
    )[0]
  await eventually(async () => {
    const [its, ours] = [await offsetsOf(marker.triggerId), await offsetsOf(flow.triggerId)]
    return ours === undefined || (its !== undefined && !isBefore(ours.events_offset, its.events_offset))
      ? true
      : undefined
  })
  return runsOf(flow)
}

test("matching event: starts an execution with its data, on behalf of the version's publisher", async () => {
  const topic = unique('orders')
  const flow = await publish(`{ one: { with: { type: ${topic} } } }`)
  await emit(unique('other'), { n: 0 })
  await emit(topic, { n: 1 })
  const [run, second] = await ended(flow, 1)
  expect([run?.input, second]).toEqual([[{ n: 1 }], undefined])
  const { body } = await call('GET', `${workspace.flows}/executions/${run?.id}`, { as: workspace.operator })
  expect(body).toMatchObject({
    trigger: { kind: 'event', id: flow.triggerId },
    output: { got: [{ n: 1 }] },
  })
  const version = await call('GET', `${workspace.flows}/definitions/${flow.flowId}/versions/1`, {
    as: workspace.operator,
  })
  expect(body.started_by).toBe(version.body.created_by)
})

test("filter on the event's data: starts only matches; `read: envelope` passes the whole event", async () => {
  const topic = unique('sums')
  const filter = `{ with: { type: ${topic}, data: '\${ .sum + 0 > 10 }' } }`
  const flow = await publish(`{ any: [${filter}, { with: { type: ${topic}.vip } }] }`, {
    more: ', read: envelope',
  })
  for (const sum of [5, 11, 'text', null]) await emit(topic, { sum })
  await emit(`${topic}.vip`, { sum: 1 })
  const runs = (await ended(flow, 2)).map(({ input }) => (input as { type: string; data: object }[])[0])
  expect(runs).toMatchObject([
    { type: topic, data: { sum: 11 }, source: `/workspaces/${workspace.workspaceId}` },
    { type: `${topic}.vip`, data: { sum: 1 } },
  ])
  expect(await executionsAfterDelivery(flow)).toHaveLength(2)
})

test('correlated `all`: starts one execution once all events have arrived', async () => {
  const topic = unique('both')
  const one = (type: string) =>
    `{ with: { type: ${topic}.${type} }, correlate: { order: { from: .data.order } } }`
  const flow = await publish(`{ all: [${one('paid')}, ${one('packed')}] }`)
  await emit(`${topic}.paid`, { order: 1 })
  await emit(`${topic}.packed`, { order: 2 })
  await emit(`${topic}.packed`, { order: 1 })
  const runs = await ended(flow, 1)
  expect(runs.map(({ input }) => input)).toEqual([[{ order: 1 }, { order: 1 }]])
  await emit(`${topic}.paid`, { order: 2 })
  expect((await ended(flow, 2)).map(({ input }) => input)).toContainEqual([{ order: 2 }, { order: 2 }])
})

test('document change: starts flows of its own workspace only', async () => {
  const collection = unique('c').replace('-', '_')
  const on = `{ one: { with: { type: collections.${collection}.created } } }`
  const sibling = await addTestWorkspace(workspace)
  const [flow, siblingFlow] = [await publish(on), await publish(on, { at: sibling })]
  await call('POST', `/v1/collections/${collection}/documents`, { as: workspace.service, body: { n: 1 } })
  const [run] = await ended(flow, 1)
  expect(run?.input).toMatchObject([{ version: 1, document: { n: 1 } }])
  await call('POST', `/v1/collections/${collection}/documents`, { as: sibling.service, body: { n: 2 } })
  expect((await ended(siblingFlow, 1)).map(({ input }) => input)).toMatchObject([[{ document: { n: 2 } }]])
  expect(await runsOf(flow)).toHaveLength(1)
})

test('published event: starts flows in all workspaces of the tenant, in no other tenant', async () => {
  const topic = unique('shared')
  const on = `{ one: { with: { type: ${topic} } } }`
  const [sibling, other] = [await addTestWorkspace(workspace), await createTestWorkspace()]
  const [inSibling, inOtherTenant] = [await publish(on, { at: sibling }), await publish(on, { at: other })]
  const everything = await publish('{ any: [] }', { at: other })
  await emit(topic, { n: 1 })
  expect(await ended(inSibling, 1)).toHaveLength(1)
  await emit(topic, { n: 2 }, other)
  expect((await ended(inOtherTenant, 1)).map(({ input }) => input)).toEqual([[{ n: 2 }]])
  const publishedChanges = JSON.stringify((await ended(everything, 1)).map(({ input }) => input))
  expect(publishedChanges).toContain('"n":2')
  expect(publishedChanges).not.toContain('"n":1')
})

test('events before publication: ignored; across new versions each starts one execution', async () => {
  const topic = unique('again')
  const on = `{ one: { with: { type: ${topic} } } }`
  await emit(topic, { n: 0 })
  const flow = await publish(on)
  for (let n = 1; n <= 20; n++) {
    await emit(topic, { n })
    if (n % 5 === 0) await publish(on, { name: flow.name })
  }
  const runs = await ended(flow, 20)
  const numbers = runs.map(({ input }) => (input as { n: number }[])[0]?.n)
  expect(numbers.toSorted((a, b) => Number(a) - Number(b))).toEqual(
    Array.from({ length: 20 }, (_, n) => n + 1),
  )
})

test('trigger changed to document changes: ignores earlier changes', async () => {
  const [topic, collection] = [unique('turned'), unique('turned').replace('-', '_')]
  const flow = await publish(`{ one: { with: { type: ${topic} } } }`)
  const make = (n: number) =>
    call('POST', `/v1/collections/${collection}/documents`, { as: workspace.service, body: { n } })
  await make(1)
  expect(await publishedChanges(workspace, collection)).toHaveLength(1)
  await publish(`{ one: { with: { type: collections.${collection}.created } } }`, { name: flow.name })
  await make(2)
  const runs = await eventually(async () => {
    const documents = (await runsOf(flow)).map(({ input }) => input)
    return JSON.stringify(documents).includes('"n":2') ? documents : undefined
  })
  expect(runs).toMatchObject([[{ document: { n: 2 } }]])
  await publish(`{ one: { with: { type: ${topic} } } }`, { name: flow.name })
  await emit(topic, { n: 3 })
  expect((await ended(flow, 2)).at(-1)?.input).toEqual([{ n: 3 }])
})

test('offset update that waited for a lock: does not undo the offset set by a new version', async () => {
  const topic = unique('late')
  const flow = await publish(`{ one: { with: { type: ${topic} } } }`)
  const others = new Client({ connectionString: inject('tenon').databaseUrl })
  await others.connect()
  const waiting = () =>
    asSuperuser(
      "select from pg_stat_activity where wait_event_type = 'Lock' and query like '%trigger_states%'",
      [],
    )
  await others.query('begin')
  const moved = "update tenon.trigger_states set changes_offset = '5-5' where trigger_id = $1"
  await others.query(moved, [flow.triggerId])
  await emit(topic, {})
  await eventually(async () => ((await waiting()).length > 0 ? true : undefined))
  await others.query('commit')
  await others.end()
  await eventually(async () => ((await waiting()).length === 0 ? true : undefined))
  expect(
    await asSuperuser('select changes_offset from tenon.trigger_states where trigger_id = $1', [
      flow.triggerId,
    ]),
  ).toEqual([{ changes_offset: '5-5' }])
})

test('trigger removed by a new version or deleted: its events start nothing', async () => {
  const topic = unique('gone')
  const [changed, deleted] = [
    await publish(`{ one: { with: { type: ${topic} } } }`),
    await publish(`{ one: { with: { type: ${topic} } } }`),
  ]
  await publish(`{ one: { with: { type: ${topic}.other } } }`, { name: changed.name })
  await call('DELETE', `${workspace.flows}/definitions/${deleted.flowId}`, { as: workspace.operator })
  await emit(topic, {})
  expect(await executionsAfterDelivery(changed)).toEqual([])
  expect(
    await asSuperuser('select 1 from tenon.trigger_states where trigger_id = $1', [deleted.triggerId]),
  ).toEqual([])
})

test('paused trigger: skips events', async () => {
  const topic = unique('paused')
  const flow = await publish(`{ one: { with: { type: ${topic} } } }`)
  const sendCommand = (verb: string) =>
    call('POST', `${workspace.flows}/triggers/${flow.triggerId}/${verb}`, {
      as: workspace.operator,
      body: {},
    })
  expect((await sendCommand('pause')).body).toMatchObject({ kind: 'event', paused: true })
  await emit(topic, { n: 1 })
  expect(await executionsAfterDelivery(flow)).toEqual([])
  await sendCommand('resume')
  await emit(topic, { n: 2 })
  expect((await ended(flow, 1)).map(({ input }) => input)).toEqual([[{ n: 2 }]])
})

test('event delivered twice: starts one execution', async () => {
  const topic = unique('twice')
  const flow = await publish(`{ one: { with: { type: ${topic} } } }`)
  await emit(topic, { n: 1 })
  const [run] = await ended(flow, 1)
  await asSuperuser("update tenon.trigger_states set events_offset = '0-0' where trigger_id = $1", [
    flow.triggerId,
  ])
  await publish(`{ one: { with: { type: ${topic} } } }`, { name: flow.name })
  await emit(topic, { n: 2 })
  expect((await ended(flow, 2)).map(({ id }) => id)).toEqual([run?.id, expect.any(String)])
})

test('filter that fails or costs too much: starts nothing, delays no other trigger', async () => {
  const topic = unique('bomb')
  const bomb = await publish(`{ one: { with: { type: ${topic}, data: '\${ [range(.n)] | length > 1 }' } } }`)
  const flow = await publish(`{ one: { with: { type: ${topic}.after } } }`)
  for (let n = 0; n < 50; n++) await emit(topic, { n: 1e9 })
  await emit(topic, { n: 'text' })
  await emit(`${topic}.after`, {})
  expect(await ended(flow, 1)).toHaveLength(1)
  await emit(topic, { n: 5 })
  expect((await ended(bomb, 1)).map(({ input }) => input)).toEqual([[{ n: 5 }]])
})

test('flow that publishes its own trigger event: chain stops at the limit', async () => {
  const topic = unique('loop')
  const flow = await publish(`{ one: { with: { type: ${topic} } } }`, {
    tasks: `  - again: { call: event.publish, with: { topic: ${topic}, data: {} } }`,
  })
  await emit(topic, {})
  const runs = await ended(flow, SHARED_LIMITS.chainDepthMax)
  expect(runs).toHaveLength(SHARED_LIMITS.chainDepthMax)
  expect(await executionsAfterDelivery(flow)).toHaveLength(SHARED_LIMITS.chainDepthMax)
})

test('flow that changes documents which start it, also through a subflow: chain stops at the limit', async () => {
  const collection = unique('loop').replace('-', '_')
  const child = unique('child')
  await publish('{ one: { with: { type: never } } }', {
    name: child,
    tasks: `  - write: { call: collection.create, with: { name: ${collection}, document: { a: 1 } } }`,
  })
  const flow = await publish(`{ one: { with: { type: collections.${collection}.created } } }`, {
    tasks: `  - child: { run: { workflow: { namespace: n, name: ${child}, version: latest } } }`,
  })
  await call('POST', `/v1/collections/${collection}/documents`, { as: workspace.service, body: {} })
  const runs = await ended(flow, SHARED_LIMITS.chainDepthMax)
  expect(runs).toHaveLength(SHARED_LIMITS.chainDepthMax)
  const events = await eventually(async () => {
    const { body } = await call('GET', `/v1/collections/${collection}/documents?page[size]=100`, {
      as: workspace.service,
    })
    return body.data.length === SHARED_LIMITS.chainDepthMax + 1 ? body.data : undefined
  })
  expect(events).toHaveLength(SHARED_LIMITS.chainDepthMax + 1)
  expect(await runsOf(flow)).toHaveLength(SHARED_LIMITS.chainDepthMax)
})

test('chain whose last start was lost in a crash: reconciled, and the chain stops at the limit', async () => {
  const topic = unique('lost')
  const flow = await publish(`{ one: { with: { type: ${topic} } } }`, {
    tasks: `  - again: { call: event.publish, with: { topic: ${topic}, data: {} } }`,
  })
  const platform = openInProcessPlatform()
  const scope = scopeOf(platform, workspace)
  const id = scope.newId('run')
  const trigger: ExecutionTrigger = {
    kind: 'event',
    id: flow.triggerId,
    chain_depth: SHARED_LIMITS.chainDepthMax,
  }
  await admitExecution(scope, sql`f.id = ${flow.flowId}`, { id, input: [], by: 'me', trigger })
  await asSuperuser('update tenon.executions set due_at = now() where id = $1', [id])
  await platform.close()
  await ended(flow, 1)
  expect((await executionsAfterDelivery(flow)).map((run) => run.id)).toEqual([id])
})

test('suspended workspace: events start nothing, also not after resume', async () => {
  const [sibling, topic] = [await addTestWorkspace(workspace), unique('held')]
  const flow = await publish(`{ one: { with: { type: ${topic} } } }`, { at: sibling })
  const sendCommand = (verb: string) =>
    call('POST', `/v1/workspaces/${sibling.workspaceId}/${verb}`, { as: sibling.operator, body: {} })
  await sendCommand('suspend')
  await eventually(async () => {
    const { status } = await call('GET', '/v1/collections', { as: sibling.service })
    return status === 403 ? true : undefined
  })
  await eventually(async () => {
    const before = (await runsOf(flow)).length
    await emit(topic, { early: true })
    await executionsAfterDelivery(flow, workspace)
    return (await runsOf(flow)).length === before ? true : undefined
  })
  const before = (await runsOf(flow)).length
  await sendCommand('resume')
  await eventually(async () => {
    await emit(topic, { early: false })
    const last = (await runsOf(flow)).at(-1)
    return JSON.stringify(last?.input) === '[{"early":false}]' ? true : undefined
  })
  const early = (await runsOf(flow)).filter(({ input }) => JSON.stringify(input) === '[{"early":true}]')
  expect(early).toHaveLength(before)
})

test('filter that never matches: its trigger counts what it saw, and a test event shows why', async () => {
  const topic = unique('code')
  const wrong = await publish(`{ one: { with: { type: ${topic}, data: '\${ .author.team == "QA" }' } } }`)
  const right = await publish(`{ one: { with: { type: ${topic}, data: '\${ .team == "QA" }' } } }`)
  await emit(topic, { team: 'QA' })
  await emit(topic, { team: 'UX' })
  await emit(unique('other'), { team: 'QA' })
  await executionsAfterDelivery(right)
  await executionsAfterDelivery(wrong)
  const triggersOf = async (at: TestWorkspace) =>
    (await call('GET', `${at.flows}/triggers?page[size]=200`, { as: at.operator })).body.data
  const eventsOf = async ({ triggerId }: Published) =>
    (await triggersOf(workspace)).find(({ id }: { id: string }) => id === triggerId)?.events
  expect(await eventsOf(wrong)).toEqual({ seen: 2, matched: 0 })
  expect(await eventsOf(right)).toEqual({ seen: 2, matched: 1 })
  const tested = async ({ triggerId }: Published, event: object) =>
    (
      await call('POST', `${workspace.flows}/triggers/${triggerId}/test`, {
        as: workspace.operator,
        body: { event },
      })
    ).body
  const event = { type: topic, data: { team: 'QA' } }
  expect(await tested(wrong, event)).toEqual({ matches: false, filters: [false] })
  expect(await tested(right, event)).toEqual({ matches: true, filters: [true] })
  expect(await tested(right, { ...event, type: 'x' })).toEqual({ matches: false, filters: [false] })
  const every = await publish('{ any: [] }', { name: unique('every') })
  expect(await tested(every, event)).toEqual({ matches: true, filters: [] })
  expect(await tested(every, { type: 'platform.execution.completed' })).toEqual({
    matches: false,
    filters: [],
  })
  const body = { event: { data: 1 } }
  const path = `${workspace.flows}/triggers/${right.triggerId}/test`
  expect((await call('POST', path, { as: workspace.operator, body })).status).toBe(400)
  await call('POST', `${workspace.flows}/triggers/${every.triggerId}/pause`, {
    as: workspace.operator,
    body: {},
  })
})
