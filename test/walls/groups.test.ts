/** Requests that share a transaction of the database: each is answered with its own, and none pays for another. */

import { Client } from 'pg'
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { aRoom, asSuperuser, type Caller, call, type Room } from '../support/tenants.ts'
import { type CountedNode, countedNode } from '../support/wire.ts'

const AT_ONCE = 60

let node: CountedNode
let rooms: [Room, Room]

beforeAll(async () => {
  node = await countedNode()
  rooms = await Promise.all([aRoom(), aRoom()])
})
afterAll(() => node?.close())

interface Answer {
  readonly status: number
  // biome-ignore lint/suspicious/noExplicitAny: tests look into replies of every shape
  readonly body: any
}

async function ask(
  method: 'GET' | 'POST' | 'PUT',
  as: Caller,
  path: string,
  payload?: object,
): Promise<Answer> {
  const url = `/v1/collections/${path}`
  const reply = await node.app.inject({ method, url, headers: as, ...(payload && { payload }) })
  return { status: reply.statusCode, body: reply.json() }
}

const many = <T>(work: (n: number) => Promise<T>, count = AT_ONCE) =>
  Promise.all(Array.from({ length: count }, (_, n) => work(n)))

const countOf = async ({ tenantId }: Room, table: 'documents' | 'outbox') =>
  (await asSuperuser(`select from tenon.${table} where tenant_id = $1`, [tenantId])).length

test('two tenants at once: each request has its own answer, and all take fewer transactions than there are', async () => {
  const [a, b] = rooms
  await Promise.all(rooms.map((room) => ask('POST', room.service, 'mine/documents', { warm: true })))
  const of = (n: number) => (n % 2 === 0 ? a : b)
  const before = node.seen.trips
  const made = await many((n) => ask('POST', of(n).service, 'mine/documents', { n, of: of(n).tenantId }))
  const read = await many((n) => ask('GET', of(n).service, `mine/documents/${made[n]?.body.id}`))
  const put = await many((n) => ask('PUT', of(n).service, `mine/documents/${made[n]?.body.id}`, { m: n }))
  const foreign = await many((n) => ask('GET', of(n + 1).service, `mine/documents/${made[n]?.body.id}`))
  expect(node.seen.trips - before).toBeLessThan(2 * AT_ONCE)
  for (const [n, { status, body }] of made.entries())
    expect([status, body.n, body.of]).toEqual([201, n, of(n).tenantId])
  for (const [n, { status, body }] of read.entries()) expect([status, body.n]).toEqual([200, n])
  for (const [n, { status, body }] of put.entries())
    expect([status, body.m, body._version]).toEqual([200, n, 2])
  expect(new Set(foreign.map(({ status }) => status))).toEqual(new Set([404]))
})

test('one that breaks a unique index is refused by itself; the others are made once', async () => {
  const [room] = rooms
  const schema = { type: 'object', properties: { mail: { type: 'string' } } }
  const body = {
    workspace_id: room.workspaceId,
    collection: 'people',
    store: 'relational',
    schema,
    unique: [['mail']],
  }
  expect((await call('POST', '/v1/schemas', { as: room.operator, body })).status).toBe(201)
  const lines = await countOf(room, 'outbox')
  const answers = await many((n) => ask('POST', room.service, 'people/documents', { mail: `${n % 50}@x` }))
  const statuses = answers.map(({ status }) => status)
  expect(statuses.filter((status) => status === 201)).toHaveLength(50)
  expect(statuses.filter((status) => status === 409)).toHaveLength(AT_ONCE - 50)
  const { body: list } = await ask('GET', room.service, 'people/documents?page[size]=200')
  expect(new Set(list.data.map(({ mail }: { mail: string }) => mail)).size).toBe(50)
  expect(list.data).toHaveLength(50)
  // What is passed on is deleted, so there may be fewer; made twice, there would be more.
  expect(await countOf(room, 'outbox')).toBeLessThanOrEqual(lines + 50)
})

test('a quota takes as many as it has room for', async () => {
  const room = await aRoom()
  const limits = { workspace_id: room.workspaceId, limits: { documents: 20 } }
  expect((await call('PUT', '/v1/quotas', { as: room.operator, body: limits })).status).toBe(200)
  const answers = await many((n) => ask('POST', room.service, 'few/documents', { n }))
  const codes = answers.map(({ status, body }) => (status === 201 ? 201 : body.code))
  expect(codes.filter((code) => code === 201)).toHaveLength(20)
  expect(codes.filter((code) => code === 'quota_exceeded')).toHaveLength(AT_ONCE - 20)
  expect(await countOf(room, 'documents')).toBe(20)
})

test('who waits for a lock holds up nobody else, and goes on when it is free', async () => {
  const room = await aRoom()
  const { body: held } = await ask('POST', room.service, 'held/documents', { n: 0 })
  const holder = new Client({ connectionString: inject('tenon').databaseUrl })
  await holder.connect()
  try {
    await holder.query('begin')
    await holder.query('select from tenon.documents where id = $1 for update', [held.id])
    const waiting = many((n) => ask('PUT', room.service, `held/documents/${held.id}`, { n }), 3)
    const begun = performance.now()
    const others = await many((n) => ask('POST', room.service, 'held/documents', { n }))
    expect(performance.now() - begun).toBeLessThan(3_000)
    expect(new Set(others.map(({ status }) => status))).toEqual(new Set([201]))
    await holder.query('commit')
    const answers = await waiting
    expect(answers.map(({ status, body }) => [status, body._version]).sort()).toEqual([
      [200, 2],
      [200, 3],
      [200, 4],
    ])
  } finally {
    await holder.end()
  }
})
