// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** `onError`, `finally` and dynamic waits on Temporal: faults, outputs, cancellation. */

import { beforeAll, expect, inject, test } from 'vitest'
import { FlowRunner } from '../../conformance/flows/flow-runner.ts'
import { createTestWorkspace } from '../../support/fixtures/tenants.ts'

let runner: FlowRunner
beforeAll(async () => {
  runner = new FlowRunner(await createTestWorkspace(), inject('tenon'))
})

const keep = (name: string, collection: string, document: string) =>
  `  - ${name}: { call: collection.create, with: { name: ${collection}, document: ${document} } }\n`

async function runFlow(name: string, lines: string, input: object = {}) {
  await runner.publish(
    name,
    `document: { dsl: '1.0.3', namespace: n, name: ${name}, version: '1.0.0' }\n${lines}`,
  )
  return runner.start(name, input)
}

test('execution that faults: onError and finally run, and it stays faulted', async () => {
  const { id } = await runFlow(
    'tells',
    `do: [{ no: { raise: { error: { type: runtime, status: 418 } } } }]
onError:\n${keep('tell', 'told', "{ status: '${ $error.status }' }")}finally:\n${keep('last', 'tidied', "{ was: '${ .status }' }")}`,
  )
  const run = await runner.ended(id)
  expect([run.status, run.error.status]).toEqual(['faulted', 418])
  expect(await runner.documents('told')).toMatchObject([{ status: 418 }])
  expect(await runner.documents('tidied')).toMatchObject([{ was: 'faulted' }])
})

test('execution cancelled in a dynamic wait: finally runs to its end, and it ends cancelled', async () => {
  const { id } = await runFlow(
    'stops',
    `do: [{ nap: { wait: '\${ .for }' } }]
onError:\n${keep('tell', 'never', '{ a: 1 }')}finally:\n  - rest: { wait: { milliseconds: 20 } }\n${keep('last', 'stopped', '{ a: 1 }')}`,
    { for: 'PT1H' },
  )
  await runner.command(id, 'cancel', {})
  expect((await runner.ended(id)).status).toBe('cancelled')
  expect(await runner.documents('stopped')).toHaveLength(1)
})

test('onError that ends the flow: the execution completes with its output', async () => {
  const { id } = await runFlow(
    'mends',
    "do: [{ nap: { wait: '${ .for }' } }]\nonError: [{ a: { set: { sorry: '${ $error.detail }' }, then: end } }]",
    { for: 'soon' },
  )
  const { status, output } = await runner.ended(id)
  expect([status, output.sorry]).toEqual(['completed', expect.stringContaining('`wait` yields "soon"')])
})
