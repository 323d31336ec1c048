/** Checks schemas, quotas and service configuration. */

import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { beforeAll, describe, expect, test } from 'vitest'
import { expectProblem, expectStatus, get, list, type Reply, str } from '../../support/clients/rest-client.ts'
import { createTenantPair, expectIsolated, expectUnaffected, type World } from '../../support/fixtures/tenant-pair.ts'

let world: World

beforeAll(async () => {
  world = await createTenantPair()
})

/** Creates `count` documents at once. */
function createMany(count: number): Promise<Reply[]> {
  const { service, mark } = world.a
  return Promise.all(
    Array.from({ length: count }, (_, n) => service.post('/v1/collections/many/documents', { n, mark })),
  )
}

describe('schemas', () => {
  const ORDERS = '/v1/collections/orders/documents'
  const declared = {
    collection: 'orders',
    store: 'relational',
    mode: 'enforce',
    schema: {
      type: 'object',
      properties: {
        title: { type: 'string', minLength: 2 },
        amount: { type: 'integer', minimum: 0 },
        paid: { type: 'boolean' },
        mark: { type: 'string' },
      },
      required: ['title', 'amount'],
      additionalProperties: false,
    },
  }

  test('schema: relational with typed fields: 201 with an id', async () => {
    const { a } = world
    const reply = await a.admin.post('/v1/schemas', { workspace_id: a.workspace, ...declared })
    expectStatus(reply, 201)
    expect(reply.body).toMatchObject({
      id: expect.stringMatching(/^sch_/),
      collection: 'orders',
      store: 'relational',
    })
  })

  test('documents: of a declared collection: written, read, filtered by type', async () => {
    const { service, mark } = world.a
    for (const [title, amount] of [
      ['pen', 2],
      ['ink', 10],
      ['desk', 300],
    ]) {
      expectStatus(await service.post(ORDERS, { title, amount, paid: amount === 10, mark }), 201)
    }
    const found = await service.get(`${ORDERS}?amount=gte.10&order=amount.desc&select=title,amount,paid`)
    expectStatus(found, 200)
    expect(list(found)).toEqual([
      { id: expect.any(String), title: 'desk', amount: 300, paid: false },
      { id: expect.any(String), title: 'ink', amount: 10, paid: true },
    ])
  })

  test('document: violates the schema: 422 with every error and its pointer', async () => {
    const reply = await world.a.service.post(ORDERS, { title: 'x', amount: -1 })
    expectProblem(reply, 422)
    expect(list(reply, 'errors').length).toBeGreaterThanOrEqual(2)
    expect(reply.text).toContain('/title')
    expect(reply.text).toContain('/amount')
  })

  test('update: violates the schema: 422, nothing changes', async () => {
    const [row] = list(await world.a.service.get(`${ORDERS}?title=eq.pen`))
    expectProblem(await world.a.service.put(`${ORDERS}/${str(row, 'id')}`, { amount: 'two' }), 422)
    const [same] = list(await world.a.service.get(`${ORDERS}?title=eq.pen`))
    expect(same).toEqual(row)
  })

  test('filter: wrong type: 400 filter_type_mismatch', async () => {
    expectProblem(await world.a.service.get(`${ORDERS}?amount=gte.abc`), 400, 'filter_type_mismatch')
  })

  test('collection: same name in B: undeclared and empty', async () => {
    const { b } = world
    expectStatus(await b.service.post(ORDERS, { anything: true, mark: b.mark }), 201)
    expect(list(await b.service.get(ORDERS))).toHaveLength(1)
  })

  test('schema: invalid: refused', async () => {
    const { a } = world
    const reply = await a.admin.post('/v1/schemas', {
      workspace_id: a.workspace,
      collection: 'broken',
      store: 'relational',
      schema: { type: 'nonsense' },
    })
    expectProblem(reply, reply.status === 400 ? 400 : 422)
  })

  test('schema: collection name with SQL: refused', async () => {
    const { a } = world
    const collection = 'x"; drop table documents; --'
    const reply = await a.admin.post('/v1/schemas', { workspace_id: a.workspace, ...declared, collection })
    expectProblem(reply, reply.status === 400 ? 400 : 422)
    await expectUnaffected(world)
  })
})

