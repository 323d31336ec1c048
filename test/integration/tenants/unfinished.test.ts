/** Retries and deletes tenants and workspaces whose creation has failed. */

import { CreateBucketCommand, DeleteBucketCommand, HeadBucketCommand } from '@aws-sdk/client-s3'
import { beforeAll, expect, test } from 'vitest'
import { rootClient } from '../../support/clients/object-store.ts'
import {
  asSuperuser,
  call,
  createTestWorkspace,
  createTestWorkspaceWithStorage,
  eventually,
  operator,
  type TestWorkspace,
  tokenOf,
  unique,
} from '../../support/fixtures/tenants.ts'
import { withRawClient } from '../../support/stack/temporal.ts'

const WAIT = { prefer: 'wait=30' }

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
})

/** A bucket that the platform did not make makes the creation fail for good. */
async function failedWorkspace() {
  const { operator: as, tenantId: tenant_id } = workspace
  const [Bucket, slug] = [unique('foreign'), unique('w')]
  await rootClient().send(new CreateBucketCommand({ Bucket }))
  const body = { tenant_id, name: 'W', slug, bucket: Bucket }
  const created = await call('POST', '/v1/workspaces', { as, headers: WAIT, body })
  expect([created.status, created.body.state]).toEqual([201, 'provisioning_failed'])
  return { id: created.body.id as string, path: `/v1/workspaces/${created.body.id}`, Bucket, slug, body }
}

/** Deletes one that was never in use, and waits for the end of its purge. */
async function removed(path: string): Promise<void> {
  const as = await operator()
  const { status, body } = await call('DELETE', path, { as })
  expect([status, body.state]).toEqual([202, 'queued'])
  await eventually(
    async () =>
      (await call('GET', `/v1/operations/${body.id}`, { as })).body.state === 'succeeded' ? true : undefined,
    60_000,
  )
}

const jobsOf = async (target: string) =>
  (
    await call('GET', '/v1/operations', {
      as: await tokenOf({ roles: ['tenant_admin'], tenant_id: workspace.tenantId }),
    })
  ).body.data.filter((job: { target: string }) => job.target === target)

test('creation that has failed: the operation says why; retried once the cause is gone: active', async () => {
  const { operator: as } = workspace
  const { id, path, Bucket } = await failedWorkspace()
  const [failed] = await jobsOf(id)
  expect(failed).toMatchObject({ state: 'failed', error: { code: 'conflict' } })
  expect(failed.error.detail).toBe(`The step bucket failed. The bucket ${Bucket} is taken.`)
  expect(failed.steps).toMatchObject([
    { name: 'remove_bucket', state: 'succeeded' },
    { name: 'bucket', state: 'failed', code: 'conflict' },
  ])
  const again = await call('POST', `${path}/retry`, { as, headers: WAIT })
  expect(again.body).toMatchObject({ state: 'failed' })
  expect(again.status).toBe(202)
  await rootClient().send(new DeleteBucketCommand({ Bucket }))
  const retried = await call('POST', `${path}/retry`, { as, headers: WAIT })
  expect([retried.status, retried.body.type, retried.body.state]).toEqual([
    202,
    'workspace.create',
    'succeeded',
  ])
  expect((await call('GET', path, { as })).body).toMatchObject({ state: 'active', bucket: Bucket })
  const refused = await call('POST', `${path}/retry`, { as })
  expect([refused.status, refused.body.code]).toEqual([409, 'state_conflict'])
})

test('creation that has failed, deleted: slug and bucket name are free, the bucket of another stays', async () => {
  const { operator: as } = workspace
  const { path, Bucket, body } = await failedWorkspace()
  const taken = await call('POST', '/v1/workspaces', { as, body: { ...body, bucket: null } })
  expect([taken.status, taken.body.detail]).toEqual([409, expect.stringContaining('retry or delete it')])
  await removed(path)
  await rootClient().send(new HeadBucketCommand({ Bucket }))
  expect((await call('GET', path, { as })).status).toBe(404)
  expect((await call('DELETE', path, { as })).status).toBe(404)
  await rootClient().send(new DeleteBucketCommand({ Bucket }))
  const second = await call('POST', '/v1/workspaces', { as, headers: WAIT, body })
  expect([second.status, second.body.state]).toEqual([201, 'active'])
})

