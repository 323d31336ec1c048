/** Checks rate limits against an API process with small limits. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Node, startInProcessNode } from '../../support/stack/in-process-node.ts'
import { machine } from '../../support/fixtures/administrators.ts'
import { expectAlive, expectProblem, expectStatus, list, type Reply, send, str } from '../../support/clients/rest-client.ts'
import { createTenantPair, makeKey, type Party, type World, word } from '../../support/fixtures/tenant-pair.ts'

const DOCUMENTS = '/v1/collections/notes/documents'

let world: World
let small: Node

beforeAll(async () => {
  world = await createTenantPair({ anonReads: true })
  small = await startInProcessNode({
    TENON_RATE_SERVICE: '60/min burst 5',
    TENON_RATE_ANON: '60/min burst 40',
    TENON_RATE_ANON_ADDRESS: '60/min burst 6',
    TENON_RATE_ADMIN: '60/min burst 8',
    TENON_RATE_TENANT: '60/min burst 60',
    TENON_STREAMS_PER_ADDRESS: '2',
    TENON_TRUSTED_PROXIES: 'loopback',
  })
}, 120_000)

afterAll(() => small?.close())

const ask = (headers: Record<string, string>, path = DOCUMENTS, method = 'GET', json?: unknown) =>
  send(method, small.at.url + path, { headers, ...(json === undefined ? {} : { json }) })

async function burst(count: number, headers: Record<string, string>, path?: string): Promise<Reply[]> {
  const replies: Reply[] = []
  for (let at = 0; at < count; at++) replies.push(await ask(headers, path))
  return replies
}

const limited = (replies: readonly Reply[]) => replies.filter(({ status }) => status === 429)
const newKey = (party: Party, kind: 'anon' | 'service' = 'service') =>
  makeKey(party.admin, party.workspace, kind)

function expectLimited(reply: Reply | undefined, ...policies: string[]): void {
  if (!reply) throw new Error('nothing was limited')
  expectProblem(reply, 429, 'rate_limited')
  expect(Number(reply.headers.get('retry-after'))).toBeGreaterThanOrEqual(1)
  expect(Number(reply.headers.get('retry-after'))).toBeLessThanOrEqual(60)
  expect(reply.headers.get('ratelimit')).toMatch(/^"\w+";r=0;t=\d+$/)
  expect(list(reply, 'violated-policies')).toEqual(policies)
}

describe('headers (data-plane §2.6)', () => {
  test('rate limit headers: any reply: policies, and the remainder of the tightest', async () => {
    const [one, two] = await burst(2, { apikey: await newKey(world.a) })
    expect(one?.headers.get('ratelimit-policy')).toBe('"key";q=5;w=5, "tenant";q=60;w=60')
    expect(one?.headers.get('ratelimit')).toMatch(/^"key";r=4;t=\d$/)
    expect(two?.headers.get('ratelimit')).toMatch(/^"key";r=3;t=\d$/)
    expect([...(one?.headers.keys() ?? [])].filter((name) => name.startsWith('x-ratelimit'))).toEqual([])
  })

  test('rate limit: exceeded: 429 with Retry-After and violated-policies; afterwards: accepted', async () => {
    const headers = { apikey: await newKey(world.a) }
    const refused = limited(await burst(10, headers))[0]
    expectLimited(refused, 'key')
    const until = Date.now() + 1000 * Number(refused?.headers.get('retry-after'))
    await expect.poll(() => Date.now() >= until, { timeout: 10_000 }).toBe(true)
    expectStatus(await ask(headers), 200)
  })

  test('rate limit: refused request: no effect', async () => {
    const { a } = world
    const headers = { apikey: await newKey(a) }
    const title = word()
    const replies = await Promise.all(
      Array.from({ length: 12 }, () => ask(headers, DOCUMENTS, 'POST', { title, mark: a.mark })),
    )
    const made = replies.filter(({ status }) => status === 201)
    expect(made.length).toBeGreaterThanOrEqual(5)
    expect(limited(replies).length).toBeGreaterThan(0)
    expect(list(await a.service.get(`${DOCUMENTS}?title=eq.${title}`))).toHaveLength(made.length)
  })
})

describe('buckets (decisions §5: per key, per tenant, per address for anon keys)', () => {
  test('bucket: one key in all presentations: one', async () => {
    const key = await newKey(world.a)
    const ways: Record<string, string>[] = [
      { apikey: key },
      { 'x-api-key': key },
      { authorization: `ApiKey ${key}` },
      { authorization: `Bearer ${key}` },
      { apikey: key, 'x-api-key': key },
    ]
    for (const way of ways) expectStatus(await ask(way), 200)
    expectLimited(limited(await burst(3, { apikey: key }))[0], 'key')
  })

  test('bucket: client-supplied headers: no bucket of its own', async () => {
    const key = await newKey(world.a)
    const replies: Reply[] = []
    for (let at = 0; at < 12; at++) {
      replies.push(await ask({ apikey: key, 'x-tenant-id': word(), 'x-auth-subject': word() }))
    }
    expect(limited(replies).length).toBeGreaterThan(0)
  })

  test('bucket: key with its own rate: that rate', async () => {
    const { a } = world
    const sent = { workspace_id: a.workspace, kind: 'service', name: 'two', rate_limit: 2 }
    const key = str(await a.admin.post('/v1/api-keys', sent), 'key')
    const replies = await burst(4, { apikey: key })
    expect(replies.map(({ status }) => status)).toEqual([200, 200, 429, 429])
    expectLimited(replies[3], 'key')
    expect(Number(replies[3]?.headers.get('retry-after'))).toBeGreaterThan(20)
  })

  test('bucket: anon keys: per address, other addresses are unaffected', async () => {
    const key = await newKey(world.b, 'anon')
    const from = (address: string) => ({ apikey: key, 'x-forwarded-for': address })
    const refused = limited(await burst(9, from('203.0.113.7')))[0]
    expectLimited(refused, 'address')
    expectStatus(await ask(from('203.0.113.8')), 200)
  })

  test('bucket: IPv6 address: its /64', async () => {
    const key = await newKey(world.b, 'anon')
    const replies: Reply[] = []
    for (let at = 1; at < 10; at++) {
      replies.push(await ask({ apikey: key, 'x-forwarded-for': `2001:db8:7:7::${at}` }))
    }
    expectLimited(limited(replies)[0], 'address')
    expectStatus(await ask({ apikey: key, 'x-forwarded-for': '2001:db8:7:8::1' }), 200)
  })

  test('bucket: second anon key of the tenant at one address: same bucket', async () => {
    const [one, two] = [await newKey(world.b, 'anon'), await newKey(world.b, 'anon')]
    await burst(7, { apikey: one, 'x-forwarded-for': '203.0.113.20' })
    expectLimited(limited(await burst(3, { apikey: two, 'x-forwarded-for': '203.0.113.20' }))[0], 'address')
  })

  test('bucket: excess of one tenant: other tenants are unaffected', async () => {
    const busy = await createTenantPair()
    const keys = await Promise.all(Array.from({ length: 16 }, () => newKey(busy.a)))
    const all = (await Promise.all(keys.map((apikey) => burst(5, { apikey })))).flat()
    expectLimited(limited(all)[0], 'tenant')
    expectStatus(await ask({ apikey: busy.b.serviceKey }), 200)
  }, 60_000)

  test('bucket: administrative routes: per subject', async () => {
    const admin = await machine(world, world.a, 'tenant_admin')
    const headers = { authorization: admin.headers['authorization'] ?? '' }
    expectLimited(limited(await burst(12, headers, '/v1/workspaces'))[0], 'subject')
  })
})

test('streams: anon keys at one address over the limit: 429 quota_exceeded', async () => {
  const key = await newKey(world.b, 'anon')
  const stop = new AbortController()
  const open = () =>
    fetch(`${small.at.url}/v1/events/subscribe?topic=x`, {
      headers: { apikey: key, 'x-forwarded-for': '203.0.113.30' },
      signal: stop.signal,
    })
  expect([(await open()).status, (await open()).status]).toEqual([200, 200])
  const third = await open()
  expect(third.status).toBe(429)
  expect(await third.json()).toMatchObject({ code: 'quota_exceeded', limit: 2, used: 2 })
  stop.abort()
})

test('first API process: after the tests: works with its own limits', () => expectAlive())
