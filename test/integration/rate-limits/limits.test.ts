/** Rate limits over two API nodes: exact, per key, subject, address and tenant, reported in headers. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import {
  addTestWorkspace,
  type Caller,
  call,
  createTestWorkspace,
  type Reply,
  type TestWorkspace,
  tokenOf,
  unique,
  userToken,
} from '../../support/fixtures/tenants.ts'
import { type Node, startInProcessNode } from '../../support/stack/in-process-node.ts'

const SERVICE = { burst: 100, perMinute: 60 }
const ADDRESS = { burst: 10, perMinute: 6 }
const USER = { burst: 20, perMinute: 60 }

let nodes: [Node, Node]
beforeAll(async () => {
  const settings = {
    TENON_RATE_SERVICE: `${SERVICE.perMinute}/min burst ${SERVICE.burst}`,
    TENON_RATE_ANON: '60/min burst 40',
    TENON_RATE_ANON_ADDRESS: `${ADDRESS.perMinute}/min burst ${ADDRESS.burst}`,
    TENON_RATE_USER: `${USER.perMinute}/min burst ${USER.burst}`,
    TENON_RATE_ADMIN: '6/min burst 5',
    TENON_RATE_TENANT: '60/min burst 150',
    TENON_TRUSTED_PROXIES: 'loopback',
  }
  nodes = await Promise.all([startInProcessNode(settings), startInProcessNode(settings)])
})
afterAll(() => Promise.all((nodes ?? []).map((node) => node.close())))

const LIST = '/v1/collections'
const from = (address: string) => ({ 'x-forwarded-for': address })

const ask = (as: Caller, n = 0, path = LIST): Promise<Reply> =>
  call('GET', path, { as, at: (nodes[n % 2] as Node).at })

/** So many that the process of client and nodes still reads replies of Valkey in time. */
const LANES = 50

/** A node counts alone for a while if Valkey, on a busy machine, does not reply within 75 ms. */
const IF_VALKEY_REPLIES = { retry: 3 }

/** Sends many at once, alternating between the nodes. @returns how many passed, and how long it took */
async function flood(count: number, as: (n: number) => Caller, path = LIST) {
  const startedMs = performance.now()
  const replies: Reply[] = []
  let sent = 0
  const lane = async () => {
    for (let n = sent++; n < count; n = sent++) replies.push(await ask(as(n), n, path))
  }
  await Promise.all(Array.from({ length: LANES }, lane))
  const seconds = (performance.now() - startedMs) / 1_000
  const passed = replies.filter(({ status }) => status === 200)
  const refused = replies.filter(({ status }) => status === 429)
  expect(passed.length + refused.length).toBe(count)
  return { passed: passed.length, refused, seconds }
}

/** Exactly the size of the bucket plus what it refilled meanwhile. */
function expectExactly(passed: number, { burst, perMinute }: typeof SERVICE, seconds: number): void {
  expect(passed).toBeGreaterThanOrEqual(burst)
  expect(passed).toBeLessThanOrEqual(burst + Math.floor((seconds * perMinute) / 60) + 1)
}

test(
  'rate limit: 500 requests to two nodes, 50 at once: as many pass as the bucket holds',
  IF_VALKEY_REPLIES,
  async () => {
    const { service } = await createTestWorkspace()
    const { passed, refused, seconds } = await flood(500, () => service)
    expectExactly(passed, SERVICE, seconds)
    const [first] = refused
    expect(first?.body).toMatchObject({
      type: 'https://iana.org/assignments/http-problem-types#quota-exceeded',
      code: 'rate_limited',
      status: 429,
      'violated-policies': ['key'],
    })
    expect(first?.headers.get('content-type')).toContain('application/problem+json')
    expect(first?.headers.get('retry-after')).toBe('1')
    expect(first?.headers.get('ratelimit')).toBe('"key";r=0;t=1')
  },
)

test('rate limit: forbidden request: charged too', IF_VALKEY_REPLIES, async () => {
  const { service } = await createTestWorkspace()
  const startedMs = performance.now()
  const replies = await Promise.all(Array.from({ length: 200 }, (_, n) => ask(service, n, '/v1/tenants')))
  const forbidden = replies.filter(({ status }) => status === 403)
  expect(forbidden.length + replies.filter(({ status }) => status === 429).length).toBe(200)
  expectExactly(forbidden.length, SERVICE, (performance.now() - startedMs) / 1_000)
  expect(forbidden[0]?.headers.get('ratelimit-policy')).toContain('"key";q=100')
})

