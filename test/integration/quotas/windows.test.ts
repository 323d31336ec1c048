/** Quotas per time window, per tenant and per MCP server: never exceeded under concurrency, reset on time. */

import { expect, inject, test } from 'vitest'
import { callsOf, NOTES, publishMcpServer } from '../../support/clients/mcp.ts'
import { limit, limitTenant, quota, repeatConcurrently, tally } from '../../support/fixtures/quotas.ts'
import {
  addTestWorkspace,
  asSuperuser,
  call,
  createTestWorkspace,
  type TestWorkspace,
  tokenOf,
  unique,
} from '../../support/fixtures/tenants.ts'
import { startInProcessNode } from '../../support/stack/in-process-node.ts'
import type { Running } from '../../support/stack/start.ts'

const publish = (workspace: TestWorkspace) =>
  call('POST', '/v1/events/publish', { as: workspace.service, body: { topic: 'orders.made', data: 1 } })

/** Ends the current window. */
const endWindow = (workspace: TestWorkspace, name: string) =>
  asSuperuser(`update tenon.quotas set resets_at = now() where workspace_id = $1 and name = $2`, [
    workspace.workspaceId,
    name,
  ])

test('daily event quota: 200 concurrent events, limit 20: 20 pass, per workspace', async () => {
  const workspace = await createTestWorkspace()
  const sibling = await addTestWorkspace(workspace)
  expect((await publish(workspace)).status).toBe(202)
  expect(await quota(workspace, 'events_per_day')).toEqual({ limit: -1, used: null, remaining: null })
  await limit(workspace, { events_per_day: 20 })
  const replies = await repeatConcurrently(200, () => publish(workspace))
  expect(tally(replies)).toEqual({ 202: 20, 429: 180 })
  const refused = replies.find(({ status }) => status === 429)
  const midnight = new Date(new Date().setUTCHours(24, 0, 0, 0)).toISOString()
  expect(refused?.body).toMatchObject({
    code: 'quota_exceeded',
    quota: 'events_per_day',
    limit: 20,
    used: 20,
    resets_at: midnight,
  })
  expect(Number(refused?.headers.get('retry-after'))).toBeGreaterThan(0)
  const full = { limit: 20, used: 20, remaining: 0, resets_at: midnight }
  expect(await quota(workspace, 'events_per_day')).toEqual(full)
  expect((await publish(sibling)).status).toBe(202)
  // A window that has ended starts anew, for concurrent requests too.
  await endWindow(workspace, 'events_per_day')
  expect(await quota(workspace, 'events_per_day')).toEqual({ ...full, used: 0, remaining: 20 })
  expect(tally(await repeatConcurrently(60, () => publish(workspace)))).toEqual({ 202: 20, 429: 40 })
  await limit(workspace, { events_per_day: 25 })
  expect(tally(await repeatConcurrently(10, () => publish(workspace)))).toEqual({ 202: 5, 429: 5 })
})

test('daily event quota: request refused for another reason: not counted', async () => {
  const workspace = await createTestWorkspace()
  await limit(workspace, { events_per_day: 5, invocations_per_day: 5 })
  const body = { topic: 'platform.mine', data: 1 }
  expect((await call('POST', '/v1/events/publish', { as: workspace.service, body })).status).toBe(400)
  expect((await call('POST', '/v1/events/publish', { as: workspace.anon, body })).status).toBe(403)
  const none = await call('POST', '/v1/functions/nothing/invoke', { as: workspace.service, body: {} })
  expect(none.status).toBe(404)
  for (const name of ['events_per_day', 'invocations_per_day'])
    expect(await quota(workspace, name)).toMatchObject({ used: 0 })
})

test('daily invocation quota: reached: refused before anything runs; anon key: learns no totals', async () => {
  const workspace = await createTestWorkspace()
  const source = 'export default () => 1'
  const made = await call('POST', '/v1/functions', {
    as: workspace.operator,
    body: { workspace_id: workspace.workspaceId, name: 'one', source, config: { anon: true } },
  })
  expect(made.status).toBe(201)
  await limit(workspace, { invocations_per_day: 3 })
  const invoke = (as = workspace.service) => call('POST', '/v1/functions/one/invoke', { as, body: {} })
  expect(tally(await repeatConcurrently(200, () => invoke()))).toEqual({ 200: 3, 429: 197 })
  const refusal = (await invoke(workspace.anon)).body
  expect(refusal).toMatchObject({ code: 'quota_exceeded', quota: 'invocations_per_day' })
  expect(refusal).not.toHaveProperty('used')
  expect(refusal).not.toHaveProperty('limit')
})

