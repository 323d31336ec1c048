/** Uploads by tus: bytes are where their offset says, whatever breaks off, lies or comes twice, and nothing else is left. */

import { createHash, randomBytes } from 'node:crypto'
import { request } from 'node:http'
import {
  CreateMultipartUploadCommand,
  ListMultipartUploadsCommand,
  ListObjectsV2Command,
} from '@aws-sdk/client-s3'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import type { Platform } from '../../../src/app/platform.ts'
import { OBJECT_LIMITS } from '../../../src/features/objects/limits.ts'
import { sweepBlobs } from '../../../src/features/objects/sweep-blobs.ts'
import { entriesOfWorkspace } from '../../support/clients/audit.ts'
import { rootClient } from '../../support/clients/object-store.ts'
import { openBucket } from '../../support/clients/s3.ts'
import { limit, quota } from '../../support/fixtures/quotas.ts'
import {
  asSuperuser,
  type Caller,
  call,
  createTestWorkspaceWithStorage,
  eventually,
  type TestWorkspace,
  unique,
  userToken,
} from '../../support/fixtures/tenants.ts'
import { randomOf } from '../../support/random.ts'
import { startInProcessNode } from '../../support/stack/in-process-node.ts'
import { openInProcessPlatform, scopeOf } from '../../support/stack/in-process-platform.ts'
import { bucketOf, configure } from '../../support/stack/workspace-settings.ts'

const MIB = 1_048_576
const TYPE = 'application/offset+octet-stream'
let platform: Platform
let workspace: TestWorkspace
let bucket: string
beforeAll(async () => {
  platform = openInProcessPlatform()
  workspace = await createTestWorkspaceWithStorage()
  bucket = await bucketOf(workspace)
})
afterAll(() => platform.close())

const send = (method: string, path: string, headers: Record<string, string>, body?: Uint8Array) =>
  fetch(`${inject('tenon').url}${path}`, {
    method,
    headers: { 'tus-resumable': '1.0.0', ...headers },
    ...(body !== undefined && { body: body as Uint8Array<ArrayBuffer> }),
  })
const as = () => workspace.service
const metadata = (pairs: Record<string, string>) =>
  Object.entries(pairs)
    .map(([name, value]) => `${name} ${Buffer.from(value).toString('base64')}`)
    .join(',')

async function begin(length: number | undefined, pairs: Record<string, string> = {}, headers: Caller = {}) {
  const key = pairs['key'] ?? unique('big')
  const size = length === undefined ? { 'upload-defer-length': '1' } : { 'upload-length': String(length) }
  const described = { 'upload-metadata': metadata({ bucket, key, ...pairs }) }
  const response = await send('POST', '/v1/uploads', { ...as(), ...size, ...described, ...headers })
  expect(await response.text()).toBe('')
  expect(response.status).toBe(201)
  return { key, path: response.headers.get('location') ?? '', response }
}
const patch = (path: string, offset: number, body: Uint8Array, headers: Caller = {}) =>
  send('PATCH', path, { ...as(), 'content-type': TYPE, 'upload-offset': String(offset), ...headers }, body)
const head = (path: string, caller: Caller = as()) => send('HEAD', path, caller)
const offsetOf = async (path: string) => Number((await head(path)).headers.get('upload-offset'))
const read = async (key: string) => {
  const response = await send('GET', `/v1/objects/${bucket}/${key}`, as())
  return { response, bytes: Buffer.from(await response.arrayBuffer()) }
}
const refusal = async (asked: Promise<Response>) => {
  const { status, headers } = await asked
  return [status, headers.get('x-problem-code')]
}

/** Sends a part of an announced body, and breaks the connection. */
function breakOff(path: string, offset: number, announced: number, sent: Uint8Array): Promise<void> {
  const headers = {
    ...as(),
    'tus-resumable': '1.0.0',
    'content-type': TYPE,
    'upload-offset': String(offset),
    'content-length': String(announced),
  }
  const { promise, resolve } = Promise.withResolvers<void>()
  const broken = request(`${inject('tenon').url}${path}`, { method: 'PATCH', headers })
  broken.on('error', () => resolve()).on('response', () => resolve())
  broken.write(sent, () => broken.destroy())
  return promise
}

