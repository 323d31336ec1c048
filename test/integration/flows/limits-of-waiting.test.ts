/** Limits of tasks that wait end them in time, and a flow gets the output of a sub-flow that has waited. */

import { beforeAll, expect, test } from 'vitest'
import { Executions } from '../../support/fixtures/executions.ts'
import { call, createTestWorkspace, eventually, type TestWorkspace } from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
let executions: Executions
beforeAll(async () => {
  workspace = await createTestWorkspace()
  executions = new Executions(workspace)
})

const LISTEN = 'listen: { to: { one: { with: { type: go } } } }'

test('`listen` with a limit of 2 s, beside a wait of 30 s: ends by its limit, while the other still waits', async () => {
  const slow = await executions.start(await executions.publish('  - nap: { wait: PT30S }'))
  const id = await executions.start(
    await executions.publish(`  - heard: { ${LISTEN}, timeout: { after: PT2S } }`),
  )
  const run = await executions.ended(id)
  expect((await executions.read(slow)).ended_at).toBeNull()
  expect([run.status, run.error.type]).toEqual(['faulted', expect.stringContaining('timeout')])
  expect(Date.parse(run.ended_at) - Date.parse(run.started_at)).toBeGreaterThanOrEqual(2_000)
  await executions.send(slow, 'cancel')
})

test('sub-flow that waits for an event, then sets its output: the flow gets that output, not its input', async () => {
  const child = await executions.publish(`  - heard: { ${LISTEN} }\n  - said: { set: { said: child } }`)
  const sub = `run: { workflow: { namespace: n, name: ${child}, version: '1.0.0', input: { n: 1 } } }`
  const id = await executions.start(await executions.publish(`  - sub: { ${sub} }`))
  const childId = await eventually(async () => {
    const { body } = await call('GET', `${workspace.flows}/definitions/${child}/executions`, {
      as: workspace.operator,
    })
    return body.data[0]?.status === 'waiting' ? String(body.data[0].id) : undefined
  })
  expect((await executions.send(childId, 'signal', { event: { type: 'go', data: 2 } })).status).toBe(202)
  expect(await executions.ended(id)).toMatchObject({ status: 'completed', output: { said: 'child' } })
})
