/** Runs the example flows on the platform; its functions behave as the examples' test cases assume. */

import { readFile } from 'node:fs/promises'
import { beforeAll, expect, inject, test } from 'vitest'
import { testExamples } from '../../conformance/flows/examples-run.ts'
import { FlowRunner } from '../../conformance/flows/flow-runner.ts'
import { call, createTestWorkspace, createTestWorkspaceWithStorage } from '../../support/fixtures/tenants.ts'

let place: FlowRunner
beforeAll(async () => {
  place = new FlowRunner(await createTestWorkspace(), inject('tenon'))
})

testExamples(() => place)

test('csv-orders: stores the rows of an object, and the refused ones in another', async () => {
  const workspace = await createTestWorkspaceWithStorage()
  const runner = new FlowRunner(workspace, inject('tenon'))
  const { bucket } = (await runner.call('GET', `/v1/workspaces/${workspace.workspaceId}`)).body
  const path = `/v1/objects/${bucket}/today.csv`
  const headers = { 'content-type': 'text/csv' }
  const file = { as: workspace.service, body: 'order,amount\r\no1,12\r\no2,many\r\n', headers }
  expect((await call('PUT', path, file)).status).toBe(201)
  await runner.publish('csv-orders', await readFile('flows-dsl/examples/csv-orders.yaml', 'utf8'))
  const { output } = await runner.ended((await runner.start('csv-orders', { bucket, key: 'today.csv' })).id)
  expect(output).toEqual({ stored: 1, refused: ['o2: many is no number.'] })
  expect(await runner.documents('orders')).toMatchObject([{ order: 'o1', amount: 12 }])
  const refused = await fetch(`${inject('tenon').url}${path}.refused`, { headers: workspace.service })
  expect(await refused.text()).toBe('o2: many is no number.')
})
