/** Requests of the S3 API that no client sends: each answer is XML with a code of S3, and no object changes. */

import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import {
  CompleteMultipartUploadCommand,
  CreateMultipartUploadCommand,
  type S3Client,
  UploadPartCommand,
} from '@aws-sdk/client-s3'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { API_LIMITS } from '../../../src/api/limits.ts'
import { createStorageKey, openBucket, type StorageKey } from '../../support/clients/s3.ts'
import { type Signed, sign, type Unsigned } from '../../support/clients/s3-signer.ts'
import { call, createTestWorkspaceWithStorage, type TestWorkspace } from '../../support/fixtures/tenants.ts'
import { startInProcessNode } from '../../support/stack/in-process-node.ts'

const { host, hostname, port } = new URL(inject('tenon').url)
let workspace: TestWorkspace
let s3: S3Client
let bucket: string
let key: StorageKey
beforeAll(async () => {
  workspace = await createTestWorkspaceWithStorage()
  ;({ s3, bucket, key } = await openBucket(workspace))
  const put = await send(sign({ ...signed('PUT', '/kept'), payload: 'UNSIGNED-PAYLOAD' }), 'kept')
  expect(put.status).toBe(200)
})
afterAll(() => s3?.destroy())

const signed = (method: string, path: string): Unsigned => ({
  method,
  host,
  path: `/s3/${bucket}${path}`,
  key,
})

interface Answer {
  readonly status: number
  readonly code: string | undefined
  readonly type: string | undefined
  readonly headers: IncomingMessage['headers']
  readonly text: string
}

async function read(response: IncomingMessage): Promise<Answer> {
  const body = await text(response)
  return {
    status: response.statusCode ?? 0,
    code: /<Code>(\w+)</.exec(body)?.[1],
    type: response.headers['content-type'],
    headers: response.headers,
    text: body,
  }
}

/** Sends a request as it is, also with a path that `fetch` would correct. @param at the server */
async function send(
  { method, target, headers }: Signed,
  body: string | Buffer = '',
  at = { hostname, port },
): Promise<Answer> {
  const length = body === '' ? {} : { 'content-length': String(Buffer.byteLength(body)) }
  const sent = request({ ...at, method, path: target, headers: { ...headers, ...length }, agent: false })
  const replied = once(sent, 'response') as Promise<[IncomingMessage]>
  sent.end(body)
  return read((await replied)[0])
}

const expectKept = async () =>
  expect((await call('GET', `/v1/objects/${bucket}/kept`, { as: workspace.service })).body).toBe('kept')

test.each(['/%', '/%zz', '/a%E0%A4b', '/%C0%AE', '/a?prefix=%E0%A4', '/a?uploadId=%zz', '?prefix=%FF'])(
  'S3 API: malformed escapes in %s: InvalidURI as XML, with the id of the request, for every method',
  async (path) => {
    for (const method of ['GET', 'PUT', 'POST', 'DELETE']) {
      const headers = sign(signed(method, '/a')).headers
      const answer = await send({ method, target: `/s3/${bucket}${path}`, headers })
      expect([method, answer.status, answer.code, answer.type]).toEqual([
        ...[method, 400, 'InvalidURI', 'application/xml'],
      ])
      expect(answer.headers['x-amz-request-id']).toBe(/<RequestId>(.*?)</.exec(answer.text)?.[1])
    }
    const head = await send({
      method: 'HEAD',
      target: `/s3/${bucket}${path}`,
      headers: sign(signed('HEAD', '/a')).headers,
    })
    expect([head.status, head.text]).toEqual([400, ''])
  },
)