/** A flow `quick` that ends at once. */
async function publishQuick(workspace: TestWorkspace): Promise<void> {
  const as = workspace.operator
  const source = `document: { dsl: '1.0.3', namespace: t, name: quick, version: '1.0.0' }\ndo:\n  - a: { set: { x: 1 } }\n`
  await call('POST', `${workspace.flows}/definitions`, { as, body: { source } })
  await call('POST', `${workspace.flows}/definitions/quick/versions`, { as, body: {} })
}

/** Extends every open window by an hour, so that none ends during the test. */
const extendWindows = (workspace: TestWorkspace) =>
  asSuperuser(
    `update tenon.quotas set resets_at = now() + interval '1 hour' where workspace_id = $1 and resets_at is not null`,
    [workspace.workspaceId],
  )

test('start quota per minute: 60 concurrent starts: never exceeded, available again in the next minute', async () => {
  const workspace = await createTestWorkspace()
  const as = workspace.operator
  await publishQuick(workspace)
  await limit(workspace, { execution_starts_per_minute: 4, concurrent_executions: 100 })
  await extendWindows(workspace)
  const start = () =>
    call('POST', `${workspace.flows}/definitions/quick/executions`, { as, body: { input: {} } })
  const replies = await repeatConcurrently(60, start)
  expect(tally(replies)).toEqual({ 201: 4, 429: 56 })
  const refused = replies.find(({ status }) => status === 429)
  expect(refused?.body).toMatchObject({ quota: 'execution_starts_per_minute', limit: 4, used: 4 })
  await endWindow(workspace, 'execution_starts_per_minute')
  expect((await start()).status).toBe(201)
  const { used, resets_at } = await quota(workspace, 'execution_starts_per_minute')
  expect(used).toBe(1)
  expect(Date.parse(resets_at) % 60_000).toBe(0)
})

test('start quota per minute: two processes and a restart: counted together', async () => {
  const workspace = await createTestWorkspace()
  const as = workspace.operator
  await publishQuick(workspace)
  await limit(workspace, { execution_starts_per_minute: 5, concurrent_executions: 100 })
  await extendWindows(workspace)
  const first = inject('tenon')
  const starts = async (each: number, places: readonly Running[]) =>
    tally(
      await repeatConcurrently(each * places.length, (n) => {
        const at = places[n % places.length] ?? first
        return call('POST', `${workspace.flows}/definitions/quick/executions`, {
          as,
          at,
          body: { input: {} },
        })
      }),
    )
  const second = await startInProcessNode()
  try {
    expect(await starts(1, [first, second.at, second.at])).toEqual({ 201: 3 })
    expect(await starts(10, [first, second.at])).toEqual({ 201: 2, 429: 18 })
  } finally {
    await second.close()
  }
  const again = await startInProcessNode()
  try {
    expect(await starts(3, [again.at, first])).toEqual({ 429: 6 })
    expect(await quota(workspace, 'execution_starts_per_minute')).toMatchObject({ limit: 5, used: 5 })
  } finally {
    await again.close()
  }
})

test('workspace quota of a tenant: 20 concurrent creations: never exceeded, other tenants are unaffected', async () => {
  const [workspace, other] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  expect(await quota(workspace, 'workspaces', 'tenant')).toEqual({ limit: -1, used: 1, remaining: null })
  expect((await limitTenant(workspace, { workspaces: 3 })).body).toMatchObject({
    tenant_id: workspace.tenantId,
    quotas: { workspaces: { limit: 3, used: 1, remaining: 2 } },
  })
  const make = ({ tenantId, operator: as }: TestWorkspace) => {
    const body = { tenant_id: tenantId, name: 'More', slug: unique('w'), bucket: null }
    return call('POST', '/v1/workspaces', { as, body })
  }
  const replies = await repeatConcurrently(20, () => make(workspace))
  expect(tally(replies)).toEqual({ 202: 2, 429: 18 })
  const refused = replies.find(({ status }) => status === 429)
  expect(refused?.body).toMatchObject({ quota: 'workspaces', limit: 3, used: 3 })
  expect((await make(other)).status).toBe(202)
  const [there] = await asSuperuser<{ n: string }>(
    `select count(*) as n from tenon.workspaces where tenant_id = $1`,
    [workspace.tenantId],
  )
  expect(Number(there?.n)).toBe(3)
  // A failed creation frees its slot.
  await asSuperuser(
    `update tenon.workspaces set state = 'provisioning_failed' where tenant_id = $1 and id <> $2`,
    [workspace.tenantId, workspace.workspaceId],
  )
  expect((await quota(workspace, 'workspaces', 'tenant')).used).toBe(1)
  await limitTenant(workspace, { workspaces: -1 })
  expect((await make(workspace)).status).toBe(202)
})

