/** A deletion of many objects whose worker is killed: it goes on, and each object is counted and has its event once. */

import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { closeSubscriptions, subscribeToEvents } from '../support/clients/sse.ts'
import { insertObjects } from '../support/fixtures/objects.ts'
import {
  asSuperuser,
  call,
  connectSuperuser,
  createTestWorkspaceWithStorage,
  eventually,
} from '../support/fixtures/tenants.ts'
import { killServer, type SharedPlatform, sharedPlatform } from '../support/stack/own-platform.ts'

let own: SharedPlatform
beforeAll(async () => {
  own = await sharedPlatform(createTestWorkspaceWithStorage)
})
afterEach(closeSubscriptions)
afterAll(() => own?.end())

const COUNT = 3_500

test('worker killed while it deletes a folder: another goes on, and all objects are deleted and told once', async () => {
  const { workspace, started } = own
  const at = started.running
  await insertObjects(workspace, 'folder/', COUNT, at)
  const heard = await subscribeToEvents(workspace.service, 'topic=objects.deleted', {}, at)
  // Its third page waits for this row.
  const session = await connectSuperuser(at)
  await session.query('begin')
  await session.query(
    `select from tenon.objects where workspace_id = $1 and key = 'folder/02500' for update`,
    [workspace.workspaceId],
  )
  const [{ name: bucket = '' } = {}] = await asSuperuser<{ name: string }>(
    'select name from tenon.buckets where workspace_id = $1',
    [workspace.workspaceId],
    at,
  )
  const body = { prefix: 'folder/' }
  const begun = await call('POST', `/v1/buckets/${bucket}/delete`, { as: workspace.service, body, at })
  expect(begun.status).toBe(202)
  const read = async () =>
    (await call('GET', `/v1/operations/${begun.body.id}`, { as: workspace.service, at })).body
  await eventually(async () => ((await read()).removed === 2_000 ? true : undefined))
  killServer(started, 'worker')
  await session.query('rollback')
  await session.end()
  const ended = await eventually(async () => {
    const removal = await read()
    return removal.state === 'succeeded' ? removal : undefined
  }, 60_000)
  expect(ended.removed).toBe(COUNT)
  const [left] = await asSuperuser<{ objects: number; blobs: number }>(
    `select (select count(*)::integer from tenon.objects where workspace_id = $1) as objects,
      (select count(*)::integer from tenon.unused_blobs where workspace_id = $1) as blobs`,
    [workspace.workspaceId],
    at,
  )
  expect(left).toEqual({ objects: 0, blobs: COUNT })
  // A worker that is killed before it has noted what it published publishes it again, under the same ids.
  const events = await eventually(async () => {
    const told = heard.filter(({ data }) => data?.data?.key !== undefined)
    return new Set(told.map(({ data }) => data.data.key)).size === COUNT ? told : undefined
  })
  expect(new Set(events.map(({ data }) => data.id)).size).toBe(COUNT)
})
