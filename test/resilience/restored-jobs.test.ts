/** A restored database beside a Temporal that is older or newer: jobs whose workflows are lost begin again, and work without a record ends. */

import { DeleteObjectCommand } from '@aws-sdk/client-s3'
import type { Client } from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { finishRestore, settleDatabase } from '../../src/backup/restored-database.ts'
import { settleWorkflows } from '../../src/backup/restored-workflows.ts'
import { PAYLOAD_BUCKET } from '../../src/core/object-key.ts'
import { rootClient } from '../support/clients/object-store.ts'
import { endOf, exportArchive, sendArchive } from '../support/fixtures/archives.ts'
import { FunctionRuns } from '../support/fixtures/function-runs.ts'
import { executionsOf, publishScheduled } from '../support/fixtures/schedules.ts'
import {
  addTestWorkspace,
  asSuperuser,
  call,
  connectSuperuser,
  createTestWorkspace,
  createTestWorkspaceWithStorage,
  eventually,
  type TestWorkspace,
  unique,
} from '../support/fixtures/tenants.ts'
import {
  killServer,
  type SharedPlatform,
  sharedPlatform,
  whileStopped,
} from '../support/stack/own-platform.ts'
import { withRawClient } from '../support/stack/temporal.ts'

let own: SharedPlatform
beforeAll(async () => {
  own = await sharedPlatform(createTestWorkspaceWithStorage)
})
afterAll(() => own?.end())

/** Makes jobs those of a restored installation: they have begun, and Temporal has ended their workflows. */
async function lose(ids: readonly string[]): Promise<void> {
  const at = own.started.running
  const rows = await asSuperuser<{ workflow_id: string }>(
    `update tenon.operations set state = 'running', created_at = created_at - interval '1 minute'
      where id = any($1) returning workflow_id`,
    [ids],
    at,
  )
  await withRawClient(async ({ workflow }) => {
    for (const { workflow_id } of rows) await workflow.getHandle(workflow_id).terminate('lost')
  }, at)
}

/** Works on the database as a restore does. */
async function withRestored<T>(work: (database: Client) => Promise<T>): Promise<T> {
  const database = await connectSuperuser(own.started.running)
  try {
    await database.query('set search_path = tenon, public')
    return await work(database)
  } finally {
    await database.end()
  }
}

const settle = () =>
  withRestored((database) =>
    withRawClient((temporal) => settleWorkflows(database, temporal), own.started.running),
  )

test('jobs that have lost their workflow in a restore: exports and deletions end, and an import whose archive is gone is undone', async () => {
  const { workspace, started } = own
  const at = started.running
  const { operator: as, tenantId, workspaceId } = workspace
  await call('POST', '/v1/services/configure', {
    ...{ as, at },
    body: { workspace_id: workspaceId, auth: { sign_up: 'invite' } },
  })
  const { body: user } = await call('POST', '/v1/users', {
    ...{ as, at },
    body: { workspace_id: workspaceId, email: 'mia@example.com', name: 'Mia' },
  })
  const archive = await exportArchive(workspace, at)
  const jobs = await whileStopped(started, 'worker', async () => {
    const begun = async (path: string, method = 'POST') => {
      const { status, body } = await call(method, path, { as, at })
      expect([status, body]).toMatchObject([202, { finished_at: null }])
      return body.id as string
    }
    const exporting = await begun(`/v1/workspaces/${workspaceId}/exports`)
    const deletion = await begun(`/v1/users/${user.id}?data=delete`, 'DELETE')
    const { body: made } = await sendArchive(workspace, archive, { at })
    await lose([exporting, deletion, made.id])
    const s3 = rootClient(at)
    const Key = `${tenantId}/archives/${made.target}/${made.id}`
    await s3.send(new DeleteObjectCommand({ Bucket: PAYLOAD_BUCKET, Key }))
    s3.destroy()
    expect((await settle()).jobsBegun).toBe(3)
    return { exporting, deletion, made }
  })
  const ended = async (id: string) => {
    const { state, error } = await endOf(workspace, id, at)
    return [state, error?.code ?? null]
  }
  const { made } = jobs
  expect(await ended(made.id)).toEqual(['failed', 'not_found'])
  for (const id of [jobs.exporting, jobs.deletion]) expect(await ended(id)).toEqual(['succeeded', null])
  expect((await call('GET', `/v1/users/${user.id}`, { as, at })).status).toBe(404)
  await eventually(async () => {
    const { status } = await call('GET', `/v1/workspaces/${made.target}`, { as, at })
    return status === 404 || undefined
  }, 60_000)
})

