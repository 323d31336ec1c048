/** `expect`: executions that last too long and flows that do not start, as events that start other flows. */

import { afterEach, expect, test } from 'vitest'
import { FLOW_LIMITS } from '../../../src/features/flows/limits.ts'
import {
  closeSubscriptions,
  messages,
  receivedAtLeast,
  subscribeToEvents,
} from '../../support/clients/sse.ts'
import { ageExecutions, Executions, makeRetentionDue } from '../../support/fixtures/executions.ts'
import { executionsOf, onlyScheduleOf, publishScheduled } from '../../support/fixtures/schedules.ts'
import { resumeWorkspace, suspendWorkspace } from '../../support/fixtures/suspension.ts'
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

const WAITS = '  - a: { wait: PT1H }'
const DONE = '  - a: { set: { x: 1 } }'
const EXPECT = (expectation: string) => ({ more: `expect: ${expectation}\n` })
const TIME = /^\d{4}-\d\d-\d\dT[\d:]+\.\d{3}Z$/

/** Lets the reconciler look now. Rows of other workspaces stay as they are. */
const letIntervalPass = (flow: string) =>
  asSuperuser(
    `update tenon.flow_intervals i set due_at = now() from tenon.flows f
      where f.workspace_id = i.workspace_id and f.id = i.flow_id and f.name = $1`,
    [flow],
  )

/** The time at which the reconciler looks next, once it has looked. */
const nextLook = (flow: string) =>
  eventually(async () => {
    const [row] = await asSuperuser<{ ms: number }>(
      `select extract(epoch from i.due_at - now())::double precision * 1000 as ms from tenon.flow_intervals i
        join tenon.flows f on f.workspace_id = i.workspace_id and f.id = i.flow_id where f.name = $1`,
      [flow],
    )
    return row !== undefined && row.ms > 0 ? row.ms : undefined
  })

test('execution that lasts longer than `expect.duration`: one event in its workspace alone, then its end as usual', async () => {
  const workspace = await createTestWorkspace()
  const sibling = await addTestWorkspace(workspace)
  const [own, other] = await Promise.all([
    subscribeToEvents(workspace.service, 'topic=platform.execution.*'),
    subscribeToEvents(sibling.service, 'topic=platform.*'),
  ])
  const executions = new Executions(workspace)
  const flow = await executions.publish(WAITS, EXPECT('{ duration: PT1S }'))
  const id = await executions.start(flow, { correlation_key: 'order-7' })
  const [{ data: event } = { data: undefined }] = await receivedAtLeast(own, 1)
  expect(event).toMatchObject({
    type: 'platform.execution.overdue',
    source: `/workspaces/${workspace.workspaceId}`,
    data: {
      execution: id,
      flow: { id: expect.stringMatching(/^flow_/), name: flow, version: 1 },
      status: 'waiting',
      started_at: expect.stringMatching(TIME),
      correlation_key: 'order-7',
      expected_duration_ms: 1_000,
    },
  })
  expect((await executions.read(id)).overdue).toBe(true)
  await executions.send(id, 'cancel')
  const theirs = new Executions(sibling)
  await theirs.start(await theirs.publish(DONE, EXPECT('{ duration: PT1S }')))
  expect((await receivedAtLeast(own, 2)).map(({ data }) => data.type)).toEqual([
    'platform.execution.overdue',
    'platform.execution.cancelled',
  ])
  expect((await receivedAtLeast(other, 2)).map(({ data }) => data.type)).toEqual([
    'platform.execution_status.changed',
    'platform.execution.completed',
  ])
})

test('flow that does not start within `expect.interval`: an event for each interval, with its last start', async () => {
  const workspace = await createTestWorkspace()
  const missed = await subscribeToEvents(workspace.service, 'topic=platform.flow.*')
  const executions = new Executions(workspace)
  const flow = await executions.publish(DONE, EXPECT('{ interval: PT1S }'))
  const [first, second] = await receivedAtLeast(missed, 2)
  expect(first?.data).toMatchObject({
    type: 'platform.flow.missed',
    source: `/workspaces/${workspace.workspaceId}`,
  })
  expect(first?.data.data).toEqual({
    flow: { id: expect.stringMatching(/^flow_/), name: flow, version: 1 },
    expected_interval_ms: 1_000,
  })
  expect(Date.parse(second?.data.time) - Date.parse(first?.data.time)).toBeGreaterThanOrEqual(1_000)
  const { started_at } = await executions.read(await executions.start(flow))
  const after = await eventually(async () =>
    missed.find(({ data }) => data.data?.last_started_at !== undefined),
  )
  expect(after.data.data.last_started_at).toBe(started_at)
  expect(Date.parse(after.data.time) - Date.parse(started_at)).toBeGreaterThanOrEqual(1_000)
})

