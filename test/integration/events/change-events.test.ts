/** Change events of documents: in order, at least once, large ones too, through one relay at a time. */

import { randomUUID } from 'node:crypto'
import { Redis } from 'ioredis'
import { pino } from 'pino'
import { afterEach, expect, inject, test } from 'vitest'
import { EVENT_LIMITS } from '../../../src/features/events/limits.ts'
import { Appender, Relay } from '../../../src/features/events/outbox-relay.ts'
import { Database } from '../../../src/infra/postgres/database.ts'
import type { StreamKey } from '../../../src/infra/valkey/streams.ts'
import {
  closeSubscriptions,
  messages,
  receivedAtLeast,
  subscribeToEvents,
} from '../../support/clients/sse.ts'
import { change, note, transaction } from '../../support/fixtures/outbox.ts'
import {
  asSuperuser,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { repeated } from '../../support/stack/soak.ts'
import { openCollectionsToAnon } from '../../support/stack/workspace-settings.ts'

afterEach(closeSubscriptions)

const numbers = (count: number) => Array.from({ length: count }, (_, n) => n)

/** Waits until the outbox of the workspace is empty. */
const waitForEmptyOutbox = (workspace: TestWorkspace) =>
  eventually(async () => {
    const text = 'select from tenon.outbox where workspace_id = $1 limit 1'
    const rows = await asSuperuser(text, [workspace.workspaceId])
    return rows.length === 0 ? true : undefined
  })

test('change event: document changed: a CloudEvent under its topic and the topics above', async () => {
  const workspace = await createTestWorkspace()
  await openCollectionsToAnon(workspace)
  const topics = ['collections.todos.created', 'collections.todos.*', 'collections.*']
  const [created, todos, all, anon] = await Promise.all([
    ...topics.map((topic) => subscribeToEvents(workspace.service, `topic=${topic}`)),
    subscribeToEvents({}, `topic=collections.todos.*&apikey=${workspace.anon['apikey']}`),
  ])
  const id = randomUUID()
  const document = { title: 'buy milk', price: 1e300, 'a.b': null, text: 'line\nline\u2028' }
  await change(workspace, [
    { collection: 'todos', id, document },
    { collection: 'todos', verb: 'updated', id, version: 2, document: { title: 'bought' } },
    { collection: 'todos2', id, document: {} },
    { collection: 'todos', verb: 'deleted', id, version: 2 },
  ])
  const received = await receivedAtLeast(all ?? [], 4)
  const [first] = received
  expect(first?.data).toEqual({
    specversion: '1.0',
    id: expect.stringMatching(/^evt_[0-9a-hjkmnp-tv-z]{26}$/),
    source: `/workspaces/${workspace.workspaceId}`,
    type: 'collections.todos.created',
    topic: 'collections.todos.created',
    time: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
    datacontenttype: 'application/json',
    data: { id, version: 1, document },
  })
  expect(received.map(({ data }) => [data.topic, data.data])).toEqual([
    ['collections.todos.created', { id, version: 1, document }],
    ['collections.todos.updated', { id, version: 2, document: { title: 'bought' } }],
    ['collections.todos2.created', { id, version: 1, document: {} }],
    ['collections.todos.deleted', { id, version: 2 }],
  ])
  const verbs = async (of: typeof all, count: number) =>
    (await receivedAtLeast(of ?? [], count)).map(({ data }) => data.topic)
  const ofTodos = received
    .map(({ data }) => data.topic)
    .filter((topic) => topic !== 'collections.todos2.created')
  expect(await verbs(todos, 3)).toEqual(ofTodos)
  expect(await verbs(anon, 3)).toEqual(ofTodos)
  expect(await verbs(created, 1)).toEqual(['collections.todos.created'])
})

test('change events: 2,000 changes: each once, in order, and again after the last one seen', async () => {
  const workspace = await createTestWorkspace()
  const received = await subscribeToEvents(workspace.service, 'topic=collections.count.*')
  for (const part of numbers(20)) {
    const of = numbers(100).map((n) => ({ collection: 'count', document: { n: part * 100 + n } }))
    await change(workspace, of)
  }
  const all = await receivedAtLeast(received, 2_000)
  expect(all.map(({ data }) => data.data.document.n)).toEqual(numbers(2_000))
  expect(new Set(all.map(({ data }) => data.id)).size).toBe(2_000)
  const again = await subscribeToEvents(workspace.service, 'topic=collections.count.*', {
    'last-event-id': all[1_499]?.id ?? '',
  })
  await change(workspace, [{ collection: 'count', document: { n: 2_000 } }])
  const rest = (await receivedAtLeast(again, 501)).map(({ data }) => data.data.document.n)
  expect(rest).toEqual(numbers(501).map((n) => 1_500 + n))
})

test('change events: long transaction meanwhile: versions keep their order, other changes are not delayed', async () => {
  const workspace = await createTestWorkspace()
  const received = await subscribeToEvents(workspace.service, 'topic=collections.*')
  const id = randomUUID()
  // The first transaction to get an id writes the document last: ordered by transaction id, its version would come too early.
  const [late, lasting] = [await transaction(workspace), await transaction(workspace)]
  await note(late, [{ collection: 'a', document: { of: 'late' } }])
  await note(lasting, [{ collection: 'a', document: { of: 'lasting' } }])
  await change(workspace, [{ collection: 'b', id, version: 1, document: {} }])
  expect((await receivedAtLeast(received, 1)).map(({ data }) => data.topic)).toEqual([
    'collections.b.created',
  ])
  const other = await transaction(workspace)
  await note(other, [{ collection: 'b', verb: 'updated', id, version: 2, document: {} }])
  await other.query('commit')
  await note(late, [{ collection: 'b', verb: 'updated', id, version: 3, document: {} }])
  await late.query('commit')
  const versions = async (count: number) =>
    (await receivedAtLeast(received, count)).flatMap(({ data }) =>
      data.topic.includes('.b.') ? [data.data.version] : [],
    )
  expect(await versions(4)).toEqual([1, 2, 3])
  await lasting.query('commit')
  const [last] = (await receivedAtLeast(received, 5)).slice(-1)
  expect(last?.data.data.document).toEqual({ of: 'lasting' })
  await Promise.all([late, lasting, other].map((client) => client.end()))
})

test('change event: effective change through the API: published; change without effect: none', async () => {
  const workspace = await createTestWorkspace()
  const received = await subscribeToEvents(workspace.service, 'topic=collections.tasks.*')
  const path = '/v1/collections/tasks/documents'
  const made = await call('POST', path, { as: workspace.service, body: { title: 'a', done: false } })
  const one = `${path}/${made.body.id}`
  const headers = { 'if-match': '"v9"' }
  expect((await call('PUT', one, { as: workspace.service, body: { done: true }, headers })).status).toBe(412)
  expect((await call('PUT', one, { as: workspace.service, body: { done: true } })).status).toBe(200)
  expect((await call('DELETE', one, { as: workspace.service })).status).toBe(200)
  const { body: updated } = { body: (await receivedAtLeast(received, 3))[1]?.data.data }
  expect(messages(received).map(({ data }) => [data.topic.split('.')[2], data.data.id])).toEqual(
    ['created', 'updated', 'deleted'].map((verb) => [verb, made.body.id]),
  )
  expect(messages(received)[0]?.data.data).toMatchObject({
    version: 1,
    document: { title: 'a', done: false },
  })
  expect(updated).toMatchObject({ version: 2, document: { done: true } })
})

test('change event: collection with 100 columns: every member, nested nulls too', async () => {
  const workspace = await createTestWorkspace()
  const flat = numbers(120).map((n) => [`n${n}`, { type: 'number' }])
  const properties = {
    ...Object.fromEntries(flat),
    list: { type: 'array' },
    note: { type: ['string', 'null'] },
  }
  const body = {
    ...{
      workspace_id: workspace.workspaceId,
      collection: 'wide',
      store: 'relational',
      schema: { properties },
    },
  }
  expect((await call('POST', '/v1/schemas', { as: workspace.operator, body })).status).toBe(201)
  const received = await subscribeToEvents(workspace.service, 'topic=collections.wide.*')
  const document = {
    ...Object.fromEntries(numbers(119).map((n) => [`n${n}`, n])),
    ...{ list: [null, { a: null }], note: null, other: { b: null } },
  }
  const path = '/v1/collections/wide/documents'
  const made = await call('POST', path, { as: workspace.service, body: document })
  expect(
    (await call('PUT', `${path}/${made.body.id}`, { as: workspace.service, body: { n7: -1 } })).status,
  ).toBe(200)
  const [created, updated] = await receivedAtLeast(received, 2)
  expect(created?.data.data.document).toEqual(document)
  expect(updated?.data.data.document).toEqual({ ...document, n7: -1 })
})

test('change event: transaction rolled back: none', async () => {
  const workspace = await createTestWorkspace()
  const received = await subscribeToEvents(workspace.service, 'topic=collections.*')
  const client = await transaction(workspace)
  await note(client, [{ collection: 'a', document: { n: 1 } }])
  await client.query('rollback')
  await client.end()
  await change(workspace, [{ collection: 'a', document: { n: 2 } }])
  expect((await receivedAtLeast(received, 1)).map(({ data }) => data.data.document)).toEqual([{ n: 2 }])
})

test('change events: largest documents in a row: delivered as the client reads', async () => {
  const workspace = await createTestWorkspace()
  await openCollectionsToAnon(workspace)
  const [received, anon] = await Promise.all(
    [workspace.service, workspace.anon].map((as) => subscribeToEvents(as, 'topic=collections.large.*')),
  )
  const text = 'x'.repeat(262_000)
  await change(
    workspace,
    numbers(60).map((n) => ({ collection: 'large', document: { n, text } })),
  )
  for (const each of [received, anon]) {
    const all = await receivedAtLeast(each ?? [], 60)
    expect(all.map(({ data }) => data.data.document.n)).toEqual(numbers(60))
    expect(all.every(({ data }) => data.data.document.text === text)).toBe(true)
    expect(each?.filter(({ event }) => event === 'end')).toEqual([])
  }
})

test('change event: numbers stored with more digits: no larger than the document sent', async () => {
  const workspace = await createTestWorkspace()
  const received = await subscribeToEvents(workspace.service, 'topic=collections.numbers.*')
  const document = { n: Array.from({ length: 30_000 }, () => 1e300) }
  await change(
    workspace,
    numbers(4).map(() => ({ collection: 'numbers', document })),
  )
  const all = await receivedAtLeast(received, 4)
  for (const { data } of all) expect(JSON.stringify(data).length).toBeLessThan(300_000)
  expect(all[0]?.data.data.document).toEqual(document)
})

test('relay: several processes: one is active, nothing comes twice', async () => {
  const workspace = await createTestWorkspace()
  const received = await subscribeToEvents(workspace.service, 'topic=collections.once.*')
  const { DATABASE_APP_URL = '', REDIS_URL = '' } = inject('tenon').env
  const log = pino({ level: 'silent' })
  const databases = numbers(2).map(() => Database.open(DATABASE_APP_URL, () => {}, 2))
  const relays = databases.map((database) => new Relay(database, REDIS_URL, log))
  for (const relay of relays) relay.start()
  for (const part of numbers(30)) {
    const of = numbers(10).map((n) => ({ collection: 'once', document: { n: part * 10 + n } }))
    await change(workspace, of)
  }
  await receivedAtLeast(received, 300)
  await waitForEmptyOutbox(workspace)
  await Promise.all(relays.map((relay) => relay.close()))
  await Promise.all(databases.map((database) => database.close()))
  expect(messages(received).map(({ data }) => data.data.document.n)).toEqual(numbers(300))
})

test('relay: flood of one tenant: other tenants are not delayed', async () => {
  const [busy, quiet] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
  const received = await subscribeToEvents(quiet.service, 'topic=collections.*')
  const client = await transaction(busy)
  const flood = repeated(8_000, 30_000)
  await client.query(`insert into tenon.outbox (collection, verb, document_id, version, document)
    select 'flood', 'created', gen_random_uuid(), 1, '{}' from generate_series(1, ${flood})`)
  await client.query('commit')
  await client.end()
  await change(quiet, [{ collection: 'a', document: {} }])
  await receivedAtLeast(received, 1)
  const left = await asSuperuser('select from tenon.outbox where tenant_id = $1', [busy.tenantId])
  expect(left.length).toBeGreaterThan(flood / 3)
  await waitForEmptyOutbox(busy)
})

test('relay: more tenants than fit in one round: all are served, in order', async () => {
  const workspace = await createTestWorkspace()
  const received = await subscribeToEvents(workspace.service, 'topic=collections.*')
  // Tenants that do not exist: before and after the one that subscribes.
  const tenants = numbers(120).map((n) => `ten_${n % 2 === 0 ? '0' : 'z'}${n}`)
  await asSuperuser(
    `insert into tenon.outbox (tenant_id, workspace_id, collection, verb, document_id, version, document)
     select tenant, 'ws_x', 'c', 'created', gen_random_uuid(), 1, '{}' from unnest($1::text[]) tenant, generate_series(1, 40)`,
    [tenants],
  )
  const ownChanges = numbers(200).map((n) => ({ collection: 'c', document: { n } }))
  await change(workspace, ownChanges)
  expect((await receivedAtLeast(received, 200)).map(({ data }) => data.data.document.n)).toEqual(numbers(200))
  await eventually(async () => {
    const left = await asSuperuser('select seq from tenon.outbox where tenant_id = any($1)', [tenants])
    return left.length === 0 ? true : undefined
  })
})

test('stream: over its capacity: keeps the newest events', async () => {
  const { REDIS_URL = '' } = inject('tenon').env
  const appender = new Appender(REDIS_URL, () => {})
  const redis = new Redis(REDIS_URL)
  const key: StreamKey = `tenon:{ten_x}:${unique('changes')}`
  const add = (of: readonly number[], text: string) =>
    appender.append(of.map((n) => ({ key, message: { topic: 'a', source: `${n}`, text, anonReads: true } })))
  const kept = async () => (await redis.xrange(key, '-', '+')).map(([, fields]) => Number(fields[3]))
  await add(numbers(500), 'small')
  const large = 'x'.repeat(262_144)
  for (const part of numbers(40))
    await add(
      numbers(10).map((n) => 500 + part * 10 + n),
      large,
    )
  const newest = await kept()
  expect(newest.at(-1)).toBe(899)
  expect(newest).toEqual(numbers(newest.length).map((n) => 900 - newest.length + n))
  expect(newest.length).toBeGreaterThan(200)
  expect(await redis.memory('USAGE', key, 'SAMPLES', 0)).toBeLessThan(EVENT_LIMITS.changesKeptBytesMax * 1.1)
  for (const part of numbers(30))
    await add(
      numbers(400).map((n) => 900 + part * 400 + n),
      'small',
    )
  const last = await kept()
  expect([last.at(-1), last.length]).toEqual([12_899, expect.closeTo(EVENT_LIMITS.changesKeptMax, -3)])
  await redis.del(key)
  redis.disconnect()
  appender.close()
})

test('topics: change events and events of the tenant: never mixed', async () => {
  const workspace = await createTestWorkspace()
  const [changes, events] = await Promise.all([
    subscribeToEvents(workspace.service, 'topic=collections.*', { 'last-event-id': '0-0' }),
    subscribeToEvents(workspace.service, 'topic=todos.*', { 'last-event-id': '0-0' }),
  ])
  await change(workspace, [{ collection: 'todos', document: {} }])
  await call('POST', '/v1/events/publish', {
    as: workspace.service,
    body: { topic: 'todos.created', data: 1 },
  })
  expect((await receivedAtLeast(changes, 1)).map(({ data }) => data.topic)).toEqual([
    'collections.todos.created',
  ])
  expect((await receivedAtLeast(events, 1)).map(({ data }) => data.topic)).toEqual(['todos.created'])
})
