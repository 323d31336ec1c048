/** Walks objects: bodies, ranges, conditions, the wall between buckets. */

import { beforeAll, expect, test } from 'vitest'
import { breakOff, Caller, expectProblem, expectStatus, pause, sendRawPath, str } from './client.ts'
import { expectApart, expectUnharmed, makeKey, twoTenants, type World, word } from './tenant-pair.ts'

let world: World
let path: string

const BYTES = Uint8Array.from({ length: 70_000 }, (_, n) => n % 251)
const BINARY = { 'content-type': 'application/x-walk' }

beforeAll(async () => {
  world = await twoTenants({ stores: true })
  path = `/v1/objects/${world.a.bucket}`
})

const put = (key: string, raw: string | Uint8Array, headers: Record<string, string> = BINARY) =>
  world.a.service.send('PUT', `${path}/${key}`, { raw, headers })

test('PUT of a new object is 201, of one that is there 200', async () => {
  expectStatus(await put('first', 'one'), 201)
  expectStatus(await put('first', world.a.mark), 200)
})

test('GET answers the bytes and the content type they came with', async () => {
  expectStatus(await put('deep/er/bytes.bin', BYTES), 201)
  const reply = await world.a.service.get(`${path}/deep/er/bytes.bin`)
  expectStatus(reply, 200)
  expect(reply.headers.get('content-type')).toBe('application/x-walk')
  expect(Buffer.compare(reply.bytes, BYTES)).toBe(0)
})

test('an object may be empty', async () => {
  expectStatus(await put('empty', ''), 201)
  const reply = await world.a.service.get(`${path}/empty`)
  expectStatus(reply, 200)
  expect(reply.bytes).toHaveLength(0)
})

test('HEAD answers length, type and ETag, and no body', async () => {
  const reply = await world.a.service.send('HEAD', `${path}/deep/er/bytes.bin`)
  expectStatus(reply, 200)
  expect(reply.headers.get('content-length')).toBe(String(BYTES.length))
  expect(reply.headers.get('content-type')).toBe('application/x-walk')
  expect(reply.headers.get('etag')).toMatch(/^"\S+"$/)
  expect(reply.bytes).toHaveLength(0)
})

test('Range answers 206 and the bytes asked for', async () => {
  const reply = await world.a.service.get(`${path}/deep/er/bytes.bin`, { range: 'bytes=10-19' })
  expectStatus(reply, 206)
  expect(reply.headers.get('content-range')).toBe(`bytes 10-19/${BYTES.length}`)
  expect([...reply.bytes]).toEqual([...BYTES.slice(10, 20)])
})

test('the last bytes by a suffix range', async () => {
  const reply = await world.a.service.get(`${path}/deep/er/bytes.bin`, { range: 'bytes=-5' })
  expectStatus(reply, 206)
  expect([...reply.bytes]).toEqual([...BYTES.slice(-5)])
})

test('a range beyond the end is 416 InvalidRange', async () => {
  const reply = await world.a.service.get(`${path}/deep/er/bytes.bin`, { range: 'bytes=900000-' })
  expectProblem(reply, 416, 'InvalidRange')
  expect(reply.headers.get('content-range')).toBe(`bytes */${BYTES.length}`)
})

test('If-None-Match with the ETag is 304 without a body', async () => {
  const etag = (await world.a.service.get(`${path}/first`)).headers.get('etag') ?? ''
  const reply = await world.a.service.get(`${path}/first`, { 'if-none-match': etag })
  expectStatus(reply, 304)
  expect(reply.bytes).toHaveLength(0)
})

test('keys with blanks, signs and other scripts come back as they went', async () => {
  const key = encodeURIComponent('a b+c%20&ä語.txt')
  expectStatus(await put(key, 'signs'), 201)
  expect((await world.a.service.get(`${path}/${key}`)).text).toBe('signs')
})

test('GET of the bucket lists its keys', async () => {
  const reply = await world.a.service.get(path)
  expectStatus(reply, 200)
  expect(reply.text).toContain('deep/er/bytes.bin')
})

test('DELETE is 200, and the object is then 404 NoSuchKey', async () => {
  expectStatus(await put('doomed', 'x'), 201)
  expectStatus(await world.a.service.delete(`${path}/doomed`), 200)
  expectProblem(await world.a.service.get(`${path}/doomed`), 404, 'NoSuchKey')
})

