// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** `onError`, `finally` and dynamic waits on Temporal: faults, outputs, cancellation. */

import { beforeAll, expect, inject, test } from 'vitest'
import { FlowRunner } from '../../conformance/flows/flow-runner.ts'
import { allowLoopback } from '../../support/fixtures/secrets.ts'
import { createTestWorkspace, eventually } from '../../support/fixtures/tenants.ts'
import { FakeServers } from '../../support/servers/fake-servers.ts'

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

test('approval reopened while the last call runs, and rejected after it: the call is undone, finally runs once', async () => {
  const fakeServers = await FakeServers.open({ '/slow': () => ({ json: {}, lateMs: 1_000 }) })
  try {
    await allowLoopback(runner.workspace, fakeServers)
    const { id } = await runFlow(
      'reopens',
      `do:
  - ask: { approve: { approvers: ['\${ $workflow.input.by }'], fourEyes: false }, export: { as: '\${ { n: 1 } }' } }
  - pay:
      call: http
      with: { method: post, endpoint: '${fakeServers.origin}/slow' }
      compensate:
      ${keep('refund', 'refunded', '{ a: 1 }')}finally:\n${keep('last', 'reopened', "{ was: '${ .status }' }")}`,
      { by: runner.at.clientId },
    )
    await runner.command(id, 'approve', { approved: true })
    await eventually(async () => (fakeServers.requestsTo('/slow').length > 0 ? true : undefined))
    const send = async (verb: string, body: object = {}) =>
      (await runner.call('POST', `${runner.workspace.flows}/executions/${id}/${verb}`, body)).status
    expect(await send('pause')).toBe(200)
    expect(await send('patch-data', { context: { n: 2 } })).toBe(200)
    expect(await send('resume')).toBe(200)
    await eventually(async () => {
      const { body } = await runner.call('GET', `${runner.workspace.flows}/executions/${id}`)
      const pay = body.steps.find(({ name }: { name: string }) => name === 'pay')
      return pay?.status === 'completed' ? true : undefined
    })
    expect(await runner.documents('reopened')).toEqual([])
    await runner.command(id, 'approve', { approved: false })
    expect(await runner.ended(id)).toMatchObject({ status: 'faulted', error: { title: 'Rejected' } })
    expect(await runner.documents('refunded')).toHaveLength(1)
    expect(await runner.documents('reopened')).toMatchObject([{ was: 'faulted' }])
  } finally {
    await fakeServers.close()
  }
})