test('upload in chunks of odd sizes, some of them broken off: the object has the bytes, its description, one event and an exact quota', async () => {
  const random = randomOf(7)
  const before = (await quota(workspace, 'object_bytes')).used ?? 0
  const bytes = randomBytes(31 * MIB + 17)
  const { key, path } = await begin(bytes.length, {
    filetype: 'video/mp4',
    'x-meta-by': 'mia',
    filename: 'a',
  })
  for (let offset = 0; offset < bytes.length; ) {
    const size = random(9 * MIB) + 1
    const end = Math.min(bytes.length, offset + size)
    if (random(10) < 3) {
      await breakOff(path, offset, bytes.length - offset, bytes.subarray(offset, end))
      // What was sent before the connection broke is kept.
      offset = await eventually(async () => {
        const now = await offsetOf(path)
        return now > offset ? now : undefined
      })
      expect(offset).toBeLessThanOrEqual(end)
      continue
    }
    const response = await patch(path, offset, bytes.subarray(offset, end))
    // A request that broke off may have been stored a moment later.
    if (response.status !== 409) expect([response.status, await response.text()]).toEqual([204, ''])
    offset = await offsetOf(path)
  }
  const { response, bytes: stored } = await read(key)
  expect(stored.equals(bytes)).toBe(true)
  expect([response.headers.get('content-type'), response.headers.get('x-meta-by')]).toEqual([
    'video/mp4',
    'mia',
  ])
  const done = await head(path)
  expect([done.headers.get('upload-offset'), done.headers.get('upload-length')]).toEqual([
    String(bytes.length),
    String(bytes.length),
  ])
  expect((await quota(workspace, 'object_bytes')).used).toBe(before + bytes.length)
})

test('0 bytes, 1 byte, all in the first request, and a length that comes later: objects', async () => {
  const none = await begin(0)
  expect((await read(none.key)).bytes.length).toBe(0)
  const one = await begin(1)
  expect((await patch(one.path, 0, Buffer.from('x'))).headers.get('upload-offset')).toBe('1')
  expect(String((await read(one.key)).bytes)).toBe('x')
  const key = unique('first')
  const headers = { ...as(), 'upload-length': '5', 'content-type': TYPE }
  const described = { 'upload-metadata': metadata({ bucket, key }) }
  const first = await send('POST', '/v1/uploads', { ...headers, ...described }, Buffer.from('hello'))
  expect([first.status, first.headers.get('upload-offset')]).toEqual([201, '5'])
  expect((await read(key)).response.headers.get('etag')).toBe(
    `"${createHash('md5').update('hello').digest('hex')}"`,
  )
  const later = await begin(undefined)
  await patch(later.path, 0, Buffer.from('hel'))
  expect((await head(later.path)).headers.get('upload-defer-length')).toBe('1')
  expect(await refusal(patch(later.path, 3, Buffer.from(''), { 'upload-length': '2' }))).toEqual([
    409,
    'state_conflict',
  ])
  expect((await patch(later.path, 3, Buffer.from('lo'), { 'upload-length': '5' })).status).toBe(204)
  expect(String((await read(later.key)).bytes)).toBe('hello')
})

