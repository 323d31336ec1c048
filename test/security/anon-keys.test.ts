/** Anon keys ship in web pages: they read and hear what their workspace opens to them, and nothing else. */

import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { text } from 'node:stream/consumers'
import { afterEach, beforeAll, describe, expect, inject, test } from 'vitest'
import { sqlAsRole } from '../support/clients/sql-as-role.ts'
import { closeSubscriptions, messages, receivedAtLeast, subscribeToEvents } from '../support/clients/sse.ts'
import {
  addTestWorkspace,
  type Caller,
  call,
  createTestWorkspace,
  createTestWorkspaceWithStorage,
  eventually,
  provisionTestWorkspace,
  type TestWorkspace,
} from '../support/fixtures/tenants.ts'
import { startInProcessNode } from '../support/stack/in-process-node.ts'
import {
  bucketOf,
  configure,
  openCollectionsToAnon,
  openToAnon,
  tryConfigure,
} from '../support/stack/workspace-settings.ts'
import { stopwatch } from '../support/stopwatch.ts'

afterEach(closeSubscriptions)

const ANON_DEFAULTS = { collections: 'none', objects: 'none', events: 'workspace' }
const PAST = { 'last-event-id': '0-0' }
const at = (collection: string) => `/v1/collections/${collection}/documents`
const create = (ws: TestWorkspace, collection: string, body: object = { n: 1 }) =>
  call('POST', at(collection), { as: ws.service, body })
const publish = (ws: TestWorkspace, topic: string, data: unknown) =>
  call('POST', '/v1/events/publish', { as: ws.service, body: { topic, data } })
const subscribing = (as: Caller, topic: string) => call('GET', `/v1/events/subscribe?topic=${topic}`, { as })
const dataOf = (frames: Parameters<typeof messages>[0]) => messages(frames).map(({ data }) => data.data)
const declared = async (ws: TestWorkspace, collection: string, access: object) => {
  const body = { workspace_id: ws.workspaceId, collection, store: 'relational', schema: {}, access }
  const { status } = await call('POST', '/v1/schemas', { as: ws.operator, body })
  expect(status).toBe(201)
}

/** Expects a refusal that names the setting, and not what an admin does. */
function expectClosed({ status, body }: Awaited<ReturnType<typeof call>>, setting: string): void {
  expect([status, body.code], JSON.stringify(body)).toEqual([403, 'forbidden'])
  expect(body.detail).toContain(setting)
  expect(body.hint).not.toContain('/v1/services/configure')
}

describe('anon settings', () => {
  test('new workspace: collections none, objects none, events workspace', async () => {
    const ws = await provisionTestWorkspace()
    const { body } = await call('GET', `/v1/services?workspace_id=${ws.workspaceId}`, { as: ws.operator })
    expect(body).toMatchObject({
      anon: ANON_DEFAULTS,
      objects: { public_read: [] },
    })
  })

  test('one member set: the others keep their values', async () => {
    const ws = await createTestWorkspace()
    await configure(ws, { anon: { events: 'none' } })
    await configure(ws, { anon: { collections: 'read' } })
    const body = await configure(ws, { experimental: [] })
    expect(body.anon).toEqual({ collections: 'read', objects: 'none', events: 'none' })
  })

  const prefixes = [
    '',
    'public',
    '/',
    '/public/',
    '../',
    'public/../',
    'public/./',
    'a\\..\\b/',
    'a\u0000/',
    'a\n/',
  ]
  test.each<object>([
    { anon: { collections: 'all' } },
    { anon: { objects: 'read' } },
    { anon: { events: 'tenant' } },
    { anon: { documents: 'none' } },
    ...prefixes.map((prefix) => ({ objects: { public_read: [prefix] } })),
  ])('invalid settings %j: refused, nothing changes', async (settings) => {
    const ws = await createTestWorkspace()
    const { status, body } = await tryConfigure(ws, settings)
    expect([status, body.code], JSON.stringify(body)).toEqual([400, 'validation_failed'])
    const { body: now } = await call('GET', `/v1/services?workspace_id=${ws.workspaceId}`, {
      as: ws.operator,
    })
    expect(now).toMatchObject({ anon: ANON_DEFAULTS, objects: { public_read: [] } })
  })

  test('changed by keys or an admin of another tenant: refused', async () => {
    const [ws, stranger] = await Promise.all([createTestWorkspace(), createTestWorkspace()])
    for (const as of [ws.anon, ws.service, stranger.service]) {
      const body = { workspace_id: ws.workspaceId, anon: { objects: 'public' } }
      expect((await call('POST', '/v1/services/configure', { as, body })).status).toBe(403)
    }
    const ref = [stranger.tenantId, stranger.workspaceId]
    const text = `update tenon.services set anon = '{}' where workspace_id = '${ws.workspaceId}' returning 1`
    await configure(ws, { anon: { collections: 'none' } })
    expect(await sqlAsRole('tenon_admin', ref, text)).toEqual([])
    for (const mask of ['tenon_anon', 'tenon_service'])
      await expect(sqlAsRole(mask, [ws.tenantId, ws.workspaceId], text)).rejects.toThrow(/permission denied/)
  })
})

