/** Rate limits of callers at an API node with small limits: when they pass again, what a refusal leaves, and whose bucket counts. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  expectAlive,
  expectProblem,
  expectStatus,
  list,
  type Reply,
  send,
  str,
} from '../../support/clients/rest-client.ts'
import {
  createTenantPair,
  makeKey,
  type Party,
  type World,
  word,
} from '../../support/fixtures/tenant-pair.ts'
import { type Node, startInProcessNode } from '../../support/stack/in-process-node.ts'

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
})

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

describe('headers', () => {
  test('rate limit: exceeded: 429 with Retry-After and violated-policies; afterwards: accepted', async () => {
    const headers = { apikey: await newKey(world.a) }
    const refused = limited(await burst(10, headers))[0]
    expectLimited(refused, 'key')
    const until = Date.now() + 1000 * Number(refused?.headers.get('retry-after'))
    await expect.poll(() => Date.now() >= until).toBe(true)
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

describe('buckets', () => {
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

  test('bucket: second anon key of the tenant at one address: same bucket', async () => {
    const [one, two] = [await newKey(world.b, 'anon'), await newKey(world.b, 'anon')]
    await burst(7, { apikey: one, 'x-forwarded-for': '203.0.113.20' })
    expectLimited(limited(await burst(3, { apikey: two, 'x-forwarded-for': '203.0.113.20' }))[0], 'address')
  })
})

test('first API process: after the tests: works with its own limits', () => expectAlive())
