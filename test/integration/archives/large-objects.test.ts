/** Objects of an archive that are stored in parts: in flat memory, once, and from where an attempt was cut off. */

import { createHash, randomBytes } from 'node:crypto'
import {
  AbortMultipartUploadCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
} from '@aws-sdk/client-s3'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import type { Platform } from '../../../src/app/platform.ts'
import { Problem } from '../../../src/core/problem.ts'
import { inMember } from '../../../src/features/archives/part.ts'
import { OBJECT_LIMITS } from '../../../src/features/objects/limits.ts'
import { MultipartUploads } from '../../../src/features/objects/multipart-uploads.ts'
import { restoreObject } from '../../../src/features/objects/objects-transfer.ts'
import { sweepBlobs } from '../../../src/features/objects/sweep-blobs.ts'
import { objectsOf } from '../../../src/features/objects/workspace-objects.ts'
import { rootClient } from '../../support/clients/object-store.ts'
import { quota } from '../../support/fixtures/quotas.ts'
import {
  asSuperuser,
  createTestWorkspaceWithStorage,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'
import { openInProcessPlatform, scopeOf } from '../../support/stack/in-process-platform.ts'
import { bucketOf } from '../../support/stack/workspace-settings.ts'

const PART = OBJECT_LIMITS.restoredPartBytes
const CHUNK = 1_048_576
let platform: Platform
let workspace: TestWorkspace
beforeAll(async () => {
  platform = openInProcessPlatform()
  workspace = await createTestWorkspaceWithStorage()
})
afterAll(() => platform.close())

const md5Of = (bytes: Uint8Array) => createHash('md5').update(bytes).digest('hex')

/** The bytes in chunks. @param until where they break off */
async function* chunksOf(bytes: Buffer, until = bytes.byteLength) {
  for (let at = 0; at < until; at += CHUNK) yield bytes.subarray(at, at + CHUNK)
  if (until < bytes.byteLength) throw new Error('broken off')
}

interface Sent {
  readonly size: number
  readonly etag: string
  readonly chunks: AsyncIterable<Uint8Array>
}

function restore(
  key: string,
  { size, etag, chunks }: Sent,
  requireBeingMade = async () => {},
): Promise<void> {
  const time = '2026-01-02T03:04:05.678Z'
  const described = { headers: { 'content-type': 'video/mp4' }, metadata: { by: 'mia' }, tags: {} }
  const line = { key, size, etag, ...described, owner: null, created_at: time, modified_at: time }
  const object = { line, owner: null, source: { chunks, length: size }, requireBeingMade }
  return restoreObject(scopeOf(platform, workspace, 'service'), object)
}

/** Restores an object of which the first bytes come. */
const restoreBytes = (key: string, bytes: Buffer, until?: number) =>
  restore(key, { size: bytes.byteLength, etag: md5Of(bytes), chunks: chunksOf(bytes, until) })

async function read(key: string): Promise<{ md5: string; headers: Headers }> {
  const path = `/v1/objects/${await bucketOf(workspace)}/${key}`
  const response = await fetch(`${inject('tenon').url}${path}`, { headers: workspace.service })
  return { md5: md5Of(Buffer.from(await response.arrayBuffer())), headers: response.headers }
}

/** The open uploads and the blobs that the store has. */
async function inStore() {
  const Bucket = await bucketOf(workspace)
  const s3 = rootClient()
  const { Uploads = [] } = await s3.send(new ListMultipartUploadsCommand({ Bucket }))
  const { Contents = [] } = await s3.send(new ListObjectsV2Command({ Bucket }))
  s3.destroy()
  return { uploads: Uploads.length, blobs: Contents.map(({ Key }) => Key).sort() }
}

/** Removes what is over. @returns the blobs that objects have */
async function sweep(): Promise<string[]> {
  const of = [workspace.workspaceId]
  const scope = scopeOf(platform, workspace, 'service')
  while (await sweepBlobs(scope));
  const past = `set unused_at = now() - interval '2 hours'`
  await asSuperuser(`update tenon.unused_blobs ${past} where workspace_id = $1`, of)
  while (await sweepBlobs(scope));
  const rows = await asSuperuser<{ blob: string }>(
    'select blob from tenon.objects where workspace_id = $1',
    of,
  )
  return rows.map(({ blob }) => blob).sort()
}

/** Uploads of the workspace, and the numbers of their parts. */
const openParts = () =>
  asSuperuser<{ bytes: number; parts: number[] }>(
    `select u.bytes::integer, array(select number from tenon.object_upload_parts p where p.upload = u.id order by number) as parts
      from tenon.object_uploads u where u.workspace_id = $1 and u.expires_at > now()`,
    [workspace.workspaceId],
  )

test('object of more than one part: cut off in the second part, and sent again: it goes on behind the first one, and nothing else is left', async () => {
  const bytes = randomBytes(2 * PART + 1)
  await expect(restoreBytes('movie', bytes, PART + 4 * CHUNK)).rejects.toThrow('broken off')
  expect(await openParts()).toEqual([{ bytes: 0, parts: [1] }])
  // A process that died has not freed what was on its way.
  await asSuperuser('update tenon.object_uploads set bytes = $2 where workspace_id = $1', [
    workspace.workspaceId,
    PART,
  ])
  // A real attempt would send the same bytes again. Here, other bytes show which parts are sent again.
  const again = Buffer.concat([randomBytes(PART), bytes.subarray(PART)])
  await restoreBytes('movie', again)
  const { md5, headers } = await read('movie')
  expect(md5).toBe(md5Of(bytes))
  expect([headers.get('etag'), headers.get('content-type'), headers.get('x-meta-by')]).toEqual([
    `"${md5Of(again)}"`,
    'video/mp4',
    'mia',
  ])
  expect(headers.get('last-modified')).toBe('Fri, 02 Jan 2026 03:04:05 GMT')
  expect(await openParts()).toEqual([])
  expect((await quota(workspace, 'object_bytes')).used).toBe(bytes.byteLength)
  expect(await inStore()).toEqual({ uploads: 0, blobs: await sweep() })
})

test('object of more than one part: two attempts at once: one object, and nothing else is left', async () => {
  const bytes = randomBytes(PART + 1)
  const attempts = await Promise.allSettled([restoreBytes('twice', bytes), restoreBytes('twice', bytes)])
  const codes = attempts.map((one) => (one.status === 'fulfilled' ? 'stored' : one.reason.code))
  // The one that comes later is repeated, and finds the object.
  expect([
    ['stored', 'overloaded'],
    ['overloaded', 'stored'],
    ['stored', 'stored'],
  ]).toContainEqual(codes)
  await restoreBytes('twice', bytes)
  expect((await read('twice')).md5).toBe(md5Of(bytes))
  const blobs = await sweep()
  expect(await inStore()).toEqual({ uploads: 0, blobs })
})

/** The upload in parts that an attempt has left of an object. */
async function openUpload(key: string) {
  const scope = scopeOf(platform, workspace, 'service')
  const uploads = new MultipartUploads(scope, objectsOf(scope), true)
  const upload = (await uploads.resume(key)) ?? ''
  return { uploads, at: { bucket: await bucketOf(workspace), key, upload } }
}

/** The chunks, and something done by another attempt before that of a number. */
async function* withOther(bytes: Buffer, at: number, act: () => Promise<unknown>) {
  let index = 0
  for await (const chunk of chunksOf(bytes)) {
    if (index++ === at) await act()
    yield chunk
  }
}

test('object of more than one part: another attempt stores it during the second part: the upload is over, and stays so', async () => {
  const bytes = randomBytes(2 * PART)
  const entry = { size: bytes.byteLength, etag: md5Of(bytes) }
  const other = async () => {
    // It has begun an upload of its own, and knows nothing of this one.
    const hide = 'update tenon.object_uploads set is_internal = not is_internal where workspace_id = $1'
    await asSuperuser(hide, [workspace.workspaceId])
    await restoreBytes('beside', bytes)
    await asSuperuser(hide, [workspace.workspaceId])
    const end = 'update tenon.object_uploads set expires_at = now() where workspace_id = $1'
    await asSuperuser(end, [workspace.workspaceId])
  }
  const chunks = withOther(bytes, PART / CHUNK + 2, other)
  await expect(restore('beside', { ...entry, chunks })).rejects.toMatchObject({ code: 'overloaded' })
  expect(await openParts()).toEqual([])
  expect(await inStore()).toEqual({ uploads: 1, blobs: expect.anything() })
  const blobs = await sweep()
  expect(await inStore()).toEqual({ uploads: 0, blobs })
})

test('object of more than one part that is there: an upload that another attempt has begun since then: ended by the repetition, but not that of a user', async () => {
  const bytes = randomBytes(PART + 1)
  await restoreBytes('since', bytes)
  const scope = scopeOf(platform, workspace, 'service')
  const uploads = new MultipartUploads(scope, objectsOf(scope), true)
  const name = { bucket: await bucketOf(workspace), key: 'since' }
  const nothing = { headers: {}, metadata: {}, tags: {} }
  const [late, resumed] = [await uploads.begin(name, nothing), await uploads.begin(name, nothing)]
  const { workspaceId } = workspace
  const [row] = await asSuperuser<{ tenant_id: string }>(
    'select tenant_id from tenon.workspaces where id = $1',
    [workspaceId],
  )
  await asSuperuser(
    `insert into tenon.resumable_uploads (tenant_id, workspace_id, id, key, parts_upload, expires_at)
      values ($1, $2, gen_random_uuid(), 'since', $3, now() + interval '1 day')`,
    [row?.tenant_id, workspaceId, resumed],
  )
  await restoreBytes('since', bytes)
  const at = { ...name, upload: late }
  await expect(uploads.parts(at)).rejects.toMatchObject({ code: 'NoSuchUpload' })
  expect(await uploads.parts({ ...at, upload: resumed })).toEqual([])
  await uploads.abort({ ...at, upload: resumed })
  const blobs = await sweep()
  expect(await inStore()).toEqual({ uploads: 0, blobs })
})

test('object of more than one part: an earlier attempt has stored a part of another size: it is stored anew', async () => {
  const bytes = randomBytes(2 * PART + 1)
  await expect(restoreBytes('resized', bytes, PART + 4 * CHUNK)).rejects.toThrow('broken off')
  const { uploads, at } = await openUpload('resized')
  const other = randomBytes(PART - CHUNK)
  await uploads.putPart(at, 1, { chunks: chunksOf(other), length: other.byteLength })
  await restoreBytes('resized', bytes)
  expect((await read('resized')).md5).toBe(md5Of(bytes))
})

test('object of more than one part: the store has dropped the upload, or has more parts than the object: sent anew by the next attempt, and nothing else is left', async () => {
  const bytes = randomBytes(PART + CHUNK + 1)
  const longer = Buffer.concat([bytes, randomBytes(3 * PART)])
  const Bucket = await bucketOf(workspace)
  const s3 = rootClient()
  await expect(restoreBytes('dropped', bytes, PART + CHUNK)).rejects.toThrow('broken off')
  const { Uploads = [] } = await s3.send(new ListMultipartUploadsCommand({ Bucket }))
  for (const { Key, UploadId } of Uploads)
    await s3.send(new AbortMultipartUploadCommand({ Bucket, Key, UploadId }))
  s3.destroy()
  await expect(restoreBytes('shorter', longer, 3 * PART + CHUNK)).rejects.toThrow('broken off')
  for (const key of ['dropped', 'shorter']) {
    await expect(restoreBytes(key, bytes)).rejects.toMatchObject({ code: 'overloaded' })
    await restoreBytes(key, bytes)
    expect((await read(key)).md5).toBe(md5Of(bytes))
  }
  const blobs = await sweep()
  expect(await inStore()).toEqual({ uploads: 0, blobs })
})

test('object of more than one part: another attempt has made its blob, and no object yet: the same blob becomes the object', async () => {
  const bytes = randomBytes(2 * PART)
  const key = 'made'
  const sent = { size: bytes.byteLength, etag: md5Of(bytes) }
  await expect(restoreBytes(key, bytes, PART + CHUNK)).rejects.toThrow('broken off')
  const { uploads, at } = await openUpload(key)
  const rest = bytes.subarray(PART)
  const other = async () => {
    await uploads.putPart(at, 2, { chunks: chunksOf(rest), length: PART })
    await uploads.assemble(at, bytes.byteLength)
    // The store answers that it does not know the upload to which this attempt sends its part.
    throw new Problem('NoSuchKey')
  }
  const chunks = withOther(bytes, PART / CHUNK + 2, other)
  await expect(restore(key, { ...sent, chunks })).rejects.toMatchObject({ code: 'overloaded' })
  await restoreBytes(key, bytes)
  const rows = await asSuperuser('select from tenon.objects where workspace_id = $1 and blob = $2', [
    workspace.workspaceId,
    at.upload,
  ])
  expect([rows.length, (await read(key)).md5]).toEqual([1, md5Of(bytes)])
  const blobs = await sweep()
  expect(await inStore()).toEqual({ uploads: 0, blobs })
})

test('object of more than one part: its workspace is deleted after the first one: no further part is stored, and the archive is not at fault', async () => {
  const bytes = randomBytes(2 * PART)
  const sent = { size: bytes.byteLength, etag: md5Of(bytes), chunks: chunksOf(bytes) }
  let asked = 0
  const requireBeingMade = async () => {
    asked += 1
    if (asked > 2) throw new Problem('state_conflict')
  }
  const place = { workspace: undefined, path: 'objects/000001/000001', folder: 'objects' }
  const member = { ...place, name: place.path, size: sent.size, content: sent.chunks }
  const stored = inMember({ requireBeingMade }, member, () => restore('undone', sent, requireBeingMade))
  await expect(stored).rejects.toMatchObject({ code: 'state_conflict' })
  expect(await openParts()).toEqual([{ bytes: 0, parts: [1] }])
  const { uploads, at } = await openUpload('undone')
  await uploads.abort(at)
})

test('object of more than one part whose bytes do not have its entity tag: refused, and there is no object', async () => {
  const bytes = randomBytes(PART + 1)
  const sent = { size: bytes.byteLength, etag: md5Of(randomBytes(9)), chunks: chunksOf(bytes) }
  await expect(restore('altered', sent)).rejects.toMatchObject({ code: 'digest_mismatch' })
  expect((await read('altered')).headers.get('content-type')).toMatch(/problem/)
})

test('object of eight parts, sent in parts before: stored with its tag, in the memory of less than two', async () => {
  const chunk = randomBytes(CHUNK)
  const size = 8 * PART
  const memory: number[] = []
  const chunks = (async function* () {
    for (let at = 0; at < size; at += CHUNK) {
      memory.push(process.memoryUsage().arrayBuffers)
      yield chunk
    }
  })()
  const etag = `${'0'.repeat(32)}-512`
  await restore('film', { size, etag, chunks })
  const [first = 0] = memory
  expect(Math.max(...memory) - first).toBeLessThan(2 * PART)
  const { headers } = await read('film')
  expect([headers.get('etag'), headers.get('content-length')]).toEqual([`"${etag}"`, String(size)])
})