const MIB = 1_048_576
const DELETES = '<Object><Key>kept</Key></Object>'
/** Documents around a part that would be obeyed in a valid one. */
const DOCUMENTS: readonly (readonly [what: string, document: (root: string, valid: string) => string])[] = [
  ['nothing', () => ''],
  ['no XML', () => '{"Key": "kept"}'],
  ['cut', (root, valid) => `<${root}>${valid}`],
  ['of another root', (_root, valid) => `<Other>${valid}</Other>`],
  ['with a DTD', (root, valid) => `<!DOCTYPE ${root}><${root}>${valid}</${root}>`],
  [
    'a bomb of entities',
    (root, valid) =>
      `<!DOCTYPE a [<!ENTITY a "${'x'.repeat(100)}"><!ENTITY b "${'&a;'.repeat(100)}"><!ENTITY c "${'&b;'.repeat(100)}">]><${root}>${valid}&c;</${root}>`,
  ],
  [
    'with a file of the server',
    (root, valid) => `<!DOCTYPE a [<!ENTITY a SYSTEM "file:///etc/passwd">]><${root}>${valid}&a;</${root}>`,
  ],
  ['with an unknown entity', (root, valid) => `<${root}>${valid}&a;</${root}>`],
  ['with CDATA', (root, valid) => `<${root}>${valid}<![CDATA[x]]></${root}>`],
  [
    'nested deeply',
    (root, valid) => `<${root}>${valid}${'<a>'.repeat(100_000)}${'</a>'.repeat(100_000)}</${root}>`,
  ],
  ['of 10 MB', (root, valid) => `<${root}>${valid}${' '.repeat(10 * MIB)}</${root}>`],
  ['of a character that is none', (root, valid) => `<${root}>${valid}&#xd800;</${root}>`],
]

test.each(DOCUMENTS)(
  'S3 API: XML that is %s: MalformedXML on each action that reads some, and nothing is done',
  async (_what, document) => {
    const begun = await s3.send(new CreateMultipartUploadCommand({ Bucket: bucket, Key: 'kept' }))
    const uploadId = begun.UploadId ?? ''
    const { ETag = '' } = await s3.send(
      new UploadPartCommand({
        Bucket: bucket,
        Key: 'kept',
        UploadId: uploadId,
        PartNumber: 1,
        Body: 'other',
      }),
    )
    const part = `<Part><PartNumber>1</PartNumber><ETag>${ETag.replaceAll('"', '')}</ETag></Part>`
    for (const [method, path, query, body] of [
      ['POST', '', { delete: '' }, document('Delete', DELETES)],
      ['POST', '/kept', { uploadId }, document('CompleteMultipartUpload', part)],
      [
        'PUT',
        '/kept',
        { tagging: '' },
        document('Tagging', '<TagSet><Tag><Key>a</Key><Value>b</Value></Tag></TagSet>'),
      ],
    ] as const) {
      const answer = await send(sign({ ...signed(method, path), query, payload: 'UNSIGNED-PAYLOAD' }), body)
      expect([path, Object.keys(query), answer.status, answer.code]).toEqual([
        ...[path, Object.keys(query), 400, 'MalformedXML'],
      ])
    }
    await expectKept()
    const described = await call('GET', `/v1/buckets/${bucket}/object?key=kept`, { as: workspace.service })
    expect(described.body.tags).toEqual({})
    // The upload is as it was.
    const parts = await send(sign({ ...signed('GET', '/kept'), query: { uploadId } }))
    expect([parts.status, parts.text.match(/<PartNumber>/g)?.length]).toEqual([200, 1])
    expect((await send(sign({ ...signed('DELETE', '/kept'), query: { uploadId } }))).status).toBe(204)
  },
)

test('S3 API: headers that are too large together, metadata, and tags: their own codes', async () => {
  const put = (headers: Record<string, string>) =>
    send(sign({ ...signed('PUT', '/kept'), headers, payload: 'UNSIGNED-PAYLOAD' }), 'other')
  const metadata = (count: number, bytes: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, n) => [`x-amz-meta-${100 + n}`, 'x'.repeat(bytes)]))
  expect((await put(metadata(1, 100_000))).status).toBe(431)
  for (const headers of [metadata(1, 2_046), metadata(20, 100)])
    expect(await put(headers)).toMatchObject({ status: 400, code: 'MetadataTooLarge' })
  const tags = (count: number) => Array.from({ length: count }, (_, n) => `t${n}=x`).join('&')
  for (const tagging of [tags(11), 'a=1&a=2', `${'k'.repeat(129)}=`, `a=${'v'.repeat(257)}`, 'a=%3C', '=x'])
    expect([tagging, await put({ 'x-amz-tagging': tagging })]).toEqual([
      ...[tagging, expect.objectContaining({ status: 400, code: 'InvalidTag' })],
    ])
  await expectKept()
  expect((await put({ ...metadata(1, 1_000), 'x-amz-tagging': tags(10) })).status).toBe(200)
  expect((await send(sign({ ...signed('PUT', '/kept'), payload: 'UNSIGNED-PAYLOAD' }), 'kept')).status).toBe(
    200,
  )
})

