/** Work that reaches a worker through Temporal but was not created by the platform has no effect. */

import { createServer } from 'node:http'
import type { Payload } from '@temporalio/common'
import { v7 } from 'uuid'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import type { Platform } from '../../src/app/platform.ts'
import { QUEUES, UNAUTHENTICATED } from '../../src/core/work.ts'
import { CATALOGUE } from '../../src/features/data-operations.ts'
import { OPERATIONS } from '../../src/features/index.ts'
import { compiled } from '../conformance/flows/scenario.ts'
import { activitiesDone, plain, type Seal, sealBy, startForged } from '../support/clients/forged-work.ts'
import { workflowDefinitions } from '../support/clients/histories.ts'
import { createEntry, Executions } from '../support/fixtures/executions.ts'
import { call, createTestWorkspace, eventually, type TestWorkspace } from '../support/fixtures/tenants.ts'
import { openInProcessPlatform } from '../support/stack/in-process-platform.ts'
import { withRawClient } from '../support/stack/temporal.ts'

let workspace: TestWorkspace
let other: TestWorkspace
let executions: Executions
let platform: Platform
let sealed: Seal
beforeAll(async () => {
  ;[workspace, other] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  executions = new Executions(workspace)
  platform = openInProcessPlatform()
  sealed = sealBy(platform)
})
afterAll(() => platform?.close())

const workflowIdIn = ({ tenantId, workspaceId }: TestWorkspace, subject = 'flow_x') =>
  `${tenantId}:${workspaceId}:${subject}:${v7()}`
const notes = async (of: TestWorkspace = workspace) =>
  (await call('GET', '/v1/collections/notes/documents', { as: of.service })).body.data ?? []

const forgedCall = { function: 'collection.create', arguments: { name: 'notes', document: { forged: true } } }
const FLOW = `document: { dsl: '1.0.3', namespace: n, name: x, version: '1.0.0' }\ndo:\n  - a: { ${createEntry('forged', 'notes')} }\n`
const flowExecution = () => ({
  ...{ execution_id: 'run_x', flow: { id: 'flow_x', name: 'x', version: 1 }, protocol: 4 },
  ...{ ir: compiled(FLOW), input: {}, trigger: { kind: 'manual' } },
})

/** Forged payloads, with what is wrong with each. */
async function forgeries(
  workflowId: string,
  purpose: string,
  value: unknown,
): Promise<[string, Payload[]][]> {
  const own = await sealed(workflowId, purpose, value)
  const changed = Buffer.from(own.data ?? [])
  changed[changed.length - 1] = (changed.at(-1) ?? 0) ^ 1
  const bound = await sealed(workflowIdIn(workspace), purpose, value)
  return [
    ['no payload', []],
    ['not sealed', [plain(value)]],
    ['not sealed, with a purpose', [plain(value, { 'tenon-purpose': purpose })]],
    ['marked as inside the worker', [plain(value, { 'tenon-purpose': purpose, tenon: 'local' })]],
    ['marked as a plaintext summary', [plain(value, { 'tenon-purpose': purpose, tenon: 'cleartext' })]],
    ['marked as a failure', [plain(value, { 'tenon-purpose': purpose, tenon: 'failure' })]],
    ['sealed for another workflow', [bound]],
    ['sealed for another workflow, relabelled', [{ ...own, data: bound.data ?? null }]],
    ['sealed for another tenant', [await sealed(workflowIdIn(other), purpose, value)]],
    ['sealed for another purpose', [await sealed(workflowId, 'signal:event', value)]],
    ['sealed without a purpose', [await sealed(workflowId, '', value)]],
    ['changed', [{ ...own, data: changed }]],
    ['one sealed and one not', [own, plain(value)]],
    ['encoded by the codec server', [await encodedByServer(value)]],
  ]
}

/** Encodes through the codec server: the result is readable in the UI, but no worker accepts it. */
async function encodedByServer(value: unknown): Promise<Payload> {
  const body = {
    payloads: [{ metadata: { encoding: btoa('json/plain') }, data: btoa(JSON.stringify(value)) }],
    tenant_id: workspace.tenantId,
  }
  const { body: reply } = await call('POST', '/v1/codec/encode', { as: workspace.operator, body })
  const [{ metadata, data }] = reply.payloads
  const entries = Object.entries<string>(metadata).map(([name, text]) => [name, Buffer.from(text, 'base64')])
  return { metadata: Object.fromEntries(entries), data: Buffer.from(data, 'base64') }
}

