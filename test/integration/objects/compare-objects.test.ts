/** The comparison of `tenon doctor --deep`: names bytes that are missing and bytes that no object has, and nothing else. */

import { randomUUID } from 'node:crypto'
import { DeleteObjectCommand, PutObjectCommand } from '@aws-sdk/client-s3'
import { expect, inject, test } from 'vitest'
import { compareObjects } from '../../../src/cli/stack/compare-objects.ts'
import { rootClient } from '../../support/clients/object-store.ts'
import {
  asSuperuser,
  call,
  connectSuperuser,
  createTestWorkspaceWithStorage,
} from '../../support/fixtures/tenants.ts'
import { bucketOf } from '../../support/stack/workspace-settings.ts'

test('objects, replaced and deleted ones and uploads under way: agree; a lost and a stray blob, and a cut one: named', async () => {
  const workspace = await createTestWorkspaceWithStorage()
  const bucket = await bucketOf(workspace)
  const put = (key: string, body: string) =>
    call('PUT', `/v1/objects/${bucket}/${key}`, { as: workspace.service, body })
  for (const key of ['a', 'b', 'c', 'lost', 'cut', 'empty'])
    expect((await put(key, key === 'empty' ? '' : key)).status).toBe(201)
  await put('a', 'again')
  await call('DELETE', `/v1/objects/${bucket}/b`, { as: workspace.service })
  const [database, store] = [await connectSuperuser(inject('tenon')), rootClient()]
  const compare = () => compareObjects({ database, store, buckets: [bucket] })
  expect(await compare()).toEqual([])
  const blobOf = async (key: string) => {
    const [row] = await asSuperuser<{ blob: string }>(
      'select blob from tenon.objects where workspace_id = $1 and key = $2',
      [workspace.workspaceId, key],
    )
    return row?.blob ?? ''
  }
  const [lost, cut, stray] = [await blobOf('lost'), await blobOf('cut'), randomUUID()]
  await store.send(new DeleteObjectCommand({ Bucket: bucket, Key: lost }))
  await store.send(new PutObjectCommand({ Bucket: bucket, Key: cut, Body: 'x' }))
  await store.send(new PutObjectCommand({ Bucket: bucket, Key: stray, Body: 'stray' }))
  const expected = [
    { bucket, blob: lost, kind: 'missing' },
    { bucket, blob: cut, kind: 'missing' },
    { bucket, blob: stray, kind: 'orphan' },
  ].sort((a, b) => (a.blob < b.blob ? -1 : 1))
  expect(await compare()).toEqual(expected)
  expect((await call('GET', `/v1/objects/${bucket}/lost`, { as: workspace.service })).body).toMatchObject({
    status: 503,
    code: 'dependency_unavailable',
    part: 's3',
  })
  store.destroy()
  await database.end()
})