test('rate limit headers: reply with any status: limit and remainder', async () => {
  const { service, operator } = await createTestWorkspace()
  const policy = '"key";q=100;w=100, "tenant";q=150;w=150'
  const left = []
  for (const path of [LIST, '/v1/collections/none/documents/x', `${LIST}?wrong=1`, '/v1/objects/none/x']) {
    const { headers } = await ask(service, left.length, path)
    expect(headers.get('ratelimit-policy')).toBe(policy)
    left.push(/^"key";r=(\d+);t=\d+$/.exec(headers.get('ratelimit') ?? '')?.[1])
  }
  expect(left).toEqual(['99', '98', '97', '96'])
  const admin = await ask(operator, 0, '/v1/tenants')
  expect([admin.status, admin.headers.get('ratelimit-policy')]).toEqual([200, '"subject";q=5;w=50'])
})

test('rate limit: one key in all its presentations: one bucket', async () => {
  const { service, anon } = await createTestWorkspace()
  const text = service['apikey'] ?? ''
  const ways: Caller[] = [
    { apikey: text },
    { 'x-api-key': text },
    { authorization: `Bearer ${text}` },
    { authorization: `ApiKey ${text}` },
  ]
  const left = []
  for (const way of ways) left.push((await ask(way)).headers.get('ratelimit'))
  expect(left.map((text_) => text_?.split(';')[1])).toEqual(['r=99', 'r=98', 'r=97', 'r=96'])
  const query = `/v1/events/subscribe?topic=a&apikey=${anon['apikey']}`
  const [byHeader, byQuery] = [await ask(anon), await ask({}, 1, query)]
  expect(byHeader.headers.get('ratelimit')).toMatch(/^"address";r=9;/)
  expect([byQuery.status, byQuery.headers.get('ratelimit')?.slice(0, 13)]).toEqual([200, '"address";r=8'])
})

test('rate limit: flood of one tenant: bucket of another tenant is unaffected', async () => {
  const [flooded, quiet] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  const { refused } = await flood(300, () => flooded.service)
  expect(refused.length).toBeGreaterThan(100)
  const { status, headers } = await ask(quiet.service)
  expect([status, headers.get('ratelimit')]).toEqual([200, '"key";r=99;t=1'])
})

test(
  'rate limit: keys and workspaces of a tenant: one bucket of the tenant; refusal: names the full bucket',
  IF_VALKEY_REPLIES,
  async () => {
    const workspace = await createTestWorkspace()
    const sibling = await addTestWorkspace(workspace)
    const burst = { burst: 150, perMinute: 60 }
    const { passed, refused, seconds } = await flood(300, (n) => (n % 4 < 2 ? workspace : sibling).service)
    expectExactly(passed, burst, seconds)
    expect(refused.some(({ body }) => body['violated-policies'].join() === 'tenant')).toBe(true)
  },
)

test('rate limit: anon key from one address: other addresses are unaffected', IF_VALKEY_REPLIES, async () => {
  const workspace = await createTestWorkspace()
  const as = (address: string) => ({ ...workspace.anon, ...from(address) })
  const { passed, refused, seconds } = await flood(200, () => as('203.0.113.7'))
  expectExactly(passed, ADDRESS, seconds)
  expect(refused[0]?.body['violated-policies']).toEqual(['address'])
  expect((await ask(as('203.0.113.8'))).status).toBe(200)
  const other = await createTestWorkspace()
  expect((await ask({ ...other.anon, ...from('203.0.113.7') })).status).toBe(200)
  expect((await ask(workspace.service)).status).toBe(200)
})

test('client address: IPv6: counted by network; several forwarders: the last untrusted one counts', async () => {
  const workspace = await createTestWorkspace()
  const left = async (address: string) =>
    (await ask({ ...workspace.anon, ...from(address) })).headers.get('ratelimit')?.split(';')[1]
  expect(await left('2001:db8:0:7::1')).toBe('r=9')
  expect(await left('2001:db8::7:ffff:0:0:1')).toBe('r=8')
  expect(await left('2001:db8:0:8::1')).toBe('r=9')
  expect(await left('::ffff:198.51.100.1')).toBe('r=9')
  expect(await left('10.9.9.9, 198.51.100.1')).toBe('r=8')
})

