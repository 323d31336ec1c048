/** Tests that what no declaration and no setting names is closed to anon keys: in every operation that reads, and in the database. */

import { afterAll, afterEach, beforeAll, describe, expect, inject, test } from 'vitest'
import { sqlAsRole } from '../support/clients/sql-as-role.ts'
import { closeSubscriptions, messages, receivedAtLeast, subscribeToEvents } from '../support/clients/sse.ts'
import { call, createTestWorkspace, type Reply, type TestWorkspace } from '../support/fixtures/tenants.ts'
import { startMongoApi } from '../support/stack/mongo-api.ts'
import type { Running } from '../support/stack/start.ts'
import { configure, tryConfigure } from '../support/stack/workspace-settings.ts'

/** Of `anon.collections`; `not set` is a new workspace, which has no row of settings. */
const SETTINGS = ['not set', 'none', 'read'] as const

/** A workspace with the setting. */
async function workspaceWith(collections: (typeof SETTINGS)[number]): Promise<TestWorkspace> {
  const ws = await createTestWorkspace()
  if (collections !== 'not set') await configure(ws, { anon: { collections } })
  return ws
}

const OWN = { _owner: '$user.id' }

/** Collections by what their declaration says of anon keys: the second is whether the setting `read` opens them. */
const COLLECTIONS = [
  ['users', { access: { user: { read: OWN, create: true } } }, false],
  ['writers', { access: { anon: { create: true } } }, false],
  ['nobody', { access: { anon: {} } }, false],
  ['silent', {}, true],
  ['loose', undefined, true],
] as const

type Send = (ws: TestWorkspace, name: string, id: string, at: Running) => Promise<Reply>
const get =
  (path: (name: string, id: string) => string, headers = {}): Send =>
  ({ anon: as }, name, id, at) =>
    call('GET', path(name, id), { as, at, headers })

const READS: Readonly<Record<string, Send>> = {
  get: get((name, id) => `/v1/collections/${name}/documents/${id}`),
  list: get((name) => `/v1/collections/${name}/documents`),
  count: get((name) => `/v1/collections/${name}/documents?count=exact&page[size]=1`),
  export: get((name) => `/v1/collections/${name}/export`),
  live: get((name) => `/v1/events/subscribe?topic=collections.${name}.*`),
  replay: get((name) => `/v1/events/subscribe?topic=collections.${name}.*`, { 'last-event-id': '0-0' }),
  query: ({ anon: as }, name, _id, at) => call('POST', `/v1/collections/${name}/query`, { as, at, body: {} }),
  batch: ({ anon: as }, name, id, at) =>
    call('POST', `/v1/collections/${name}/batch`, { as, at, body: { ops: [{ op: 'patch', id, data: {} }] } }),
}

let mongo: Awaited<ReturnType<typeof startMongoApi>>
beforeAll(async () => {
  mongo = await startMongoApi()
})
afterAll(() => mongo.stop())
afterEach(closeSubscriptions)

/** Declares the collections and writes a document into each. @returns ids of documents by name */
async function fill(ws: TestWorkspace, store: string, at: Running): Promise<Map<string, string>> {
  const ids = new Map<string, string>()
  for (const [collection, more] of COLLECTIONS) {
    const body = { workspace_id: ws.workspaceId, collection, store, schema: {}, ...more }
    if (more !== undefined)
      expect((await call('POST', '/v1/schemas', { as: ws.operator, body })).status).toBe(201)
    const path = `/v1/collections/${collection}/documents`
    ids.set(collection, (await call('POST', path, { as: ws.service, at, body: { secret: 1 } })).body.id)
  }
  return ids
}

describe.each([
  ['relational', () => inject('tenon')],
  ['document', () => inject('tenon')],
  ['document in MongoDB', () => mongo.running],
] as const)('store %s', (name, platform) => {
  const store = name.split(' ')[0] ?? ''

  test.each(SETTINGS)(
    'anon key: anon.collections %s: reads what the setting opens, never what a declaration with access does not name',
    async (collections) => {
      const at = platform()
      const ws = await workspaceWith(collections)
      const ids = await fill(ws, store, at)
      for (const [collection, , opens] of COLLECTIONS) {
        const isOpen = opens && collections === 'read'
        for (const [read, send] of Object.entries(READS)) {
          const { status, body } = await send(ws, collection, ids.get(collection) ?? '', at)
          const expected = isOpen && read !== 'batch' ? 200 : 403
          expect([collection, read, status], JSON.stringify(body)).toEqual([collection, read, expected])
        }
      }
      const listed = await call('GET', '/v1/collections', { as: ws.anon, at })
      const names = listed.body.data.map((one: { name: string }) => one.name)
      expect(names).toEqual(collections === 'read' ? ['loose', 'silent'] : [])
    },
  )
})

test.each(SETTINGS)(
  'changes of all collections: anon.collections %s: an anon key hears, live and replayed, what it may read',
  async (collections) => {
    const ws = await workspaceWith(collections)
    const declaration = {
      workspace_id: ws.workspaceId,
      collection: 'zz_shown',
      store: 'relational',
      schema: {},
    }
    const access = { anon: { read: true } }
    await call('POST', '/v1/schemas', { as: ws.operator, body: { ...declaration, access } })
    const live = await subscribeToEvents(ws.anon, 'topic=collections.*')
    await fill(ws, 'relational', inject('tenon'))
    await call('POST', '/v1/collections/zz_shown/documents', { as: ws.service, body: {} })
    const replayed = await subscribeToEvents(ws.anon, 'topic=collections.*', { 'last-event-id': '0-0' })
    const heard = collections === 'read' ? ['loose', 'silent', 'zz_shown'] : ['zz_shown']
    for (const frames of [live, replayed]) {
      await receivedAtLeast(frames, heard.length)
      const names = messages(frames).map(({ data }) =>
        data.type.split('.').find((part: string) => /loose|silent|zz_shown|users|writers|nobody/.test(part)),
      )
      expect(names.toSorted()).toEqual(heard)
    }
  },
)

test.each(SETTINGS)(
  'role tenon_anon: anon.collections %s: the policies of the database admit the same',
  async (collections) => {
    const ws = await workspaceWith(collections)
    await fill(ws, 'relational', inject('tenon'))
    const ref = [ws.tenantId, ws.workspaceId]
    const tables = await sqlAsRole<{ collection: string; relation: string }>(
      'tenon_service',
      ref,
      'select collection, relation from tenon.schemas',
    )
    const places = new Map(tables.map(({ collection, relation }) => [collection, `tenon_data."${relation}"`]))
    for (const [collection, , opens] of COLLECTIONS) {
      const place = places.get(collection) ?? 'tenon.documents'
      const rows = await sqlAsRole('tenon_anon', ref, `select id from ${place}`).catch(
        (error: Error) => error.message.match(/permission denied/)?.[0],
      )
      const isOpen = opens && collections === 'read'
      expect([collection, rows]).toEqual([
        collection,
        isOpen ? [expect.anything()] : opens ? [] : 'permission denied',
      ])
    }
  },
)

test('anon.collections set to read: the answer warns of what is public now', async () => {
  const ws = await createTestWorkspace()
  await fill(ws, 'relational', inject('tenon'))
  const { status, body } = await tryConfigure(ws, { anon: { collections: 'read' } })
  expect(status).toBe(200)
  expect(body.warnings).toEqual([{ pointer: '/anon/collections', detail: expect.stringMatching(/silent/) }])
  expect(body.warnings[0].detail).not.toMatch(/users|writers|nobody/)
  expect(await configure(ws, { anon: { collections: 'none' } })).not.toHaveProperty('warnings')
})