/** Waits until the reconciler has looked at flows that are due, and returns the names of those that missed a start. */
async function missedOf(workspace: TestWorkspace, flows: readonly string[]): Promise<string[]> {
  const received = await subscribeToEvents(workspace.service, 'topic=platform.flow.missed')
  const marker = await new Executions(workspace).publish(DONE, EXPECT('{ interval: P1D }'))
  for (const flow of flows) await letIntervalPass(flow)
  await Promise.all(flows.map(nextLook))
  await letIntervalPass(marker)
  const all = await eventually(async () => {
    const names = received.flatMap(({ data }) => data.data?.flow.name ?? [])
    return names.includes(marker) ? names : undefined
  })
  return all.filter((name) => name !== marker)
}

test('flow with an interval that has not passed since its last start: no event, and due when it has', async () => {
  const workspace = await createTestWorkspace()
  const executions = new Executions(workspace)
  const [started, removed, idle] = await Promise.all(
    [1, 2, 3].map(() => executions.publish(DONE, EXPECT('{ interval: P1D }'))),
  )
  const [kept, removedId] = await Promise.all([
    executions.start(started ?? ''),
    executions.start(removed ?? ''),
  ])
  await Promise.all([executions.ended(kept), executions.ended(removedId)])
  await ageExecutions([kept, removedId], '3 hours')
  await call('POST', '/v1/services/configure', {
    as: workspace.operator,
    body: { workspace_id: workspace.workspaceId, retention: { executions: '2h' } },
  })
  await makeRetentionDue(workspace)
  await eventually(async () => ((await executions.read(removedId)).status === 404 ? true : undefined))
  expect(await missedOf(workspace, [started ?? '', removed ?? '', idle ?? ''])).toEqual([idle])
  const hours = (await nextLook(removed ?? '')) / 3_600_000
  expect(hours).toBeGreaterThan(20.9)
  expect(hours).toBeLessThan(21.1)
})

test('schedule that is paused: misses nothing; the interval begins again when it is resumed', async () => {
  const workspace = await createTestWorkspace()
  const [paused, resumed, running] = [unique('paused'), unique('resumed'), unique('running')]
  const schedule = "{ cron: '0 3 1 1 *' }\nexpect: { interval: P1D }"
  for (const name of [paused, resumed, running]) await publishScheduled(workspace, name, schedule)
  const set = async (flow: string, verb: string) => {
    const { id } = await onlyScheduleOf(workspace, flow)
    const path = `${workspace.flows}/schedules/${id}/${verb}`
    expect((await call('POST', path, { as: workspace.operator, body: {} })).status).toBe(200)
  }
  await set(paused, 'pause')
  await set(resumed, 'pause')
  await set(resumed, 'resume')
  expect(await missedOf(workspace, [paused, resumed, running])).toEqual([running])
})

test('version with another interval: begins now; with the same, goes on; without one, and a deleted flow: nothing', async () => {
  const workspace = await createTestWorkspace()
  const executions = new Executions(workspace)
  const name = await executions.publish(DONE, EXPECT('{ interval: P1D }'))
  await asSuperuser(
    `update tenon.flow_intervals set due_at = now() + interval '1 hour' where workspace_id = $1`,
    [workspace.workspaceId],
  )
  const hours = async () => Math.round((await nextLook(name)) / 3_600_000)
  await executions.publish(WAITS, { name, ...EXPECT('{ interval: P1D }') })
  expect(await hours()).toBe(1)
  await executions.publish(DONE, { name, ...EXPECT('{ interval: P2D }') })
  expect(await hours()).toBe(48)
  const rows = () =>
    asSuperuser('select from tenon.flow_intervals where workspace_id = $1', [workspace.workspaceId])
  await executions.publish(DONE, { name })
  expect(await rows()).toEqual([])
  await executions.publish(DONE, { name, ...EXPECT('{ interval: P2D }') })
  const id = await executions.start(name)
  await executions.ended(id)
  await call('DELETE', `${workspace.flows}/definitions/${name}`, { as: workspace.operator })
  expect((await executions.read(id)).ended_at).not.toBeNull()
  expect(await rows()).toEqual([])
})

test('suspended workspace: no event; after its resumption, for the executions that are late, and for intervals from then on', async () => {
  const workspace = await createTestWorkspace()
  const executions = new Executions(workspace)
  const flow = await executions.publish(WAITS, EXPECT('{ duration: PT1S, interval: P1D }'))
  const id = await executions.start(flow)
  await suspendWorkspace(workspace, workspace.operator)
  await letIntervalPass(flow)
  const other = await createTestWorkspace()
  const theirs = await subscribeToEvents(other.service, 'topic=platform.execution.overdue')
  const others = new Executions(other)
  await others.start(await others.publish(WAITS, EXPECT('{ duration: PT2S }')))
  await receivedAtLeast(theirs, 1)
  const outcome = () =>
    asSuperuser<{ overdue: boolean }>('select overdue from tenon.executions where id = $1', [id])
  expect(await outcome()).toEqual([{ overdue: false }])
  await resumeWorkspace(workspace, workspace.operator)
  await eventually(async () => ((await outcome())[0]?.overdue ? true : undefined))
  expect((await nextLook(flow)) / 3_600_000).toBeGreaterThan(23)
  const own = await subscribeToEvents(workspace.service, 'topic=platform.*')
  await executions.send(id, 'cancel')
  await receivedAtLeast(own, 1)
  expect(messages(own).map(({ data }) => data.type)).not.toContain('platform.flow.missed')
})