test('requests that lie: refused by their kind, and the upload goes on', async () => {
  const { key, path } = await begin(10)
  await patch(path, 0, Buffer.from('01234'))
  const sum = (text: string) => `sha1 ${createHash('sha1').update(text).digest('base64')}`
  const five = Buffer.from('56789')
  const cases = [
    ['an offset before', patch(path, 0, five), 409, 'upload_offset_differs'],
    ['an offset behind', patch(path, 6, five), 409, 'upload_offset_differs'],
    ['no offset', patch(path, 5, five, { 'upload-offset': '' }), 400, 'validation_failed'],
    ['an offset that is none', patch(path, 5, five, { 'upload-offset': '-5' }), 400, 'validation_failed'],
    ['more than the length', patch(path, 5, Buffer.from('56789x')), 413, 'EntityTooLarge'],
    ['another length', patch(path, 5, five, { 'upload-length': '11' }), 409, 'state_conflict'],
    ['another type', patch(path, 5, five, { 'content-type': 'text/plain' }), 415, 'media_type_unsupported'],
    ['another version', patch(path, 5, five, { 'tus-resumable': '0.2.2' }), 412, 'tus_version_unsupported'],
    ['another digest', patch(path, 5, five, { 'upload-checksum': sum('x') }), 460, 'upload_checksum_differs'],
    ['a digest of no kind', patch(path, 5, five, { 'upload-checksum': 'crc7 AA==' }), 400, 'header_invalid'],
  ] as const
  for (const [what, asked, ...expected] of cases) expect(await refusal(asked), what).toEqual(expected)
  expect(await offsetOf(path)).toBe(5)
  expect((await patch(path, 5, five, { 'upload-checksum': sum('56789') })).status).toBe(204)
  expect(String((await read(key)).bytes)).toBe('0123456789')
  expect(await refusal(patch(path, 5, five))).toEqual([409, 'upload_offset_differs'])
})

test('a beginning that is not valid: refused by its kind', async () => {
  const create = (headers: Record<string, string>, body?: Uint8Array) =>
    refusal(send('POST', '/v1/uploads', { ...as(), ...headers }, body))
  const described = { 'upload-metadata': metadata({ bucket, key: 'x' }) }
  const length = { 'upload-length': '5' }
  const cases = [
    [{ ...described }, 400, 'header_invalid'],
    [{ ...described, ...length, 'upload-defer-length': '1' }, 400, 'header_invalid'],
    [{ ...described, 'upload-length': '1e3' }, 400, 'validation_failed'],
    [{ ...described, 'upload-length': '60000000000' }, 413, 'EntityTooLarge'],
    [{ ...length }, 400, 'header_invalid'],
    [{ ...length, 'upload-metadata': 'bucket eA==,key *' }, 400, 'header_invalid'],
    [{ ...length, 'upload-metadata': metadata({ bucket, key: '../x' }) }, 400, 'InvalidKey'],
    [
      { ...length, 'upload-metadata': metadata({ bucket, key: 'x', 'content-type': 'a\r\nb: c' }) },
      400,
      'header_invalid',
    ],
    [{ ...length, 'upload-metadata': metadata({ bucket: 'Foreign', key: 'x' }) }, 400, 'InvalidBucketName'],
    [{ ...length, ...described, 'if-match': '*' }, 412, 'PreconditionFailed'],
  ] as const
  for (const [headers, ...expected] of cases)
    expect(await create(headers), JSON.stringify(headers)).toEqual(expected)
  expect(await create({ ...described, ...length, 'content-type': 'text/plain' }, Buffer.from('x'))).toEqual([
    415,
    'media_type_unsupported',
  ])
})

test('two senders of the same bytes at once: each byte once, the loser hears where the upload is', async () => {
  for (let round = 0; round < 4; round++) {
    const bytes = randomBytes(7 * MIB)
    const { key, path } = await begin(bytes.length)
    const at = round % 2 === 0 ? bytes.length : 3 * MIB
    const answers = await Promise.all([0, 1, 2].map(() => patch(path, 0, bytes.subarray(0, at))))
    const statuses = answers.map(({ status }) => status).sort()
    expect(statuses).toEqual([204, 409, 409])
    const offset = await offsetOf(path)
    expect(offset).toBe(at)
    if (offset < bytes.length) expect((await patch(path, offset, bytes.subarray(offset))).status).toBe(204)
    expect((await read(key)).bytes.equals(bytes)).toBe(true)
  }
})

test('end of an upload whose key was taken meanwhile: 412, and the other object stays', async () => {
  const key = unique('taken')
  const { path } = await begin(3, { key }, { 'if-none-match': '*' })
  await call('PUT', `/v1/objects/${bucket}/${key}`, { as: as(), body: 'theirs' })
  expect(await refusal(patch(path, 0, Buffer.from('our')))).toEqual([412, 'PreconditionFailed'])
  expect(await refusal(head(path))).toEqual([412, 'PreconditionFailed'])
  expect(String((await read(key)).bytes)).toContain('theirs')
})

