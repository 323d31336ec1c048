/** Temporal shows operators the flow, the id and the state of an execution, what it waits for, and how to continue it. */

import { expect, test } from 'vitest'
import { Executions } from '../../support/fixtures/executions.ts'
import { createTestWorkspace, eventually, unique } from '../../support/fixtures/tenants.ts'
import { withRawClient } from '../../support/stack/temporal.ts'

const workspace = await createTestWorkspace()
const executions = new Executions(workspace)
const raise =
  'raise: { error: { type: https://serverlessworkflow.io/spec/1.0.0/errors/communication, status: 503, title: t } }'

/** The search attributes that describe the state of the execution. */
const attributesOf = (workflowId: string): Promise<Record<string, unknown>> =>
  withRawClient(async (client) => {
    const { typedSearchAttributes } = await client.workflow.getHandle(workflowId).describe()
    return Object.fromEntries(typedSearchAttributes.getAll().map(({ key, value }) => [key.name, value]))
  })

const detailsOf = (workflowId: string): Promise<string> =>
  withRawClient(async (client) => {
    const handle = client.workflow.getHandle(workflowId)
    return (await handle.query<{ currentDetails: string }>('__temporal_workflow_metadata')).currentDetails
  })

async function showsStatus(id: string, status: string | undefined): Promise<string> {
  const { workflow_id } = await executions.read(id)
  await eventually(async () => ((await attributesOf(workflow_id))['RunStatus'] === status ? true : undefined))
  return detailsOf(workflow_id)
}

test('execution in Temporal: found by the name of its flow and by its public id', async () => {
  const name = await executions.publish('  - a: { set: { x: 1 } }')
  const { id, workflow_id } = await executions.ended(await executions.start(name))
  const found = await withRawClient((client) =>
    eventually(async () => {
      for await (const one of client.workflow.list({
        query: `FlowName = "${name}" and ExecutionId = "${id}"`,
      }))
        return one
      return undefined
    }),
  )
  expect(found.workflowId).toBe(workflow_id)
  // It never stopped, so that Temporal's own status says everything.
  expect((await attributesOf(workflow_id))['RunStatus']).toBeUndefined()
})

test('held step: status held, the details name step, error and command; after a retry: running, then the final status', async () => {
  const canary = unique('canary')
  const flow = await executions.publish(
    `  - pay: { onFault: hold, ${raise.replace('title: t', `title: ${canary}`)} }\n  - rest: { wait: PT1H }`,
  )
  const id = await executions.start(flow)
  await executions.shown(id, 'suspended')
  const held = await showsStatus(id, 'held')
  expect(held).toContain('- `/do/0/pay#0`: communication (503)')
  expect(held).toContain(`tenon flow retry ${id}`)
  expect(held).not.toContain(canary)
  await executions.send(id, 'skip-step', { output: 1 })
  expect(await showsStatus(id, 'running')).toContain('- `/do/1/rest`')
  await executions.send(id, 'cancel')
  await executions.ended(id)
  await showsStatus(id, 'cancelled')
})

test('approval, then event: the status follows; each is written once', async () => {
  const flow = await executions.publish(`  - ok: { approve: { approvers: [tenon-operator], fourEyes: false } }
  - many: { for: { in: '\${ [1, 2, 3] }' }, do: [{ hear: { listen: { to: { one: { with: { type: a } } } } } }] }`)
  const id = await executions.start(flow)
  expect(await showsStatus(id, 'waiting_for_approval')).toContain(`tenon approval approve ${id}`)
  expect((await executions.send(id, 'approve', { approved: true })).status).toBe(200)
  expect(await showsStatus(id, 'waiting_for_event')).toContain(`executions/${id}/signal`)
  for (const n of [1, 2, 3]) {
    await executions.until(
      id,
      ({ steps }) => steps.filter(({ name }: { name: string }) => name === 'hear').length === n,
    )
    await executions.send(id, 'signal', { event: { type: 'a', id: `${n}` } })
  }
  const { workflow_id } = await executions.ended(id)
  await showsStatus(id, 'completed')
  const { events } = await withRawClient((client) => client.workflow.getHandle(workflow_id).fetchHistory())
  const upserts = (events ?? []).filter(
    ({ upsertWorkflowSearchAttributesEventAttributes: one }) => one != null,
  )
  expect(upserts).toHaveLength(3)
})

test('paused: status paused, the details name the command; resumed: waiting again', async () => {
  const id = await executions.start(
    await executions.publish('  - hear: { listen: { to: { one: { with: { type: a } } } } }'),
  )
  await showsStatus(id, 'waiting_for_event')
  await executions.send(id, 'pause', { reason: 'secret reason' })
  const paused = await showsStatus(id, 'paused')
  expect(paused).toContain(`tenon flow resume ${id}`)
  expect(paused).not.toContain('secret reason')
  await executions.send(id, 'resume')
  await showsStatus(id, 'waiting_for_event')
})
