/** Retention: ended executions that are old enough are archived and removed; everything else stays. */

import { beforeAll, expect, test } from 'vitest'
import { ageExecutions, Executions, makeRetentionDue } from '../../support/fixtures/executions.ts'
import {
  addTestWorkspace,
  asSuperuser,
  call,
  createTestWorkspaceWithStorage,
  eventually,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
let bucket: string
beforeAll(async () => {
  workspace = await createTestWorkspaceWithStorage()
  const [row] = await asSuperuser<{ bucket: string }>('select bucket from tenon.workspaces where id = $1', [
    workspace.workspaceId,
  ])
  bucket = row?.bucket ?? ''
})

const configure = (retention: object, of = workspace) =>
  call('POST', '/v1/services/configure', {
    as: of.operator,
    body: { workspace_id: of.workspaceId, retention },
  })

const age = (id: string, days: number) => ageExecutions([id], `${days} days`)

const statusOf = async (id: string, of = workspace) =>
  (await call('GET', `${of.flows}/executions/${id}`, { as: of.operator })).status

test('expired executions: archived with their steps, then removed with them; younger, open and those of others stay', async () => {
  const other = await addTestWorkspace(workspace)
  const [executions, theirs] = [new Executions(workspace), new Executions(other)]
  const [done, waits] = await Promise.all([
    executions.publish('  - a: { set: { x: 1 } }'),
    executions.publish('  - a: { wait: PT1H }'),
  ])
  const [old, young, open, foreign] = await Promise.all([
    executions.start(done, { input: { n: 7 } }),
    executions.start(done),
    executions.start(waits),
    theirs.start(await theirs.publish('  - a: { set: { x: 1 } }')),
  ])
  await Promise.all([
    executions.ended(old),
    executions.ended(young),
    executions.shown(open, 'waiting'),
    theirs.ended(foreign),
  ])
  await Promise.all([age(old, 31), age(young, 29), age(open, 31), age(foreign, 31)])
  expect((await configure({ executions: '30d', archive: { bucket } })).body.retention).toEqual({
    executions: '30d',
    archive: { bucket },
  })
  await makeRetentionDue(workspace)
  await eventually(async () => ((await statusOf(old)) === 404 ? true : undefined))
  expect(await Promise.all([statusOf(young), statusOf(open), statusOf(foreign, other)])).toEqual([
    200, 200, 200,
  ])
  expect(await asSuperuser('select from tenon.execution_steps where execution_id = $1', [old])).toEqual([])
  const archive = await call('GET', `/v1/objects/${bucket}/executions/${done}/${old}.json`, {
    as: workspace.service,
  })
  const record = typeof archive.body === 'string' ? JSON.parse(archive.body) : archive.body
  expect(record).toMatchObject({
    id: old,
    flow_name: done,
    version: 1,
    status: 'completed',
    input: { n: 7 },
    output: { x: 1 },
    steps: [{ name: 'a', status: 'completed' }],
  })
  expect(record).not.toHaveProperty('tenant_id')
})

test('sub-flows of an open execution: their records stay, at any depth; they go with the one of the execution', async () => {
  const executions = new Executions(workspace)
  const call = (flow: string) =>
    `  - go: { run: { workflow: { namespace: n, name: ${flow}, version: latest } } }`
  const leaf = await executions.publish('  - a: { set: { x: 1 } }')
  const middle = await executions.publish(call(leaf))
  const top = await executions.publish(`${call(middle)}\n  - w: { wait: PT1H }`)
  const [open, alone] = await Promise.all([executions.start(top), executions.start(leaf)])
  await executions.ended(alone)
  const below = await eventually(async () => {
    const ended = await asSuperuser<{ id: string }>(
      `select e.id from tenon.executions e join tenon.flows f on f.id = e.flow_id
      where f.name = any($1) and e.id <> $2 and e.ended_at is not null`,
      [[leaf, middle], alone],
    )
    return ended.length === 2 ? ended : undefined
  })
  const ids = [open, ...below.map(({ id }) => id)]
  const seen = () => Promise.all(ids.map((id) => statusOf(id)))
  const removeAll = async (control: string) => {
    await age(control, 31)
    await configure({ executions: '30d' })
    await makeRetentionDue(workspace)
    await eventually(async () => ((await statusOf(control)) === 404 ? true : undefined))
  }
  await ageExecutions(ids, '40 days')
  await removeAll(alone)
  expect(await seen()).toEqual([200, 200, 200])
  await executions.send(open, 'cancel')
  await executions.ended(open)
  await removeAll(open)
  await eventually(async () => ((await seen()).every((status) => status === 404) ? true : undefined))
})

test('record of more bytes than one answer of the database may have: archived whole, in the order of its steps', async () => {
  const executions = new Executions(workspace)
  const flow = await executions.publish('  - a: { set: { x: 1 } }')
  const id = await executions.start(flow)
  await executions.ended(id)
  const [STEPS, CHARS] = [600, 60_000]
  await asSuperuser(
    `insert into tenon.execution_steps (tenant_id, workspace_id, execution_id, seq, name, kind, pointer, iteration, summary,
      status, path, started_at, result)
    select tenant_id, workspace_id, execution_id, n, name, kind, pointer, iteration, summary, status, path, started_at,
      to_jsonb(repeat('x', $3)) from tenon.execution_steps, generate_series(1, $2::int - 1) n where execution_id = $1`,
    [id, STEPS, CHARS],
  )
  await age(id, 31)
  await configure({ executions: '30d', archive: { bucket } })
  await makeRetentionDue(workspace)
  await eventually(async () => ((await statusOf(id)) === 404 ? true : undefined))
  const { body } = await call('GET', `/v1/objects/${bucket}/executions/${flow}/${id}.json`, {
    as: workspace.service,
  })
  const { steps, flow_name } = typeof body === 'string' ? JSON.parse(body) : body
  expect([flow_name, steps.length]).toEqual([flow, STEPS])
  expect(steps.map(({ seq }: { seq: number }) => seq)).toEqual([...steps.keys()])
  expect(steps.at(-1).result).toHaveLength(CHARS)
})

test('archive fails: nothing is removed, and the settings of the workspace say why, until it succeeds', async () => {
  const executions = new Executions(workspace)
  const id = await executions.start(await executions.publish('  - a: { set: { x: 1 } }'))
  await executions.ended(id)
  await age(id, 31)
  await asSuperuser(
    `update tenon.services set retention = '{"executions": "30d", "archive": {"bucket": "not-ours"}}' where workspace_id = $1`,
    [workspace.workspaceId],
  )
  await makeRetentionDue(workspace)
  await eventually(async () => {
    const rows = await asSuperuser(
      'select from tenon.workspaces where id = $1 and retention_due_at > now()',
      [workspace.workspaceId],
    )
    return rows.length > 0 ? true : undefined
  })
  const failure = async () =>
    (await call('GET', `/v1/services?workspace_id=${workspace.workspaceId}`, { as: workspace.operator })).body
      .retention_failure
  expect(await eventually(failure)).toEqual({
    at: expect.stringMatching(/Z$/),
    detail: expect.stringMatching(/bucket|denied/i),
  })
  expect(await statusOf(id)).toBe(200)
  await configure({ executions: '30d' })
  await makeRetentionDue(workspace)
  await eventually(async () => ((await statusOf(id)) === 404 ? true : undefined))
  await eventually(async () => ((await failure()) === undefined ? true : undefined))
})

test('deleted flow: purged with its last execution', async () => {
  const executions = new Executions(workspace)
  const name = await executions.publish('  - a: { set: { x: 1 } }')
  const id = await executions.start(name)
  const { flow_id } = await executions.ended(id)
  await call('DELETE', `${workspace.flows}/definitions/${name}`, { as: workspace.operator })
  const rows = () => asSuperuser('select from tenon.flows where id = $1', [flow_id])
  expect(await rows()).toHaveLength(1)
  await age(id, 31)
  await configure({ executions: '30d' })
  await makeRetentionDue(workspace)
  await eventually(async () => ((await rows()).length === 0 ? true : undefined))
})

test('policy that cannot be right: refused with 400', async () => {
  for (const retention of [
    { executions: '5m' },
    { executions: '9999d' },
    { executions: 'soon' },
    { executions: '30d', archive: { bucket: 'not-ours' } },
    { executions: '30d', keep: 1 },
  ]) {
    expect((await configure(retention)).status, JSON.stringify(retention)).toBe(400)
  }
})