test('S3 API: preflight request of a page: is answered without a signature, with what the page asks for', async () => {
  const asked = 'authorization,x-amz-content-sha256,x-amz-date,x-amz-meta-own'
  const headers = {
    ...{ host, origin: 'https://page.example' },
    ...{ 'access-control-request-method': 'PUT', 'access-control-request-headers': asked },
  }
  for (const path of ['/a/b', '', '/a?uploadId=x&partNumber=1']) {
    const answer = await send({ method: 'OPTIONS', target: `/s3/${bucket}${path}`, headers })
    expect([path, answer.status, answer.headers['access-control-allow-headers']]).toEqual([path, 204, asked])
    expect(answer.headers['access-control-allow-methods']?.split(', ')).toEqual(
      expect.arrayContaining(['GET', 'HEAD', 'PUT', 'POST', 'DELETE']),
    )
    expect(answer.headers['access-control-allow-origin']).toBe('*')
    expect(answer.headers['access-control-allow-credentials']).toBeUndefined()
  }
  // A page reads refusals, too.
  const refused = await send({
    method: 'GET',
    target: `/s3/${bucket}/kept`,
    headers: { host, origin: headers.origin },
  })
  expect([refused.status, refused.code, refused.headers['access-control-allow-origin']]).toEqual([
    ...[403, 'AccessDenied', '*'],
  ])
  expect(refused.headers['access-control-expose-headers']).toContain('etag')
  const plain = await send({ method: 'OPTIONS', target: `/s3/${bucket}/kept`, headers: { host } })
  expect([plain.status, plain.type]).toEqual([405, 'application/xml'])
})

test('TENON_S3_HOST: buckets are host names, of any case and with a port; other hosts and paths are as before', async () => {
  const node = await startInProcessNode({ TENON_S3_HOST: 's3.test' })
  const at = { hostname: '127.0.0.1', port: new URL(node.at.url).port }
  const ask = (name: string, method: string, path: string, more: Partial<Unsigned> = {}, body?: string) =>
    send(sign({ method, host: name, path, key, payload: 'UNSIGNED-PAYLOAD', ...more }), body, at)
  try {
    for (const name of [`${bucket}.s3.test`, `${bucket.toUpperCase()}.S3.Test:${at.port}`]) {
      expect([name, (await ask(name, 'PUT', '/v1/a b', {}, 'virtual')).status]).toEqual([name, 200])
      expect((await ask(name, 'GET', '/v1/a b')).text).toBe('virtual')
      const listed = await ask(name, 'GET', '/', { query: { 'list-type': '2', prefix: 'v1/' } })
      expect(/<Key>(.*?)</.exec(listed.text)?.[1]).toBe('v1/a b')
      expect((await ask(name, 'DELETE', '/v1/a b')).status).toBe(204)
    }
    expect((await ask('s3.test', 'GET', '/')).text).toContain(`<Name>${bucket}</Name>`)
    expect((await ask('s3.test', 'GET', `/${bucket}/kept`)).text).toBe('kept')
    // A signature is for one host, and a name for one bucket.
    const moved = sign({ method: 'GET', host: 's3.test', path: '/kept', key })
    const other = { ...moved, headers: { ...moved.headers, host: `${bucket}.s3.test` } }
    expect(await send(other, '', at)).toMatchObject({ status: 403, code: 'SignatureDoesNotMatch' })
    for (const name of ['a.b.s3.test', `${bucket}.x.s3.test`])
      expect([name, (await ask(name, 'GET', '/kept')).status]).toEqual([name, 400])
    expect((await ask('others.s3.test', 'GET', '/kept')).status).toBe(403)
    expect((await ask('.s3.test', 'GET', '/kept')).status).toBe(501)
    // Hosts that only look alike are the API.
    for (const name of [`${bucket}.s3.test.evil.example`, 'xs3.test'])
      expect([name, (await ask(name, 'GET', `/s3/${bucket}/kept`)).text]).toEqual([name, 'kept'])
    const malformed = await ask(`${bucket}.s3.test`, 'GET', '/a')
    expect(malformed.code).toBe('NoSuchKey')
    const escapes = { ...moved, target: '/%zz', headers: { ...moved.headers, host: `${bucket}.s3.test` } }
    expect(await send(escapes, '', at)).toMatchObject({ status: 400, code: 'InvalidURI' })
  } finally {
    await node.close()
  }
})