test('uploads of others: a user has those below the own prefixes that it began; everybody else hears 404', async () => {
  await configure(workspace, { objects: { user: { write: ['u/{user.id}/'] } } })
  const stranger = await createTestWorkspaceWithStorage()
  const [mia, ben] = await Promise.all([userToken(workspace, 'mia'), userToken(workspace, 'ben')])
  const own = { ...mia, 'upload-length': '3' }
  const described = (key: string) => ({ 'upload-metadata': metadata({ bucket, key }) })
  expect(await refusal(send('POST', '/v1/uploads', { ...own, ...described('u/ben/a') }))).toEqual([
    403,
    'forbidden',
  ])
  const path =
    (await send('POST', '/v1/uploads', { ...own, ...described('u/mia/a') })).headers.get('location') ?? ''
  for (const other of [stranger.service, ben])
    for (const asked of [
      head(path, other),
      send('DELETE', path, other),
      send('PATCH', path, { ...other, 'content-type': TYPE, 'upload-offset': '0' }, Buffer.from('abc')),
    ])
      expect((await asked).status).toBe(404)
  const theirs = (await begin(3)).path
  expect((await head(theirs, mia)).status).toBe(404)
  const sent = { ...mia, 'content-type': TYPE, 'upload-offset': '0' }
  expect((await send('PATCH', path, sent, Buffer.from('abc'))).status).toBe(204)
  const { body } = await call('GET', `/v1/buckets/${bucket}/object?key=u/mia/a`, { as: as() })
  expect(body.owner).toBe('mia')
  // A rule that is taken back ends what was begun under it.
  const open =
    (await send('POST', '/v1/uploads', { ...own, ...described('u/mia/b') })).headers.get('location') ?? ''
  await configure(workspace, { objects: { user: { write: [] } } })
  expect(await refusal(send('PATCH', open, sent, Buffer.from('abc')))).toEqual([403, 'forbidden'])
})

test('quota: an upload that has no room is refused at its beginning; one that loses it keeps what was acknowledged', async () => {
  const used = (await quota(workspace, 'object_bytes')).used ?? 0
  await limit(workspace, { object_bytes: used + 100 })
  const headers = { ...as(), 'upload-metadata': metadata({ bucket, key: 'full' }) }
  expect(await refusal(send('POST', '/v1/uploads', { ...headers, 'upload-length': '101' }))).toEqual([
    429,
    'quota_exceeded',
  ])
  const { path } = await begin(100)
  await patch(path, 0, randomBytes(40))
  expect((await quota(workspace, 'object_bytes')).used).toBe(used + 40)
  await limit(workspace, { object_bytes: used + 50 })
  expect((await refusal(patch(path, 40, randomBytes(60))))[1]).toBe('quota_exceeded')
  expect(await offsetOf(path)).toBe(40)
  expect((await send('DELETE', path, as())).status).toBe(204)
  expect((await quota(workspace, 'object_bytes')).used).toBe(used)
  await limit(workspace, { object_bytes: -1 })
})