describe('anon key and events', () => {
  test('sibling workspace publishes: not delivered, live or replayed', async () => {
    const ws = await createTestWorkspace()
    const sibling = await addTestWorkspace(ws)
    const live = await subscribeToEvents({}, `topic=orders.*&apikey=${ws.anon['apikey']}`)
    const service = await subscribeToEvents(ws.service, 'topic=orders.*')
    await publish(sibling, 'orders.created', { card: 'internal' })
    await publish(ws, 'orders.created', { card: 'own' })
    expect((await receivedAtLeast(service, 2)).map(({ data }) => data.data.card)).toEqual(['internal', 'own'])
    const past = await subscribeToEvents(ws.anon, 'topic=orders.*', PAST)
    for (const frames of [live, past]) {
      await receivedAtLeast(frames, 1)
      expect(dataOf(frames)).toEqual([{ card: 'own' }])
    }
  })

  test('events set to none: subscriptions refused, open streams end; service keys continue', async () => {
    const ws = await createTestWorkspace()
    const [events, changes, service] = await Promise.all([
      subscribeToEvents(ws.anon, 'topic=orders.*'),
      subscribeToEvents(ws.anon, 'topic=collections.*'),
      subscribeToEvents(ws.service, 'topic=orders.*'),
    ])
    await configure(ws, { anon: { events: 'none' } })
    const elapsedMs = stopwatch()
    for (const frames of [events, changes]) {
      const end = await eventually(async () => frames.find(({ event }) => event === 'end'), 5_000)
      expect(end.data).toEqual({ code: 'forbidden' })
    }
    expect(elapsedMs()).toBeLessThan(5_000)
    for (const topic of ['orders.*', 'collections.*', 'collections.todos.created'])
      expectClosed(await subscribing(ws.anon, topic), 'anon.events')
    await publish(ws, 'orders.created', 1)
    await receivedAtLeast(service, 1)
    expect(service.find(({ event }) => event === 'end')).toBeUndefined()
    await configure(ws, { anon: { events: 'workspace' } })
    expect((await subscribing(ws.anon, 'orders.*')).status).toBe(200)
  })

  test('collections set to none: changes not delivered, on open streams either, nor after reopening', async () => {
    const ws = await createTestWorkspace()
    await openCollectionsToAnon(ws)
    await declared(ws, 'shown', { anon: { read: true } })
    const live = await subscribeToEvents(ws.anon, 'topic=collections.*')
    const narrow = await subscribeToEvents(ws.anon, 'topic=collections.todos.*')
    const service = await subscribeToEvents(ws.service, 'topic=collections.*')
    await create(ws, 'todos', { n: 1 })
    await receivedAtLeast(live, 1)
    await configure(ws, { anon: { collections: 'none' } })
    // An open stream checks once a second.
    await new Promise((done) => setTimeout(done, 1_500))
    await create(ws, 'todos', { n: 2 })
    await create(ws, 'shown', { n: 3 })
    await receivedAtLeast(service, 3)
    const documents = (frames: Parameters<typeof messages>[0]) =>
      dataOf(frames).map(({ document }) => document)
    await receivedAtLeast(live, 2)
    expect(documents(live)).toEqual([{ n: 1 }, { n: 3 }])
    const end = await eventually(async () => narrow.find(({ event }) => event === 'end'), 5_000)
    expect(end.data).toEqual({ code: 'forbidden' })
    expectClosed(await subscribing(ws.anon, 'collections.todos.*'), 'anon.collections')
    expect((await subscribing(ws.anon, 'collections.shown.*')).status).toBe(200)
    await openCollectionsToAnon(ws)
    const past = await subscribeToEvents(ws.anon, 'topic=collections.*', PAST)
    await receivedAtLeast(past, 2)
    expect(documents(past)).toEqual([{ n: 1 }, { n: 3 }])
  })
})

