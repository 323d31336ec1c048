/** Creations and purges while the object store or Temporal is away: each waits and says why, can be ended meanwhile, and leaves nothing half. */

import { CreateBucketCommand } from '@aws-sdk/client-s3'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { rootClient } from '../support/clients/object-store.ts'
import { rowsOf } from '../support/fixtures/owned-traces.ts'
import {
  addTestWorkspaceWithStorage,
  asSuperuser,
  connectSuperuser,
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
import type { Started } from '../support/stack/start.ts'

let own: SharedPlatform
let started: Started
let workspace: TestWorkspace
let call: SharedPlatform['call']

beforeAll(async () => {
  own = await sharedPlatform(createTestWorkspaceWithStorage)
  ;({ started, workspace, call } = own)
})
afterAll(() => own?.end())

test('object store crashes while a workspace is created: created once it is back', async () => {
  killServer(started, 'seaweedfs')
  const { tenantId: tenant_id } = workspace
  const body = { tenant_id, name: 'Late', slug: unique('late') }
  const made = await call('POST', '/v1/workspaces', {
    as: workspace.operator,
    body,
    headers: { prefer: 'wait=30' },
  })
  expect([made.status, made.body.state]).toEqual([201, 'active'])
})

test('object store hangs: a creation says why it waits, is deleted meanwhile, and its slug serves another one', async () => {
  const { operator: as, tenantId } = workspace
  const slug = unique('w')
  const bucket = unique('b')
  const create = (more: object) =>
    call('POST', '/v1/workspaces', { as, body: { tenant_id: tenantId, name: 'W', slug, bucket, ...more } })
  const jobOf = async (id: string) => (await call('GET', `/v1/operations/${id}`, { as })).body
  const { removal, target, second } = await whileStopped(started, 'seaweedfs', async () => {
    const created = (await create({})).body
    const waiting = await eventually(async () => {
      const job = await jobOf(created.id)
      return job.steps[0]?.state === 'waiting' ? job : undefined
    }, 60_000)
    expect(waiting.state).toBe('running')
    expect(waiting.steps[0]).toMatchObject({
      ...{ name: 'bucket', code: 'dependency_unavailable', attempts: expect.any(Number) },
      detail: expect.stringContaining('object store'),
    })
    const removed = await call('DELETE', `/v1/workspaces/${waiting.target}`, { as })
    expect([removed.status, removed.body.type]).toEqual([202, 'workspace.delete'])
    // The slug is free at once, the name of the bucket only when the store has confirmed that it is gone.
    expect((await create({})).status).toBe(409)
    return { removal: removed.body.id, target: waiting.target, second: await create({ bucket: null }) }
  })
  expect(second.status).toBe(202)
  await eventually(
    async () => ((await jobOf(second.body.id)).state === 'succeeded' ? true : undefined),
    60_000,
  )
  await eventually(async () => ((await jobOf(removal)).state === 'succeeded' ? true : undefined), 120_000)
  expect((await call('GET', `/v1/workspaces/${target}`, { as })).status).toBe(404)
  const { data } = (await call('GET', `/v1/workspaces?tenant_id=${tenantId}`, { as })).body
  expect(data.map(({ id }: { id: string }) => id)).not.toContain(target)
  expect((await create({ slug: unique('w') })).status).toBe(202)
})

test('object store hangs, worker is killed: a purge says why it waits, removes nothing meanwhile, and leaves nothing afterwards', async () => {
  const doomed = await addTestWorkspaceWithStorage(workspace, started.running)
  const { operator: as, workspaceId, service } = doomed
  const { bucket } = (await call('GET', `/v1/workspaces/${workspaceId}`, { as })).body
  await call('PUT', `/v1/objects/${bucket}/kept`, { as: service, body: 'x' })
  await call('POST', '/v1/collections/notes/documents', { as: service, body: { n: 1 } })
  const rows = async () => {
    const counted = await asSuperuser<{ n: number }>(
      'select count(*)::int as n from tenon.documents where workspace_id = $1',
      [workspaceId],
      started.running,
    )
    return counted[0]?.n
  }
  const removal = await whileStopped(started, 'seaweedfs', async () => {
    const { body } = await call('DELETE', `/v1/workspaces/${workspaceId}?grace_days=0`, { as })
    const read = async () => (await call('GET', `/v1/operations/${body.id}`, { as })).body
    const waiting = () =>
      eventually(
        async () => ((await read()).steps.at(-1)?.state === 'waiting' ? await read() : undefined),
        60_000,
      )
    // An inventory without the objects is none.
    expect((await waiting()).steps).toMatchObject([
      {
        name: 'begin_purge',
        code: 'dependency_unavailable',
        detail: expect.stringContaining('object store'),
      },
    ])
    killServer(started, 'worker')
    await waiting()
    expect(await rows()).toBe(1)
    return read
  })
  await eventually(async () => ((await removal()).state === 'succeeded' ? true : undefined), 180_000)
  expect([await rows(), (await removal()).result.after]).toEqual([0, {}])
})

test('object store hangs, a purge waits: another time is kept, and a restoration ends the operation', async () => {
  const doomed = await Promise.all(
    ['later', 'restored'].map(() => addTestWorkspaceWithStorage(workspace, started.running)),
  )
  const { operator: as } = workspace
  const [later, restored] = doomed.map(({ workspaceId }) => `/v1/workspaces/${workspaceId}`)
  const read = async (id: string) => (await call('GET', `/v1/operations/${id}`, { as })).body
  const becomes = (id: string, state: string) =>
    eventually(async () => ((await read(id)).state === state ? true : undefined), 120_000)
  const remove = async (path = '', days = 0) =>
    (await call('DELETE', `${path}?grace_days=${days}`, { as })).body.id as string
  const jobs = await whileStopped(started, 'seaweedfs', async () => {
    const begun = await Promise.all([remove(later), remove(restored)])
    for (const id of begun)
      await eventually(
        async () => ((await read(id)).steps.at(-1)?.state === 'waiting' ? true : undefined),
        60_000,
      )
    expect(await remove(later, 7)).toBe(begun[0])
    expect((await call('POST', `${restored}/restore`, { as })).body.state).toBe('active')
    expect((await read(begun[1] as string)).state).toBe('cancelled')
    return begun
  })
  await becomes(jobs[0] as string, 'queued')
  expect((await call('GET', later ?? '', { as })).body.state).toBe('deleting')
  await asSuperuser(
    'update tenon.workspaces set delete_after = now() where id = $1',
    [doomed[0]?.workspaceId],
    started.running,
  )
  await becomes(jobs[0] as string, 'succeeded')
  expect((await call('GET', later ?? '', { as })).status).toBe(404)
  const kept = await call('GET', restored ?? '', { as })
  expect([kept.body.state, (await read(jobs[1] as string)).state]).toEqual(['active', 'cancelled'])
})

test('Temporal hangs: the deletion of what was never in use is kept, and purged once Temporal answers', async () => {
  const { operator: as, tenantId: tenant_id } = workspace
  const [bucket, slug] = [unique('foreign'), unique('w')]
  await rootClient(started.running).send(new CreateBucketCommand({ Bucket: bucket }))
  const failed = await call('POST', '/v1/workspaces', {
    ...{ as, headers: { prefer: 'wait=30' } },
    body: { tenant_id, name: 'W', slug, bucket },
  })
  expect(failed.body.state).toBe('provisioning_failed')
  const deleted = await whileStopped(started, 'temporal', () =>
    call('DELETE', `/v1/workspaces/${failed.body.id}`, { as, headers: { prefer: 'wait=1' } }),
  )
  expect([deleted.status, deleted.body.state]).toEqual([202, 'queued'])
  await eventually(async () => {
    const { state } = (await call('GET', `/v1/operations/${deleted.body.id}`, { as })).body
    return state === 'succeeded' || undefined
  }, 120_000)
  expect((await call('GET', `/v1/workspaces/${failed.body.id}`, { as })).status).toBe(404)
})

/** Locks rows. @returns how to wait until somebody waits for them, and how to give them free */
async function lockRows(from: string, id: string) {
  const session = await connectSuperuser(started.running)
  await session.query('begin')
  const { rowCount } = await session.query(`select from ${from} = $1 for update`, [id])
  expect(rowCount).toBe(1)
  const waiters = 'select from pg_stat_activity where pg_backend_pid() = any(pg_blocking_pids(pid))'
  return {
    awaited: () =>
      eventually(async () => ((await session.query(waiters)).rowCount ? true : undefined), 60_000),
    free: () => session.end(),
  }
}

/** Purges a tenant until only its keys are left. @param work what is done at that moment */
async function purgeUntilKeys(
  work: (keys: Awaited<ReturnType<typeof lockRows>>, doomed: { id: string; job: string }) => Promise<void>,
) {
  const at = started.running
  const doomed = await createTestWorkspaceWithStorage(at)
  const { operator: as, tenantId } = doomed
  await call('POST', '/v1/collections/notes/documents', { as: doomed.service, body: { n: 1 } })
  const keys = await lockRows('tenon.payload_keys where tenant_id', tenantId)
  const { body } = await call('DELETE', `/v1/tenants/${tenantId}?grace_days=0`, { as })
  await keys.awaited()
  const [record] = await asSuperuser('select state from tenon.tenants where id = $1', [tenantId], at)
  expect(record).toEqual({ state: 'deleted' })
  await work(keys, { id: tenantId, job: body.id })
  const job = await eventually(async () => {
    const { body: now } = await call('GET', `/v1/operations/${body.id}`, { as })
    return now.finished_at === null ? undefined : now
  }, 120_000)
  expect([job.state, job.error, job.result.after]).toEqual(['succeeded', null, {}])
  expect(await rowsOf({ tenantId }, at)).toEqual({
    'tenon.operations': 1,
    'tenon.payload_keys': 1,
    'tenon.workspaces': 1,
  })
  const sealed = await asSuperuser(
    'select sealed from tenon.payload_keys where tenant_id = $1',
    [tenantId],
    at,
  )
  expect(sealed).toEqual([{ sealed: null }])
}

test('worker killed between the tombstone of a tenant and the end of its keys: the purge ends, and the keys are gone', async () => {
  await purgeUntilKeys(async (keys) => {
    killServer(started, 'worker')
    await keys.free()
  })
})

test('worker killed when the keys of a tenant are gone: what no worker can read any more is removed, and the operation ends', async () => {
  const at = started.running
  await purgeUntilKeys(async (keys, { id, job }) => {
    const operation = await lockRows('tenon.operations where id', job)
    await keys.free()
    await operation.awaited()
    const sealed = await asSuperuser('select sealed from tenon.payload_keys where tenant_id = $1', [id], at)
    expect(sealed).toEqual([{ sealed: null }])
    killServer(started, 'worker')
    await operation.free()
    await asSuperuser('update tenon.tenants set delete_after = now() where id = $1', [id], at)
  })
  await own.forgetCrashes()
})
