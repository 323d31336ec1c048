/** Rate limits of other entry points: MCP, sign-in, documentation, unknown keys, open streams. */

import { afterAll, afterEach, beforeAll, expect, inject, test } from 'vitest'
import { makeKey } from '../../../src/access/authentication/credentials.ts'
import { publishMcpServer, RPC, scopesOf, tokenFor } from '../../support/clients/mcp.ts'
import { closeSubscriptions, receivedAtLeast, subscribeToEvents } from '../../support/clients/sse.ts'
import {
  type Caller,
  call,
  createTestWorkspace,
  operator,
  type Reply,
} from '../../support/fixtures/tenants.ts'
import { type Node, startInProcessNode } from '../../support/stack/in-process-node.ts'

let node: Node
beforeAll(async () => {
  node = await startInProcessNode({
    // Operators of other files are the same subject, so this process counts in a Valkey database of its own.
    REDIS_URL: `${inject('tenon').env['REDIS_URL']}/7`,
    TENON_RATE_ANON_ADDRESS: '6/min burst 3',
    TENON_RATE_ADMIN: '6/min burst 4',
    TENON_RATE_MCP: '6/min burst 5',
    TENON_RATE_PUBLIC: '6/min burst 6',
    TENON_RATE_AUTH_FAILURES: '6/min burst 10',
    TENON_TRUSTED_PROXIES: 'loopback',
  })
})
afterEach(closeSubscriptions)
afterAll(() => node?.close())

const from = (address: string) => ({ 'x-forwarded-for': address })
const ask = (path: string, as: Caller = {}) => call('GET', path, { as, at: node.at })

async function statusesOf(count: number, work: (n: number) => Promise<Reply>): Promise<number[]> {
  const statuses = []
  for (let n = 0; n < count; n++) statuses.push((await work(n)).status)
  return statuses
}

test('hosted MCP server: one client: limited by subject (T40)', async () => {
  const mcpServer = await publishMcpServer(await createTestWorkspace(), 'notes')
  const mcpClient = await tokenFor(mcpServer, scopesOf(mcpServer, 'notes_list'))
  const body = { jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} }
  const list = () => call('POST', mcpServer.path, { as: mcpClient, body, headers: RPC, at: node.at })
  const first = await list()
  expect([first.status, first.headers.get('ratelimit')]).toEqual([200, '"subject";r=4;t=10'])
  expect(await statusesOf(5, list)).toEqual([200, 200, 200, 200, 429])
  const refused = await list()
  expect(refused.body).toMatchObject({ code: 'rate_limited', 'violated-policies': ['subject'] })
  expect(Number(refused.headers.get('retry-after'))).toBeGreaterThan(5)
})

test('platform MCP server: calls: counted as administration', async () => {
  const as = await operator()
  const body = { jsonrpc: '2.0', id: 1, method: 'tools/list', params: {} }
  const post = () => call('POST', '/v1/mcp/platform/mcp', { as, body, headers: RPC, at: node.at })
  const first = await post()
  expect([first.status, first.headers.get('ratelimit-policy')]).toEqual([200, '"subject";q=4;w=40'])
  expect((await ask('/v1/tenants', as)).headers.get('ratelimit')).toMatch(/^"subject";r=2;/)
  expect(await statusesOf(3, post)).toEqual([200, 200, 429])
})

test('token endpoint: wrong secrets: limited by address', async () => {
  const guess = (address: string) =>
    call('POST', '/auth/token', {
      as: { authorization: `Basic ${btoa('tenon-operator:guess')}`, ...from(address) },
      body: 'grant_type=client_credentials',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
      at: node.at,
    })
  const statuses = await statusesOf(8, () => guess('203.0.113.9'))
  expect(statuses).toEqual([401, 401, 401, 401, 401, 401, 429, 429])
  expect((await ask('/docs/problems/forbidden', from('203.0.113.9'))).status).toBe(429)
  expect((await guess('203.0.113.10')).status).toBe(401)
})

test('probes: the address has spent its rate: each of them is answered, and none is charged', async () => {
  const as = from('203.0.113.11')
  const spend = () => statusesOf(8, () => ask('/docs/problems/forbidden', as))
  expect((await spend()).at(-1)).toBe(429)
  for (const path of ['/healthz', '/readyz', '/readyz?full', '/startupz', '/version']) {
    const replies = await Promise.all(Array.from({ length: 20 }, () => ask(path, as)))
    expect([path, ...new Set(replies.map(({ status }) => status))]).toEqual([path, 200])
    expect(replies.some(({ headers }) => headers.has('ratelimit'))).toBe(false)
  }
})

test('unknown keys: repeated: 401, then 429 without a database lookup; known key: unaffected', async () => {
  const { service } = await createTestWorkspace()
  const as = (key: Caller) => ({ ...key, ...from('203.0.113.12') })
  const guess = () => ask('/v1/collections', as({ apikey: makeKey('service') }))
  expect((await ask('/v1/collections', as(service))).status).toBe(200)
  const replies = []
  for (let n = 0; n < 14; n++) replies.push(await guess())
  expect(replies.map(({ status }) => status).slice(0, 10)).toEqual(Array(10).fill(401))
  expect(replies.at(-1)?.body).toMatchObject({ code: 'rate_limited', 'violated-policies': ['address'] })
  expect((await ask('/v1/collections', as(service))).status).toBe(200)
  const elsewhere = { apikey: makeKey('service'), ...from('203.0.113.13') }
  expect((await ask('/v1/collections', elsewhere)).status).toBe(401)
})

test('stream: re-checks of its credential: charged once', async () => {
  const workspace = await createTestWorkspace()
  const as = { ...workspace.anon, ...from('203.0.113.14') }
  const received = await subscribeToEvents(as, 'topic=slow', {}, node.at)
  const remaining = async () => {
    const { status, headers } = await ask('/v1/collections', as)
    return [status, headers.get('ratelimit')?.split(';')[1]]
  }
  expect(await remaining()).toEqual([200, 'r=1'])
  // The check runs every second: events continue for longer than that.
  const untilMs = performance.now() + 3_500
  for (let n = 1; performance.now() < untilMs; n++) {
    const body = { topic: 'slow', data: n }
    await call('POST', '/v1/events/publish', { as: workspace.service, body, at: node.at })
    await receivedAtLeast(received, n)
  }
  expect(received.some(({ event }) => event === 'end')).toBe(false)
  expect(await remaining()).toEqual([200, 'r=0'])
})

test('stream: opened: reports its limits', async () => {
  const workspace = await createTestWorkspace()
  const reply = await ask('/v1/events/subscribe?topic=a', workspace.service)
  expect([reply.status, reply.headers.get('ratelimit-policy')]).toEqual([
    200,
    expect.stringContaining('"key";q='),
  ])
})