describe('anon key and collections', () => {
  const READS = (name: string): [string, string, object?][] => [
    ['GET', at(name)],
    ['GET', `${at(name)}?count=exact`],
    ['GET', `${at(name)}/01890a5d-ac96-774b-bcce-b302099a8057`],
    ['POST', `/v1/collections/${name}/query`, {}],
    ['GET', `/v1/collections/${name}/export`],
  ]

  test('list: shows names only', async () => {
    const ws = await createTestWorkspace()
    await openCollectionsToAnon(ws)
    await create(ws, 'loose')
    await declared(ws, 'kept', {})
    await declared(ws, 'hidden', { anon: { read: false } })
    const { body } = await call('GET', '/v1/collections', { as: ws.anon })
    expect(body.data).toEqual([{ name: 'kept' }, { name: 'loose' }])
  })

  test('collections set to none: undeclared and silent collections are closed, explicitly readable ones stay open', async () => {
    const ws = await createTestWorkspace()
    await openCollectionsToAnon(ws)
    await create(ws, 'loose')
    await declared(ws, 'silent', {})
    await declared(ws, 'shown', { anon: { read: true } })
    for (const name of ['silent', 'shown']) await create(ws, name)
    for (const name of ['loose', 'silent', 'shown'])
      expect((await call('GET', at(name), { as: ws.anon })).status).toBe(200)
    await configure(ws, { anon: { collections: 'none' } })
    for (const name of ['loose', 'silent', 'absent'])
      for (const [method, path, body] of READS(name))
        expectClosed(await call(method, path, { as: ws.anon, ...(body && { body }) }), 'anon.collections')
    expect((await call('GET', at('shown'), { as: ws.anon })).body.data).toHaveLength(1)
    expect((await call('GET', '/v1/collections', { as: ws.anon })).body.data).toEqual([{ name: 'shown' }])
    for (const name of ['loose', 'silent', 'shown'])
      expect((await call('GET', at(name), { as: ws.service })).body.data).toHaveLength(1)
    expect((await call('GET', '/v1/collections', { as: ws.service })).body.data).toHaveLength(3)
    await openCollectionsToAnon(ws)
    expect((await call('GET', at('loose'), { as: ws.anon })).status).toBe(200)
  })

  test('collections set to none: the database role sees no rows', async () => {
    const ws = await createTestWorkspace()
    await openCollectionsToAnon(ws)
    const ref = [ws.tenantId, ws.workspaceId]
    await create(ws, 'loose')
    const body = { workspace_id: ws.workspaceId, collection: 'silent', store: 'relational', schema: {} }
    const { body: schema } = await call('POST', '/v1/schemas', { as: ws.operator, body })
    await create(ws, 'silent')
    const texts = ['select id from tenon.documents', `select id from tenon_data."${schema.id}"`]
    for (const text of texts) expect(await sqlAsRole('tenon_anon', ref, text)).toHaveLength(1)
    await configure(ws, { anon: { collections: 'none' } })
    for (const text of texts) {
      expect(await sqlAsRole('tenon_anon', ref, text)).toEqual([])
      expect(await sqlAsRole('tenon_service', ref, text)).toHaveLength(1)
    }
  })

  test.each(['none', 'read'])(
    'create alone allowed, setting %s: shown only what it sent',
    async (collections) => {
      const ws = await createTestWorkspace()
      await configure(ws, { anon: { collections } })
      await declared(ws, 'box', { anon: { create: true } })
      const made = await call('POST', at('box'), { as: ws.anon, body: { n: 1 } })
      expect([made.status, made.body.n]).toEqual([201, 1])
      const path = `${at('box')}/${made.body.id}`
      const refused = [
        await call('GET', path, { as: ws.anon }),
        await call('PUT', path, { as: ws.anon, body: { n: 2 } }),
      ]
      for (const { status, body } of refused) {
        expect([status, body.code]).toEqual([403, 'forbidden'])
        expect(body.hint).toContain('The declaration of the collection can allow it')
      }
      expect((await call('GET', path, { as: ws.service })).body.n).toBe(1)
    },
  )

  test('other workspace of the tenant: has its own setting', async () => {
    const ws = await createTestWorkspace()
    const sibling = await addTestWorkspace(ws)
    await openCollectionsToAnon(ws)
    for (const each of [ws, sibling]) await create(each, 'loose')
    await configure(sibling, { anon: { events: 'none' } })
    expect((await call('GET', at('loose'), { as: ws.anon })).body.data).toHaveLength(1)
    expect((await subscribing(ws.anon, 'orders.*')).status).toBe(200)
    expectClosed(await call('GET', at('loose'), { as: sibling.anon }), 'anon.collections')
    expectClosed(await subscribing(sibling.anon, 'orders.*'), 'anon.events')
  })
})