test('uploads that were given up or have expired: 404 and 410, and after the sweep the store has blobs of objects alone', async () => {
  const [gone, old, young] = [await begin(9 * MIB), await begin(9 * MIB), await begin(9 * MIB)]
  for (const { path } of [gone, old, young]) {
    await patch(path, 0, randomBytes(7 * MIB))
    await patch(path, 7 * MIB, randomBytes(MIB))
  }
  expect((await send('DELETE', gone.path, as())).status).toBe(204)
  expect(await refusal(head(gone.path))).toEqual([404, 'not_found'])
  const id = old.path.split('/').at(-1)
  const past = `set expires_at = now() - interval '1 s' where`
  await asSuperuser(
    `update tenon.object_uploads ${past} id in
    (select unnest(array[tail, parts_upload]) from tenon.resumable_uploads where id = $1)`,
    [id],
  )
  await asSuperuser(`update tenon.resumable_uploads ${past} id = $1`, [id])
  expect(await refusal(head(old.path))).toEqual([410, 'upload_expired'])
  expect(await refusal(patch(old.path, 8 * MIB, randomBytes(10)))).toEqual([410, 'upload_expired'])
  const scope = scopeOf(platform, workspace, 'service')
  while (await sweepBlobs(scope));
  await asSuperuser(
    `update tenon.unused_blobs set unused_at = now() - interval '2 hours' where workspace_id = $1`,
    [workspace.workspaceId],
  )
  while (await sweepBlobs(scope));
  const s3 = rootClient()
  const { Uploads = [] } = await s3.send(new ListMultipartUploadsCommand({ Bucket: bucket }))
  const { Contents = [] } = await s3.send(new ListObjectsV2Command({ Bucket: bucket }))
  s3.destroy()
  const [open] = await asSuperuser<{ parts_upload: string; tail: string }>(
    'select parts_upload, tail from tenon.resumable_uploads where id = $1',
    [young.path.split('/').at(-1)],
  )
  expect(Uploads.map(({ Key }) => Key)).toEqual([open?.parts_upload])
  const known = await asSuperuser<{ blob: string }>(
    `select blob from tenon.objects where workspace_id = $1
      union select tail from tenon.resumable_uploads where workspace_id = $1 and tail is not null and expires_at > now()`,
    [workspace.workspaceId],
  )
  expect(Contents.map(({ Key }) => Key).sort()).toEqual(known.map(({ blob }) => blob).sort())
  expect((await patch(young.path, 8 * MIB, randomBytes(MIB))).status).toBe(204)
})

test('TENON_OBJECT_BYTES_MAX: another value: the largest upload', async () => {
  const max = 6_000_000_000
  const node = await startInProcessNode({ TENON_OBJECT_BYTES_MAX: String(max) })
  try {
    const headers = { ...as(), 'upload-metadata': metadata({ bucket, key: unique('max') }) }
    const ask = (length: number) =>
      fetch(`${node.at.url}/v1/uploads`, {
        method: 'POST',
        headers: { ...headers, 'upload-length': String(length) },
      })
    expect([(await ask(max)).status, (await ask(max + 1)).status]).toEqual([201, 413])
    const options = await fetch(`${node.at.url}/v1/uploads`, { method: 'OPTIONS' })
    expect(options.headers.get('tus-max-size')).toBe(String(max))
  } finally {
    await node.close()
  }
})

test('asking how far an upload is: writes no entry of the audit log, however often; its beginning, bytes and end do', async () => {
  const ws = await createTestWorkspaceWithStorage()
  const of = { 'upload-metadata': metadata({ bucket: await bucketOf(ws), key: 'a' }), 'upload-length': '6' }
  const begun = await send('POST', '/v1/uploads', { ...ws.service, ...of })
  const path = begun.headers.get('location') ?? ''
  for (const offset of [0, 3]) {
    for (let n = 0; n < 5; n++) expect((await head(path, ws.service)).status).toBe(200)
    expect((await patch(path, offset, Buffer.from('abc'), ws.service)).status).toBe(204)
  }
  expect((await head(path, ws.service)).status).toBe(200)
  expect((await head(`${path}0`, ws.service)).status).toBe(404)
  const uploads = async () => {
    const entries = await entriesOfWorkspace(ws)
    return entries.map(({ operation }) => operation).filter((operation) => operation.startsWith('upload.'))
  }
  await eventually(async () => ((await uploads()).length >= 3 ? true : undefined))
  expect((await uploads()).sort()).toEqual(['upload.append', 'upload.append', 'upload.create'])
})

