/** Exports and imports whose worker is killed: another one begins the attempt anew, and nothing is missing or there twice. */

import { createHash, randomBytes } from 'node:crypto'
import { ListMultipartUploadsCommand, ListObjectsV2Command } from '@aws-sdk/client-s3'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { OBJECT_LIMITS } from '../../src/features/objects/limits.ts'
import { importInto, lines } from '../support/clients/ndjson.ts'
import { rootClient } from '../support/clients/object-store.ts'
import {
  endOf,
  exportArchive,
  membersOf,
  sendArchive,
  sendTenantArchive,
} from '../support/fixtures/archives.ts'
import {
  asSuperuser,
  call,
  connectSuperuser,
  createTestWorkspaceWithStorage,
  eventually,
  type TestWorkspace,
  withKeys,
} from '../support/fixtures/tenants.ts'
import { whileHeld } from '../support/servers/table-barrier.ts'
import { killServer, type SharedPlatform, sharedPlatform } from '../support/stack/own-platform.ts'
import { bucketOf } from '../support/stack/workspace-settings.ts'

let own: SharedPlatform
beforeAll(async () => {
  own = await sharedPlatform(createTestWorkspaceWithStorage)
})
afterAll(() => own?.end())

const COUNT = 2_000

async function killWhile(lock: string, begin: () => Promise<{ id: string }>, step: string) {
  const { workspace, started } = own
  const id = await whileHeld(own, lock, begin, step, () => killServer(started, 'worker'))
  return endOf(workspace, id, started.running)
}

test('worker killed while it exports, and while it imports: another goes on, and every document is there once', async () => {
  const { workspace, started } = own
  const at = started.running
  const { operator: as, service, tenantId, workspaceId } = workspace
  const documents = Array.from({ length: COUNT }, (_, n) => ({ n, text: 'x'.repeat(200) }))
  await importInto('notes', lines(...documents), { as: service, at })
  const exported = await killWhile(
    'lock table tenon.function_aliases in access exclusive mode',
    async () => (await call('POST', `/v1/workspaces/${workspaceId}/exports`, { as, at })).body,
    'write_archive',
  )
  expect([exported.state, exported.result.counts.documents]).toEqual(['succeeded', COUNT])
  const path = `/v1/tenants/${tenantId}/archives/${exported.id}`
  const archive = Buffer.from(await (await fetch(`${at.url}${path}`, { headers: as })).arrayBuffer())
  await own.forgetCrashes()
  const imported = await killWhile(
    'lock table tenon.documents in share row exclusive mode',
    async () => {
      const { body } = await sendArchive(workspace, archive, { at })
      // Until it is complete, nobody can use it.
      const key = { workspace_id: body.target, kind: 'service', name: 'early' }
      expect((await call('POST', '/v1/api-keys', { as, at, body: key })).status).toBe(409)
      return body
    },
    'restore_archive',
  )
  expect([imported.state, imported.result.counts.documents]).toEqual(['succeeded', COUNT])
  const copy = await withKeys(workspace, imported.target, at)
  const linesOf = async (caller: typeof service) =>
    (await call('GET', '/v1/collections/notes/export', { as: caller, at })).body
  expect(await linesOf(copy.service)).toBe(await linesOf(service))
})

test('documents created, changed and deleted while an export runs: its archive has them as they were when it began', async () => {
  const { workspace, started } = own
  const at = started.running
  const { operator: as, service, tenantId, workspaceId } = workspace
  const collection = '/v1/collections/moments/documents'
  const ask = (method: string, path: string, body?: object) =>
    call(method, path, { as: service, at, ...(body !== undefined && { body }) })
  const [changed, removed] = [
    (await ask('POST', collection, { text: 'first' })).body.id,
    (await ask('POST', collection, { text: 'second' })).body.id,
  ]
  const before = (await ask('GET', '/v1/collections/moments/export')).body
  const id = await whileHeld(
    own,
    'lock table tenon.function_aliases in access exclusive mode',
    async () => (await call('POST', `/v1/workspaces/${workspaceId}/exports`, { as, at })).body,
    'write_archive',
    async () => {
      const replies = [
        await ask('PATCH', `${collection}/${changed}`, { text: 'changed' }),
        await ask('DELETE', `${collection}/${removed}`),
        await ask('POST', collection, { text: 'third' }),
        await ask('POST', '/v1/collections/later/documents', { text: 'fourth' }),
      ]
      expect(replies.map(({ status }) => status < 300)).toEqual([true, true, true, true])
    },
  )
  expect((await endOf(workspace, id, at)).state).toBe('succeeded')
  const path = `/v1/tenants/${tenantId}/archives/${id}`
  const archive = Buffer.from(await (await fetch(`${at.url}${path}`, { headers: as })).arrayBuffer())
  const documents = new Map(
    membersOf(archive).flatMap(({ name, content }) =>
      /^documents\/(moments|later)/.test(name) ? [[name, content.toString()] as const] : [],
    ),
  )
  expect([...documents]).toEqual([['documents/moments/000001.ndjson', before]])
})

