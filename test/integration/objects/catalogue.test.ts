/** The catalogue of objects and the bytes in the bucket: one winner of each race, no bytes without an owner, and an event for each change. */

import { ListObjectsV2Command } from '@aws-sdk/client-s3'
import { afterEach, beforeAll, expect, test } from 'vitest'
import { rootClient } from '../../support/clients/object-store.ts'
import { closeSubscriptions, subscribeToEvents } from '../../support/clients/sse.ts'
import { openUpload } from '../../support/clients/uploads.ts'
import {
  asSuperuser,
  call,
  createTestWorkspaceWithStorage,
  eventually,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { bucketOf, configure } from '../../support/stack/workspace-settings.ts'

let workspace: TestWorkspace
let bucket: string
beforeAll(async () => {
  workspace = await createTestWorkspaceWithStorage()
  bucket = await bucketOf(workspace)
})
afterEach(closeSubscriptions)

const send = (method: string, key: string, headers: Record<string, string> = {}, body?: string) =>
  call(method, `/v1/objects/${bucket}/${key}`, {
    as: workspace.service,
    headers,
    ...(body !== undefined && { body }),
  })

/** The names of all blobs at the store, and those that objects have. */
async function blobs(): Promise<{ stored: string[]; owned: string[] }> {
  const s3 = rootClient()
  const { Contents = [] } = await s3.send(new ListObjectsV2Command({ Bucket: bucket }))
  s3.destroy()
  const rows = await asSuperuser<{ blob: string }>('select blob from tenon.objects where workspace_id = $1', [
    workspace.workspaceId,
  ])
  return { stored: Contents.map(({ Key = '' }) => Key).sort(), owned: rows.map(({ blob }) => blob).sort() }
}

test('writers and removers of one key at once: each change has one winner, and the count of events is that of changes', async () => {
  const heard = await subscribeToEvents(workspace.service, 'topic=objects.*')
  const key = unique('race')
  const created = await Promise.all(
    Array.from({ length: 20 }, (_, n) => send('PUT', key, { 'if-none-match': '*' }, `first ${n}`)),
  )
  expect(created.map(({ status }) => status).sort()).toEqual([201, ...Array(19).fill(412)])
  const mixed = await Promise.all(
    Array.from({ length: 30 }, (_, n) =>
      n % 3 === 0 ? send('DELETE', key) : send('PUT', key, {}, `n ${n}`),
    ),
  )
  expect(mixed.map(({ status }) => status).filter((status) => ![200, 201, 404].includes(status))).toEqual([])
  const changes = [...created, ...mixed].filter(({ status }) => status < 300)
  const verbs = await eventually(async () => {
    const events = heard.filter(({ data }) => data?.data?.key === key)
    return events.length === changes.length ? events.map(({ data }) => data.topic) : undefined
  })
  // From the first creation on, only an object that exists is updated or deleted, and only one that does not is created.
  let exists = false
  for (const verb of verbs) {
    expect([verb, exists]).toEqual([verb, verb !== 'objects.created'])
    exists = verb !== 'objects.deleted'
  }
  expect((await send('HEAD', key)).status).toBe(exists ? 200 : 404)
})

test('event of a change: names bucket, key, size, tag and type; a user and an anon key hear of objects that they may read', async () => {
  await configure(workspace, {
    anon: { objects: 'public' },
    objects: { public_read: ['public/'], user: { read: ['private/{user.id}/'] } },
  })
  const [service, anon] = await Promise.all(
    [workspace.service, workspace.anon].map((as) => subscribeToEvents(as, 'topic=objects.created')),
  )
  const etag = (await send('PUT', 'public/a', { 'content-type': 'text/css' }, 'a{}')).headers.get('etag')
  await send('PUT', 'private/b', {}, 'b')
  await send('PUT', 'public/c', {}, 'c')
  const keysIn = (heard: typeof service) =>
    heard?.flatMap(({ data }) => (data?.data?.key ? [data.data.key] : []))
  await eventually(
    async () => (keysIn(service)?.includes('public/c') && keysIn(anon)?.includes('public/c')) || undefined,
  )
  expect(keysIn(service)).toEqual(['public/a', 'private/b', 'public/c'])
  expect(keysIn(anon)).toEqual(['public/a', 'public/c'])
  const first = service?.find(({ data }) => data?.data?.key === 'public/a')
  expect(first?.data.data).toEqual({
    bucket,
    key: 'public/a',
    size: 3,
    etag,
    content_type: 'text/css',
    owner: null,
  })
})

test('topics of objects: nobody but the platform publishes them', async () => {
  const body = { topic: 'objects.created', data: {} }
  expect((await call('POST', '/v1/events/publish', { as: workspace.service, body })).status).toBe(400)
})

test('bytes of replaced and deleted objects and of lost uploads: removed after their time, and no others', async () => {
  const [kept, gone] = [unique('kept'), unique('gone')]
  for (const body of ['one', 'two', 'three'])
    expect((await send('PUT', kept, { 'content-type': 'text/plain' }, body)).status).toBeLessThan(300)
  await send('PUT', gone, {}, 'bytes')
  expect((await send('DELETE', gone)).status).toBe(200)
  expect((await send('PUT', kept, { 'if-match': '"stale"' }, 'refused')).status).toBe(412)
  const before = await blobs()
  expect(before.stored.length).toBeGreaterThan(before.owned.length)
  await asSuperuser(
    `update tenon.unused_blobs set unused_at = now() - interval '2 hours' where workspace_id = $1`,
    [workspace.workspaceId],
  )
  // The next removal of a workspace comes at once when its settings change.
  await configure(workspace, { retention: { meters: '30d' } })
  await eventually(async () => {
    const { stored, owned } = await blobs()
    return stored.length === owned.length ? true : undefined
  })
  const { stored, owned } = await blobs()
  expect(stored).toEqual(owned)
  const got = await send('GET', kept)
  expect(got.body).toBe('three')
  expect(
    await asSuperuser('select from tenon.unused_blobs where workspace_id = $1', [workspace.workspaceId]),
  ).toEqual([])
})

test('upload that stands still for longer than its lease: refused with upload_expired, and nothing is stored', async () => {
  const key = unique('slow')
  const { sent, reply } = openUpload(`/v1/objects/${bucket}/${key}`, workspace.service, 10)
  sent.write('12345')
  const expire = () =>
    asSuperuser(`delete from tenon.object_uploads where workspace_id = $1 returning id`, [
      workspace.workspaceId,
    ])
  await eventually(async () => ((await expire()).length > 0 ? true : undefined))
  sent.end('67890')
  const { status, body } = await reply
  expect([status, body.code]).toEqual([410, 'upload_expired'])
  expect((await send('GET', key)).body.code).toBe('NoSuchKey')
})
