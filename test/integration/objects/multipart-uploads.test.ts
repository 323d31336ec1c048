/** Uploads in parts: any order of parts, one winner at the end, exact quotas, and nothing left of those that are given up. */

import { createHash, randomBytes } from 'node:crypto'
import { ListMultipartUploadsCommand, ListObjectsV2Command, ListPartsCommand } from '@aws-sdk/client-s3'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Platform } from '../../../src/app/platform.ts'
import { MultipartUploads } from '../../../src/features/objects/multipart-uploads.ts'
import { sweepBlobs } from '../../../src/features/objects/sweep-blobs.ts'
import { objectsOf } from '../../../src/features/objects/workspace-objects.ts'
import { rootClient } from '../../support/clients/object-store.ts'
import { limit, quota } from '../../support/fixtures/quotas.ts'
import {
  asSuperuser,
  createTestWorkspaceWithStorage,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { openInProcessPlatform, scopeOf } from '../../support/stack/in-process-platform.ts'
import { bucketOf } from '../../support/stack/workspace-settings.ts'

const MIB = 1_048_576
let platform: Platform
let workspace: TestWorkspace
let bucket: string
let uploads: MultipartUploads
beforeAll(async () => {
  platform = openInProcessPlatform()
  workspace = await createTestWorkspaceWithStorage()
  bucket = await bucketOf(workspace)
  const scope = scopeOf(platform, workspace, 'service')
  uploads = new MultipartUploads(scope, objectsOf(scope))
})
afterAll(() => platform.close())

const sourceOf = (bytes: Buffer, length = bytes.length) => ({
  length,
  chunks: (async function* () {
    for (let at = 0; at < bytes.length; at += 65_536) yield bytes.subarray(at, at + 65_536)
  })(),
})
const bare = (etag: string) => etag.replaceAll('"', '')

async function begin(key = unique('big')) {
  const description = {
    headers: { 'content-type': 'video/mp4' },
    metadata: { by: 'mia' },
    tags: { kind: 'raw' },
  }
  const upload = await uploads.begin({ bucket, key }, description)
  return { bucket, key, upload }
}
const putPart = async (name: Awaited<ReturnType<typeof begin>>, number: number, bytes: Buffer) => ({
  number,
  etag: bare(await uploads.putPart(name, number, sourceOf(bytes))),
})

async function contentOf(key: string): Promise<Buffer> {
  const { chunks } = await objectsOf(scopeOf(platform, workspace, 'service')).get({ bucket, key }, {})
  const pieces: Uint8Array[] = []
  for await (const chunk of chunks ?? []) pieces.push(chunk)
  return Buffer.concat(pieces)
}

const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => 'none',
    (error: { code?: string }) => error.code,
  )

test('parts in any order, one of them replaced: one object with the bytes in order, the ETag of S3, and what was kept', async () => {
  const name = await begin()
  const pieces = [randomBytes(5 * MIB), randomBytes(5 * MIB), randomBytes(1_000)] as const
  const third = await putPart(name, 3, pieces[2])
  await putPart(name, 1, randomBytes(5 * MIB + 7))
  const [first, second] = await Promise.all([putPart(name, 1, pieces[0]), putPart(name, 2, pieces[1])])
  expect((await uploads.parts(name)).map(({ number, size }) => [number, size])).toEqual([
    [1, 5 * MIB],
    [2, 5 * MIB],
    [3, 1_000],
  ])
  const listed = await uploads.list(bucket, { prefix: name.key, size: 10 })
  expect(listed.map(({ upload }) => upload)).toEqual([name.upload])
  const stored = await uploads.complete(name, [first, second, third])
  const digests = pieces.map((piece) => createHash('md5').update(piece).digest())
  const etag = `"${createHash('md5').update(Buffer.concat(digests)).digest('hex')}-3"`
  expect(stored).toMatchObject({ etag, size: 10 * MIB + 1_000, created: true })
  expect((await contentOf(name.key)).equals(Buffer.concat(pieces))).toBe(true)
  const { headers, metadata, tags } = await objectsOf(scopeOf(platform, workspace, 'service')).describe(name)
  expect([headers['content-type'], metadata, tags]).toEqual(['video/mp4', { by: 'mia' }, { kind: 'raw' }])
  expect(await codeOf(uploads.parts(name))).toBe('NoSuchUpload')
})