test('further jobs that have lost their workflow in a restore: each begins again, and ends as it should have', async () => {
  const { started } = own
  const at = started.running
  const workspace = await createTestWorkspaceWithStorage(at)
  const { operator: as, service, tenantId, workspaceId } = workspace
  const purged = await addTestWorkspace(workspace, at)
  const ok = async (method: string, path: string, body?: object, by = as) => {
    const reply = await call(method, path, { as: by, at, ...(body && { body }) })
    expect(reply.status, JSON.stringify(reply.body)).toBeLessThan(300)
    return reply.body
  }
  await ok('POST', '/v1/services/configure', { workspace_id: workspaceId, auth: { sign_up: 'invite' } })
  const person = { workspace_id: workspaceId, email: 'ida@example.com', name: 'Ida' }
  const user = await ok('POST', '/v1/users', person)
  const properties = { n: { type: 'integer' } }
  const declared = {
    workspace_id: workspaceId,
    collection: 'notes',
    store: 'relational',
    schema: { properties },
  }
  const schema = await ok('POST', '/v1/schemas', declared)
  await ok('POST', '/v1/collections/notes/documents', { n: 1 }, service)
  const archive = await exportArchive(workspace, at)
  const jobs = await whileStopped(started, 'worker', async () => {
    const creation = await ok('POST', '/v1/workspaces', { tenant_id: tenantId, name: 'W', slug: unique('w') })
    const anonymization = await ok('DELETE', `/v1/users/${user.id}?data=anonymize`)
    await ok('PUT', `/v1/schemas/${schema.id}`, { indexes: [{ fields: ['n'] }] })
    const [building] = await asSuperuser<{ id: string }>(
      `select id from tenon.operations where target = $1 and type = 'index.build'`,
      [schema.id],
      at,
    )
    const { body: imported } = await sendArchive(workspace, archive, { at })
    const ids = [creation.id, anonymization.id, building?.id ?? '', imported.id] as string[]
    await lose(ids)
    // A purge that had begun, of which no worker that runs has heard.
    const purge = await ok('DELETE', `/v1/workspaces/${purged.workspaceId}?grace_days=0`)
    await asSuperuser(
      `update tenon.workspaces set purged_from = now(), updated_at = now() - interval '1 hour' where id = $1`,
      [purged.workspaceId],
      at,
    )
    await asSuperuser(`update tenon.operations set state = 'running' where id = $1`, [purge.id], at)
    expect((await settle()).jobsBegun).toBe(ids.length + 1)
    return [...ids, purge.id as string]
  })
  for (const id of jobs) {
    const { type, state, error } = await endOf(workspace, id, at)
    expect([type, state, error]).toEqual([type, 'succeeded', null])
  }
  const states = `select indexes -> 0 ->> 'state' as state from tenon.schemas where id = $1`
  expect(await asSuperuser(states, [schema.id], at)).toEqual([{ state: 'ready' }])
  expect((await call('GET', `/v1/users/${user.id}`, { as, at })).status).toBe(404)
  expect((await call('GET', `/v1/workspaces/${purged.workspaceId}`, { as, at })).status).toBe(404)
})

/** An execution that waits, a run whose code goes on, and a schedule. @returns what Temporal has of them by then */
async function workIn(workspace: TestWorkspace) {
  const at = own.started.running
  const published = await publishScheduled(workspace, 'daily', '{ every: { hours: 24 } }', NAPS, at)
  expect(published.status, JSON.stringify(published.body)).toBe(201)
  const path = `${workspace.flows}/definitions/daily/executions`
  const started = await call('POST', path, { as: workspace.operator, at, body: { input: {} } })
  expect(started.status).toBe(201)
  const runs = new FunctionRuns(workspace, at)
  const slow = await runs.deploy('slow', 'export default () => new Promise(() => {})', { timeout: '600s' })
  await runs.until(slow, await runs.start(slow), ({ status }) => status === 'running')
  return eventually(async () => {
    const work = await openWork(workspace)
    const has = (part: RegExp) => work.workflows.some((name) => part.test(name))
    // That of the registration of the schedule has ended by then.
    const isSettled = work.workflows.length === 2 && work.schedules.length === 1
    return has(/:flow_/) && has(/:fn_/) && isSettled ? work : undefined
  }, 60_000)
}
const NAPS = '[{ nap: { wait: { hours: 1 } } }]'