test('activity with arguments not sealed for it: fails on every queue without effect', async () => {
  const workflowId = workflowIdIn(workspace)
  const forgedJob = { operation_id: 'op_x', kind: 'tenant', target: workspace, steps: ['activate_tenant'] }
  const activities = [
    ['callFunction', QUEUES.flows, forgedCall],
    ['callFunction', QUEUES.calls, forgedCall],
    ['provisionStep', QUEUES.provisioning, forgedJob],
    ['runFunction', QUEUES.functions, {}],
    ['buildIndex', QUEUES.indexes, {}],
  ] as const
  const tasks = await Promise.all(
    activities.map(async ([activity, queue, value]) => {
      const forged = await forgeries(workflowId, `activity:${activity}`, value)
      return forged.map(([, input]) => ({ activity, queue, input }))
    }),
  )
  const outcomes = await activitiesDone(workflowId, tasks.flat())
  expect(outcomes).toEqual(tasks.flat().map(() => UNAUTHENTICATED))
  expect(await notes()).toEqual([])
})

test('activity sealed by the platform: runs operations of the catalogue only', async () => {
  const others = OPERATIONS.map(({ name }) => name).filter((name) => !Object.hasOwn(CATALOGUE, name))
  expect(others).toEqual(expect.arrayContaining(['tenant.create', 'api_key.create', 'flow_version.create']))
  const names = [...others, 'nothing', '', '__proto__', 'constructor', 'callFunction', '$subflow']
  const body = {
    workspace_id: workspace.workspaceId,
    tenant_id: workspace.tenantId,
    name: 'made',
    slug: 'made',
  }
  const workflowId = workflowIdIn(workspace)
  const calling = async (name: string, args: object) => ({
    ...{ activity: 'callFunction', queue: QUEUES.calls },
    input: [await sealed(workflowId, 'activity:callFunction', { function: name, arguments: args })],
  })
  const document = { name: 'honest', document: { written: true } }
  const tasks = await Promise.all([
    calling('collection.create', document),
    ...names.map((name) => calling(name, { ...body, ...document })),
  ])
  const outcomes = await activitiesDone(workflowId, tasks)
  expect(outcomes).toEqual(['completed', ...names.map(() => 'not_found')])
  const { body: found } = await call('GET', '/v1/collections/honest/documents', { as: workspace.service })
  expect(found.data).toMatchObject([{ written: true }])
})

test('workflow start with input not sealed for it: fails before any activity', async () => {
  const workflowId = () => workflowIdIn(workspace)
  const kinds = (await forgeries(workflowId(), 'start:flowExecution', {})).map(([kind]) => kind)
  const outcomes = await Promise.all(
    kinds.map(async (kind) => {
      const id = workflowId()
      const forged = new Map(await forgeries(id, 'start:flowExecution', flowExecution()))
      const input = forged.get(kind) ?? []
      return [kind, await startForged({ workflowId: id, type: 'flowExecution', queue: QUEUES.flows, input })]
    }),
  )
  const refused = { failed: UNAUTHENTICATED, activities: [] }
  expect(outcomes).toEqual(kinds.map((kind) => [kind, refused]))
  expect(await notes()).toEqual([])
})

test('forged start of each workflow type: fails before any activity', async () => {
  const target = { tenantId: workspace.tenantId, workspaceId: workspace.workspaceId }
  const input = {
    ...{ target, to: 'suspended', after: 0, by: 'x', reason: null, operation_id: 'op_x', kind: 'tenant' },
    ...{ steps: ['activate_tenant'], schema_id: 'sch_x', indexes: ['i'], ...flowExecution() },
  }
  const types = await workflowDefinitions()
  expect(types).toEqual(expect.arrayContaining(['flowExecution', 'functionRun', 'provision', 'suspension']))
  const provisioned = ['provision', 'suspension']
  const outcomes = await Promise.all(
    types.map((type) =>
      startForged({
        ...{ type, workflowId: workflowIdIn(workspace, type), input: [plain(input)] },
        queue: provisioned.includes(type) ? QUEUES.provisioning : QUEUES.flows,
      }),
    ),
  )
  expect(outcomes).toEqual(types.map(() => ({ failed: UNAUTHENTICATED, activities: [] })))
  expect((await call('GET', '/v1/me', { as: workspace.service })).status).toBe(200)
})