test('end of an upload: parts that are missing, differ, are out of order or too small, and conditions: refused, and the upload goes on', async () => {
  const name = await begin()
  const [a, b] = [await putPart(name, 1, randomBytes(10)), await putPart(name, 2, randomBytes(10))]
  const cases = [
    [[], 'InvalidPart'],
    [[{ ...a, number: 3 }], 'InvalidPart'],
    [[{ ...a, etag: b.etag }], 'InvalidPart'],
    [[b, a], 'InvalidPartOrder'],
    [[a, a], 'InvalidPartOrder'],
    [[a, b], 'EntityTooSmall'],
  ] as const
  for (const [parts, code] of cases) expect(await codeOf(uploads.complete(name, parts)), code).toBe(code)
  expect(await codeOf(uploads.complete(name, [a], { if_match: '*' }))).toBe('PreconditionFailed')
  expect((await uploads.complete(name, [b])).size).toBe(10)
})

test('parts that are more than TENON_OBJECT_BYTES_MAX together: refused at the end', async () => {
  const name = await begin()
  const part = await putPart(name, 1, randomBytes(10))
  // As if it were one of many.
  const resize = 'update tenon.object_upload_parts set size = $2 where upload = $1'
  await asSuperuser(resize, [name.upload, platform.config.TENON_OBJECT_BYTES_MAX + 1])
  expect(await codeOf(uploads.complete(name, [part]))).toBe('EntityTooLarge')
  await asSuperuser(resize, [name.upload, 10])
  expect((await uploads.complete(name, [part])).size).toBe(10)
})

test('two ends and an abort at once: one object or none, and never one whose bytes are gone', async () => {
  for (let round = 0; round < 6; round++) {
    const name = await begin()
    const part = await putPart(name, 1, Buffer.from(`round ${round}`))
    const [one, two, aborted] = await Promise.all([
      codeOf(uploads.complete(name, [part])),
      codeOf(uploads.complete(name, [part])),
      codeOf(round % 2 === 0 ? uploads.abort(name) : Promise.resolve()),
    ])
    const ended = [one, two].filter((code) => code === 'none').length
    expect(
      ended + (round % 2 === 0 && aborted === 'none' ? 1 : 0),
      `${one} ${two} ${aborted}`,
    ).toBeGreaterThan(0)
    if (ended > 0) expect(String(await contentOf(name.key))).toBe(`round ${round}`)
  }
})

test('part that breaks off, or exceeds the quota: not kept, and its bytes are free; the quota counts parts', async () => {
  await limit(workspace, { object_bytes: 200_000_000 })
  const before = (await quota(workspace, 'object_bytes')).used ?? 0
  const name = await begin()
  expect(await codeOf(uploads.putPart(name, 1, sourceOf(randomBytes(100), 200)))).toBe('body_incomplete')
  expect((await quota(workspace, 'object_bytes')).used).toBe(before)
  await putPart(name, 1, randomBytes(1_000))
  expect((await quota(workspace, 'object_bytes')).used).toBe(before + 1_000)
  await putPart(name, 1, randomBytes(400))
  expect((await quota(workspace, 'object_bytes')).used).toBe(before + 400)
  await limit(workspace, { object_bytes: before + 500 })
  expect(await codeOf(uploads.putPart(name, 2, sourceOf(randomBytes(200))))).toBe('quota_exceeded')
  await uploads.abort(name)
  expect((await quota(workspace, 'object_bytes')).used).toBe(before)
  await limit(workspace, { object_bytes: -1 })
})

