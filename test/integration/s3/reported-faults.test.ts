/** Faults of object stores that others had and reported, on the S3 API: the same inputs have the right outcome here (docs/contributing/trackers.md). */

import { randomBytes } from 'node:crypto'
import { request } from 'node:http'
import {
  AbortMultipartUploadCommand,
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  DeleteObjectCommand,
  GetObjectCommand,
  type S3Client,
  UploadPartCommand,
} from '@aws-sdk/client-s3'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { scrape } from '../../support/clients/metrics.ts'
import { createStorageKey, openBucket, type StorageKey } from '../../support/clients/s3.ts'
import { presign, type Signed, sign, type Unsigned } from '../../support/clients/s3-signer.ts'
import { limit, quota } from '../../support/fixtures/quotas.ts'
import {
  call,
  createTestWorkspaceWithStorage,
  eventually,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'

const { host, hostname, port } = new URL(inject('tenon').url)
const MB = 300_000
let workspace: TestWorkspace
let s3: S3Client
let bucket: string
let key: StorageKey
beforeAll(async () => {
  workspace = await createTestWorkspaceWithStorage()
  ;({ s3, bucket, key } = await openBucket(workspace))
  await send(sign(of('PUT', '/digits')), '0123456789')
  await send(sign(of('PUT', '/private/x')), 'private')
})
afterAll(() => s3?.destroy())

const of = (method: string, path: string, more: Partial<Unsigned> = {}): Unsigned => ({
  ...{ method, host, path: `/s3/${bucket}${path}`, key, payload: 'UNSIGNED-PAYLOAD' },
  ...more,
})

async function send({ method, target, headers }: Signed, body?: string | Buffer) {
  const { host: _, ...sent } = headers
  const response = await fetch(`http://${host}${target}`, {
    ...{ method, headers: sent },
    ...(body !== undefined && { body: body as string }),
  })
  const text = await response.text()
  return { status: response.status, code: /<Code>(\w+)/.exec(text)?.[1], text, headers: response.headers }
}
const codeOf = async (signed: Signed, body?: string) => {
  const { status, code } = await send(signed, body)
  return [status, code]
}

test('escaped slash between bucket and key: is no way around the prefixes of a key', async () => {
  const below = await createStorageKey(workspace, { prefixes: ['open/'] })
  expect(await codeOf(sign(of('GET', '/private/x', { key: below })))).toEqual([403, 'AccessDenied'])
  const { headers } = sign(of('GET', '/private/x', { key: below, path: `/s3/${bucket}/private/x` }))
  for (const target of [
    `/s3/${bucket}%2Fprivate%2Fx`,
    `/s3/${bucket}%2fprivate/x`,
    `/s3/${bucket}/open%2F..%2Fprivate%2Fx`,
    `/s3/${bucket}/open/%2E%2E/private/x`,
    `/s3%2F${bucket}%2Fprivate%2Fx`,
  ]) {
    const { status, text } = await send({ method: 'GET', target, headers })
    expect([target, status >= 400 && status < 500, text.includes('private<')]).toEqual([target, true, false])
  }
})

test('Content-MD5 that is empty: is one that is wrong', async () => {
  for (const md5 of ['', 'x', 'AAAA'])
    expect([md5, await codeOf(sign(of('PUT', '/md5', { headers: { 'content-md5': md5 } })), 'x')]).toEqual([
      ...[md5, [400, 'InvalidDigest']],
    ])
  expect((await codeOf(sign(of('GET', '/md5'))))[1]).toBe('NoSuchKey')
})

test('response-content-disposition: takes no line break, and a name of any script', async () => {
  const read = (value: string) =>
    send(presign(of('GET', '/digits', { query: { 'response-content-disposition': value } })))
  for (const value of ['a\r\nset-cookie: x=1', 'a\nb', 'a\u0000', 'ä'])
    expect(await read(value)).toMatchObject({ status: 400, code: 'InvalidArgument' })
  const name = "attachment; filename*=UTF-8''%E2%82%AC.pdf"
  const { status, headers } = await read(name)
  expect([status, headers.get('content-disposition'), headers.get('set-cookie')]).toEqual([200, name, null])
})

test('x-amz-decoded-content-length that lies: the quota counts what came, and the object has it, or there is none', async () => {
  const ws = await createTestWorkspaceWithStorage()
  const other = await openBucket(ws)
  await limit(ws, { object_bytes: 2 * MB })
  const bytes = randomBytes(MB)
  const put = (headers: Record<string, string>, payload: string, body: Buffer) => {
    const path = `/s3/${other.bucket}/sized`
    return send(sign(of('PUT', '', { path, key: other.key, headers, payload })), body)
  }
  const used = async () => (await quota(ws, 'object_bytes')).used
  const lie = { 'x-amz-decoded-content-length': '1' }
  expect((await put(lie, 'UNSIGNED-PAYLOAD', bytes)).status).toBe(200)
  expect(await used()).toBe(MB)
  const got = await other.s3.send(new GetObjectCommand({ Bucket: other.bucket, Key: 'sized' }))
  expect(Buffer.from((await got.Body?.transformToByteArray()) ?? []).equals(bytes)).toBe(true)
  const chunk = Buffer.concat([Buffer.from(`${MB.toString(16)}\r\n`), bytes, Buffer.from('\r\n0\r\n\r\n')])
  const trailing = 'STREAMING-UNSIGNED-PAYLOAD-TRAILER'
  for (const length of ['1', '0', String(MB - 1), String(MB + 1), '-1', '3e5', '', String(2 ** 60)]) {
    const { status } = await put({ 'x-amz-decoded-content-length': length }, trailing, chunk)
    expect([length, status >= 400 && status < 500]).toEqual([length, true])
    expect(await used()).toBe(MB)
  }
  expect((await put({ 'x-amz-decoded-content-length': String(MB) }, trailing, chunk)).status).toBe(200)
  other.s3.destroy()
})

test.each([
  [{ range: 'bytes=0-18446744073709551615' }, 206, '0123456789'],
  [{ range: 'bytes=9223372036854775807-' }, 416, undefined],
  [{ range: 'bytes=-0' }, 416, undefined],
  [{ range: 'bytes=-18446744073709551615' }, 206, '0123456789'],
  [{ 'if-match': '*' }, 200, '0123456789'],
  [{ 'if-match': '"other"' }, 412, undefined],
  [{ 'if-none-match': '*' }, 304, ''],
])('GetObject with %j: %i, as the standards say', async (headers, status, expected) => {
  const answer = await send(sign(of('GET', '/digits', { headers: headers as Record<string, string> })))
  expect([answer.status, expected === undefined ? undefined : answer.text]).toEqual([status, expected])
  if ('if-match' in headers) {
    const missing = await send(sign(of('GET', '/missing', { headers: headers as Record<string, string> })))
    expect(missing.status).toBe(404)
  }
})

const SIZES = ['-1', '1.5', '1e3', '10abc', '', '99999999999', '٣', '0x1']
test.each([
  ['GET', '', { 'list-type': '2' }, 'max-keys', SIZES],
  ['GET', '', {}, 'max-keys', SIZES],
  ['GET', '', { uploads: '' }, 'max-uploads', [...SIZES, '0']],
  ['GET', '/digits', { uploadId: 'id' }, 'max-parts', [...SIZES, '0']],
  ['GET', '/digits', { uploadId: 'id' }, 'part-number-marker', SIZES],
  ['PUT', '/digits', { uploadId: 'id' }, 'partNumber', [...SIZES, '0', '10001']],
] as const)(
  '%s %s with %j: numbers of %s that are none are refused',
  async (method, path, query, name, values) => {
    const begun = await s3.send(new CreateMultipartUploadCommand({ Bucket: bucket, Key: 'digits' }))
    const known = Object.hasOwn(query, 'uploadId') ? { uploadId: begun.UploadId ?? '' } : {}
    for (const value of values) {
      const signed = sign(of(method, path, { query: { ...query, ...known, [name]: value } }))
      expect([value, await codeOf(signed, method === 'PUT' ? 'x' : undefined)]).toEqual([
        ...[value, [400, 'InvalidArgument']],
      ])
    }
  },
)

test('objects of 0 bytes, and ends that come twice: are the same however often they are asked for', async () => {
  const Key = 'empty'
  const begin = async () => ({
    ...{ Bucket: bucket, Key },
    UploadId: (await s3.send(new CreateMultipartUploadCommand({ Bucket: bucket, Key }))).UploadId,
  })
  const upload = await begin()
  const { ETag } = await s3.send(new UploadPartCommand({ ...upload, PartNumber: 1, Body: '' }))
  const end = () =>
    s3.send(
      new CompleteMultipartUploadCommand({
        ...upload,
        MultipartUpload: { Parts: [{ PartNumber: 1, ETag }] },
      }),
    )
  const [first, second] = [await end(), await end()]
  expect(second.ETag).toBe(first.ETag)
  const got = await s3.send(new GetObjectCommand({ Bucket: bucket, Key }))
  expect([await got.Body?.transformToString(), got.ContentLength, got.ETag]).toEqual(['', 0, first.ETag])
  const abort = (of: Awaited<ReturnType<typeof begin>>) => s3.send(new AbortMultipartUploadCommand(of))
  const gone = { name: 'NoSuchUpload', $metadata: { httpStatusCode: 404 } }
  await expect(abort(upload)).rejects.toMatchObject(gone)
  const other = await begin()
  await abort(other)
  await expect(abort(other)).rejects.toMatchObject(gone)
  expect((await s3.send(new GetObjectCommand({ Bucket: bucket, Key }))).ContentLength).toBe(0)
  for (let n = 0; n < 2; n++) {
    const { $metadata } = await s3.send(new DeleteObjectCommand({ Bucket: bucket, Key }))
    expect($metadata.httpStatusCode).toBe(204)
  }
})

test('presigned URL: is read beside another Authorization; cut by a character: refused, and no failure', async () => {
  const { target, headers } = presign(of('GET', '/digits'))
  const ask = (url: string) =>
    send({ method: 'GET', target: url, headers: { ...headers, authorization: 'Bearer x' } })
  expect(await ask(target)).toMatchObject({ status: 200, text: '0123456789' })
  for (const cut of [1, 2, 63, 64]) {
    const { status } = await ask(target.slice(0, -cut))
    expect([cut, status]).toEqual([cut, cut === 64 ? 400 : 403])
  }
})

test('form upload: the S3 API has none', async () => {
  const form = { 'content-type': 'multipart/form-data; boundary=x' }
  expect(await codeOf(sign(of('POST', '', { headers: form })), '--x--')).toEqual([501, 'NotImplemented'])
})

/** Replies of 5xx to requests for objects. */
async function failures(): Promise<number> {
  const series = await scrape('api')
  return series
    .filter(({ name, labels }) => name === 'tenon_http_requests_total' && labels['status'] === '5xx')
    .filter(({ labels }) => labels['operation']?.startsWith('object.'))
    .reduce((sum, { value }) => sum + value, 0)
}

test('clients that go away, 50 in an upload and 50 in a download, of REST and of S3: no failure, and nothing stored', async () => {
  await send(sign(of('PUT', '/large')), Buffer.alloc(4 * MB, 'x'))
  const before = await failures()
  const abandon = async (n: number, isUpload: boolean): Promise<void> => {
    const path = isUpload ? `/gone-${n}` : '/large'
    const method = isUpload ? 'PUT' : 'GET'
    const { target, headers } =
      n % 2 === 0
        ? sign(of(method, path))
        : { target: `/v1/objects/${bucket}${path}`, headers: { ...workspace.service } }
    const length = isUpload ? { 'content-length': String(MB) } : {}
    const sent = request({
      hostname,
      port,
      method,
      path: target,
      headers: { ...headers, ...length },
      agent: false,
    })
    const closed = new Promise((done) => sent.once('close', done))
    sent.on('error', () => {})
    if (isUpload) sent.write(Buffer.alloc(MB / 2), () => sent.destroy())
    else sent.once('response', (response) => response.once('data', () => sent.destroy())).end()
    await closed
  }
  await Promise.all(Array.from({ length: 100 }, (_, n) => abandon(n >> 1, n % 2 === 0)))
  const sizes = async () => (await quota(workspace, 'object_bytes')).used
  await eventually(async () => ((await sizes()) ?? 0) < 4 * MB + 10_000 || undefined)
  const { body } = await call('GET', `/v1/objects/${bucket}?prefix=gone-`, { as: workspace.service })
  expect(body.data).toEqual([])
  expect(await failures()).toBe(before)
})
