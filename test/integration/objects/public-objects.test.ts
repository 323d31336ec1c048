/** Objects below public prefixes: readable at /public without a key, and nothing else is. */

import { beforeAll, expect, inject, test } from 'vitest'
import { createTestWorkspaceWithStorage, type TestWorkspace, unique } from '../../support/fixtures/tenants.ts'
import { bucketOf, configure, openToAnon } from '../../support/stack/workspace-settings.ts'

let workspace: TestWorkspace
let bucket: string
beforeAll(async () => {
  workspace = await createTestWorkspaceWithStorage()
  bucket = await bucketOf(workspace)
  await openToAnon(workspace, 'site/')
})

/** Longer than settings are cached. */

const get = (path: string, init: RequestInit = {}) => fetch(`${inject('tenon').url}/public/${path}`, init)

async function store(key: string, headers: Record<string, string> = {}, body = '0123456789', of = workspace) {
  const path = `${inject('tenon').url}/v1/objects/${await bucketOf(of)}/${key}`
  const put = await fetch(path, { method: 'PUT', headers: { ...of.service, ...headers }, body })
  expect(put.ok).toBe(true)
}

test('public object: read, its headers, ranges and conditions without a key', async () => {
  await store('site/a b/ä.txt', { 'content-type': 'text/plain', 'content-language': 'de' })
  const path = `${bucket}/site/a%20b/%C3%A4.txt`
  const whole = await get(path)
  expect([whole.status, await whole.text()]).toEqual([200, '0123456789'])
  const { headers } = whole
  expect(Object.fromEntries(headers)).toMatchObject({
    'content-type': 'text/plain',
    'content-language': 'de',
    'cache-control': 'public, max-age=0, must-revalidate',
    'access-control-allow-origin': '*',
    'cross-origin-resource-policy': 'cross-origin',
    'x-content-type-options': 'nosniff',
    'content-security-policy': "default-src 'none'; sandbox",
  })
  // A cache keeps one reply for all.
  expect([headers.get('vary'), headers.get('set-cookie')]).toEqual([null, null])
  const part = await get(path, { headers: { range: 'bytes=-3' } })
  expect([part.status, await part.text(), part.headers.get('content-range')]).toEqual([
    206,
    '789',
    'bytes 7-9/10',
  ])
  const known = await get(path, { headers: { 'if-none-match': headers.get('etag') ?? '' } })
  expect([known.status, known.headers.get('cache-control')]).toEqual([
    304,
    'public, max-age=0, must-revalidate',
  ])
  const head = await get(path, { method: 'HEAD' })
  expect([head.status, head.headers.get('content-length')]).toEqual([200, '10'])
  expect((await get(path, { headers: { 'if-match': '"stale"' } })).status).toBe(412)
  for (const method of ['GET', 'HEAD']) {
    const set = await get(`${path}?response-content-type=text/html`, { method })
    expect([set.status, set.headers.get('x-problem-code')]).toEqual([400, 'unknown_parameter'])
  }
})

test.each([
  ['max-age=60', 'public, max-age=60'],
  ['public, max-age=60, immutable', 'public, max-age=60, immutable'],
  ['s-maxage=5', 'public, s-maxage=5'],
  ['private, max-age=60', 'private, max-age=60'],
  ['no-store', 'no-store'],
])('Cache-Control %s of the object: is sent as %s', async (kept, sent) => {
  await store('site/cached.txt', { 'cache-control': kept })
  expect((await get(`${bucket}/site/cached.txt`)).headers.get('cache-control')).toBe(sent)
})

test.each(['text/html', 'image/svg+xml', 'application/xml', 'text/javascript', 'application/xhtml+xml'])(
  '%s: is served so that it cannot act in this origin',
  async (type) => {
    await store('site/active', { 'content-type': type }, '<script>alert(1)</script>')
    const { headers } = await get(`${bucket}/site/active`)
    expect(headers.get('content-security-policy')).toMatch(/default-src 'none'.*sandbox(?! allow)/)
    expect(headers.get('x-content-type-options')).toBe('nosniff')
  },
)

test('whatever is not public: one answer for a foreign bucket, a closed one, another prefix and a missing key', async () => {
  await store('private/plan.txt')
  const closed = await createTestWorkspaceWithStorage()
  await store('site/a.txt', {}, 'a', closed)
  const answers = await Promise.all(
    [
      `${bucket}/site/missing.txt`,
      `${bucket}/private/plan.txt`,
      `${bucket}/site`,
      `${bucket}/sit%65/../private/plan.txt`,
      `${bucket}/site/%2e%2e%2fprivate%2fplan.txt`,
      `${await bucketOf(closed)}/site/a.txt`,
      `${unique('no-such-bucket')}/site/a.txt`,
      'tenon-payloads/a',
      'Not_A_Bucket/a',
    ].map(async (path) => {
      const response = await get(path)
      const { request_id, instance, ...problem } = (await response.json()) as Record<string, unknown>
      const { headers } = response
      const shown = ['access-control-allow-origin', 'cache-control', 'vary'].map((name) => headers.get(name))
      return JSON.stringify([response.status, problem, shown])
    }),
  )
  expect(answers[0]).toContain('"NoSuchKey"')
  expect(new Set(answers).size).toBe(1)
})

test('credentials and other methods: are not read, and refused', async () => {
  await store('site/a.txt')
  const garbage = { apikey: 'svc_service_nothing', authorization: 'Bearer garbage', cookie: 'a=b' }
  expect((await get(`${bucket}/site/a.txt`, { headers: garbage })).status).toBe(200)
  // The rights of a key do not count here either.
  await store('private/plan.txt')
  expect((await get(`${bucket}/private/plan.txt`, { headers: workspace.service })).status).toBe(404)
  for (const method of ['PUT', 'POST', 'DELETE', 'PATCH']) {
    const { status, headers } = await get(`${bucket}/site/a.txt`, { method })
    expect([method, status, headers.get('allow')]).toEqual([method, 405, 'GET, HEAD, OPTIONS'])
  }
  const preflight = await get(`${bucket}/site/a.txt`, { method: 'OPTIONS' })
  expect([preflight.status, preflight.headers.get('access-control-allow-methods')]).toEqual([
    204,
    'GET, HEAD',
  ])
  expect((await get(`${bucket}/site/a.txt?nothing=1`)).status).toBe(400)
})

test('closed again, and suspended: nothing is read after a few seconds', async () => {
  const own = await createTestWorkspaceWithStorage()
  await openToAnon(own, 'site/')
  await store('site/a.txt', {}, 'a', own)
  const path = `${await bucketOf(own)}/site/a.txt`
  const status = async () => (await get(path)).status
  expect(await status()).toBe(200)
  await configure(own, { objects: { public_read: [] } })
  await expect.poll(status).toBe(404)
  await openToAnon(own, 'site/')
  await expect.poll(status).toBe(200)
  const suspend = `${inject('tenon').url}/v1/tenants/${own.tenantId}/suspend`
  expect((await fetch(suspend, { method: 'POST', headers: own.operator })).ok).toBe(true)
  await expect.poll(status).toBe(404)
})