test('part that is copied: counts before the store has it; an end that is repeated: has the same object', async () => {
  const name = await begin()
  const part = await putPart(name, 1, randomBytes(6 * MIB))
  const stored = await uploads.complete(name, [part])
  expect(await uploads.complete(name, [part])).toEqual({
    etag: stored.etag,
    size: stored.size,
    created: false,
  })
  const { blob } = await objectsOf(scopeOf(platform, workspace, 'service')).describe(name)
  const used = (await quota(workspace, 'object_bytes')).used ?? 0
  await limit(workspace, { object_bytes: used + 5 * MIB })
  const copy = await begin()
  const whole = { blob, range: { first: 0, last: 6 * MIB - 1 }, isWhole: true }
  expect(await codeOf(uploads.copyPart(copy, 1, whole))).toBe('quota_exceeded')
  const s3 = rootClient()
  const [open] =
    (await s3.send(new ListMultipartUploadsCommand({ Bucket: bucket, Prefix: copy.upload }))).Uploads ?? []
  const parts = await s3.send(
    new ListPartsCommand({ Bucket: bucket, Key: copy.upload, UploadId: open?.UploadId }),
  )
  expect(parts.Parts ?? []).toEqual([])
  s3.destroy()
  await limit(workspace, { object_bytes: -1 })
  await uploads.abort(copy)
})

test('upload in parts of an upload that resumes: no client of S3 sees or ends it', async () => {
  const scope = scopeOf(platform, workspace, 'service')
  const internal = new MultipartUploads(scope, objectsOf(scope), true)
  const key = unique('internal')
  const upload = await internal.begin({ bucket, key }, { headers: {}, metadata: {}, tags: {} })
  expect(await uploads.list(bucket, { prefix: key, size: 10 })).toEqual([])
  expect(await codeOf(uploads.abort({ bucket, key, upload }))).toBe('NoSuchUpload')
  expect(await codeOf(uploads.putPart({ bucket, key, upload }, 1, sourceOf(randomBytes(10))))).toBe(
    'NoSuchUpload',
  )
  await internal.abort({ bucket, key, upload })
})

test('uploads that nobody ended: removed with their parts when their lease is over, and no others', async () => {
  const [old, lost, young] = [await begin(), await begin(), await begin()]
  for (const name of [old, lost, young]) await putPart(name, 1, randomBytes(100))
  // Of the second the process died before it noted the name that the store has.
  await asSuperuser('update tenon.object_uploads set store_id = null where id = $1', [lost.upload])
  await asSuperuser(
    `update tenon.object_uploads set expires_at = now() - interval '1 s' where id = any($1)`,
    [[old.upload, lost.upload]],
  )
  await asSuperuser(
    `update tenon.unused_blobs set unused_at = now() - interval '2 hours' where workspace_id = $1`,
    [workspace.workspaceId],
  )
  const scope = scopeOf(platform, workspace, 'service')
  while (await sweepBlobs(scope));
  const s3 = rootClient()
  const open = await s3.send(new ListMultipartUploadsCommand({ Bucket: bucket }))
  const openKeys = (open.Uploads ?? []).map(({ Key }) => Key)
  expect(openKeys).toContain(young.upload)
  expect(openKeys).not.toContain(old.upload)
  expect(openKeys).not.toContain(lost.upload)
  const { Contents = [] } = await s3.send(new ListObjectsV2Command({ Bucket: bucket }))
  s3.destroy()
  const owned = await asSuperuser<{ blob: string }>(
    `select blob from tenon.objects where workspace_id = $1 union select blob from tenon.unused_blobs where workspace_id = $1`,
    [workspace.workspaceId],
  )
  const known = new Set(owned.map(({ blob }) => blob))
  expect(Contents.filter(({ Key = '' }) => !known.has(Key))).toEqual([])
  expect(await codeOf(uploads.putPart(old, 1, sourceOf(randomBytes(10))))).toBe('NoSuchUpload')
  await putPart(young, 2, randomBytes(10))
})
