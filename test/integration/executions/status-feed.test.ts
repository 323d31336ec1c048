/** The feed of a workspace's changes of status: who gets which, from where on, and nothing of their payloads. */

import { afterEach, expect, test } from 'vitest'
import {
  closeSubscriptions,
  endOf,
  messages,
  type ReceivedEvent,
  receivedAtLeast,
  subscribeToStream,
} from '../../support/clients/sse.ts'
import { Executions } from '../../support/fixtures/executions.ts'
import {
  addTestWorkspace,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  tokenOf,
} from '../../support/fixtures/tenants.ts'

afterEach(closeSubscriptions)

const feedOf = ({ flows }: TestWorkspace) => `${flows}/executions/events`

const subscribe = (workspace: TestWorkspace, after?: string, as = workspace.operator) =>
  subscribeToStream(as, feedOf(workspace), after === undefined ? {} : { 'last-event-id': after })

/** The changes of one execution: `null → pending`. */
const changesOf = (received: readonly ReceivedEvent[], execution: string) =>
  messages(received)
    .map(({ data }) => data.data)
    .filter((one) => one.execution === execution)
    .map(({ previous_status, status }) => `${previous_status} → ${status}`)

/** Waits for the last change of an execution. */
const until = (received: readonly ReceivedEvent[], execution: string, status: string) =>
  eventually(async () => {
    const changes = changesOf(received, execution)
    return changes.at(-1)?.endsWith(`→ ${status}`) ? changes : undefined
  })

test('executions that are started, wait, are paused, resumed and end: each change with the status before, without payloads', async () => {
  const workspace = await createTestWorkspace()
  const received = await subscribe(workspace)
  const executions = new Executions(workspace)
  const flow = await executions.publish('  - a: { listen: { to: { one: { with: { type: private-go } } } } }')
  const id = await executions.start(flow, { input: { a: 'private' }, correlation_key: 'private' })
  await until(received, id, 'waiting')
  await executions.send(id, 'pause', { reason: 'private' })
  await until(received, id, 'suspended')
  await executions.send(id, 'resume')
  await until(received, id, 'waiting')
  await executions.send(id, 'cancel')
  const changes = await until(received, id, 'cancelled')
  expect(changes[0]).toMatch(/^null → /)
  for (const [at, change] of changes.slice(1).entries())
    expect(change.split(' → ')[0]).toBe(changes[at]?.split(' → ')[1])
  expect(changes.join()).toContain('waiting → suspended')
  expect(changes.join()).toContain('suspended → waiting')
  const [first] = messages(received)
  expect(first?.data).toMatchObject({
    specversion: '1.0',
    source: `/workspaces/${workspace.workspaceId}`,
    time: expect.stringMatching(/Z$/),
    data: { execution: id, flow: { id: expect.stringMatching(/^flow_/), name: flow, version: 1 } },
  })
  expect(JSON.stringify(received)).not.toContain('private')
})

test('executions that fault and are held: the errors are left out', async () => {
  const workspace = await createTestWorkspace()
  const received = await subscribe(workspace)
  const executions = new Executions(workspace)
  const raise =
    'raise: { error: { type: https://x.test/private, status: 500, title: private, detail: private } }'
  const faulty = await executions.start(await executions.publish(`  - a: { ${raise} }`))
  const held = await executions.start(await executions.publish(`  - a: { onFault: hold, ${raise} }`))
  await until(received, faulty, 'faulted')
  await until(received, held, 'suspended')
  await executions.send(held, 'cancel')
  await until(received, held, 'cancelled')
  expect(JSON.stringify(received)).not.toContain('private')
})

test('last-event-id: continues after it, so that no change is missed or comes twice', async () => {
  const workspace = await createTestWorkspace()
  const executions = new Executions(workspace)
  const flow = await executions.publish('  - a: { set: { x: 1 } }')
  const first = await subscribe(workspace)
  const before = await executions.start(flow)
  await until(first, before, 'completed')
  const last = messages(first).at(-1)?.id
  closeSubscriptions()
  const missed = await executions.start(flow)
  await executions.ended(missed)
  const again = await subscribe(workspace, last)
  const changes = await until(again, missed, 'completed')
  expect(changes[0]).toMatch(/^null → /)
  expect(changesOf(again, before)).toEqual([])
  const all = await subscribe(workspace, '0-0')
  expect(await until(all, missed, 'completed')).toEqual(changes)
  const foreign = await subscribe(workspace, '99999999999999-0')
  expect(foreign[0]?.event).toBe('gap')
})

test('callers: viewers get the changes of their workspace alone; keys and other workspaces get none; a lost right ends it', async () => {
  const workspace = await createTestWorkspace()
  const sibling = await addTestWorkspace(workspace)
  const place = { tenant_id: workspace.tenantId, workspace_id: workspace.workspaceId }
  const viewer = await tokenOf({ sub: 'vi', roles: ['viewer'], ...place })
  const received = await subscribe(workspace, undefined, viewer)
  const theirs = new Executions(sibling)
  await theirs.ended(await theirs.start(await theirs.publish('  - a: { set: { x: 1 } }')))
  const executions = new Executions(workspace)
  const own = await executions.start(await executions.publish('  - a: { set: { x: 1 } }'))
  await until(received, own, 'completed')
  const sources = new Set(messages(received).map(({ data }) => data.source))
  expect([...sources]).toEqual([`/workspaces/${workspace.workspaceId}`])
  const status = async (as: Record<string, string>, of: TestWorkspace) =>
    (await call('GET', feedOf(of), { as })).status
  expect(await status(workspace.service, workspace)).toBe(403)
  expect(await status(viewer, sibling)).toBe(404)
  const body = { reason: 'unpaid' }
  await call('POST', `/v1/tenants/${workspace.tenantId}/suspend`, { as: workspace.operator, body })
  expect(await endOf(received)).toBe('tenant_suspended')
})

test('topics of ends, platform.execution.*: get no more than before', async () => {
  const workspace = await createTestWorkspace()
  const received = await subscribeToStream(
    workspace.service,
    '/v1/events/subscribe?topic=platform.execution.*,platform.flow.*',
  )
  const executions = new Executions(workspace)
  await executions.start(await executions.publish('  - a: { set: { x: 1 } }'))
  const [end] = await receivedAtLeast(received, 1)
  expect(end?.data).toMatchObject({
    type: 'platform.execution.completed',
    data: { status: 'completed', previous_status: expect.stringMatching(/pending|running/) },
  })
  expect(messages(received)).toHaveLength(1)
})
