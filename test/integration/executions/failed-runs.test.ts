/** Finds failed executions in Temporal by the kind of their error, and by no content of it. */

import { expect, test } from 'vitest'
import { Executions } from '../../support/fixtures/executions.ts'
import { call, createTestWorkspace, eventually, unique } from '../../support/fixtures/tenants.ts'
import { withRawClient } from '../../support/stack/temporal.ts'

const raiseTask = (type: string) =>
  `  - burst: { raise: { error: { type: '${type}', status: 503, title: t, detail: d } } }`
const STANDARD = 'https://serverlessworkflow.io/spec/1.0.0/errors'

/** Workflow ids that match the query, once there are at least `many`. */
const findWorkflows = (query: string, many: number) =>
  withRawClient((client) =>
    eventually(async () => {
      const ids: string[] = []
      for await (const { workflowId } of client.workflow.list({ query })) ids.push(workflowId)
      return ids.length >= many ? ids : undefined
    }),
  )

test('faulted execution: found by the short name of its error type; completed and cancelled ones are not', async () => {
  const workspace = await createTestWorkspace()
  const executions = new Executions(workspace)
  const canary = unique('canary')
  const flows = await Promise.all([
    executions.publish(raiseTask(`${STANDARD}/communication`)),
    executions.publish(raiseTask(`${STANDARD}/timeout`)),
    executions.publish(raiseTask(`https://x.test/${canary}`)),
    executions.publish('  - fine: { set: { x: 1 } }'),
    executions.publish('  - rest: { wait: PT1H }'),
  ])
  const ids = await Promise.all(flows.map((flow) => executions.start(flow)))
  const [first, second, third, fourth, fifth = ''] = ids
  await executions.shown(fifth, 'waiting')
  await executions.send(fifth, 'cancel')
  const ended = await Promise.all(ids.map((id) => executions.ended(id)))
  expect(ended.map(({ status }) => status)).toEqual([...Array(3).fill('faulted'), 'completed', 'cancelled'])
  const workflows = new Map(ended.map(({ id, workflow_id }) => [id, workflow_id]))

  const ownQuery = `TenantId = "${workspace.tenantId}" and FlowName is not null`
  const of = (id = '') => [workflows.get(id)]
  expect(await findWorkflows(`${ownQuery} and ErrorType = "communication"`, 1)).toEqual(of(first))
  expect(await findWorkflows(`${ownQuery} and ErrorType = "timeout"`, 1)).toEqual(of(second))
  expect(await findWorkflows(`${ownQuery} and ErrorType = "raised"`, 1)).toEqual(of(third))
  expect(await findWorkflows(`${ownQuery} and ErrorType = "${canary}"`, 0)).toEqual([])
  expect((await findWorkflows(`${ownQuery} and ErrorType is null`, 2)).toSorted()).toEqual(
    [...of(fourth), ...of(fifth)].toSorted(),
  )
})

test('fault in a subflow: parent and subflow are found; a failed function is found by its problem code', async () => {
  const workspace = await createTestWorkspace()
  const executions = new Executions(workspace)
  const lower = await executions.publish(raiseTask(`${STANDARD}/authorization`))
  const upper = await executions.publish(
    `  - lower: { run: { workflow: { namespace: n, name: ${lower}, version: '1.0.0' } } }`,
  )
  await executions.ended(await executions.start(upper))
  const source = 'export default () => { throw new Error("no") }'
  const deploy = { workspace_id: workspace.workspaceId, name: 'no', source }
  await call('POST', '/v1/functions', { as: workspace.operator, body: deploy })
  const { body: refused } = await call('POST', '/v1/functions/no/invoke', { as: workspace.service, body: {} })

  const ownQuery = `TenantId = "${workspace.tenantId}"`
  expect(await findWorkflows(`${ownQuery} and ErrorType = "authorization"`, 2)).toHaveLength(2)
  expect(
    await findWorkflows(`${ownQuery} and ErrorType = "${refused.code}" and WorkflowType = "no"`, 1),
  ).toHaveLength(1)
})