test('creation that has failed, deleted: the purge has begun with the answer, or has ended with Prefer: wait', async () => {
  const { operator: as, tenantId } = workspace
  const [first, second] = [await failedWorkspace(), await failedWorkspace()]
  const { body: job } = await call('DELETE', first.path, { as })
  const [row] = await asSuperuser<{ workflow_id: string }>(
    'select workflow_id from tenon.operations where id = $1',
    [job.id],
  )
  await withRawClient((client) => client.workflow.getHandle(row?.workflow_id ?? '').describe())
  const ended = await call('DELETE', second.path, { as, headers: WAIT })
  expect([ended.status, ended.body.state, ended.body.result.after]).toEqual([202, 'succeeded', {}])
  expect(ended.headers.get('location')).toBe(`/v1/operations/${ended.body.id}`)
  expect((await call('GET', second.path, { as })).status).toBe(404)
  expect(ended.body.tenant_id).toBe(tenantId)
})

test('workspace in use, deleted at once: Prefer: wait waits for its purge; with days to come, it does not', async () => {
  const { operator: as, workspaceId } = await createTestWorkspace()
  const path = `/v1/workspaces/${workspaceId}`
  const later = await call('DELETE', path, { as, headers: WAIT })
  expect([later.status, later.body.state]).toEqual([202, 'queued'])
  const now = await call('DELETE', `${path}?grace_days=0`, { as, headers: WAIT })
  expect([now.status, now.body.id]).toEqual([202, later.body.id])
  // On a slow machine, it goes on.
  expect(['running', 'succeeded']).toContain(now.body.state)
})

test('creation that ended between bucket and record, deleted: its own empty bucket is removed', async () => {
  const { operator: as } = workspace
  const made = await createTestWorkspaceWithStorage()
  const { body } = await call('GET', `/v1/workspaces/${made.workspaceId}`, { as })
  await asSuperuser(`update tenon.workspaces set state = 'provisioning_failed' where id = $1`, [
    made.workspaceId,
  ])
  await removed(`/v1/workspaces/${made.workspaceId}`)
  const gone = rootClient().send(new HeadBucketCommand({ Bucket: body.bucket }))
  await expect(gone).rejects.toMatchObject({ $metadata: { httpStatusCode: 404 } })
  expect(
    await asSuperuser('select 1 from tenon.buckets where workspace_id = $1', [made.workspaceId]),
  ).toEqual([])
})

test('active tenant and workspace: not retried', async () => {
  const as = await operator()
  for (const path of [`/v1/tenants/${workspace.tenantId}`, `/v1/workspaces/${workspace.workspaceId}`]) {
    const { status, body } = await call('POST', `${path}/retry`, { as })
    expect([path, status, body.code]).toEqual([path, 409, 'state_conflict'])
  }
})

test('tenant whose creation has failed: retried, or deleted with its slug', async () => {
  const as = await operator()
  for (const verb of ['retry', 'delete']) {
    const slug = unique('t')
    const { body } = await call('POST', '/v1/tenants', { as, headers: WAIT, body: { name: 'T', slug } })
    await asSuperuser(`update tenon.tenants set state = 'provisioning_failed' where id = $1`, [body.id])
    const path = `/v1/tenants/${body.id}`
    if (verb === 'retry') {
      expect((await call('POST', `${path}/retry`, { as, headers: WAIT })).body.state).toBe('succeeded')
      expect((await call('GET', path, { as })).body).toMatchObject({ state: 'active', slug })
    } else {
      await removed(path)
      expect((await call('GET', path, { as })).status).toBe(404)
      expect((await call('POST', '/v1/tenants', { as, body: { name: 'T', slug } })).status).toBe(202)
    }
  }
})
