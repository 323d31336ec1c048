/** The workflow type in Temporal is the name of the flow or function, whatever it is called. */

import { expect, test } from 'vitest'
import { Executions } from '../../support/fixtures/executions.ts'
import { call, createTestWorkspace, eventually } from '../../support/fixtures/tenants.ts'
import { withRawClient } from '../../support/stack/temporal.ts'

/** The last three are also names of the platform, of the bundle's exports, and of every JavaScript object. */
const NAMES = ['nightly-report', 'provision', 'registration', 'default', 'constructor']

test('flow and function of any name: run, and Temporal lists them under that name', async () => {
  const workspace = await createTestWorkspace()
  const executions = new Executions(workspace)
  for (const name of NAMES) await executions.publish('  - a: { set: { own: true } }', { name })
  const calls = NAMES.map((name, n) => `  - s${n}: { run: { workflow: { namespace: n, name: ${name} } } }`)
  const parent = await executions.ended(await executions.start(await executions.publish(calls.join('\n'))))
  const ended = await Promise.all(NAMES.map(async (name) => executions.ended(await executions.start(name))))
  expect([parent, ...ended].map(({ error, output }) => [error, output])).toEqual(
    [parent, ...ended].map(() => [null, { own: true }]),
  )
  const source = 'export default ({ n }: { n: number }) => n + 1'
  for (const name of ['provision', 'constructor']) {
    await call('POST', '/v1/functions', {
      as: workspace.operator,
      body: { workspace_id: workspace.workspaceId, name, source },
    })
    const { body } = await call('POST', `/v1/functions/${name}/invoke`, {
      as: workspace.service,
      body: { n: 1 },
    })
    expect([name, body]).toEqual([name, 2])
  }
  const plain = NAMES.filter((name) => !(name in {}))
  const expected = [...plain, ...NAMES.filter((name) => name in {}).map((name) => `${name}-`)]
  const count = (type: string) =>
    withRawClient(async ({ workflow }) => {
      const query = `TenantId = '${workspace.tenantId}' and WorkflowType = '${type}'`
      return (await workflow.count(query)).count
    })
  for (const type of expected)
    await eventually(async () => ((await count(type)) >= 2 ? true : undefined), 30_000)
})
