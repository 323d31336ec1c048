// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Executions that wait for events: published, emitted and of document changes, past and live, each once. */

import { readFile } from 'node:fs/promises'
import { beforeAll, expect, inject, test } from 'vitest'
import type { TenantId } from '../../../src/core/tenant.ts'
import { eventsOf, Streams } from '../../../src/infra/valkey/streams.ts'
import { FlowRunner } from '../../conformance/flows/flow-runner.ts'
import { sqlAsRole } from '../../support/clients/sql-as-role.ts'
import { emitAt } from '../../support/fixtures/event-triggers.ts'
import { resumeWorkspace, suspendWorkspace } from '../../support/fixtures/suspension.ts'
import {
  addTestWorkspace,
  asSuperuser,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
let runner: FlowRunner
beforeAll(async () => {
  workspace = await createTestWorkspace()
  runner = new FlowRunner(workspace, inject('tenon'))
})

/** Publishes a flow. @returns its name */
async function publish(tasks: string, at = runner): Promise<string> {
  const name = unique('hears')
  await at.publish(
    name,
    `document: { dsl: '1.0.3', namespace: test, name: ${name}, version: '1.0.0' }\ndo:\n${tasks}`,
  )
  return name
}

/** Once it is shown as waiting, its subscriptions are stored. */
const waiting = (id: string, at = runner) =>
  eventually(async () => {
    const { body } = await at.call('GET', `${at.workspace.flows}/executions/${id}`)
    return body.status === 'waiting' ? body : undefined
  })

const subscriptionsOf = (id: string) =>
  asSuperuser<{ topic: string; active: boolean }>(
    'select topic, active from tenon.event_subscriptions where execution_id = $1 order by topic',
    [id],
  )

const correlated = (topic: string) =>
  `{ one: { with: { type: ${topic} }, correlate: { order: { from: .data.order, expect: '\${ .order }' } } } }`

test('published event: reaches the execution that correlates, and no other', async () => {
  const topic = unique('paid')
  const name = await publish(`  - paid: { listen: { to: ${correlated(topic)} } }`)
  const [one, two] = [await runner.start(name, { order: 'a' }), await runner.start(name, { order: 'b' })]
  await Promise.all([waiting(one.id), waiting(two.id)])
  await emitAt(workspace, topic, { order: 'c' })
  await emitAt(workspace, topic, { order: 'b', sum: 7 })
  expect((await runner.ended(two.id)).output).toEqual([{ order: 'b', sum: 7 }])
  expect((await waiting(one.id)).status).toBe('waiting')
  expect(await subscriptionsOf(two.id)).toEqual([])
  await emitAt(workspace, topic, { order: 'a' })
  expect((await runner.ended(one.id)).output).toEqual([{ order: 'a' }])
})

test('event between the start and the `listen`: is heard', async () => {
  const topic = unique('early')
  const name = await publish(
    `  - rest: { wait: PT1.5S, output: { as: $input } }\n  - paid: { listen: { to: ${correlated(topic)} } }`,
  )
  await emitAt(workspace, topic, { order: 1, n: 'before the start' })
  const { id } = await runner.start(name, { order: 1 })
  await emitAt(workspace, topic, { order: 2, n: 'of another order' })
  await emitAt(workspace, topic, { order: 1, n: 'early' })
  expect(await runner.ended(id)).toMatchObject({ status: 'completed', output: [{ order: 1, n: 'early' }] })
})

test('several `listen` in a loop: take the events in order, each once', async () => {
  const topic = unique('next')
  const name = await publish(
    `  - all:
      for: { each: n, in: '\${ [range(30)] }' }
      do:
        - one: { listen: { to: { one: { with: { type: ${topic} } } } }, export: { as: '\${ $context.got + [.[0].n] | { got: . } }' } }
      output: { as: $context.got }`,
  )
  const ids = (await Promise.all(Array.from({ length: 8 }, () => runner.start(name, {})))).map(({ id }) => id)
  const numbers = Array.from({ length: 31 }, (_, n) => n)
  for (const n of numbers) await emitAt(workspace, topic, { n })
  for (const id of ids) expect((await runner.ended(id)).output).toEqual(numbers.slice(0, 30))
})

test('change of a document, and an event that another flow emits: reach executions of the same workspace', async () => {
  const collection = unique('c').replace('-', '_')
  const topic = unique('emitted')
  const listens = await publish(`  - both:
      listen:
        to:
          all:
            - with: { type: collections.${collection}.created }
              correlate: { order: { from: .data.document.order } }
            - with: { type: ${topic} }
              correlate: { order: { from: .data.order } }
      output: { as: '\${ map(.document.order // .order) }' }`)
  const emits = await publish(`  - tell: { emit: { event: { with: { type: ${topic}, data: '\${ . }' } } } }`)
  const { id } = await runner.start(listens, {})
  await waiting(id)
  await call('POST', `/v1/collections/${collection}/documents`, { as: workspace.service, body: { order: 5 } })
  await eventually(async () => {
    const topics = await subscriptionsOf(id)
    return topics.filter(({ active }) => active).length === 2 && topics.length === 4 ? true : undefined
  })
  await runner.start(emits, { order: 4 })
  await runner.start(emits, { order: 5 })
  expect((await runner.ended(id)).output).toEqual([5, 5])
})

test('published event of a sibling workspace and of another tenant: is not heard', async () => {
  const topic = unique('apart')
  const sibling = await addTestWorkspace(workspace)
  const other = await createTestWorkspace()
  const name = await publish(`  - any: { listen: { to: { any: [] } } }`)
  const { id } = await runner.start(name, {})
  await waiting(id)
  for (const { tenantId, workspaceId } of [sibling, other])
    for (const table of ['event_subscriptions', 'subscription_offsets'])
      expect(await sqlAsRole('tenon_admin', [tenantId, workspaceId], `select 1 from tenon.${table}`)).toEqual(
        [],
      )
  await emitAt(sibling, topic, { from: 'sibling' })
  await emitAt(other, topic, { from: 'other' })
  await emitAt(workspace, topic, { from: 'own' })
  expect((await runner.ended(id)).output).toEqual([{ from: 'own' }])
})

test('hundreds of events for one execution: arrive in order, each once', async () => {
  const topic = unique('many')
  const any = `any: [{ with: { type: ${topic} } }], until: { one: { with: { type: ${topic}.end } } }`
  const name = await publish(`  - all: { listen: { to: { ${any} } }, output: { as: '\${ map(.n) }' } }`)
  const { id } = await runner.start(name, {})
  const numbers = Array.from({ length: 300 }, (_, n) => n)
  for (const n of numbers) await emitAt(workspace, topic, { n })
  await emitAt(workspace, `${topic}.end`, {})
  // All of them again.
  await asSuperuser("update tenon.subscription_offsets set events_offset = '0-0' where workspace_id = $1", [
    workspace.workspaceId,
  ])
  expect((await runner.ended(id)).output).toEqual(numbers)
})

test('listen that ends by its timeout: is not delivered to any more; a later one hears what came in between', async () => {
  const topic = unique('late')
  const one = `listen: { to: { one: { with: { type: ${topic} } } } }`
  const name = await publish(`  - tried:
      try: [{ first: { ${one}, timeout: { after: PT0.3S } } }]
      catch: { do: [{ none: { set: {} } }] }
  - rest: { wait: PT1S }
  - second: { ${one} }`)
  const { id } = await runner.start(name, {})
  await eventually(async () => {
    const [row] = await subscriptionsOf(id)
    return row?.active === false ? true : undefined
  })
  await emitAt(workspace, topic, { n: 1 })
  expect((await runner.ended(id)).output).toEqual([{ n: 1 }])
})

test('execution that is cancelled or paused while it listens: unsubscribes; keeps the event until it is resumed', async () => {
  const topic = unique('stopped')
  const name = await publish(
    `  - one: { listen: { to: { one: { with: { type: ${topic} } } } } }\n  - kept: { call: collection.create, with: { name: kept, document: '\${ .[0] }' } }`,
  )
  const path = (id: string, verb: string) => `${workspace.flows}/executions/${id}/${verb}`
  const cancelled = await runner.start(name, {})
  await waiting(cancelled.id)
  await runner.call('POST', path(cancelled.id, 'cancel'), {})
  expect((await runner.ended(cancelled.id)).status).toBe('cancelled')
  expect(await subscriptionsOf(cancelled.id)).toEqual([])
  const paused = await runner.start(name, {})
  await waiting(paused.id)
  await runner.call('POST', path(paused.id, 'pause'), {})
  await emitAt(workspace, topic, { n: 1 })
  await eventually(async () => ((await subscriptionsOf(paused.id))[0]?.active === false ? true : undefined))
  expect((await runner.call('GET', `${workspace.flows}/executions/${paused.id}`)).body.ended_at).toBeNull()
  await runner.call('POST', path(paused.id, 'resume'), {})
  expect((await runner.ended(paused.id)).output).toMatchObject({ n: 1 })
})

test('event that a thousand executions wait for: reaches all; costly filters match nothing and delay nobody', async () => {
  const topic = unique('wide')
  const name = await publish(`  - one: { listen: { to: { one: { with: { type: ${topic} } } } } }`)
  const costly = `data: '\${ [range(100000)] | length > 0 }'`
  const spends = await publish(
    `  - one: { listen: { to: { one: { with: { type: ${topic}, ${costly} } } } } }`,
  )
  const [first, last, spending] = [
    await runner.start(name, {}),
    await runner.start(name, {}),
    await runner.start(spends, {}),
  ]
  await Promise.all([first, last, spending].map(({ id }) => waiting(id)))
  // Of executions that have ended since.
  await asSuperuser(
    `insert into tenon.event_subscriptions select tenant_id, workspace_id, execution_id || '.' || n, workflow_id || n,
       topic, definition, value, filter, generation, active, events_offset, changes_offset
     from tenon.event_subscriptions, generate_series(1, 1000) n where execution_id = $1`,
    [first.id],
  )
  await emitAt(workspace, topic, { n: 1 })
  for (const { id } of [first, last]) expect((await runner.ended(id)).output).toEqual([{ n: 1 }])
  expect((await runner.call('GET', `${workspace.flows}/executions/${spending.id}`)).body.status).toBe(
    'waiting',
  )
  await asSuperuser("delete from tenon.event_subscriptions where execution_id like $1 || '.%'", [first.id])
})

test('event during a suspension of the workspace: is kept, and taken when it is resumed', async () => {
  const at = await createTestWorkspace()
  const place = new FlowRunner(at, inject('tenon'))
  const topic = unique('held')
  const tasks = `  - one: { listen: { to: { one: { with: { type: ${topic} } } } } }
  - kept: { call: collection.create, with: { name: kept, document: '\${ .[0] }' } }`
  const { id } = await place.start(await publish(tasks, place), {})
  await waiting(id, place)
  await suspendWorkspace(at, at.operator)
  const streams = new Streams(inject('tenon').env['REDIS_URL'] ?? '', () => {})
  const source = `/workspaces/${at.workspaceId}`
  const event = { specversion: '1.0', id: unique('e'), source, type: topic, data: { n: 1 } }
  await streams.publish(eventsOf(at.tenantId as TenantId), { topic, source, text: JSON.stringify(event) })
  streams.close()
  expect((await resumeWorkspace(at, at.operator)).status).toBe(200)
  expect((await place.ended(id)).output).toMatchObject({ n: 1 })
})

test('OWS use case "Managing GitHub Issues": starts by an event, and completes by events', async () => {
  const at = await createTestWorkspace()
  const place = new FlowRunner(at, inject('tenon'))
  await place.publish('issue-lifecycle', await readFile('flows-dsl/examples/issue-lifecycle.yaml', 'utf8'))
  const started = (count: number) =>
    eventually(async () => {
      const rows = await asSuperuser<{ id: string; number: number }>(
        "select id, (input -> 0 ->> 'number')::int as number from tenon.executions where workspace_id = $1 order by 2",
        [at.workspaceId],
      )
      return rows.length >= count ? rows : undefined
    })
  for (const number of [1, 2]) await emitAt(at, 'issues.opened', { number, team: 'QA' })
  const [one, two] = await started(2)
  await emitAt(at, 'issues.worked', { number: 2, dev: 'ada' })
  await emitAt(at, 'issues.reviewed', { number: 2, reviewer: 'ada', approved: true })
  expect(await place.ended(two?.id ?? '')).toMatchObject({ status: 'faulted', error: { status: 400 } })
  for (const approved of [false, true]) {
    await emitAt(at, 'issues.worked', { number: 1, dev: 'ada' })
    await emitAt(at, 'issues.reviewed', { number: 1, reviewer: 'bob', approved })
  }
  expect(await place.ended(one?.id ?? '')).toMatchObject({ output: { number: 1, closed: true } })
})

test('event of the platform before the `listen`: is heard, from the stream of the workspace', async () => {
  const ends = await publish('  - a: { set: {} }')
  const name = await publish(`  - rest: { wait: PT1S }
  - ended: { listen: { to: { one: { with: { type: platform.execution.completed }, correlate: { flow: { from: .data.flow.name, expect: ${ends} } } } } } }`)
  const { id } = await runner.start(name, {})
  await runner.start(ends, {})
  const run = await runner.ended(id)
  expect([run.status, run.output.length]).toEqual(['completed', 1])
})