test.each(['GET', 'PUT', 'DELETE'])("%s in another tenant's bucket is 403 AccessDenied", async (method) => {
  const sent = method === 'PUT' ? { raw: 'stolen', headers: BINARY } : {}
  expectProblem(await world.b.service.send(method, `${path}/first`, sent), 403, 'AccessDenied')
  expect((await world.a.service.get(`${path}/first`)).text).toBe(world.a.mark)
})

test('HEAD and list in another tenant’s bucket are 403', async () => {
  expectStatus(await world.b.service.send('HEAD', `${path}/first`), 403)
  expectProblem(await world.b.service.get(path), 403, 'AccessDenied')
})

test("another workspace of the same tenant is refused A's bucket too", async () => {
  const { a } = world
  const sent = { tenant_id: a.tenant, name: 'Second', slug: `second-${word()}`, bucket: `second-${word()}` }
  const made = await a.admin.post('/v1/workspaces', sent, { prefer: 'wait=30' })
  const second = new Caller({ apikey: await makeKey(a.admin, str(made, 'id'), 'service') })
  expectProblem(await second.get(`${path}/first`), 403, 'AccessDenied')
})

test('a bucket name is global: the second workspace that asks for it is refused', async () => {
  const { b } = world
  const sent = { tenant_id: b.tenant, name: 'Thief', slug: `thief-${word()}`, bucket: world.a.bucket }
  const made = await b.admin.post('/v1/workspaces', sent, { prefer: 'wait=30' })
  expectStatus(made, 409)
})

test('a workspace without a bucket has no storage identity: 409 bucket_required', async () => {
  const { a } = world
  // Assumption: `bucket: null` makes a workspace without one.
  const sent = { tenant_id: a.tenant, name: 'Bare', slug: `bare-${word()}`, bucket: null }
  const made = await a.admin.post('/v1/workspaces', sent, { prefer: 'wait=30' })
  expectStatus(made, 201)
  const bare = new Caller({ apikey: await makeKey(a.admin, str(made, 'id'), 'service') })
  expectProblem(await bare.send('PUT', `${path}/x`, { raw: 'x', headers: BINARY }), 409, 'bucket_required')
})

test.each(['*', 'wal*', '%2A', 'Upper', 'a', 'x'.repeat(64)])(
  'a bucket called %s is never made',
  async (bucket) => {
    const { a } = world
    const sent = { tenant_id: a.tenant, name: 'Odd', slug: `odd-${word()}`, bucket }
    const made = await a.admin.post('/v1/workspaces', sent, { prefer: 'wait=30' })
    expectProblem(made, made.status === 422 ? 422 : 400)
  },
)

test('an anon key does not write objects', async () => {
  expectStatus(await world.a.anon.send('PUT', `${path}/anon`, { raw: 'x', headers: BINARY }), 403)
})

test('a half-sent upload stores nothing and harms nothing', async () => {
  const headers = { apikey: world.a.serviceKey, ...BINARY }
  await breakOff(`${path}/half`, headers, 1_000_000, 'x'.repeat(1000))
  await breakOff(`${path}/first`, headers, 1_000_000, 'x'.repeat(1000))
  await pause(500)
  expectProblem(await world.a.service.get(`${path}/half`), 404, 'NoSuchKey')
  expect((await world.a.service.get(`${path}/first`)).text).toBe(world.a.mark)
  await expectUnharmed(world)
})

test.each([
  '../x',
  '..%2F..%2Fetc%2Fpasswd',
  '%2e%2e/%2e%2e/x',
  'a/../../b',
  './x',
  'nul%00byte',
  `${'k'.repeat(1025)}`,
])('a key that climbs or is too long (%#) is refused', async (key) => {
  const headers = { apikey: world.b.serviceKey, ...BINARY }
  for (const method of ['PUT', 'GET', 'DELETE']) {
    const sent = await sendRawPath(
      method,
      `/v1/objects/${world.b.bucket}/${key}`,
      headers,
      method === 'PUT' ? 'x' : '',
    )
    world.b.ears.hear(sent)
    expectProblem(sent, 400)
  }
  await expectUnharmed(world)
})

test('a bucket that climbs into another is refused', async () => {
  const headers = { apikey: world.b.serviceKey }
  const reply = await sendRawPath('GET', `/v1/objects/${world.b.bucket}/../${world.a.bucket}/first`, headers)
  world.b.ears.hear(reply)
  expect(reply.text).not.toBe(world.a.mark)
  expect([400, 403, 404]).toContain(reply.status)
})

test('B saw nothing of A and is as it was', () => expectApart(world, world.a.bucket))