test('S3 API: checksum on the end of an upload in parts: is that of the object, which nobody checks: refused, never compared with the XML', async () => {
  const begun = await s3.send(new CreateMultipartUploadCommand({ Bucket: bucket, Key: 'summed' }))
  const of = { Bucket: bucket, Key: 'summed', UploadId: begun.UploadId ?? '' }
  const { ETag } = await s3.send(new UploadPartCommand({ ...of, PartNumber: 1, Body: 'bytes' }))
  const MultipartUpload = { Parts: [{ PartNumber: 1, ETag }] }
  const end = (more: object = {}) =>
    s3.send(new CompleteMultipartUploadCommand({ ...of, MultipartUpload, ...more }))
  for (const sums of [
    { ChecksumCRC32: 'AAAAAA==' },
    { ChecksumSHA256: `${'A'.repeat(43)}=`, ChecksumType: 'COMPOSITE' },
    { ChecksumCRC64NVME: 'AAAAAAAAAAA=', ChecksumType: 'FULL_OBJECT' },
  ])
    await expect(end(sums)).rejects.toMatchObject({ name: 'NotImplemented' })
  expect((await end()).ETag).toMatch(/-1"$/)
})

test('storage key revoked while the document that ends an upload comes: refused, and there is no object', async () => {
  const own = await createStorageKey(workspace)
  const begun = await s3.send(new CreateMultipartUploadCommand({ Bucket: bucket, Key: 'late' }))
  const of = { Bucket: bucket, Key: 'late', UploadId: begun.UploadId ?? '' }
  const { ETag = '' } = await s3.send(new UploadPartCommand({ ...of, PartNumber: 1, Body: 'bytes' }))
  const part = `<Part><PartNumber>1</PartNumber><ETag>${ETag.replaceAll('"', '')}</ETag></Part>`
  const { method, target, headers } = sign({
    ...signed('POST', '/late'),
    ...{ key: own, query: { uploadId: of.UploadId }, payload: 'UNSIGNED-PAYLOAD' },
  })
  const sent = request({ hostname, port, method, path: target, headers, agent: false })
  // The answer may come as soon as the key is gone.
  let answer: Answer | undefined
  sent.once('response', (response) => void read(response).then((one) => (answer = one)))
  let isCut = false
  sent.on('error', () => (isCut = true))
  sent.write(`<CompleteMultipartUpload>${part}`)
  const gone = await call('DELETE', `/v1/api-keys/${own.id}`, { as: workspace.operator })
  expect(gone.status).toBeLessThan(300)
  // The right is looked at again once in a while. The connection may end before its answer is read.
  for (let bytes = 0; answer === undefined && !isCut && bytes < API_LIMITS.xmlBytesMax; bytes++) {
    sent.write(' ')
    await pause(20)
  }
  sent.end('</CompleteMultipartUpload>')
  if (!isCut) expect(answer).toMatchObject({ status: 403, code: 'InvalidAccessKeyId' })
  expect((await call('GET', `/v1/objects/${bucket}/late`, { as: workspace.service })).status).toBe(404)
})