test('quotas of tenants and workspaces: read and set: never mixed up, invisible to others', async () => {
  const [workspace, otherTenant] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  expect((await limit(workspace, { workspaces: 1 })).body.code).toBe('validation_failed')
  const as = await tokenOf({ roles: ['tenant_admin'], tenant_id: workspace.tenantId })
  const inside = await tokenOf({
    roles: ['workspace_admin'],
    tenant_id: workspace.tenantId,
    workspace_id: workspace.workspaceId,
  })
  const of = (tenantId: string) => `/v1/quotas?tenant_id=${tenantId}`
  expect((await call('GET', of(workspace.tenantId), { as })).status).toBe(200)
  expect((await call('GET', of(otherTenant.tenantId), { as })).status).toBe(404)
  expect((await call('GET', of(workspace.tenantId), { as: inside })).status).toBe(403)
  expect((await call('GET', '/v1/quotas', { as })).status).toBe(400)
  const both = `${of(workspace.tenantId)}&workspace_id=${workspace.workspaceId}`
  expect((await call('GET', both, { as })).status).toBe(400)
})

test('stream quota of a tenant: set by an operator: enforced, a closed stream frees one', async () => {
  const workspace = await createTestWorkspace()
  const { limit: usual } = await quota(workspace, 'sse_streams', 'tenant')
  expect(usual).toBeGreaterThan(0)
  await limitTenant(workspace, { sse_streams: 2 })
  const { url } = inject('tenon')
  const ended = new AbortController()
  const open = () =>
    fetch(`${url}/v1/events/subscribe?topic=a`, { headers: workspace.service, signal: ended.signal })
  const replies = await repeatConcurrently(30, open)
  expect(replies.filter(({ status }) => status === 200)).toHaveLength(2)
  expect(await quota(workspace, 'sse_streams', 'tenant')).toMatchObject({ limit: 2, used: 2, remaining: 0 })
  ended.abort()
  await limitTenant(workspace, { sse_streams: -1 })
  expect((await quota(workspace, 'sse_streams', 'tenant')).limit).toBe(usual)
})

test('tool call quota: 40 concurrent calls over REST, limit 5: 5 run, refusals are recorded', async () => {
  const workspace = await createTestWorkspace()
  const mcpServer = await publishMcpServer(workspace, unique('calls'))
  await limit(workspace, { mcp_calls_per_minute: 5 })
  await extendWindows(workspace)
  const as = workspace.operator
  const tool = 'notes_list'
  const replies = await repeatConcurrently(40, () =>
    call('POST', `${mcpServer.base}/call`, { as, body: { tool, arguments: {} } }),
  )
  expect(tally(replies)).toEqual({ 200: 5, 429: 35 })
  const refused = replies.find(({ status }) => status === 429)
  expect(refused?.body).toMatchObject({ quota: 'mcp_calls_per_minute', limit: 5, used: 5 })
  const recorded = (await callsOf(mcpServer)).map(({ outcome }) => outcome)
  expect(recorded.toSorted()).toEqual([...Array(35).fill('denied'), ...Array(5).fill('ok')])
})

test('tool quota of a server: version exceeds it: not published, the active version stays', async () => {
  const workspace = await createTestWorkspace()
  const mcpServer = await publishMcpServer(workspace, unique('tools'))
  expect(await quota(workspace, 'mcp_tools')).toEqual({ limit: -1, used: 5, remaining: null })
  await limit(workspace, { mcp_tools: 2 })
  const as = workspace.operator
  const publishTools = async (verbs: string[]) => {
    const tools = Object.fromEntries(
      Object.keys(NOTES).map((name) => [name, { enabled: verbs.some((verb) => name.endsWith(`:${verb}`)) }]),
    )
    await call('PUT', `${mcpServer.base}/curation`, { as, body: { tools } })
    return call('POST', `${mcpServer.base}/publish`, { as, body: { accept: ['breaking'] } })
  }
  const refused = await publishTools(['list', 'get', 'create'])
  expect(refused.status).toBe(429)
  expect(refused.body).toMatchObject({ code: 'quota_exceeded', quota: 'mcp_tools', limit: 2, used: 5 })
  expect((await publishTools(['list', 'get'])).status).toBe(201)
  expect(await quota(workspace, 'mcp_tools')).toEqual({ limit: 2, used: 2, remaining: 0 })
})