/** Sends the path unchanged; `fetch` would resolve its dots. */
async function sendUnnormalised(path: string, headers: Caller): Promise<{ status: number; text: string }> {
  const { hostname, port } = new URL(inject('tenon').url)
  const outgoing = request({ hostname, port, path, headers: { ...headers }, agent: false }).end()
  const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
  return { status: response.statusCode ?? 0, text: await text(response) }
}

async function storeObject(ws: TestWorkspace, path: string, body: string): Promise<void> {
  const headers = { 'content-type': 'text/plain' }
  expect((await call('PUT', path, { as: ws.service, headers, body })).status).toBe(201)
}

describe('anon key and objects', () => {
  let ws: TestWorkspace
  let path: string
  const KEYS = ['public/a.txt', 'public/deep/b.txt', 'public-not/c.txt', 'private/d.txt', 'e.txt']
  beforeAll(async () => {
    ws = await createTestWorkspaceWithStorage()
    path = `/v1/objects/${await bucketOf(ws)}`
    for (const key of KEYS) await storeObject(ws, `${path}/${key}`, key)
  })

  test('new workspace: no listing, no reads', async () => {
    for (const of of [path, `${path}?prefix=public/`, `${path}/public/a.txt`, `${path}/absent`])
      expectClosed(await call('GET', of, { as: ws.anon }), 'anon.objects')
    expect((await call('HEAD', `${path}/public/a.txt`, { as: ws.anon })).status).toBe(403)
    const find = 'select name from tenon.buckets'
    const ref = [ws.tenantId, ws.workspaceId]
    expect(await sqlAsRole('tenon_anon', ref, find)).toEqual([])
    expect(await sqlAsRole('tenon_service', ref, find)).toHaveLength(1)
  })

  test('prefixes without anon.objects public: closed', async () => {
    await configure(ws, { objects: { public_read: ['public/'] } })
    expectClosed(await call('GET', `${path}/public/a.txt`, { as: ws.anon }), 'anon.objects')
    await configure(ws, { objects: { public_read: [] } })
  })

  test('opened prefix: readable below it, nowhere else', async () => {
    await openToAnon(ws, 'public/')
    for (const key of ['public/a.txt', 'public/deep/b.txt']) {
      expect((await call('GET', `${path}/${key}`, { as: ws.anon })).body).toBe(key)
      expect((await call('HEAD', `${path}/${key}`, { as: ws.anon })).status).toBe(200)
    }
    expect((await call('GET', `${path}/public/absent`, { as: ws.anon })).body.code).toBe('NoSuchKey')
    const listed = await call('GET', `${path}?prefix=public/`, { as: ws.anon })
    expect(listed.body.data.map(({ key }: { key: string }) => key)).toEqual(KEYS.slice(0, 2))
    for (const of of [
      '/private/d.txt',
      '/e.txt',
      '/public-not/c.txt',
      '/PUBLIC/a.txt',
      '',
      '?prefix=public',
      '?prefix=p',
    ])
      expectClosed(await call('GET', `${path}${of}`, { as: ws.anon }), 'objects.public_read')
    expect((await call('HEAD', `${path}/private/d.txt`, { as: ws.anon })).status).toBe(403)
    for (const key of KEYS) expect((await call('GET', `${path}/${key}`, { as: ws.service })).status).toBe(200)
    expect((await call('PUT', `${path}/public/new`, { as: ws.anon, body: '1' })).status).toBe(403)
    expect((await call('DELETE', `${path}/public/a.txt`, { as: ws.anon })).status).toBe(403)
  })

  test('opened prefix with any spelling of a key: no escape', async () => {
    await openToAnon(ws, 'public/')
    const spellings = [
      ...[
        'public/%2e%2e/private/d.txt',
        'public/..%2fprivate/d.txt',
        'public%2f..%2fprivate/d.txt',
        'public/..%5cprivate/d.txt',
      ],
      ...[
        'public//../private/d.txt',
        'public/%252e%252e/private/d.txt',
        'public/.%2e/private/d.txt',
        'public%00/../private/d.txt',
      ],
    ]
    for (const key of spellings) {
      const { status, text } = await sendUnnormalised(`${path}/${key}`, ws.anon)
      expect([400, 403, 404], `${key}: ${text}`).toContain(status)
      expect(text).not.toBe('private/d.txt')
    }
    const { body } = await call('GET', `${path}?prefix=private/&page[size]=1`, { as: ws.service })
    const all = await call('GET', `${path}?page[size]=1`, { as: ws.service })
    expect(body.data).toHaveLength(1)
    for (const prefix of ['public/../private/', 'public/..', 'public//../']) {
      const below = await call('GET', `${path}?prefix=${prefix}`, { as: ws.anon })
      expect(below.body.data ?? [], prefix).toEqual([])
    }
    // The cursor of an unrestricted list stays within the prefix.
    const query = `?prefix=public/&page[after]=${all.body.page.next}`
    const next = await call('GET', `${path}${query}`, { as: ws.anon })
    for (const { key } of next.body.data ?? []) expect(key).toMatch(/^public\//)
  })

  test('prefix closed again: closed at once', async () => {
    await openToAnon(ws, 'public/', 'private/')
    expect((await call('GET', `${path}/private/d.txt`, { as: ws.anon })).status).toBe(200)
    await openToAnon(ws, 'public/')
    expectClosed(await call('GET', `${path}/private/d.txt`, { as: ws.anon }), 'objects.public_read')
    await configure(ws, { anon: { objects: 'none' } })
    expectClosed(await call('GET', `${path}/public/a.txt`, { as: ws.anon }), 'anon.objects')
  })

  test("opened prefix and another workspace's bucket: denied", async () => {
    const other = await createTestWorkspaceWithStorage()
    await openToAnon(other, 'public/')
    const { status, body } = await call('GET', `${path}/public/a.txt`, { as: other.anon })
    expect([status, body.code]).toEqual([403, 'AccessDenied'])
  })
})

test('anon settings changed: another node applies them within 5 s, to open streams too', async () => {
  const ws = await createTestWorkspaceWithStorage()
  const path = `/v1/objects/${await bucketOf(ws)}/public/a.txt`
  await storeObject(ws, path, 'a')
  await create(ws, 'loose')
  await openCollectionsToAnon(ws)
  await openToAnon(ws, 'public/')
  const { at: node, close } = await startInProcessNode()
  try {
    const statusOf = async (of: string) => (await call('GET', of, { as: ws.anon, at: node })).status
    const frames = await subscribeToEvents(ws.anon, 'topic=orders.*', {}, node)
    for (const of of [path, at('loose')]) expect(await statusOf(of)).toBe(200)
    await configure(ws, { anon: { collections: 'none', objects: 'none', events: 'none' } })
    await Promise.all([
      ...[path, at('loose')].map((of) =>
        eventually(async () => (await statusOf(of)) === 403 || undefined, 5_000),
      ),
      eventually(async () => frames.find(({ event }) => event === 'end'), 5_000),
    ])
  } finally {
    closeSubscriptions()
    await close()
  }
})
