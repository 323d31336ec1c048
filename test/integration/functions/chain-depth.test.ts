// biome-ignore-all lint/suspicious/noTemplateCurlyInString: definitions hold expressions
/** Functions in chains of runs: a flow that starts itself by an event and calls a function comes to an end. */

import { expect, test } from 'vitest'
import { SHARED_LIMITS } from '../../../src/features/limits.ts'
import { Executions } from '../../support/fixtures/executions.ts'
import { FunctionRuns } from '../../support/fixtures/function-runs.ts'
import { call, createTestWorkspace, eventually } from '../../support/fixtures/tenants.ts'

test('flow that an event starts, calls a function and publishes the event again: ends at the maximum, and the last call says why', async () => {
  const workspace = await createTestWorkspace()
  const runs = new FunctionRuns(workspace)
  const id = await runs.deploy('next', 'export default ({ n = 0 }) => n + 1')
  const flows = new Executions(workspace)
  const name = await flows.publish(
    `  - again: { emit: { event: { with: { type: again, data: { n: 1 } } } } }
  - call: { call: function.invoke, with: { id: next, input: { n: 1 } } }`,
    { more: 'schedule: { on: { one: { with: { type: again } } } }\n' },
  )
  await call('POST', '/v1/events/publish', { as: workspace.service, body: { topic: 'again', data: {} } })
  const failed = await eventually(async () => {
    const { flows: path, operator: as } = workspace
    const { body } = await call('GET', `${path}/definitions/${name}/executions?status=faulted`, { as })
    return body.data[0]
  }, 60_000)
  expect(JSON.stringify(failed.error)).toContain(
    `${SHARED_LIMITS.chainDepthMax} runs have started one another`,
  )
  const depths = (await runs.list(id, 'page[size]=100')).body.data.map(
    (run: { trigger: { chain_depth: number } }) => run.trigger.chain_depth,
  )
  expect(Math.max(...depths)).toBe(SHARED_LIMITS.chainDepthMax)
})