test('one flow for overdue executions and missed starts: starts for each', async () => {
  const workspace = await createTestWorkspace()
  const executions = new Executions(workspace)
  const alert = unique('alert')
  const filters = ['execution.overdue', 'flow.missed'].map((type) => `{ with: { type: platform.${type} } }`)
  await publishScheduled(workspace, alert, `{ on: { any: [${filters}] }, read: envelope }`)
  const slow = await executions.publish(WAITS, EXPECT('{ duration: PT1S }'))
  const idle = await executions.publish(DONE, EXPECT('{ interval: P1D }'))
  await letIntervalPass(idle)
  await executions.start(slow)
  const started = await eventually(async () => {
    const all = await executionsOf(workspace, alert)
    return all.length >= 2 ? all : undefined
  })
  const names = started.map(({ input: [{ type, data }] }) => [type, data.flow.name])
  expect(names.toSorted()).toEqual([
    ['platform.execution.overdue', slow],
    ['platform.flow.missed', idle],
  ])
})

/** Lets the event of the first overdue execution of a workspace fail after it was written, until it is told to succeed. */
async function failOverdueEvents({ workspaceId }: TestWorkspace) {
  const name = unique('crash').replace('-', '_')
  await asSuperuser(`create schema ${name};
    create sequence ${name}.attempts;
    create function ${name}.fail() returns trigger language plpgsql security definer as $$ begin
      perform nextval('${name}.attempts');
      raise exception 'the server is gone';
    end $$;
    grant usage on schema ${name} to tenon_admin;
    create trigger ${name} after insert on tenon.outbox for each row
      when (new.workspace_id = '${workspaceId}' and new.topic = 'platform.execution.overdue')
      execute function ${name}.fail()`)
  return {
    hasFailed: () =>
      eventually(async () => {
        const [row] = await asSuperuser<{ is_called: boolean }>(`select is_called from ${name}.attempts`)
        return row?.is_called ? true : undefined
      }),
    succeed: () => asSuperuser(`drop trigger ${name} on tenon.outbox; drop schema ${name} cascade`),
  }
}

test('crash between the mark and the event: leaves neither, and the event follows', async () => {
  const workspace = await createTestWorkspace()
  const received = await subscribeToEvents(workspace.service, 'topic=platform.execution.overdue')
  const executions = new Executions(workspace)
  const failure = await failOverdueEvents(workspace)
  let id = ''
  try {
    id = await executions.start(await executions.publish(WAITS, EXPECT('{ duration: PT1S }')))
    await failure.hasFailed()
    expect((await executions.read(id)).overdue).toBe(false)
  } finally {
    await failure.succeed()
  }
  expect((await receivedAtLeast(received, 1)).map(({ data }) => data.data.execution)).toEqual([id])
})

test('thousands of overdue executions of one workspace: do not delay those of another', async () => {
  const [crowded, other] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  const name = await new Executions(crowded).publish(WAITS, EXPECT('{ duration: P1D }'))
  const left = `from tenon.executions where workspace_id = '${crowded.workspaceId}' and not overdue`
  await asSuperuser(
    `insert into tenon.executions (tenant_id, workspace_id, id, workflow_id, flow_id, version, status, input, started_by,
      due_at, overdue_at)
    select tenant_id, workspace_id, 'run_' || left(md5(n || workspace_id), 26), 'w', id, 1, 'waiting', '{}', 'me',
      now() + interval '1 hour', now() - interval '1 hour'
    from generate_series(1, $2::integer) n join tenon.flows on workspace_id = $1 and name = $3`,
    [crowded.workspaceId, FLOW_LIMITS.alerts.eventsMax * 30, name],
  )
  const received = await subscribeToEvents(other.service, 'topic=platform.execution.overdue')
  const executions = new Executions(other)
  await executions.start(await executions.publish(WAITS, EXPECT('{ duration: PT1S }')))
  await receivedAtLeast(received, 1)
  expect((await asSuperuser(`select ${left}`)).length).toBeGreaterThan(FLOW_LIMITS.alerts.eventsMax)
  await asSuperuser(`delete from tenon.executions where workspace_id = '${crowded.workspaceId}'`)
})
