/** Deletes flows: records of their executions are deleted, also those being written, and nothing of other flows. */

import { Client } from 'pg'
import { expect, inject, test } from 'vitest'
import { Runs } from '../../support/fixtures/executions.ts'
import {
  asSuperuser,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'

const TASKS = '  - a: { set: { n: 1 } }\n  - b: { set: { n: 2 } }\n'

/** How many steps and events an execution has. */
async function recordCounts(id: string): Promise<object | undefined> {
  const counts = ['steps', 'events'].map(
    (what) => `(select count(*)::integer from tenon.execution_${what} where execution_id = $1) as ${what}`,
  )
  return (await asSuperuser(`select ${counts.join(', ')}`, [id]))[0]
}

const remove = ({ flows, operator: as }: TestWorkspace, name: string) =>
  call('DELETE', `${flows}/definitions/${name}`, { as })

async function runOnce(workspace: TestWorkspace) {
  const runs = new Runs(workspace)
  const name = await runs.publish(TASKS)
  const { id } = await runs.ended(await runs.start(name))
  return { name, id: id as string }
}

test('flow deleted: its steps and events are deleted, those of other flows and workspaces stay', async () => {
  const [workspace, other] = [await createTestWorkspace(), await createTestWorkspace()]
  const [deleted, kept, inOtherWorkspace] = [
    await runOnce(workspace),
    await runOnce(workspace),
    await runOnce(other),
  ]
  expect(await recordCounts(deleted.id)).toEqual({ steps: 2, events: 6 })
  expect((await remove(workspace, deleted.name)).status).toBe(200)
  expect(await recordCounts(deleted.id)).toEqual({ steps: 0, events: 0 })
  for (const { id } of [kept, inOtherWorkspace])
    expect(await recordCounts(id)).toEqual({ steps: 2, events: 6 })
})

test('flow deleted while a step is being recorded: nothing is left behind', async () => {
  const workspace = await createTestWorkspace()
  const { name, id } = await runOnce(workspace)
  const recorder = new Client({ connectionString: inject('tenon').databaseUrl })
  await recorder.connect()
  // As the recorder does: it locks the execution first, then inserts the steps.
  await recorder.query('begin')
  await recorder.query('update tenon.executions set events = events where id = $1', [id])
  await recorder.query(
    `insert into tenon.execution_steps (tenant_id, workspace_id, execution_id, seq, name, kind, pointer, iteration, path,
      summary, status, attempt, started_at)
    select tenant_id, workspace_id, id, 99, 'late', 'set', '/do/9/late', 0, '/do/late', 'late', 'running', 1, now()
    from tenon.executions where id = $1`,
    [id],
  )
  const removed = remove(workspace, name)
  const waiting = "wait_event_type = 'Lock' and query like 'delete from executions%'"
  await eventually(async () => {
    const found = await asSuperuser(`select from pg_stat_activity where ${waiting}`)
    return found.length === 1 ? true : undefined
  })
  await recorder.query('commit')
  await recorder.end()
  expect((await removed).status).toBe(200)
  expect(await recordCounts(id)).toEqual({ steps: 0, events: 0 })
})

test('two deletions of a flow while it is being started: one succeeds, the other gets 409, neither deadlocks', async () => {
  const workspace = await createTestWorkspace()
  const runs = new Runs(workspace)
  const name = await runs.publish(TASKS)
  const [{ id: flowId = '' } = {}] = await asSuperuser<{ id: string }>(
    'select id from tenon.flows where workspace_id = $1',
    [workspace.workspaceId],
  )
  const start = (id: string, endedAt: string) =>
    `insert into tenon.executions (tenant_id, workspace_id, id, workflow_id, flow_id, version, status, input, started_by, ended_at)
      values ('${workspace.tenantId}', '${workspace.workspaceId}', '${id}', 'w', '${flowId}', 1, 'completed', '{}', 'me', ${endedAt})`
  const starter = new Client({ connectionString: inject('tenon').databaseUrl })
  await starter.connect()
  // Holds a lock on the version until the transaction ends.
  await starter.query('begin')
  await starter.query(start('run_open', 'null'))
  const [{ pid }] = (await starter.query('select pg_backend_pid() as pid')).rows
  const waiting = (count: number) =>
    eventually(async () => {
      const found = await asSuperuser(
        `select from pg_stat_activity a where $1 = any(pg_blocking_pids(a.pid)) or exists (
          select from unnest(pg_blocking_pids(a.pid)) b where $1 = any(pg_blocking_pids(b)))`,
        [pid],
      )
      return found.length >= count ? true : undefined
    })
  const first = remove(workspace, name)
  await waiting(1)
  // The second deletion finds an execution to delete; the first finds a reference to the version it has deleted.
  await asSuperuser(start('run_ended', 'now()'))
  const second = remove(workspace, name)
  await waiting(2)
  await starter.query('rollback')
  await starter.end()
  expect([(await first).status, (await second).status].toSorted()).toEqual([200, 409])
})
