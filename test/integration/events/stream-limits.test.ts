/** Limits on open event streams per tenant and address, over two API processes, one of which dies. */

import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { ACCESS_LIMITS } from '../../../src/access/limits.ts'
import { closeSubscriptions, subscribeToEvents } from '../../support/clients/sse.ts'
import { limitTenant } from '../../support/fixtures/quotas.ts'
import {
  addTestWorkspace,
  type Caller,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
} from '../../support/fixtures/tenants.ts'
import { startApi } from '../../support/stack/api-process.ts'
import { type Node, startInProcessNode } from '../../support/stack/in-process-node.ts'

let nodes: [Node, Node]
beforeAll(async () => {
  const settings = {
    TENON_STREAMS_PER_TENANT: '7',
    TENON_STREAMS_PER_ADDRESS: '3',
    TENON_TRUSTED_PROXIES: 'loopback',
  }
  nodes = await Promise.all([startInProcessNode(settings), startInProcessNode(settings)])
})
afterEach(closeSubscriptions)
afterAll(() => Promise.all((nodes ?? []).map((node) => node.close())))

const TOPIC = 'topic=news'
const at = (n: number) => (nodes[n % 2] as Node).at
const open = async (as: Caller, count: number) => {
  for (let n = 0; n < count; n++) await subscribeToEvents(as, TOPIC, {}, at(n))
}
const ask = (as: Caller, n = 0) => call('GET', `/v1/events/subscribe?${TOPIC}`, { as, at: at(n) })

test('streams: quota of the tenant reached, over all processes: refused until one ends', async () => {
  const [workspace, other] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  await open(workspace.service, 7)
  for (const n of [0, 1]) {
    const { status, body } = await ask(workspace.service, n)
    expect([status, body.code]).toEqual([429, 'quota_exceeded'])
    expect(body).toMatchObject({ quota: 'sse_streams', limit: 7, used: 7 })
  }
  expect((await ask(other.service)).status).toBe(200)
  closeSubscriptions()
  await eventually(async () => ((await ask(workspace.service)).status === 200 ? true : undefined))
})

test('streams: limit of an address with an anon key reached: other addresses can connect', async () => {
  const workspace = await createTestWorkspace()
  const as = (address: string) => ({ ...workspace.anon, 'x-forwarded-for': address })
  await open(as('203.0.113.1'), 3)
  const { status, body } = await ask(as('203.0.113.1'), 1)
  expect([status, body.quota, body.limit]).toEqual([429, 'sse_streams_per_address', 3])
  expect((await ask(as('203.0.113.2'))).status).toBe(200)
  expect((await ask(workspace.service)).status).toBe(200)
})

test('streams: anon keys of many addresses take all they can: service key, sibling workspace and admin still get one', async () => {
  const workspace = await createTestWorkspace()
  const sibling = await addTestWorkspace(workspace)
  await limitTenant(workspace, { sse_streams: 40 })
  const from = ({ anon }: TestWorkspace, n: number) => ({ ...anon, 'x-forwarded-for': `203.0.113.${n}` })
  const take = async (of: TestWorkspace) => {
    const tried = Array.from({ length: 30 }, (_, n) => subscribeToEvents(from(of, n), TOPIC, {}, at(n)))
    return (await Promise.allSettled(tried)).filter(({ status }) => status === 'fulfilled').length
  }
  expect(await take(workspace)).toBe(18)
  const refused = await ask(from(workspace, 99))
  expect([refused.status, refused.body.quota]).toEqual([429, 'sse_streams_per_workspace'])
  expect(await take(sibling)).toBe(2)
  expect((await ask(from(sibling, 99))).body.quota).toBe('sse_streams_public')
  for (const as of [workspace.service, sibling.service]) await subscribeToEvents(as, TOPIC, {}, at(0))
  const watched = `${workspace.flows}/executions/run_none/events`
  expect((await call('GET', watched, { as: workspace.operator, at: at(0) })).status).toBe(404)
})

test('streams: refused for now: a client of server-sent events gets `end` and tries again; others get the status', async () => {
  const workspace = await createTestWorkspace()
  const other = await createTestWorkspace()
  await open(workspace.service, 7)
  const get = async (path: string, as: Caller, accept = 'text/event-stream') => {
    const response = await fetch(`${at(0).url}${path}`, { headers: { ...as, accept } })
    return {
      status: response.status,
      type: response.headers.get('content-type'),
      text: await response.text(),
    }
  }
  const path = `/v1/events/subscribe?${TOPIC}`
  const { status, type, text } = await get(path, workspace.service)
  expect([status, type]).toEqual([200, 'text/event-stream'])
  expect(text).toMatch(/^retry: 15000\nevent: end\ndata: \{.*"code":"quota_exceeded".*\}\n\n$/)
  expect((await get(path, workspace.service, '*/*')).status).toBe(429)
  expect((await get(path, { apikey: 'nonsense' })).status).toBe(401)
  expect((await get('/v1/events/subscribe?topic=platform.*', other.anon)).status).toBe(403)
  expect((await get(`${other.flows}/executions/run_none/events`, other.operator)).status).toBe(404)
})

test('streams: twenty at once: quota is not exceeded', async () => {
  const workspace = await createTestWorkspace()
  const tried = await Promise.allSettled(
    Array.from({ length: 20 }, (_, n) => subscribeToEvents(workspace.service, TOPIC, {}, at(n))),
  )
  expect(tried.filter(({ status }) => status === 'fulfilled')).toHaveLength(7)
})

test('streams: refused or invalid request: no lease is left', async () => {
  const workspace = await createTestWorkspace()
  for (let n = 0; n < 10; n++) {
    const wrong = '/v1/events/subscribe?topic=a.*.b'
    expect((await call('GET', wrong, { as: workspace.service, at: at(0) })).status).toBe(400)
  }
  await open(workspace.service, 7)
})

test('streams: still open: leases are renewed; process died: leases expire', async () => {
  const workspace = await createTestWorkspace()
  const [stays] = nodes
  const shortLived = await startApi({ TENON_STREAMS_PER_TENANT: '7' })
  for (let n = 0; n < 4; n++) await subscribeToEvents(workspace.service, TOPIC, {}, shortLived.at)
  for (let n = 0; n < 3; n++) await subscribeToEvents(workspace.service, TOPIC, {}, stays.at)
  const openedMs = performance.now()
  shortLived.process.kill('SIGKILL')
  expect((await ask(workspace.service)).status).toBe(429)
  await eventually(async () => ((await ask(workspace.service)).status === 200 ? true : undefined), 30_000)
  // By now every lease that was not renewed has expired.
  await eventually(
    async () => performance.now() - openedMs > ACCESS_LIMITS.streamLeaseMs + 1_000 || undefined,
    30_000,
  )
  for (let n = 0; n < 4; n++)
    await eventually(() => subscribeToEvents(workspace.service, TOPIC, {}, stays.at).catch(() => undefined))
  expect((await ask(workspace.service)).status).toBe(429)
})
