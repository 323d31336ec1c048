// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Executions that wait for events: published, emitted and of document changes, past and live, each once. */

import { beforeAll, expect, inject, test } from 'vitest'
import { FlowRunner } from '../../conformance/flows/flow-runner.ts'
import { emitAt } from '../../support/fixtures/event-triggers.ts'
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
  const [one, two] = [await runner.begin(name, { order: 'a' }), await runner.begin(name, { order: 'b' })]
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
  const { id } = await runner.begin(name, { order: 1 })
  await emitAt(workspace, topic, { order: 2, n: 'of another order' })
  await emitAt(workspace, topic, { order: 1, n: 'early' })
  expect((await runner.ended(id)).output).toEqual([{ order: 1, n: 'early' }])
})

test('several `listen` in a loop: take the events in order, each once', async () => {
  const topic = unique('next')
  const name = await publish(
    `  - all:
      for: { each: n, in: '\${ [range(4)] }' }
      do:
        - one: { listen: { to: { one: { with: { type: ${topic} } } } }, export: { as: '\${ $context.got + [.[0].n] | { got: . } }' } }
    output: { as: $context.got }`.replace('    output', '      output'),
  )
  const { id } = await runner.begin(name, {})
  for (const n of [1, 2, 3, 4, 5]) await emitAt(workspace, topic, { n })
  expect((await runner.ended(id)).output).toEqual([1, 2, 3, 4])
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
  const { id } = await runner.begin(listens, {})
  await waiting(id)
  await call('POST', `/v1/collections/${collection}/documents`, { as: workspace.service, body: { order: 5 } })
  await eventually(async () => {
    const topics = await subscriptionsOf(id)
    return topics.filter(({ active }) => active).length === 2 && topics.length === 4 ? true : undefined
  })
  await runner.begin(emits, { order: 4 })
  await runner.begin(emits, { order: 5 })
  expect((await runner.ended(id)).output).toEqual([5, 5])
})

test('published event of a sibling workspace and of another tenant: is not heard', async () => {
  const topic = unique('apart')
  const sibling = await addTestWorkspace(workspace)
  const other = await createTestWorkspace()
  const name = await publish(`  - any: { listen: { to: { any: [] } } }`)
  const { id } = await runner.begin(name, {})
  await waiting(id)
  await emitAt(sibling, topic, { from: 'sibling' })
  await emitAt(other, topic, { from: 'other' })
  await emitAt(workspace, topic, { from: 'own' })
  expect((await runner.ended(id)).output).toEqual([{ from: 'own' }])
})