test('workflow id that names no tenant: fails', async () => {
  const workflowId = `mine:${v7()}`
  const forged = { workflowId, type: 'flowExecution', queue: QUEUES.flows, input: [plain(flowExecution())] }
  expect(await startForged(forged)).toEqual({ failed: UNAUTHENTICATED, activities: [] })
})

test('signal or update forged or copied from another execution: refused; genuine ones work', async () => {
  const flow = await executions.publish(
    '  - heard: { listen: { to: { one: { with: { type: told } } } } }\n  - keep: { set: { got: "${ .[0] }" } }\n'.replaceAll(
      '"',
      "'",
    ),
  )
  const [id, other] = [await executions.start(flow), await executions.start(flow)]
  const waiting = await executions.shown(id, 'waiting')
  await executions.shown(other, 'waiting')
  const forged = await forgeries(waiting.workflow_id, 'signal:event', { type: 'told', data: 'forged' })
  const pause = await forgeries(waiting.workflow_id, 'update:pause', { paused: true, reason: 'forged' })
  await withRawClient(async ({ workflowService: service }) => {
    const workflowExecution = { workflowId: waiting.workflow_id }
    for (const [, payloads] of forged.filter(([kind]) => kind !== 'sealed for another purpose'))
      await service.signalWorkflowExecution({
        ...{ namespace: 'default', workflowExecution, signalName: 'event', input: { payloads } },
      })
    const outcomes = await Promise.all(
      pause.map(async ([, payloads]) => {
        const { outcome } = await service.updateWorkflowExecution({
          ...{ namespace: 'default', workflowExecution, waitPolicy: { lifecycleStage: 3 } },
          request: { meta: { updateId: v7() }, input: { name: 'pause', args: { payloads } } },
        })
        return outcome?.failure?.applicationFailureInfo?.type
      }),
    )
    expect(outcomes).toEqual(pause.map(() => UNAUTHENTICATED))
  })
  expect(await executions.read(id)).toMatchObject({ status: 'waiting' })
  expect((await executions.send(id, 'signal', { event: { type: 'told', data: 'honest' } })).status).toBe(202)
  expect(JSON.stringify((await executions.ended(id)).output)).toContain('honest')
  await executions.send(other, 'cancel')
})

test('activity result from elsewhere than the worker: not accepted', async () => {
  const port = inject('tenon').echoPorts[5]
  const held = createServer(() => {})
  await new Promise<void>((done) => held.listen(port, '127.0.0.1', done))
  try {
    const flow = await executions.publish(
      `  - long: { call: http, with: { method: post, endpoint: 'http://127.0.0.1:${port}/', body: {} } }\n`,
    )
    const id = await executions.start(flow)
    const { workflow_id: workflowId } = await executions.read(id)
    await withRawClient(async ({ workflow, workflowService: service }) => {
      const handle = workflow.getHandle(workflowId)
      const activityId = await eventually(async () => {
        const { raw } = await handle.describe()
        return raw.pendingActivities?.[0]?.activityId ?? undefined
      })
      const result = { payloads: [plain({ forged: true }, { tenon: 'cleartext' })] }
      await service.respondActivityTaskCompletedById({
        ...{ namespace: 'default', workflowId, activityId, result },
      })
      // The true result is lost; the workflow task fails until the workflow is terminated.
      await eventually(async () => {
        const { events } = await handle.fetchHistory()
        const failed = events?.flatMap((event) => event.workflowTaskFailedEventAttributes?.failure ?? [])
        return JSON.stringify(failed).includes(UNAUTHENTICATED) ? true : undefined
      })
      await handle.terminate()
    })
    const run = await executions.read(id)
    expect([run.status, JSON.stringify(run)]).toEqual(['running', expect.not.stringContaining('forged')])
  } finally {
    held.closeAllConnections()
    await new Promise((done) => held.close(done))
  }
})
