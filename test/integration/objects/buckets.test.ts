/** Checks objects: bodies, ranges, conditions, isolation between buckets. */

import { beforeAll, expect, test } from 'vitest'
import { abortUpload, Caller, expectProblem, expectStatus, pause, sendRawPath, str } from '../../support/clients/rest-client.ts'
import {
  createTenantPair,
  expectIsolated,
  expectUnaffected,
  makeKey,
  type World,
  word,
} from '../../support/fixtures/tenant-pair.ts'

let world: World
let path: string

const BYTES = Uint8Array.from({ length: 70_000 }, (_, n) => n % 251)
const BINARY = { 'content-type': 'application/x-test' }

beforeAll(async () => {
  world = await createTenantPair({ stores: true })
  path = `/v1/objects/${world.a.bucket}`
})

const put = (key: string, raw: string | Uint8Array, headers: Record<string, string> = BINARY) =>
  world.a.service.send('PUT', `${path}/${key}`, { raw, headers })

test('PUT: new object: 201; existing object: 200', async () => {
  expectStatus(await put('first', 'one'), 201)
  expectStatus(await put('first', world.a.mark), 200)
})

test('GET: existing object: its bytes and content type', async () => {
  expectStatus(await put('deep/er/bytes.bin', BYTES), 201)
  const reply = await world.a.service.get(`${path}/deep/er/bytes.bin`)
  expectStatus(reply, 200)
  expect(reply.headers.get('content-type')).toBe('application/x-test')
  expect(Buffer.compare(reply.bytes, BYTES)).toBe(0)
})

test('object: empty: stored', async () => {
  expectStatus(await put('empty', ''), 201)
  const reply = await world.a.service.get(`${path}/empty`)
  expectStatus(reply, 200)
  expect(reply.bytes).toHaveLength(0)
})

test('HEAD: existing object: length, type and ETag, no body', async () => {
  const reply = await world.a.service.send('HEAD', `${path}/deep/er/bytes.bin`)
  expectStatus(reply, 200)
  expect(reply.headers.get('content-length')).toBe(String(BYTES.length))
  expect(reply.headers.get('content-type')).toBe('application/x-test')
  expect(reply.headers.get('etag')).toMatch(/^"\S+"$/)
  expect(reply.bytes).toHaveLength(0)
})

test('Range: valid: 206 with those bytes', async () => {
  const reply = await world.a.service.get(`${path}/deep/er/bytes.bin`, { range: 'bytes=10-19' })
  expectStatus(reply, 206)
  expect(reply.headers.get('content-range')).toBe(`bytes 10-19/${BYTES.length}`)
  expect([...reply.bytes]).toEqual([...BYTES.slice(10, 20)])
})

test('Range: suffix: the last bytes', async () => {
  const reply = await world.a.service.get(`${path}/deep/er/bytes.bin`, { range: 'bytes=-5' })
  expectStatus(reply, 206)
  expect([...reply.bytes]).toEqual([...BYTES.slice(-5)])
})

test('Range: beyond the end: 416 InvalidRange', async () => {
  const reply = await world.a.service.get(`${path}/deep/er/bytes.bin`, { range: 'bytes=900000-' })
  expectProblem(reply, 416, 'InvalidRange')
  expect(reply.headers.get('content-range')).toBe(`bytes */${BYTES.length}`)
})

test('conditional read: If-None-Match with the ETag: 304 without a body', async () => {
  const etag = (await world.a.service.get(`${path}/first`)).headers.get('etag') ?? ''
  const reply = await world.a.service.get(`${path}/first`, { 'if-none-match': etag })
  expectStatus(reply, 304)
  expect(reply.bytes).toHaveLength(0)
})

test('object key: blanks, punctuation, other scripts: returned as written', async () => {
  const key = encodeURIComponent('a b+c%20&ä語.txt')
  expectStatus(await put(key, 'signs'), 201)
  expect((await world.a.service.get(`${path}/${key}`)).text).toBe('signs')
})

test('GET: bucket: lists its keys', async () => {
  const reply = await world.a.service.get(path)
  expectStatus(reply, 200)
  expect(reply.text).toContain('deep/er/bytes.bin')
})

test('DELETE: existing object: 200; then: 404 NoSuchKey', async () => {
  expectStatus(await put('doomed', 'x'), 201)
  expectStatus(await world.a.service.delete(`${path}/doomed`), 200)
  expectProblem(await world.a.service.get(`${path}/doomed`), 404, 'NoSuchKey')
})

