/** Jobs that are open in a restored database, and whose workflows are lost: they begin again. */

import { DeleteObjectCommand } from '@aws-sdk/client-s3'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { settleWorkflows } from '../../src/backup/restored-workflows.ts'
import { PAYLOAD_BUCKET } from '../../src/core/object-key.ts'
import { rootClient } from '../support/clients/object-store.ts'
import { endOf, exportArchive, sendArchive } from '../support/fixtures/archives.ts'
import {
  addTestWorkspace,
  asSuperuser,
  call,
  connectSuperuser,
  createTestWorkspaceWithStorage,
  eventually,
  unique,
} from '../support/fixtures/tenants.ts'
import { type SharedPlatform, sharedPlatform, whileStopped } from '../support/stack/own-platform.ts'
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

async function settle() {
  const at = own.started.running
  const database = await connectSuperuser(at)
  try {
    await database.query('set search_path = tenon, public')
    return await withRawClient((temporal) => settleWorkflows(database, temporal), at)
  } finally {
    await database.end()
  }
}

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
