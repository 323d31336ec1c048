/** An API that is killed in the midst of an upload by tus: the next one goes on from what was acknowledged, and nothing else is left. */

import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { request } from 'node:http'
import { ListMultipartUploadsCommand, ListObjectsV2Command } from '@aws-sdk/client-s3'
import { afterAll, expect, test } from 'vitest'
import { sweepBlobs } from '../../src/features/objects/sweep-blobs.ts'
import { rootClient } from '../support/clients/object-store.ts'
import { asSuperuser, createTestWorkspaceWithStorage, eventually } from '../support/fixtures/tenants.ts'
import { randomOf } from '../support/random.ts'
import { type ApiProcess, startApi } from '../support/stack/api-process.ts'
import { openInProcessPlatform, scopeOf } from '../support/stack/in-process-platform.ts'
import { bucketOf } from '../support/stack/workspace-settings.ts'

const MIB = 1_048_576
const KILLS = 3
const processes: ApiProcess[] = []
const platform = openInProcessPlatform()
afterAll(async () => {
  await Promise.all(processes.map(({ stop }) => stop()))
  await platform.close()
})

async function start(): Promise<ApiProcess> {
  const api = await startApi({})
  processes.push(api)
  return api
}

test('API killed in the midst of an upload: no acknowledged byte is lost, the object has all bytes, and the sweep leaves nothing else', async () => {
  const workspace = await createTestWorkspaceWithStorage()
  const bucket = await bucketOf(workspace)
  const bytes = randomBytes(60 * MIB + 11)
  const random = randomOf(3)
  const headers = { ...workspace.service, 'tus-resumable': '1.0.0' }
  const described = `bucket ${btoa(bucket)},key ${btoa('film')}`
  let api = await start()
  const begun = await fetch(`${api.at.url}/v1/uploads`, {
    method: 'POST',
    headers: { ...headers, 'upload-length': String(bytes.length), 'upload-metadata': described },
  })
  const path = begun.headers.get('location') ?? ''
  const offset = async () => {
    const response = await fetch(`${api.at.url}${path}`, { method: 'HEAD', headers })
    return response.status === 200 ? Number(response.headers.get('upload-offset')) : undefined
  }
  const send = (from: number) =>
    request(`${api.at.url}${path}`, {
      method: 'PATCH',
      headers: {
        ...headers,
        'content-type': 'application/offset+octet-stream',
        'upload-offset': String(from),
        'content-length': String(bytes.length - from),
      },
    })
  let acknowledged = 0
  for (let kill = 0; kill < KILLS; kill++) {
    const sent = send(acknowledged)
    sent.on('error', () => {})
    const until = Math.min(bytes.length - 1, acknowledged + random(24 * MIB))
    sent.write(bytes.subarray(acknowledged, until))
    // In the midst of the bytes, of their way into the store, or of the step that makes a part of them.
    await eventually(async () =>
      ((await offset()) ?? 0) > acknowledged || random(4) === 0 ? true : undefined,
    )
    const before = (await offset()) ?? acknowledged
    const exited = once(api.process, 'exit')
    api.process.kill('SIGKILL')
    await exited
    sent.destroy()
    api = await start()
    acknowledged = await eventually(offset)
    expect(acknowledged).toBeGreaterThanOrEqual(before)
  }
  const last = send(acknowledged)
  last.end(bytes.subarray(acknowledged))
  const [{ statusCode }] = (await once(last, 'response')) as [{ statusCode: number }]
  expect(statusCode).toBe(204)
  const got = await fetch(`${api.at.url}/v1/objects/${bucket}/film`, { headers: workspace.service })
  expect(Buffer.from(await got.arrayBuffer()).equals(bytes)).toBe(true)

  const old = [workspace.workspaceId]
  // Leases of segments whose process died end after ten minutes.
  await asSuperuser(`update tenon.object_uploads set expires_at = now() where workspace_id = $1`, old)
  const scope = scopeOf(platform, workspace, 'service')
  while (await sweepBlobs(scope));
  await asSuperuser(
    `update tenon.unused_blobs set unused_at = now() - interval '2 hours' where workspace_id = $1`,
    old,
  )
  while (await sweepBlobs(scope));
  const s3 = rootClient()
  const { Uploads = [] } = await s3.send(new ListMultipartUploadsCommand({ Bucket: bucket }))
  const { Contents = [] } = await s3.send(new ListObjectsV2Command({ Bucket: bucket }))
  s3.destroy()
  const objects = await asSuperuser<{ blob: string }>(
    'select blob from tenon.objects where workspace_id = $1',
    old,
  )
  expect([Uploads, Contents.map(({ Key }) => Key)]).toEqual([[], objects.map(({ blob }) => blob)])
})