test('workspace whose import is under way: deleted: nothing is left of it, and it is neither retried nor restored', async () => {
  const { workspace, started } = own
  const at = started.running
  const { operator: as, service, tenantId, workspaceId } = workspace
  const settings = { workspace_id: workspaceId, auth: { sign_up: 'invite' } }
  await call('POST', '/v1/services/configure', { as, at, body: settings })
  const user = { workspace_id: workspaceId, email: 'mia@example.com', name: 'Mia' }
  const { status, body } = await call('POST', '/v1/users', { as, at, body: user })
  expect([status, body]).toMatchObject([201, { email: user.email }])
  await importInto('drafts', lines({ n: 1 }), { as: service, at })
  const archive = await exportArchive(workspace, at)
  const statuses: number[] = []
  let made = ''
  await whileHeld(
    own,
    'lock table tenon.documents in share row exclusive mode',
    async () => (await sendArchive(workspace, archive, { at })).body,
    'restore_archive',
    async ({ target }: { id: string; target: string }) => {
      made = target
      const path = `/v1/workspaces/${target}`
      for (const [method, end] of [
        ['POST', '/retry'],
        ['DELETE', ''],
        ['POST', '/retry'],
        ['POST', '/restore'],
      ] as const)
        statuses.push((await call(method, `${path}${end}`, { as, at })).status)
    },
  )
  expect(statuses).toEqual([409, 202, 409, 409])
  const session = await connectSuperuser(at)
  const left = async () => {
    const { rows } = await session.query(
      `select (select state from tenon.workspaces where id = $2) as state,
        (select count(*)::int from tenon.users where tenant_id = $1) as users,
        (select count(*)::int from tenon.documents where workspace_id = $2) as documents`,
      [tenantId, made],
    )
    return rows[0]
  }
  await expect.poll(left).toEqual({ state: 'deleted', users: 1, documents: 0 })
  await session.end()
})

test('worker killed while it exports a tenant, and while it imports it: another goes on, and every document is there once', async () => {
  const { workspace, started } = own
  const at = started.running
  const { operator: as, service, tenantId } = workspace
  await importInto('tenant-notes', lines({ n: 1 }, { n: 2 }), { as: service, at })
  const { body: present } = await call('GET', `/v1/workspaces?tenant_id=${tenantId}`, { as, at })
  await own.forgetCrashes()
  const exported = await killWhile(
    'lock table tenon.function_aliases in access exclusive mode',
    async () => (await call('POST', `/v1/tenants/${tenantId}/exports`, { as, at })).body,
    'write_archive',
  )
  expect([exported.state, exported.result.counts.workspaces]).toEqual(['succeeded', present.data.length])
  const path = `/v1/tenants/${tenantId}/archives/${exported.id}`
  const archive = Buffer.from(await (await fetch(`${at.url}${path}`, { headers: as })).arrayBuffer())
  await own.forgetCrashes()
  const imported = await killWhile(
    'lock table tenon.documents in share row exclusive mode',
    async () => {
      const { body } = await sendTenantArchive(workspace, archive, { at })
      // Until it is complete, nobody can use it.
      expect((await call('POST', `/v1/tenants/${body.target}/exports`, { as, at })).status).toBe(409)
      return body
    },
    'restore_archive',
  )
  expect([imported.state, imported.result.counts]).toEqual(['succeeded', exported.result.counts])
  const made = await call('GET', `/v1/workspaces?tenant_id=${imported.target}`, { as, at })
  expect(made.body.data.map(({ slug }: { slug: string }) => slug).sort()).toEqual(
    present.data.map(({ slug }: { slug: string }) => slug).sort(),
  )
  const { slug } = (await call('GET', `/v1/workspaces/${workspace.workspaceId}`, { as, at })).body
  const { id } = made.body.data.find((one: { slug: string }) => one.slug === slug)
  const copy = await withKeys({ tenantId: imported.target, operator: as }, id, at)
  const linesOf = async (caller: typeof service) =>
    (await call('GET', '/v1/collections/tenant-notes/export', { as: caller, at })).body
  expect(await linesOf(copy.service)).toBe(await linesOf(service))
})

const sha256Of = (bytes: Uint8Array) => createHash('sha256').update(bytes).digest('hex')