test('open uploads: as many as the limit says, of all kinds and of one user; the next one hears what to do', async () => {
  const ws = await createTestWorkspaceWithStorage()
  const { s3, bucket: Bucket } = await openBucket(ws)
  const { openUploadsMax, openUploadsOfUserMax } = OBJECT_LIMITS
  const ref = [ws.tenantId, ws.workspaceId]
  const opened = (count: number, of: string) =>
    asSuperuser(
      `insert into tenon.resumable_uploads (tenant_id, workspace_id, id, key, expires_at, ended_at, owner)
       select $1, $2, gen_random_uuid(), 'a', ${of} from generate_series(1, ${count})`,
      ref,
    )
  await opened(openUploadsMax, `now() - interval '1 s', null, null`)
  await opened(openUploadsMax, `now() + interval '1 d', now(), null`)
  await configure(ws, { objects: { user: { write: ['u/'] } } })
  const [mia, ben] = await Promise.all([userToken(ws, 'mia'), userToken(ws, 'ben')])
  const open = async (caller: Caller) => {
    const described = { 'upload-length': '3', 'upload-metadata': metadata({ bucket: Bucket, key: 'u/a' }) }
    const response = await send('POST', '/v1/uploads', { ...caller, ...described })
    return { status: response.status, text: await response.text(), response }
  }
  await opened(openUploadsOfUserMax - 1, `now() + interval '1 d', null, 'mia'`)
  expect((await open(mia)).status).toBe(201)
  const refused = await open(mia)
  expect([refused.status, JSON.parse(refused.text).code]).toEqual([429, 'too_many_uploads'])
  expect(JSON.parse(refused.text)).toMatchObject({
    detail: `You have ${openUploadsOfUserMax} open uploads, which is the most there may be.`,
    hint: expect.stringContaining('Complete or delete'),
  })
  expect((await open(ben)).status).toBe(201)
  await asSuperuser(
    `insert into tenon.object_uploads (tenant_id, workspace_id, id, key, store_id, expires_at)
     select $1, $2, gen_random_uuid(), 'a', 'x', now() + interval '1 d'
     from generate_series(1, ${openUploadsMax - openUploadsOfUserMax - 2})`,
    ref,
  )
  const all = await Promise.all(Array.from({ length: 5 }, () => open(ws.service)))
  expect(all.map(({ status }) => status).sort()).toEqual([201, 429, 429, 429, 429])
  const begin = () => s3.send(new CreateMultipartUploadCommand({ Bucket, Key: 'parts' }))
  await expect(begin()).rejects.toMatchObject({ name: 'InvalidRequest', message: /open uploads/ })
  const [path = ''] = all.flatMap(({ response }) => response.headers.get('location') ?? [])
  expect((await send('DELETE', path, ws.service)).status).toBe(204)
  await begin()
  expect((await open(ws.service)).status).toBe(429)
  // What needs no later request is not bounded.
  const put = await call('PUT', `/v1/objects/${Bucket}/u/a`, { as: ws.service, body: 'x' })
  expect(put.status).toBe(201)
  s3.destroy()
})

test('OPTIONS and pages of other origins: what is supported, and the headers that a page reads', async () => {
  const options = await send('OPTIONS', '/v1/uploads', {})
  expect(options.status).toBe(204)
  expect(Object.fromEntries(options.headers)).toMatchObject({
    'tus-version': '1.0.0',
    'tus-resumable': '1.0.0',
    'tus-max-size': '53687091200',
    'tus-extension': expect.stringContaining('creation-with-upload'),
  })
  const preflight = await send('OPTIONS', '/v1/uploads/x', {
    origin: 'https://app.example.com',
    'access-control-request-method': 'PATCH',
  })
  expect(preflight.headers.get('access-control-allow-methods')).toContain('PATCH')
  for (const name of ['tus-resumable', 'upload-offset', 'upload-checksum', 'content-type'])
    expect(preflight.headers.get('access-control-allow-headers')).toContain(name)
  const unknown = await send('HEAD', '/v1/uploads/x', { origin: 'https://app.example.com' })
  for (const name of ['location', 'upload-offset', 'tus-resumable'])
    expect(unknown.headers.get('access-control-expose-headers')).toContain(name)
  const { status, headers } = await send('HEAD', '/v1/uploads/x', as())
  expect([status, headers.get('tus-resumable')]).toEqual([404, '1.0.0'])
})