test.each(['GET', 'PUT', 'DELETE'])('%s: bucket of another tenant: 403 AccessDenied', async (method) => {
  const sent = method === 'PUT' ? { raw: 'stolen', headers: BINARY } : {}
  expectProblem(await world.b.service.send(method, `${path}/first`, sent), 403, 'AccessDenied')
  expect((await world.a.service.get(`${path}/first`)).text).toBe(world.a.mark)
})

test('HEAD and list: bucket of another tenant: 403', async () => {
  expectStatus(await world.b.service.send('HEAD', `${path}/first`), 403)
  expectProblem(await world.b.service.get(path), 403, 'AccessDenied')
})

test('bucket: of a sibling workspace: refused', async () => {
  const { a } = world
  const sent = { tenant_id: a.tenant, name: 'Second', slug: `second-${word()}`, bucket: `second-${word()}` }
  const made = await a.admin.post('/v1/workspaces', sent, { prefer: 'wait=30' })
  const second = new Caller({ apikey: await makeKey(a.admin, str(made, 'id'), 'service') })
  expectProblem(await second.get(`${path}/first`), 403, 'AccessDenied')
})

test('bucket name: used by another workspace: refused', async () => {
  const { b } = world
  const sent = { tenant_id: b.tenant, name: 'Thief', slug: `thief-${word()}`, bucket: world.a.bucket }
  const made = await b.admin.post('/v1/workspaces', sent, { prefer: 'wait=30' })
  expectStatus(made, 409)
})

test('workspace without a bucket: object operation: 409 bucket_required', async () => {
  const { a } = world
  // Assumption: `bucket: null` creates a workspace without one.
  const sent = { tenant_id: a.tenant, name: 'Bare', slug: `bare-${word()}`, bucket: null }
  const made = await a.admin.post('/v1/workspaces', sent, { prefer: 'wait=30' })
  expectStatus(made, 201)
  const bare = new Caller({ apikey: await makeKey(a.admin, str(made, 'id'), 'service') })
  expectProblem(await bare.send('PUT', `${path}/x`, { raw: 'x', headers: BINARY }), 409, 'bucket_required')
})

test.each(['*', 'wal*', '%2A', 'Upper', 'a', 'x'.repeat(64)])('bucket name: %s: refused', async (bucket) => {
  const { a } = world
  const sent = { tenant_id: a.tenant, name: 'Odd', slug: `odd-${word()}`, bucket }
  const made = await a.admin.post('/v1/workspaces', sent, { prefer: 'wait=30' })
  expectProblem(made, made.status === 422 ? 422 : 400)
})

test('anon key: writes an object: refused', async () => {
  expectStatus(await world.a.anon.send('PUT', `${path}/anon`, { raw: 'x', headers: BINARY }), 403)
})

test('upload: interrupted: nothing is stored, the platform keeps working', async () => {
  const headers = { apikey: world.a.serviceKey, ...BINARY }
  await abortUpload(`${path}/half`, headers, 1_000_000, 'x'.repeat(1000))
  await abortUpload(`${path}/first`, headers, 1_000_000, 'x'.repeat(1000))
  await pause(500)
  expectProblem(await world.a.service.get(`${path}/half`), 404, 'NoSuchKey')
  expect((await world.a.service.get(`${path}/first`)).text).toBe(world.a.mark)
  await expectUnaffected(world)
})

test.each([
  '../x',
  '..%2F..%2Fetc%2Fpasswd',
  '%2e%2e/%2e%2e/x',
  'a/../../b',
  './x',
  'nul%00byte',
  `${'k'.repeat(1025)}`,
])('object key: path traversal or too long (%#): refused', async (key) => {
  const headers = { apikey: world.b.serviceKey, ...BINARY }
  for (const method of ['PUT', 'GET', 'DELETE']) {
    const sent = await sendRawPath(
      method,
      `/v1/objects/${world.b.bucket}/${key}`,
      headers,
      method === 'PUT' ? 'x' : '',
    )
    world.b.transcript.record(sent)
    expectProblem(sent, 400)
  }
  await expectUnaffected(world)
})

test('bucket: path traversal into another: refused', async () => {
  const headers = { apikey: world.b.serviceKey }
  const reply = await sendRawPath('GET', `/v1/objects/${world.b.bucket}/../${world.a.bucket}/first`, headers)
  world.b.transcript.record(reply)
  expect(reply.text).not.toBe(world.a.mark)
  expect([400, 403, 404]).toContain(reply.status)
})

test('tenant isolation: after all tests: B received nothing of A and is unchanged', () =>
  expectIsolated(world, world.a.bucket))