const openWork = ({ tenantId, workspaceId }: TestWorkspace) =>
  withRawClient(async (temporal) => {
    const [workflows, schedules]: [string[], string[]] = [[], []]
    const query = `WorkspaceId = '${workspaceId}' AND ExecutionStatus = 'Running'`
    for await (const { workflowId } of temporal.workflow.list({ query })) workflows.push(workflowId)
    for await (const { scheduleId } of temporal.schedule.list())
      if (scheduleId.startsWith(`${tenantId}:${workspaceId}:`)) schedules.push(scheduleId)
    return { workflows: workflows.sort(), schedules: schedules.sort() }
  }, own.started.running)

test('executions, runs and schedules that a restored database does not have: ended in Temporal, and those of another workspace go on', async () => {
  const { started } = own
  const at = started.running
  const lost = await createTestWorkspace(at)
  const kept = await addTestWorkspace(lost, at)
  await workIn(lost)
  const before = await workIn(kept)
  const settled = await whileStopped(started, 'worker', async () => {
    await withRestored(async (database) => {
      // As if they had never been written.
      await database.query('set session_replication_role = replica')
      for (const table of ['executions', 'function_runs', 'triggers'])
        await database.query(`delete from ${table} where workspace_id = $1`, [lost.workspaceId])
    })
    return settle()
  })
  expect(settled.schedulesRemoved).toBe(1)
  // Temporal's index may still show some as open that have just ended.
  expect(settled.terminated).toBeGreaterThanOrEqual(2)
  await eventually(async () => {
    const { workflows, schedules } = await openWork(lost)
    return workflows.length + schedules.length === 0 || undefined
  })
  expect(await openWork(kept)).toEqual(before)
})

test('restore: webhook and event triggers are paused until it is finished, and a workspace that was purged since is purged again', async () => {
  const { started } = own
  const at = started.running
  const workspace = await createTestWorkspace(at)
  const purged = await addTestWorkspace(workspace, at)
  const { operator: as, service, tenantId } = workspace
  const hears = '{ on: { one: { with: { type: told } } } }'
  const published = await publishScheduled(workspace, 'hears', hears, undefined, at)
  expect(published.status, JSON.stringify(published.body)).toBe(201)
  const { body: hooked } = await publishScheduled(
    workspace,
    'hooked',
    '{ webhook: { verify: bearer } }',
    undefined,
    at,
  )
  const [hook] = hooked.webhooks
  const { pathname, search } = new URL(hook.url)
  const knock = async () =>
    (
      await call('POST', `${pathname}${search}`, {
        ...{ at, body: {} },
        headers: { authorization: `Bearer ${hook.secret}` },
      })
    ).status
  const tell = (data: number) =>
    call('POST', '/v1/events/publish', { as: service, at, body: { topic: 'told', data } })
  const heard = async (flow: string) => (await executionsOf(workspace, flow, at)).length
  expect(await knock()).toBe(202)
  await tell(1)
  await eventually(async () => ((await heard('hears')) === 1 ? true : undefined))
  const tombstone = { tenant_id: tenantId, workspace_id: purged.workspaceId, purged_from: '' }
  const again = await withRestored((database) =>
    settleDatabase(database, { to: new Date().toISOString(), tombstones: [tombstone] }),
  )
  expect(again).toBe(1)
  // A restore comes before any worker.
  killServer(started, 'worker')
  await eventually(async () => ((await knock()) === 409 ? true : undefined))
  await publishScheduled(workspace, 'later', hears, undefined, at)
  await eventually(async () => {
    await tell(2)
    return (await heard('later')) > 0 || undefined
  }, 60_000)
  expect([await heard('hears'), await heard('hooked')]).toEqual([1, 1])
  await eventually(async () => {
    const { status } = await call('GET', `/v1/workspaces/${purged.workspaceId}`, { as, at })
    return status === 404 || undefined
  }, 120_000)
  expect((await call('GET', `/v1/workspaces/${workspace.workspaceId}`, { as, at })).body.state).toBe('active')
  const finished = await withRestored(finishRestore)
  expect(finished?.resumed).toBeGreaterThanOrEqual(2)
  await eventually(async () => ((await knock()) === 202 ? true : undefined))
  await eventually(async () => {
    await tell(3)
    return (await heard('hears')) > 1 || undefined
  }, 60_000)
  await own.forgetCrashes()
})
