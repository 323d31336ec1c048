/** Temporal work of every kind: its fairness key and its task queue, as the history shows. */

import { defaultPayloadConverter } from '@temporalio/common'
import type { temporal } from '@temporalio/proto'
import { beforeAll, expect, test, vi } from 'vitest'
import { QUEUES } from '../../../src/core/work.ts'
import { definitionOf, workflowDefinitions } from '../../support/clients/histories.ts'
import { Executions } from '../../support/fixtures/executions.ts'
import { deployTriggered, functionScheduleId } from '../../support/fixtures/function-triggers.ts'
import { executionsOf, publishScheduled } from '../../support/fixtures/schedules.ts'
import { buildIndex } from '../../support/fixtures/schemas.ts'
import { allowLoopback } from '../../support/fixtures/secrets.ts'
import { suspendWorkspace } from '../../support/fixtures/suspension.ts'
import {
  call,
  eventually,
  provisionTestWorkspace,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'
import { FakeServers } from '../../support/servers/fake-servers.ts'
import { withRawClient } from '../../support/stack/temporal.ts'

type Event = temporal.api.history.v1.IHistoryEvent

interface StartedWorkflow {
  readonly definition: string
  readonly events: readonly Event[]
}

let workspace: TestWorkspace
let workflows: readonly StartedWorkflow[]
/** History of the flow that makes a call of each kind. */
let calls: readonly Event[]
beforeAll(async () => {
  workspace = await provisionTestWorkspace()
  const id = await runEveryCall()
  await publishScheduled(workspace, 'tick', '{ every: PT1S }')
  await eventually(
    async () => (await executionsOf(workspace, 'tick')).find(({ ended_at }) => ended_at) && true,
  )
  await publishScheduled(workspace, 'tick', '')
  await buildIndex(workspace)
  const allOf = { as: workspace.service, body: { filter: {}, all: true }, headers: { prefer: 'wait=30' } }
  const deleted = await call('POST', '/v1/collections/c/delete-many', allOf)
  expect(deleted.body).toMatchObject({ status: 'completed', changed: 2 })
  const scheduled = await deployTriggered(workspace, { schedule: { cron: '0 0 1 1 *' } })
  const scheduleId = await functionScheduleId(scheduled)
  await withRawClient((client) => client.schedule.getHandle(scheduleId).trigger())
  // A suspension before that would keep the function from running.
  const path = `/v1/functions/${scheduled.id}/runs`
  await eventually(async () => (await call('GET', path, { as: workspace.operator })).body.data[0]?.ended_at)
  expect((await suspendWorkspace(workspace, workspace.operator)).status).toBeLessThan(300)
  workflows = await startedWorkflows()
  const { events } = await withRawClient((client) => client.workflow.getHandle(id).fetchHistory())
  calls = events ?? []
})

/** Runs a flow with a call of each kind. @returns the id of its workflow */
async function runEveryCall(): Promise<string> {
  const executions = new Executions(workspace)
  const fakeServer = await FakeServers.open()
  const source = 'export default ({ n }: { n: number }) => 2 * n'
  const double = { workspace_id: workspace.workspaceId, name: 'double', source }
  await call('POST', '/v1/functions', { as: workspace.operator, body: double })
  try {
    await allowLoopback(workspace, fakeServer)
    await executions.publish('  - a: { set: { x: 1 } }', { name: 'inner' })
    const own = 'metadata: { tenon: { local: false } }'
    const get = (path: string) => `call: http, with: { method: get, endpoint: '${fakeServer.origin}${path}' }`
    const pets = `document: { endpoint: '${fakeServer.origin}/v2/swagger.json' }, operationId: getPetById`
    const flow =
      await executions.publish(`  - beside: { call: collection.create, with: { name: c, document: {} } }
  - brief: { ${get('/echo')} }
  - stored: { call: collection.create, with: { name: c, document: {} }, ${own} }
  - asked: { ${get('/echo')}, ${own} }
  - planned: { call: openapi, with: { ${pets}, parameters: { petId: 7 } } }
  - made: { call: function.invoke, with: { id: double, input: { n: 2 } } }
  - sub: { run: { workflow: { namespace: n, name: inner, input: {} } } }`)
    const run = await executions.ended(await executions.start(flow))
    expect(run.error).toBeNull()
    return run.workflow_id
  } finally {
    await fakeServer.close()
  }
}

/** All workflows of the tenant, once each workflow definition has scheduled a task. */
const startedWorkflows = (): Promise<readonly StartedWorkflow[]> =>
  withRawClient(async (client) => {
    const definitions = await workflowDefinitions()
    const query = `TenantId = '${workspace.tenantId}'`
    const listed = async () => {
      const all: StartedWorkflow[] = []
      for await (const { workflowId, type } of client.workflow.list({ query })) {
        const { events } = await client.workflow.getHandle(workflowId).fetchHistory()
        all.push({ definition: definitionOf(workflowId, type), events: events ?? [] })
      }
      const withTask = all.filter(({ events }) => activitiesIn(events).length > 0)
      const scheduled = withTask.map(({ definition }) => definition)
      expect(scheduled).toEqual(expect.arrayContaining(definitions))
      return all
    }
    return vi.waitFor(listed, { interval: 250, timeout: 120_000 })
  })

/** Each scheduled activity: step name, activity type, task queue. */
const activitiesIn = (events: readonly Event[]) =>
  events.flatMap(({ activityTaskScheduledEventAttributes: task, userMetadata }) => {
    if (!task) return []
    const summary = String(userMetadata?.summary && defaultPayloadConverter.fromPayload(userMetadata.summary))
    return [[summary.split(':')[0], task.activityType?.name, task.taskQueue?.name] as const]
  })

/** Local activities, which use no queue. */
const localActivitiesIn = (events: readonly Event[]) =>
  events.flatMap(({ markerRecordedEventAttributes: marker }) => {
    const [data] = marker?.details?.['data']?.payloads ?? []
    return data ? [defaultPayloadConverter.fromPayload<{ activity_type?: string }>(data).activity_type] : []
  })

test('every workflow, child workflow and activity: has the tenant as its fairness key', () => {
  for (const { definition, events } of workflows) {
    const [first, ...rest] = events
    expect([definition, first?.workflowExecutionStartedEventAttributes?.priority?.fairnessKey]).toEqual([
      definition,
      workspace.tenantId,
    ])
    for (const { startChildWorkflowExecutionInitiatedEventAttributes: child } of rest)
      if (child) expect([definition, child.priority?.fairnessKey]).toEqual([definition, workspace.tenantId])
    // A task without a fairness key has that of its workflow (resilience/fairness).
    for (const { activityTaskScheduledEventAttributes: task } of rest)
      if (task) expect(task.priority?.fairnessKey || workspace.tenantId).toBe(workspace.tenantId)
  }
  const children = workflows.filter(({ events }) =>
    events.some(({ startChildWorkflowExecutionInitiatedEventAttributes: child }) => child),
  )
  expect(new Set(children.map(({ definition }) => definition))).toEqual(
    new Set(['flowExecution', 'scheduledStart']),
  )
})

test('calls of a flow: each kind uses its queue, fast ones none', () => {
  const { flows, calls: callsQueue } = QUEUES
  const tasks = activitiesIn(calls)
  // A machine that stalls makes a fast server look slow.
  expect(tasks.filter(([step]) => step !== 'brief')).toEqual([
    ['stored', 'callFunction', flows],
    ['asked', 'callHttp', callsQueue],
    ['planned', 'planOpenApi', callsQueue],
    ['planned', 'callHttp', callsQueue],
    ['made', 'callFunction', callsQueue],
    ['sub', 'startSubflow', flows],
  ])
  expect(localActivitiesIn(calls)).toEqual(expect.arrayContaining(['callFunction', 'callHttpInline']))
})

test('functions, provisioning, bulk changes, index builds: each uses its queue', () => {
  const { flows, calls: callsQueue, functions, provisioning, indexes } = QUEUES
  const queuesOf = (definition: string) => {
    const of = workflows
      .filter((work) => work.definition === definition)
      .flatMap(({ events }) => activitiesIn(events))
    return new Set(of.map(([, what, queue]) => `${what} ${queue}`))
  }
  expect(queuesOf('functionRun')).toEqual(new Set([`runFunction ${functions}`]))
  expect(queuesOf('provision')).toEqual(new Set([`provisionStep ${provisioning}`]))
  expect(queuesOf('registration')).toEqual(new Set([`registerTriggers ${provisioning}`]))
  expect(queuesOf('suspension')).toContain(`changeState ${provisioning}`)
  expect(queuesOf('bulkChange')).toEqual(new Set([`changeDocuments ${callsQueue}`]))
  expect(queuesOf('indexBuild')).toEqual(new Set([`buildIndex ${indexes}`]))
  expect(queuesOf('scheduledStart')).toEqual(new Set([`startScheduled ${flows}`]))
  expect(new Set(Object.values(QUEUES)).size).toBe(Object.keys(QUEUES).length)
})