/** Requests for the objects of a workspace, by key. */
async function objectsOf(workspace: TestWorkspace) {
  const at = own.started.running
  const { service: as } = workspace
  const path = `/v1/objects/${await bucketOf(workspace, at)}`
  return {
    put: (key: string, body: Uint8Array<ArrayBuffer>) =>
      fetch(`${at.url}${path}/${key}`, { method: 'PUT', headers: as, body }),
    remove: (key: string) => call('DELETE', `${path}/${key}`, { as, at }),
    read: async (key: string) => {
      const response = await fetch(`${at.url}${path}/${key}`, { headers: as })
      return [response.headers.get('etag'), sha256Of(new Uint8Array(await response.arrayBuffer()))]
    },
  }
}

test('worker killed while it imports an object in parts, after the first one and before the object: another goes on, and no upload is left open', async () => {
  const { started } = own
  const at = started.running
  const workspace = await createTestWorkspaceWithStorage(at)
  const objects = await objectsOf(workspace)
  const bytes = randomBytes(OBJECT_LIMITS.restoredPartBytes + 1)
  expect((await objects.put('movie', bytes)).status).toBe(201)
  const archive = await exportArchive(workspace, at)
  const s3 = rootClient(at)
  for (const table of ['object_upload_parts', 'objects']) {
    await own.forgetCrashes()
    const imported = await killWhile(
      `lock table tenon.${table} in share row exclusive mode`,
      async () => (await sendArchive(workspace, archive, { at })).body,
      'restore_archive',
    )
    expect([imported.state, imported.result.counts.objects]).toEqual(['succeeded', 1])
    const copy = await withKeys(workspace, imported.target, at)
    expect(await (await objectsOf(copy)).read('movie')).toEqual(await objects.read('movie'))
    const Bucket = await bucketOf(copy, at)
    const { Uploads = [] } = await s3.send(new ListMultipartUploadsCommand({ Bucket }))
    const { Contents = [] } = await s3.send(new ListObjectsV2Command({ Bucket }))
    const [rows] = await asSuperuser<{ uploads: number }>(
      'select count(*)::integer as uploads from tenon.object_uploads where workspace_id = $1',
      [imported.target],
      at,
    )
    expect([Uploads.length, Contents.length, rows?.uploads]).toEqual([0, 1, 0])
  }
  s3.destroy()
})

test('objects deleted while an export runs: it takes longer than their bytes usually stay: the archive has them, and then they are removed', async () => {
  const { started } = own
  const at = started.running
  const workspace = await createTestWorkspaceWithStorage(at)
  const { workspaceId } = workspace
  const objects = await objectsOf(workspace)
  const age = (hours: number) =>
    asSuperuser(
      `update tenon.unused_blobs set unused_at = now() - make_interval(hours => $2) where workspace_id = $1`,
      [workspaceId, hours],
      at,
    )
  /** Lets the sweeper look at the workspace. @returns once so many blobs are left that no object has */
  const sweptUntil = async (left: number) => {
    const due = `update tenon.workspaces set retention_due_at = now() - interval '1 s' where id = $1`
    await asSuperuser(due, [workspaceId], at)
    await eventually(async () => {
      const rows = await asSuperuser(
        'select from tenon.unused_blobs where workspace_id = $1',
        [workspaceId],
        at,
      )
      return rows.length === left || undefined
    })
  }
  for (const key of ['before', 'meanwhile']) await objects.put(key, new TextEncoder().encode(key))
  await objects.remove('before')
  await age(4)
  const id = await whileHeld(
    own,
    'lock table tenon.function_aliases in access exclusive mode',
    async () =>
      (await call('POST', `/v1/workspaces/${workspaceId}/exports`, { as: workspace.operator, at })).body,
    'write_archive',
    async (begun: { id: string }) => {
      // The export was asked for long ago, and waited, or has had other attempts.
      const earlier = `update tenon.operations set created_at = now() - interval '3 days',
        result = jsonb_set(result, '{begun_at}', to_jsonb(now() - interval '3 hours')) where id = $1`
      await asSuperuser(earlier, [begun.id], at)
      await objects.remove('meanwhile')
      const young = `update tenon.unused_blobs set unused_at = now() - interval '2 hours'
        where workspace_id = $1 and unused_at > now() - interval '1 hour'`
      await asSuperuser(young, [workspaceId], at)
      await sweptUntil(1)
    },
  )
  const exported = await endOf(workspace, id, at)
  expect([exported.state, exported.result.counts]).toMatchObject(['succeeded', { objects: 1 }])
  const path = `/v1/tenants/${workspace.tenantId}/archives/${id}`
  const archive = await (await fetch(`${at.url}${path}`, { headers: workspace.operator })).arrayBuffer()
  const [bytes] = membersOf(Buffer.from(archive)).filter(({ name }) => name === 'objects/000001/000001')
  expect(bytes?.content.toString()).toBe('meanwhile')
  await sweptUntil(0)
})
