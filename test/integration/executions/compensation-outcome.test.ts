/** The outcome of a compensation is in the execution, and lists find executions by it. */

import { expect, test } from 'vitest'
import { Executions } from '../../support/fixtures/executions.ts'
import { call, createTestWorkspace } from '../../support/fixtures/tenants.ts'

const raise =
  'raise: { error: { type: https://serverlessworkflow.io/spec/1.0.0/errors/runtime, status: 500, title: t } }'

test('compensation that fails, that succeeds, and none: shown in the execution, and found by the filter', async () => {
  const workspace = await createTestWorkspace()
  const executions = new Executions(workspace)
  const good = `  - book: { set: { x: 1 }, compensate: [{ undo: { set: { y: 1 } } }] }`
  const [failed, completed, none] = await Promise.all([
    executions.publish(
      `${good}\n  - pay: { set: { x: 1 }, compensate: [{ refund: { ${raise} } }] }\n  - burst: { ${raise} }`,
    ),
    executions.publish(`${good}\n  - rest: { wait: PT1H }`),
    executions.publish(`  - burst: { ${raise} }`),
  ])
  const ids = await Promise.all([failed, completed, none].map((flow) => executions.start(flow)))
  const [first = '', second = '', third = ''] = ids
  await executions.shown(second, 'waiting')
  await executions.send(second, 'cancel')
  expect(await executions.ended(first)).toMatchObject({
    status: 'faulted',
    compensation: { undone: ['/do/0/book#0'], failures: [{ step: '/do/1/pay#0', error: { status: 500 } }] },
  })
  expect(await executions.ended(second)).toMatchObject({
    status: 'cancelled',
    compensation: { undone: ['/do/0/book#0'], failures: [] },
  })
  expect((await executions.ended(third)).compensation).toBeNull()

  const found = async (outcome: string) => {
    const path = `${workspace.flows}/executions?compensation=${outcome}`
    return (await call('GET', path, { as: workspace.operator })).body.data.map(({ id }: { id: string }) => id)
  }
  expect(await found('failed')).toEqual([first])
  expect(await found('completed')).toEqual([second])
})