describe('quotas', () => {
  // Assumption: GET takes `workspace_id`; the test searches the body for the quota, as its outer shape is unspecified.
  const quota = async (name: string): Promise<unknown> => {
    const reply = await world.a.admin.get(`/v1/quotas?workspace_id=${world.a.workspace}`)
    expectStatus(reply, 200)
    return find(reply.body, name)
  }
  const set = (limits: Record<string, number>) =>
    world.a.admin.put('/v1/quotas', { workspace_id: world.a.workspace, limits })

  test('quota: read: limit, used and remaining', async () => {
    expectStatus((await createMany(1))[0] ?? fail(), 201)
    expectStatus(await set({ documents: 50 }), 200)
    const shown = await quota('documents')
    expect(shown).toMatchObject({
      limit: 50,
      used: expect.any(Number),
      remaining: 50 - Number(get(shown, 'used')),
    })
  })

  test('quota: 60 concurrent creates: never exceeded, none is lost', async () => {
    const used = Number(get(await quota('documents'), 'used'))
    expectStatus(await set({ documents: used + 20 }), 200)
    const replies = await createMany(60)
    const refused = replies.filter(({ status }) => status !== 201)
    expect(replies.filter(({ status }) => status === 201)).toHaveLength(20)
    for (const reply of refused) expectProblem(reply, 429, 'quota_exceeded')
    expect(get(await quota('documents'), 'used')).toBe(used + 20)
    expect(get(await quota('documents'), 'remaining')).toBe(0)
    const stored = await world.a.service.get('/v1/collections/many/documents?page[size]=200')
    const ids = new Set(list(stored).map((row) => get(row, 'id')))
    for (const { body } of replies.filter(({ status }) => status === 201)) {
      expect(ids.has(get(body, 'id'))).toBe(true)
    }
    expect(ids.size).toBe(21)
    await expectUnaffected(world)
  })

  test('quota: reached: refusal with name, limit and usage', async () => {
    const reply = (await createMany(1))[0] ?? fail()
    expectProblem(reply, 429, 'quota_exceeded')
    expect(reply.text).toContain('documents')
    const { limit, used } = Object(await quota('documents'))
    expect(reply.text).toContain(String(limit))
    expect(reply.text).toContain(String(used))
  })

  test('quota: document deleted: usage decreases', async () => {
    const [row] = list(await world.a.service.get('/v1/collections/many/documents?page[size]=1'))
    expectStatus(await world.a.service.delete(`/v1/collections/many/documents/${str(row, 'id')}`), 200)
    expectStatus((await createMany(1))[0] ?? fail(), 201)
    expectProblem((await createMany(1))[0] ?? fail(), 429, 'quota_exceeded')
  })

  test('quota: of A: does not bind B', async () => {
    const { b } = world
    expectStatus(await b.service.post('/v1/collections/many/documents', { mark: b.mark }), 201)
  })

  test('quota: -1: unlimited', async () => {
    expectStatus(await set({ documents: -1 }), 200)
    for (const reply of await createMany(5)) expectStatus(reply, 201)
  })

  test('quota: unknown name: refused', async () => {
    expectProblem(await set({ moon: 1 }), 400)
  })

  test('quota concurrent_executions: reached: further executions are refused', async () => {
    const { a } = world
    const path = `/v1/flows/workspaces/${a.workspace}/definitions`
    const source = [
      "document: {dsl: '1.0.3', namespace: test, name: slow, version: '1.0.0'}",
      'do:',
      '  - pause:',
      '      wait: {seconds: 4}',
    ].join('\n')
    expectStatus(await a.admin.post(path, { source }), 201)
    expectStatus(await a.admin.post(`${path}/slow/versions`, {}), 201)
    expectStatus(await set({ concurrent_executions: 2 }), 200)
    const start = () => a.admin.post(`${path}/slow/executions`, { input: {} })
    const replies = await Promise.all(Array.from({ length: 6 }, start))
    expect(replies.filter(({ status }) => status === 201)).toHaveLength(2)
    for (const reply of replies.filter(({ status }) => status !== 201)) {
      expectProblem(reply, 429, 'quota_exceeded')
    }
    await expect.poll(async () => (await start()).status, { timeout: 20_000, interval: 1000 }).toBe(201)
    await expectUnaffected(world)
  })
})

describe('service configuration', () => {
  const configure = (body: Record<string, unknown>) =>
    world.a.admin.post('/v1/services/configure', { workspace_id: world.a.workspace, ...body })

  test('experimental features: switched on by name: active', async () => {
    // Assumption: the field is the list `experimental` (reference, section 2.12); flows as tools are such a feature.
    expectStatus(await configure({ experimental: ['mcp.flow_tools'] }), 200)
  })

  test('setting: unknown: refused', async () => {
    expectProblem(await configure({ gravity: 9 }), 400)
  })

  test('egress.allow: one address: closed before, reachable from flows afterwards', async () => {
    const { a } = world
    const server = createServer((_, response) => {
      response.setHeader('content-type', 'application/json').end('{"reached":true}')
    })
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
    try {
      const { port } = server.address() as AddressInfo
      const source = [
        "document: {dsl: '1.0.3', namespace: test, name: outward, version: '1.0.0'}",
        'do:',
        '  - fetch:',
        '      call: http',
        '      with:',
        '        method: get',
        `        endpoint: http://127.0.0.1:${port}/`,
      ].join('\n')
      const path = `/v1/flows/workspaces/${a.workspace}/definitions`
      expectStatus(await a.admin.post(path, { source }), 201)
      expectStatus(await a.admin.post(`${path}/outward/versions`, {}), 201)
      const run = () => a.admin.post(`${path}/outward/executions`, { input: {} }, { prefer: 'wait=20' })
      expect(get(await run(), 'status')).toBe('faulted')
      expectStatus(await configure({ egress: { allow: [`127.0.0.1:${port}`] } }), 200)
      const open = await run()
      expect(open.body, open.text).toMatchObject({ status: 'completed', output: { reached: true } })
    } finally {
      server.close()
    }
  })
})

/** The quota with that name, as a member or in a list of named ones. */
function find(value: unknown, name: string): unknown {
  if (value === null || typeof value !== 'object') return undefined
  const here = get(value, name)
  if (get(here, 'limit') !== undefined) return here
  if (get(value, 'name') === name && get(value, 'limit') !== undefined) return value
  return Object.values(value)
    .map((inner) => find(inner, name))
    .find((found) => found !== undefined)
}

function fail(): never {
  throw new Error('no reply')
}

test('tenant isolation: after all tests: B received nothing of A and is unchanged', () =>
  expectIsolated(world))