test('client address: forwarded header from an untrusted peer: the peer counts', async () => {
  const node = await startInProcessNode({ TENON_RATE_ANON_ADDRESS: '6/min burst 3' })
  try {
    const workspace = await createTestWorkspace()
    const statuses = []
    for (const last of [1, 2, 3, 4])
      statuses.push(
        (await call('GET', LIST, { as: { ...workspace.anon, ...from(`203.0.113.${last}`) }, at: node.at }))
          .status,
      )
    expect(statuses).toEqual([200, 200, 200, 429])
  } finally {
    await node.close()
  }
})

test('rate limit: subjects of tokens: one bucket per tenant and role', IF_VALKEY_REPLIES, async () => {
  const [workspace, other] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  const token = (of: TestWorkspace, sub: string, role: string) =>
    tokenOf({ sub, roles: [role], tenant_id: of.tenantId, workspace_id: of.workspaceId })
  const ada = await token(workspace, 'ada', 'tenant_admin')
  const { passed, refused, seconds } = await flood(20, () => ada, '/v1/tenants')
  expectExactly(passed, { burst: 5, perMinute: 6 }, seconds)
  expect(refused[0]?.body['violated-policies']).toEqual(['subject'])
  const others = [await token(workspace, 'bob', 'tenant_admin'), await token(other, 'ada', 'tenant_admin')]
  for (const as of others) expect((await ask(as, 0, '/v1/tenants')).status).toBe(200)
  expect((await ask(await token(workspace, 'ada', 'service'))).status).toBe(200)
})

test(
  'rate limit: users behind one address: a bucket each, larger than that of the address',
  IF_VALKEY_REPLIES,
  async () => {
    const workspace = await createTestWorkspace()
    const behind = (as: Caller) => ({ ...as, ...from('203.0.113.9') })
    const [mia, ben] = [behind(await userToken(workspace, 'mia')), behind(await userToken(workspace, 'ben'))]
    const { passed, refused, seconds } = await flood(40, () => mia)
    expectExactly(passed, USER, seconds)
    expect(refused[0]?.body['violated-policies']).toEqual(['subject'])
    expect((await ask(ben)).status).toBe(200)
  },
)

test('rate limit: token with the subject of a key: bucket of its own', async () => {
  const workspace = await createTestWorkspace()
  const { body } = await call('GET', `/v1/api-keys?workspace_id=${workspace.workspaceId}`, {
    as: workspace.operator,
  })
  const claims = { roles: ['service'], tenant_id: workspace.tenantId, workspace_id: workspace.workspaceId }
  for (const { id } of body.data) await ask(await tokenOf({ ...claims, sub: id }))
  expect((await ask(workspace.service)).headers.get('ratelimit')).toMatch(/^"key";r=99;/)
})

test('GET /v1/limits: any caller: its limits, counted like any request', async () => {
  const workspace = await createTestWorkspace()
  const limits = async (as: Caller) => (await ask(as, 0, '/v1/limits')).body
  await ask(workspace.service)
  const service = await limits(workspace.service)
  expect(service.rates).toEqual([
    { policy: 'key', per_minute: 60, limit: 100, window_seconds: 100, remaining: 98 },
    { policy: 'tenant', per_minute: 60, limit: 150, window_seconds: 150, remaining: 148 },
  ])
  expect(service.sizes).toMatchObject({ body_bytes: 1_048_576, document_bytes: 262_144, page_size: 200 })
  const policies = ({ rates }: { rates: { policy: string }[] }) => rates.map(({ policy }) => policy)
  expect(policies(await limits(workspace.anon))).toEqual(['key', 'address', 'tenant'])
  const claims = { sub: unique('ada'), roles: ['tenant_admin'], tenant_id: workspace.tenantId }
  expect(policies(await limits(await tokenOf(claims)))).toEqual(['subject', 'tenant'])
  const unknownSubject = await limits(await tokenOf({ sub: unique('nobody'), roles: [] }))
  expect(policies(unknownSubject)).toEqual(['subject'])
})
