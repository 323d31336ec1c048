/** Quotas, settings and metrics of a workspace: set, enforced under concurrency, read back. */

import { createServer } from 'node:http'
import { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import {
  addTestWorkspace,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  tokenOf,
} from '../../support/fixtures/tenants.ts'

const PATH = '/v1/collections/things/documents'
const make = (workspace: TestWorkspace, body: unknown = { n: 1 }) =>
  call('POST', PATH, { as: workspace.service, body })

function limit(workspace: TestWorkspace, limits: Record<string, number>) {
  return call('PUT', '/v1/quotas', {
    as: workspace.operator,
    body: { workspace_id: workspace.workspaceId, limits },
  })
}

async function quota(workspace: TestWorkspace, name: string) {
  const { body } = await call('GET', `/v1/quotas?workspace_id=${workspace.workspaceId}`, {
    as: workspace.operator,
  })
  return body.quotas[name]
}

function countByStatus(statuses: readonly number[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const status of statuses) counts[status] = (counts[status] ?? 0) + 1
  return counts
}

describe('quotas', () => {
  test('quota: no limit set: unlimited, usage is counted', async () => {
    const workspace = await createTestWorkspace()
    await make(workspace)
    expect(await quota(workspace, 'documents')).toEqual({ limit: -1, used: 1, remaining: null })
    expect(await quota(workspace, 'api_keys')).toEqual({ limit: -1, used: 2, remaining: null })
  })

  test('quota: 60 concurrent writes: never exceeded, other workspaces are unaffected', async () => {
    const workspace = await createTestWorkspace()
    const sibling = await addTestWorkspace(workspace)
    await Promise.all([make(workspace), make(workspace), make(sibling)])
    expect((await limit(workspace, { documents: 12 })).body.quotas.documents).toEqual({
      limit: 12,
      used: 2,
      remaining: 10,
    })
    const replies = await Promise.all(Array.from({ length: 60 }, () => make(workspace)))
    expect(countByStatus(replies.map(({ status }) => status))).toEqual({ 201: 10, 429: 50 })
    const refused = replies.find(({ status }) => status === 429)
    expect(refused?.body).toMatchObject({ code: 'quota_exceeded', quota: 'documents', limit: 12, used: 12 })
    const { body } = await call('GET', `${PATH}?page[size]=200`, { as: workspace.service })
    expect(body.data).toHaveLength(12)
    expect(await quota(workspace, 'documents')).toEqual({ limit: 12, used: 12, remaining: 0 })
    expect((await make(sibling)).status).toBe(201)
  })

  test('quota: limit set while a document is being created: waits for it and counts it', async () => {
    const workspace = await createTestWorkspace()
    const client = new Client({ connectionString: inject('tenon').databaseUrl })
    await client.connect()
    try {
      await client.query('begin')
      await client.query(
        `insert into tenon.documents (tenant_id, workspace_id, collection, id, data)
          values ($1, $2, 'things', gen_random_uuid(), '{}')`,
        [workspace.tenantId, workspace.workspaceId],
      )
      const set = limit(workspace, { documents: 1 })
      const waited = Promise.race([set, new Promise((done) => setTimeout(done, 300, 'waits'))])
      expect(await waited).toBe('waits')
      await client.query('commit')
      expect((await set).body.quotas.documents).toEqual({ limit: 1, used: 1, remaining: 0 })
    } finally {
      await client.end()
    }
    expect((await make(workspace)).status).toBe(429)
  })

  test('quota: resource deleted: usage decreases; limit -1: unlimited', async () => {
    const workspace = await createTestWorkspace()
    const { body } = await make(workspace)
    await limit(workspace, { documents: 1 })
    expect((await make(workspace)).status).toBe(429)
    await call('DELETE', `${PATH}/${body.id}`, { as: workspace.service })
    expect((await make(workspace)).status).toBe(201)
    expect((await make(workspace)).status).toBe(429)
    await limit(workspace, { documents: -1 })
    expect((await make(workspace)).status).toBe(201)
    expect(await quota(workspace, 'documents')).toEqual({ limit: -1, used: 2, remaining: null })
  })

  test('quota: documents in tables of their own, declared collections: counted too', async () => {
    const workspace = await createTestWorkspace()
    const declare = (collection: string) =>
      call('POST', '/v1/schemas', {
        as: workspace.operator,
        body: {
          workspace_id: workspace.workspaceId,
          collection,
          store: 'relational',
          schema: { type: 'object', properties: { n: { type: 'integer' } } },
        },
      })
    const schema = await declare('numbers')
    const add = () =>
      call('POST', '/v1/collections/numbers/documents', { as: workspace.service, body: { n: 1 } })
    await Promise.all([make(workspace), add()])
    expect(await quota(workspace, 'documents')).toMatchObject({ used: 2 })
    await limit(workspace, { documents: 6, collections: 1 })
    const replies = await Promise.all(Array.from({ length: 10 }, add))
    expect(countByStatus(replies.map(({ status }) => status))).toEqual({ 201: 4, 429: 6 })
    expect((await make(workspace)).body).toMatchObject({ code: 'quota_exceeded', used: 6 })
    expect((await declare('others')).body).toMatchObject({ code: 'quota_exceeded', quota: 'collections' })
    const { body } = await call('GET', '/v1/collections/numbers/documents', { as: workspace.service })
    for (const { id } of body.data)
      await call('DELETE', `/v1/collections/numbers/documents/${id}`, { as: workspace.service })
    expect(await quota(workspace, 'documents')).toMatchObject({ used: 1 })
    const deleted = await call('DELETE', `/v1/schemas/${schema.body.id}`, { as: workspace.operator })
    expect(deleted.status).toBe(200)
    expect(await quota(workspace, 'documents')).toMatchObject({ used: 1 })
    await limit(workspace, { documents: -1 })
    expect(await quota(workspace, 'documents')).toMatchObject({ used: 1 })
  })

  test('quota: limits changed while tables are created and written: exact in the end', async () => {
    const workspace = await createTestWorkspace()
    const names = ['a', 'b', 'c', 'd']
    const declare = (collection: string) => {
      const body = { workspace_id: workspace.workspaceId, collection, store: 'relational', schema: {} }
      return call('POST', '/v1/schemas', { as: workspace.operator, body })
    }
    const write = (n: number) => {
      const ops = [...names, 'undeclared'].map((collection) => ({ collection, op: 'create', data: { n } }))
      return call('POST', '/v1/batch', { as: workspace.service, body: { ops: n % 2 ? ops : ops.reverse() } })
    }
    await Promise.all(names.slice(0, 2).map(declare))
    const all = await Promise.all([
      ...Array.from({ length: 40 }, (_, n) => write(n)),
      ...names.slice(2).map(declare),
      ...[1_000, -1, 2_000, 1_000].map((documents) => limit(workspace, { documents })),
    ])
    expect(countByStatus(all.map(({ status }) => status))).not.toHaveProperty('500')
    await limit(workspace, { documents: 100 })
    await Promise.all(Array.from({ length: 40 }, (_, n) => write(n)))
    const counts = await Promise.all(
      [...names, 'undeclared'].map((name) =>
        call('GET', `/v1/collections/${name}/documents?count=exact&page[size]=1`, { as: workspace.service }),
      ),
    )
    const there = counts.reduce((sum, { body }) => sum + body.page.total, 0)
    const { used } = await quota(workspace, 'documents')
    expect(used).toBe(there)
  })

  test('quota of concurrent executions: 60 starts at once: never exceeded, each end frees one', async () => {
    const workspace = await createTestWorkspace()
    const source = `document: { dsl: '1.0.3', namespace: t, name: slow, version: '1.0.0' }\ndo:\n  - nap: { wait: PT1S }\n`
    const as = workspace.operator
    await call('POST', `${workspace.flows}/definitions`, { as, body: { source } })
    await call('POST', `${workspace.flows}/definitions/slow/versions`, { as, body: {} })
    await limit(workspace, { concurrent_executions: 3 })
    const start = () =>
      call('POST', `${workspace.flows}/definitions/slow/executions`, { as, body: { input: {} } })
    const replies = await Promise.all(Array.from({ length: 60 }, start))
    expect(countByStatus(replies.map(({ status }) => status))).toEqual({ 201: 3, 429: 57 })
    expect((await quota(workspace, 'concurrent_executions')).used).toBe(3)
    await eventually(async () =>
      (await quota(workspace, 'concurrent_executions')).used === 0 ? true : undefined,
    )
    expect((await start()).status).toBe(201)
  })

  test('quota: set by another role, unknown, or of a tenant: refused', async () => {
    const workspace = await createTestWorkspace()
    const tenantAdmin = await tokenOf({ roles: ['tenant_admin'], tenant_id: workspace.tenantId })
    const body = { workspace_id: workspace.workspaceId, limits: { documents: 5 } }
    expect((await call('PUT', '/v1/quotas', { as: tenantAdmin, body })).status).toBe(403)
    const read = await call('GET', `/v1/quotas?workspace_id=${workspace.workspaceId}`, { as: tenantAdmin })
    expect(read.status).toBe(200)
    for (const limits of [
      { dokuments: 1 },
      { documents: '5' },
      { sse_streams: 1 },
      { documents: -2 },
      { documents: 1.5 },
      {},
    ]) {
      expect((await limit(workspace, limits as never)).body.code).toBe('validation_failed')
    }
  })
})

describe('workspace settings', () => {
  test('setting: feature switched on: read back', async () => {
    const workspace = await createTestWorkspace()
    const as = await tokenOf({ roles: ['tenant_admin'], tenant_id: workspace.tenantId })
    const path = `/v1/services?workspace_id=${workspace.workspaceId}`
    expect((await call('GET', path, { as })).body).toMatchObject({ experimental: [], egress: { allow: [] } })
    const body = { workspace_id: workspace.workspaceId, experimental: ['mcp.flow_tools'] }
    const set = await call('POST', '/v1/services/configure', { as, body })
    expect([set.status, set.body.experimental]).toEqual([200, ['mcp.flow_tools']])
    expect((await call('GET', path, { as })).body.experimental).toEqual(['mcp.flow_tools'])
    const unknown = { ...body, experimental: ['everything'] }
    expect((await call('POST', '/v1/services/configure', { as, body: unknown })).status).toBe(400)
  })

  test('setting: egress.allow by another role than operator: refused', async () => {
    const workspace = await createTestWorkspace()
    const body = { workspace_id: workspace.workspaceId, egress: { allow: ['127.0.0.1:1'] } }
    const as = await tokenOf({ roles: ['tenant_admin'], tenant_id: workspace.tenantId })
    expect((await call('POST', '/v1/services/configure', { as, body })).status).toBe(403)
    expect((await call('POST', '/v1/services/configure', { as: workspace.operator, body })).status).toBe(200)
  })

  describe('allowed egress address', () => {
    const server = createServer((_request, response) => response.end('"hello"'))
    let port = 0
    beforeAll(async () => {
      await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
      port = (server.address() as { port: number }).port
    })
    afterAll(() => new Promise((done) => server.close(done)))

    test('egress.allow: address of one workspace: reachable from its flows only', async () => {
      const workspace = await createTestWorkspace()
      const sibling = await addTestWorkspace(workspace)
      const body = { workspace_id: workspace.workspaceId, egress: { allow: [`127.0.0.1:${port}`] } }
      await call('POST', '/v1/services/configure', { as: workspace.operator, body })
      expect((await fetchFrom(workspace)).status).toBe('completed')
      const refused = await fetchFrom(sibling)
      expect([refused.status, refused.error.detail]).toEqual(['faulted', expect.stringContaining('egress')])
    })

    async function fetchFrom(workspace: TestWorkspace) {
      const as = workspace.operator
      const source = `document: { dsl: '1.0.3', namespace: t, name: f, version: '1.0.0' }\ndo:\n  - get: { call: http, with: { method: get, endpoint: 'http://127.0.0.1:${port}/' } }\n`
      await call('POST', `${workspace.flows}/definitions`, { as, body: { source } })
      await call('POST', `${workspace.flows}/definitions/f/versions`, { as, body: {} })
      const path = `${workspace.flows}/definitions/f/executions`
      return (await call('POST', path, { as, body: { input: {} }, headers: { prefer: 'wait=20' } })).body
    }
  })
})

describe('metrics', () => {
  const ask = (workspace: TestWorkspace, metric: string, window = '5m') =>
    call('GET', `/v1/analytics/query?metric=${metric}&window=${window}`, { as: workspace.service })
  const sum = (points: readonly [string, number | null][]) =>
    points.reduce((total, [, value]) => total + (value ?? 0), 0)

  test('metrics: requests, errors and latency: of the own workspace only', async () => {
    const [workspace, other] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
    for (let n = 0; n < 5; n++) await make(workspace)
    for (let n = 0; n < 3; n++) await call('GET', `${PATH}/nothing`, { as: workspace.service })
    await call('GET', '/v1/events/subscribe?topic=x', { as: workspace.service })
    const requests = await eventually(async () => {
      const { body } = await ask(workspace, 'requests')
      return sum(body.series[0].points) >= 9 ? body : undefined
    })
    expect(requests).toMatchObject({ metric: 'requests', unit: 'requests', window: '5m', step: '1m' })
    expect(requests.series[0].points).toHaveLength(5)
    const errors = (await ask(workspace, 'errors')).body.series
    expect(errors.map(({ labels, points }: never) => [labels, sum(points)])).toEqual([
      [{ class: '4xx' }, 3],
      [{ class: '5xx' }, 0],
    ])
    const latency = (await ask(workspace, 'latency')).body
    expect(latency.unit).toBe('ms')
    expect(latency.series.map(({ labels }: { labels: unknown }) => labels)).toEqual([
      { quantile: '0.5' },
      { quantile: '0.95' },
      { quantile: '0.99' },
    ])
    const measured = latency.series[0].points.filter(([, value]: [string, number | null]) => value !== null)
    expect(measured.length).toBeGreaterThan(0)
    expect(measured.at(-1)[1]).toBeLessThan(5_000)
    expect(sum((await ask(other, 'errors')).body.series[0].points)).toBe(0)
  })

  test('metrics: window too long or metric unknown: refused; long window: fewer points', async () => {
    const workspace = await createTestWorkspace()
    expect((await ask(workspace, 'requests', '90d')).body.series[0].points.length).toBeLessThanOrEqual(1_000)
    for (const window of ['91d', '0h', '1y', 'h', '-1h', '999999w'])
      expect((await ask(workspace, 'requests', window)).body.code).toBe('validation_failed')
    const unknown = await ask(workspace, 'toString')
    expect([unknown.status, unknown.body.detail]).toEqual([404, expect.stringContaining('latency')])
    const anon = await call('GET', '/v1/analytics/query?metric=requests&window=1h', { as: workspace.anon })
    expect(anon.status).toBe(403)
  })
})
