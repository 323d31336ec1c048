/** Events of executions on the stream of their workspace: durable, for that workspace alone, and without endless chains. */

import { afterEach, expect, test } from 'vitest'
import { SHARED_LIMITS } from '../../../src/features/limits.ts'
import { closeSubscriptions, receivedAtLeast, subscribeToEvents } from '../../support/clients/sse.ts'
import { Executions } from '../../support/fixtures/executions.ts'
import { publishScheduled } from '../../support/fixtures/schedules.ts'
import {
  addTestWorkspace,
  asSuperuser,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'

afterEach(closeSubscriptions)

const raise = 'raise: { error: { type: https://x.test/e, status: 500, title: t, detail: private } }'

const executionsOf = async (workspace: TestWorkspace, flow: string) =>
  (await call('GET', `${workspace.flows}/executions?flow=${flow}&page[size]=200`, { as: workspace.operator }))
    .body.data

test('executions that complete, fault, are held and cancelled: one event each, in their workspace alone', async () => {
  const workspace = await createTestWorkspace()
  const sibling = await addTestWorkspace(workspace)
  const [own, other] = await Promise.all([
    subscribeToEvents(workspace.service, 'topic=platform.execution.*'),
    subscribeToEvents(sibling.service, 'topic=platform.execution.*'),
  ])
  const executions = new Executions(workspace)
  const fine = await executions.start(await executions.publish('  - a: { set: { x: 1 } }'), {
    correlation_key: 'order-7',
  })
  const faulty = await executions.start(await executions.publish(`  - a: { ${raise} }`))
  const held = await executions.start(await executions.publish(`  - a: { onFault: hold, ${raise} }`))
  await executions.shown(held, 'suspended')
  await executions.send(held, 'cancel')
  const received = await receivedAtLeast(own, 4)
  const dataOf = (verb: string) => {
    const found = received.filter(({ data }) => data.type === `platform.execution.${verb}`)
    expect(found, verb).toHaveLength(1)
    return found[0]?.data.data
  }
  expect(dataOf('completed')).toMatchObject({
    execution: fine,
    flow: { id: expect.stringMatching(/^flow_/), name: expect.any(String), version: 1 },
    status: 'completed',
    trigger: { kind: 'manual' },
    correlation_key: 'order-7',
    duration_ms: expect.any(Number),
    ended_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT[\d:]+\.\d{3}Z$/),
  })
  expect(dataOf('faulted')).toMatchObject({
    execution: faulty,
    error: { type: 'https://x.test/e', status: 500, title: 't' },
  })
  expect(dataOf('held')).toMatchObject({ execution: held, status: 'suspended' })
  expect(dataOf('cancelled')).toMatchObject({ execution: held, status: 'cancelled' })
  expect(JSON.stringify(received)).not.toContain('private')

  const theirs = new Executions(sibling)
  await theirs.start(await theirs.publish('  - a: { set: { x: 1 } }'))
  expect((await receivedAtLeast(other, 1)).map(({ data }) => data.source)).toEqual([
    `/workspaces/${sibling.workspaceId}`,
  ])
})

test('topics of the platform: not published by callers, not heard by anon keys', async () => {
  const workspace = await createTestWorkspace()
  const publish = { topic: 'platform.execution.completed', data: {} }
  expect((await call('POST', '/v1/events/publish', { as: workspace.service, body: publish })).status).toBe(
    400,
  )
  for (const topic of ['platform.*', 'platform.execution.completed']) {
    const heard = await call('GET', `/v1/events/subscribe?topic=${topic}`, { as: workspace.anon })
    expect([heard.status, heard.body.code]).toEqual([403, 'forbidden'])
  }
})

test('flow that starts when executions fault: gets which; a flow that names no type hears of no execution', async () => {
  const workspace = await createTestWorkspace()
  const executions = new Executions(workspace)
  const [alert, any] = [unique('alert'), unique('any')]
  await publishScheduled(workspace, alert, '{ on: { one: { with: { type: platform.execution.faulted } } } }')
  await publishScheduled(workspace, any, "{ on: { one: { with: { source: '${ . != null }' } } } }")
  const faulty = await executions.start(await executions.publish(`  - a: { ${raise} }`))
  const [started] = await eventually(async () => {
    const found = await executionsOf(workspace, alert)
    return found.length > 0 ? found : undefined
  })
  expect((await executions.ended(started.id)).input).toMatchObject([{ execution: faulty, status: 'faulted' }])
  expect(await executionsOf(workspace, any)).toEqual([])
})

test('flow that starts itself by its end, also through a subflow: the chain ends at its maximum depth', async () => {
  const workspace = await createTestWorkspace()
  const executions = new Executions(workspace)
  const child = await executions.publish('  - a: { set: { x: 1 } }')
  const loop = unique('loop')
  await publishScheduled(
    workspace,
    loop,
    '{ on: { one: { with: { type: platform.execution.completed, data: \'${ .flow.name | startswith("f-") }\' } } } }',
    `\n  - sub: { run: { workflow: { namespace: n, name: ${child}, version: '1.0.0' } } }`,
  )
  await executions.ended(await executions.start(child))
  const depths = await eventually(async () => {
    const rows = await asSuperuser<{ depth: number; open: number }>(
      `select max(chain_depth)::integer as depth, count(*) filter (where ended_at is null)::integer as open
        from tenon.executions where workspace_id = $1`,
      [workspace.workspaceId],
    )
    return rows[0]?.depth === SHARED_LIMITS.chainDepthMax && rows[0].open === 0 ? rows[0] : undefined
  }, 40_000)
  expect(depths).toBeDefined()
  const count = (await executionsOf(workspace, loop)).length
  expect(count).toBe(SHARED_LIMITS.chainDepthMax)
})
