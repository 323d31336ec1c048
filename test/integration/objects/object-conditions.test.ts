/** Conditions, ranges, digests and kept headers of objects, as RFC 9110 and RFC 9530 define them. */

import { createHash, randomBytes } from 'node:crypto'
import { gunzipSync, gzipSync } from 'node:zlib'
import { beforeAll, expect, inject, test } from 'vitest'
import {
  call,
  createTestWorkspaceWithStorage,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { bucketOf } from '../../support/stack/workspace-settings.ts'

let workspace: TestWorkspace
let bucket: string
beforeAll(async () => {
  workspace = await createTestWorkspaceWithStorage()
  bucket = await bucketOf(workspace)
})

const send = (
  method: string,
  key: string,
  headers: Record<string, string> = {},
  body?: string | Uint8Array<ArrayBuffer>,
) =>
  fetch(`${inject('tenon').url}/v1/objects/${bucket}/${key}`, {
    method,
    headers: { ...workspace.service, ...headers },
    ...(body !== undefined && { body }),
  })
const codeOf = (response: Response) => response.headers.get('x-problem-code')

/** Stores an object. @returns its validators */
async function stored(key: string, body = '0123456789') {
  const put = await send('PUT', key, { 'content-type': 'text/plain' }, body)
  expect(put.ok).toBe(true)
  const { headers } = await send('HEAD', key)
  return { etag: headers.get('etag') ?? '', date: headers.get('last-modified') ?? '' }
}

const HOUR_MS = 3_600_000
const LATER = new Date(Date.now() + HOUR_MS).toUTCString()
const EARLIER = new Date(0).toUTCString()

/** A header with a value made of the object's validators, and the status it gives each method; absent: the method is not tried. */
const CASES: readonly (readonly [
  header: string,
  value: (of: { etag: string; date: string }) => string,
  statuses: Readonly<Partial<Record<'GET' | 'HEAD' | 'PUT' | 'DELETE', number>>>,
])[] = [
  ['if-match', ({ etag }) => etag, { GET: 200, HEAD: 200, PUT: 200, DELETE: 200 }],
  ['if-match', ({ etag }) => `"other", ${etag}`, { GET: 200, HEAD: 200, PUT: 200, DELETE: 200 }],
  ['if-match', () => '*', { GET: 200, HEAD: 200, PUT: 200, DELETE: 200 }],
  ['if-match', () => '"stale"', { GET: 412, HEAD: 412, PUT: 412, DELETE: 412 }],
  ['if-none-match', ({ etag }) => etag, { GET: 304, HEAD: 304, PUT: 412, DELETE: 400 }],
  ['if-none-match', ({ etag }) => `W/${etag}`, { GET: 304, HEAD: 304 }],
  ['if-none-match', () => '"other"', { GET: 200, HEAD: 200, PUT: 200, DELETE: 400 }],
  ['if-none-match', () => '*', { GET: 304, HEAD: 304, PUT: 412, DELETE: 400 }],
  ['if-modified-since', () => LATER, { GET: 304, HEAD: 304, PUT: 400, DELETE: 400 }],
  ['if-modified-since', ({ date }) => date, { GET: 304, HEAD: 304 }],
  ['if-modified-since', () => EARLIER, { GET: 200, HEAD: 200 }],
  ['if-modified-since', () => 'yesterday', { GET: 200, HEAD: 200 }],
  ['if-unmodified-since', () => EARLIER, { GET: 412, HEAD: 412, PUT: 412, DELETE: 412 }],
  ['if-unmodified-since', ({ date }) => date, { GET: 200, HEAD: 200, PUT: 200, DELETE: 200 }],
  ['if-unmodified-since', () => LATER, { GET: 200, HEAD: 200, PUT: 200, DELETE: 200 }],
  ['content-range', () => 'bytes 0-2/6', { PUT: 400, DELETE: 400 }],
  ['x-amz-meta-color', () => 'red', { PUT: 400 }],
  ['x-amz-decoded-content-length', () => '1', { PUT: 400 }],
  ['x-amz-content-sha256', () => 'STREAMING-UNSIGNED-PAYLOAD-TRAILER', { PUT: 400 }],
  ['content-encoding', () => 'aws-chunked', { PUT: 415 }],
]

test('conditions: each header and method: its status; a refused change leaves the object as it was', async () => {
  const tried = CASES.flatMap(([header, value, statuses]) =>
    Object.entries(statuses).map(([method, status]) => ({ header, value, method, status })),
  )
  const seen = await Promise.all(
    tried.map(async ({ header, value, method, status }) => {
      const key = unique('c')
      const text = value(await stored(key))
      const response = await send(method, key, { [header]: text }, method === 'PUT' ? 'new' : undefined)
      const after = await (await send('GET', key)).text()
      const changed = response.ok && method === 'PUT' ? 'new' : '0123456789'
      const expected = response.ok && method === 'DELETE' ? 'deleted' : changed
      return {
        tried: [header, text, method, status, expected],
        seen: [header, text, method, response.status, after.startsWith('{') ? 'deleted' : after],
      }
    }),
  )
  expect(seen.map((one) => one.seen)).toEqual(seen.map((one) => one.tried))
})

test('If-Match and If-Match: *, no object: 412 on PUT, 404 on the others; If-Unmodified-Since creates', async () => {
  for (const condition of ['"x"', '*']) {
    const headers = { 'if-match': condition }
    expect((await send('PUT', unique('none'), headers, 'x')).status).toBe(412)
    expect((await send('DELETE', unique('none'), headers)).status).toBe(404)
    expect((await send('GET', unique('none'), headers)).status).toBe(404)
  }
  expect((await send('PUT', unique('none'), { 'if-unmodified-since': EARLIER }, 'x')).status).toBe(201)
})

test('DELETE with If-Match against a writer: one of them wins, and no newer object is lost', async () => {
  const key = unique('race')
  for (let round = 0; round < 20; round++) {
    const { etag } = await stored(key, `a${round}`)
    const condition = { 'if-match': etag }
    const [removed, written] = await Promise.all([
      send('DELETE', key, condition),
      send('PUT', key, condition, `b${round}`),
    ])
    expect([removed.ok, written.ok].filter(Boolean)).toHaveLength(1)
    const text = await (await send('GET', key)).text()
    if (written.ok) expect(text).toBe(`b${round}`)
  }
})

test.each([
  ['of this version', ({ etag }: { etag: string }) => etag, 206, '0123'],
  ['of its date', ({ date }: { date: string }) => date, 206, '0123'],
  ['of another version', () => '"nope"', 200, '0123456789'],
  ['weak', ({ etag }: { etag: string }) => `W/${etag}`, 200, '0123456789'],
  ['of another date', () => LATER, 200, '0123456789'],
] as const)('If-Range %s: a range of one version only', async (_, validator, status, text) => {
  const key = unique('range')
  const of = await stored(key)
  const response = await send('GET', key, { range: 'bytes=0-3', 'if-range': validator(of) })
  expect([response.status, await response.text()]).toEqual([status, text])
})

test('If-Range with another condition: that one is checked first, then the range', async () => {
  const key = unique('range')
  const { etag, date } = await stored(key)
  const cases: readonly (readonly [string, string, number, string | undefined])[] = [
    ['if-unmodified-since', EARLIER, 412, undefined],
    ['if-unmodified-since', date, 206, undefined],
    ['if-unmodified-since', 'yesterday', 206, undefined],
    ['if-match', '"stale"', 412, undefined],
    ['if-match', `"other", ${etag}`, 206, undefined],
    ['if-match', '*', 206, undefined],
    ['if-none-match', etag, 304, undefined],
    ['if-none-match', '"other"', 206, undefined],
    ['if-modified-since', date, 304, undefined],
    ['if-modified-since', EARLIER, 206, undefined],
    // Of another version: without the range, under the same conditions.
    ['if-unmodified-since', EARLIER, 412, '"nope"'],
    ['if-unmodified-since', date, 200, '"nope"'],
    ['if-none-match', etag, 304, '"nope"'],
  ]
  const seen = await Promise.all(
    cases.map(async ([header, value, , range = etag]) => {
      const response = await send('GET', key, { range: 'bytes=0-3', 'if-range': range, [header]: value })
      const text = await response.text()
      return [header, value, response.status, response.ok ? text : '']
    }),
  )
  const texts: Readonly<Record<number, string>> = { 200: '0123456789', 206: '0123' }
  expect(seen).toEqual(cases.map(([header, value, status]) => [header, value, status, texts[status] ?? '']))
})

const digestOf = (algorithm: string, bytes: Uint8Array) =>
  createHash(algorithm).update(bytes).digest('base64')

test('digests: right ones are stored, wrong and malformed ones store nothing', async () => {
  const bytes = randomBytes(300_000)
  const right: [string, string][] = [
    ['content-md5', digestOf('md5', bytes)],
    ['content-digest', `sha-256=:${digestOf('sha256', bytes)}:`],
    ['repr-digest', `sha-512=:${digestOf('sha512', bytes)}:`],
    ['repr-digest', `unixsum=:AAA=:, sha-256=:${digestOf('sha256', bytes)}:`],
  ]
  for (const [header, value] of right) {
    const key = unique('digest')
    expect([header, (await send('PUT', key, { [header]: value }, bytes)).status]).toEqual([header, 201])
    expect(Buffer.from(await (await send('GET', key)).arrayBuffer()).equals(bytes)).toBe(true)
  }
  const other = randomBytes(10)
  const wrong: [string, string, string][] = [
    ['content-md5', digestOf('md5', other), 'digest_mismatch'],
    ['content-digest', `sha-256=:${digestOf('sha256', other)}:`, 'digest_mismatch'],
    [
      'repr-digest',
      `sha-256=:${digestOf('sha256', bytes)}:, sha-512=:${digestOf('sha512', other)}:`,
      'digest_mismatch',
    ],
    ['content-md5', '', 'header_invalid'],
    ['content-md5', 'MDAw', 'header_invalid'],
    ['content-digest', 'md5=:MDAwMDAwMDAwMDAwMDAwMA==:', 'header_invalid'],
    ['repr-digest', 'sha-256=abc', 'header_invalid'],
  ]
  for (const [header, value, code] of wrong) {
    const key = unique('digest')
    const put = await send('PUT', key, { [header]: value }, bytes)
    expect([header, value, put.status, codeOf(put)]).toEqual([header, value, 400, code])
    expect((await send('HEAD', key)).status).toBe(404)
  }
})

test('kept headers: come back; no shared cache may keep the object', async () => {
  const key = unique('kept')
  const kept = {
    'content-type': 'text/plain',
    'content-encoding': 'gzip',
    'content-disposition': `attachment; filename="a.txt"; filename*=UTF-8''%E2%82%AC.txt`,
    'content-language': 'de',
  }
  const cache = { 'cache-control': 'public, max-age=60, s-maxage=600, immutable' }
  const body = new Uint8Array(gzipSync('hello'))
  expect((await send('PUT', key, { ...kept, ...cache }, body)).status).toBe(201)
  const got = await fetch(`${inject('tenon').url}/v1/objects/${bucket}/${key}`, {
    headers: { ...workspace.service, 'accept-encoding': 'identity' },
  })
  expect(Object.fromEntries(got.headers)).toMatchObject({
    ...kept,
    'cache-control': 'private, max-age=60, immutable',
  })
  const text = await got.text()
  expect(text === 'hello' || gunzipSync(Buffer.from(text, 'latin1')).toString() === 'hello').toBe(true)
})

test.each(['0', '-1', '1.5', '1e3', '10abc', '10001', ''])('list: page[size]=%s: 400', async (size) => {
  const { status } = await call('GET', `/v1/objects/${bucket}?page[size]=${size}`, { as: workspace.service })
  expect(status).toBe(400)
})

test.each([
  ['bytes=0-18446744073709551615', 206],
  ['bytes=9223372036854775807-', 416],
  ['bytes=-18446744073709551615', 206],
  ['bytes=-0', 416],
])('Range %s: %i, without overflow', async (range, status) => {
  const key = unique('overflow')
  await stored(key)
  expect((await send('GET', key, { range })).status).toBe(status)
})

test('parameters response-*: set the headers of a reply with the object, and of no other; a line break is refused', async () => {
  const key = unique('reply')
  const { etag } = await stored(key)
  const wanted = {
    'content-type': 'application/pdf',
    'content-disposition': 'attachment; filename="may.pdf"',
    'content-language': 'de',
    'content-encoding': 'identity',
    'cache-control': 'public, max-age=60',
    expires: LATER,
  }
  const query = new URLSearchParams(
    Object.entries(wanted).map(([name, value]): [string, string] => [`response-${name}`, value]),
  )
  for (const method of ['GET', 'HEAD']) {
    const { status, headers } = await send(method, `${key}?${query}`, { range: 'bytes=0-1' })
    expect(status).toBe(method === 'GET' ? 206 : 200)
    expect(Object.fromEntries(headers)).toMatchObject({ ...wanted, 'cache-control': 'private, max-age=60' })
    const known = await send(method, `${key}?${query}`, { 'if-none-match': etag })
    expect([known.status, known.headers.get('expires')]).toEqual([304, null])
    for (const name of Object.keys(wanted)) {
      const broken = await send(method, `${key}?response-${name}=a%0D%0Aset-cookie:%20x`)
      expect([broken.status, broken.headers.get('set-cookie')]).toEqual([400, null])
      const missing = await send(method, `none?response-${name}=a`)
      expect([missing.status, missing.headers.get(name) === 'a']).toEqual([404, false])
    }
  }
  expect((await send('GET', key)).headers.get('content-type')).toBe('text/plain')
})
