/** The object store refuses a suspended workspace's own key, and accepts it again after resume. */

import { GetObjectCommand, PutObjectCommand } from '@aws-sdk/client-s3'
import { beforeAll, expect, inject, test } from 'vitest'
import type { WorkspaceId } from '../../../src/core/tenant.ts'
import { OBJECT_LIMITS } from '../../../src/features/objects/limits.ts'
import { parseConfig } from '../../../src/infra/config.ts'
import { StorageIdentities } from '../../../src/infra/s3/storage-identities.ts'
import { clientOf, identityOf } from '../../support/clients/object-store.ts'
import { resume, suspend } from '../../support/fixtures/suspension.ts'
import {
  call,
  createTestWorkspaceWithStorage,
  eventually,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'
import { stopwatch } from '../../support/stopwatch.ts'

let workspace: TestWorkspace
let neighbour: TestWorkspace
beforeAll(async () => {
  ;[workspace, neighbour] = await Promise.all([
    createTestWorkspaceWithStorage(),
    createTestWorkspaceWithStorage(),
  ])
})

test('storage key of a suspended tenant: denied; accepted after resume', async () => {
  const [s3, other, { bucket: Bucket }] = await Promise.all([
    clientOf(workspace),
    clientOf(neighbour),
    identityOf(workspace),
  ])
  const put = () => s3.send(new PutObjectCommand({ Bucket, Key: 'k', Body: 'x' })).then(() => 'done', nameOf)
  const get = () => s3.send(new GetObjectCommand({ Bucket, Key: 'k' })).then(() => 'done', nameOf)
  expect([await put(), await get()]).toEqual(['done', 'done'])
  await suspend(workspace)
  await eventually(async () => ((await put()) === 'AccessDenied' ? true : undefined), 5_000)
  expect(await get()).toBe('AccessDenied')
  const { bucket } = await identityOf(neighbour)
  const theirs = await other.send(new PutObjectCommand({ Bucket: bucket, Key: 'k', Body: 'x' }))
  expect(theirs.$metadata.httpStatusCode).toBe(200)
  await resume(workspace)
  await eventually(async () => ((await put()) === 'done' ? true : undefined), 5_000)
  const read = await call('GET', `/v1/objects/${Bucket}/k`, { as: workspace.service })
  expect([read.status, read.body]).toEqual([200, 'x'])
})

test('store that has not applied a new permission yet: requests wait for it', async () => {
  const { bucket } = await identityOf(neighbour)
  const path = `/v1/objects/${bucket}/waits`
  const identities = new StorageIdentities(parseConfig(inject('tenon').env))
  const id = neighbour.workspaceId as WorkspaceId
  const of = { as: neighbour.service }
  const put = (headers = {}) => call('PUT', path, { ...of, body: '{}', headers })
  const requests = [
    () => put(),
    () => put({ 'if-none-match': '*' }),
    () => call('GET', path, of),
    () => call('HEAD', path, of),
    () => call('GET', `/v1/objects/${bucket}`, of),
    () => call('DELETE', path, of),
  ]
  const outcomes: number[] = []
  for (const request of requests) {
    await identities.shut(id)
    const pending = request()
    await new Promise((done) => setTimeout(done, 300))
    await identities.ensureUser(id, bucket)
    outcomes.push((await pending).status)
  }
  identities.close()
  expect(outcomes).toEqual([201, 412, 200, 200, 200, 200])
})

test('bucket of another workspace: denied at once, without waiting', async () => {
  const { bucket } = await identityOf(neighbour)
  const elapsedMs = stopwatch()
  const reply = await call('GET', `/v1/objects/${bucket}/k`, { as: workspace.service })
  expect([reply.status, reply.body.code]).toEqual([403, 'AccessDenied'])
  expect(elapsedMs()).toBeLessThan(OBJECT_LIMITS.accessPropagationMs)
})

const nameOf = (error: Error) => error.name
