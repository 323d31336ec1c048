/** Documents that expire: not found at once by any way to read, deleted with an event that says why, and kept while others refer to them. */

import { afterAll, afterEach, beforeAll, describe, expect, inject, test } from 'vitest'
import { createTaskContexts } from '../../../src/activities/flow/background-work.ts'
import type { TenantId, WorkspaceId } from '../../../src/core/tenant.ts'
import { expiredDocuments } from '../../../src/features/collections/expiry/expired-documents.ts'
import { closeSubscriptions, receivedAtLeast, subscribeToEvents } from '../../support/clients/sse.ts'
import {
  asSuperuser,
  call as callAt,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
  userToken,
} from '../../support/fixtures/tenants.ts'
import { type MongoServer, mongoUnavailableReason, startMongo } from '../../support/stack/ferretdb.ts'
import { type Node, startInProcessNode } from '../../support/stack/in-process-node.ts'

const missing = await mongoUnavailableReason()
if (missing !== undefined) console.warn(`Documents that expire in MongoDB are not tested: ${missing}.`)

const PAST = '2026-01-01T00:00:00+02:00'
const FUTURE = '2999-12-31T23:59:59Z'
const TIME = { type: ['string', 'null'], format: 'date-time' }

let workspace: TestWorkspace
let mongo: MongoServer | undefined
let node: Node | undefined
beforeAll(async () => {
  workspace = await createTestWorkspace()
  if (missing !== undefined) return
  mongo = await startMongo()
  node = await startInProcessNode({ MONGODB_URL: mongo.url })
})
afterEach(closeSubscriptions)
afterAll(async () => {
  await node?.close()
  await mongo?.stop()
})

const STORES = {
  'relational in PostgreSQL': 'relational',
  'document in PostgreSQL': 'document',
  ...(missing === undefined && { 'document in MongoDB': 'document' }),
}

const platformOf = (name: string) =>
  (name === 'document in MongoDB' ? node?.at : undefined) ?? inject('tenon')
const callOf =
  (name: string): typeof callAt =>
  (method, path, options) =>
    callAt(method, path, { as: workspace.service, at: platformOf(name), ...options })
const call = callOf('relational in PostgreSQL')
const at = (collection: string, id = '') => `/v1/collections/${collection}/documents${id && `/${id}`}`

/** Declares a collection whose expired documents no round deletes, unless a test asks for one. */
async function declared(body: object, send = call): Promise<{ id: string; collection: string }> {
  const reply = await send('POST', '/v1/schemas', {
    as: workspace.operator,
    body: {
      ...{ workspace_id: workspace.workspaceId, collection: unique('c'), store: 'relational' },
      ...{
        ttl: { field: 'expires_at' },
        schema: { properties: { n: { type: 'integer' }, expires_at: TIME } },
      },
      ...body,
    },
  })
  expect([reply.status, reply.body]).toMatchObject([201, {}])
  await dueAt(reply.body.id, 'infinity')
  return reply.body
}
const dueAt = (id: string, time: string) =>
  asSuperuser('update tenon.schemas set expiry_due_at = $2 where id = $1', [id, time])
const deleted = (id: string, table: string, ids: readonly string[]) =>
  eventually(async () => {
    const left = await asSuperuser(`select from tenon_data."${table}" where id = any($1::uuid[])`, [ids])
    return left.length === 0 ? id : undefined
  })

describe.each(Object.entries(STORES))('%s', (name, store) => {
  const send = callOf(name)

  test('expired document: not found by any way to read or write; one that is to expire, or never does, is', async () => {
    const { collection } = await declared({ store }, send)
    const ids: string[] = []
    for (const [n, expires_at] of [PAST, FUTURE, null, undefined].entries()) {
      const made = await send('POST', at(collection), { body: { n, expires_at } })
      expect(made.status).toBe(201)
      ids.push(made.body.id)
    }
    const [gone = '', ...others] = ids
    const list = await send('GET', `${at(collection)}?order=n`, { headers: { prefer: 'count=exact' } })
    expect(list.body.data.map(({ id }: { id: string }) => id)).toEqual(others)
    expect(JSON.stringify(list.body.page)).not.toContain('4')
    const found = await send('POST', `/v1/collections/${collection}/query`, { body: { filter: { n: 0 } } })
    expect(found.body.data).toEqual([])
    const exported = await send('GET', `/v1/collections/${collection}/export`)
    expect(exported.body).not.toContain(gone)
    const replies = [
      await send('GET', at(collection, gone)),
      await send('PATCH', at(collection, gone), { body: { n: 5 } }),
      await send('PUT', at(collection, gone), { body: { expires_at: FUTURE } }),
      await send('DELETE', at(collection, gone)),
      await send('POST', `/v1/collections/${collection}/batch`, {
        body: { ops: [{ op: 'update', id: gone, data: { n: 1 } }] },
      }),
    ]
    expect(replies.map(({ status }) => status)).toEqual([404, 404, 404, 404, 404])
    // A document can be let expire, and then is gone as well.
    const [soon = ''] = others
    expect((await send('PUT', at(collection, soon), { body: { expires_at: PAST } })).status).toBe(200)
    expect((await send('GET', at(collection, soon))).status).toBe(404)
  })

  test('time after creation: not found from then on', async () => {
    const ttl = { field: '_created_at', after: '1s' }
    const { id, collection } = await declared({ store, ttl }, send)
    const made = await send('POST', at(collection), { body: { n: 1 } })
    expect(made.status).toBe(201)
    await eventually(async () =>
      (await send('GET', at(collection, made.body.id))).status === 404 ? 1 : undefined,
    )
    const change = { ttl: { field: '_created_at', after: '1h' } }
    const changed = await send('PUT', `/v1/schemas/${id}`, { as: workspace.operator, body: change })
    expect(changed.body).toMatchObject(change)
    expect((await send('GET', at(collection, made.body.id))).status).toBe(200)
    const removed = await send('PUT', `/v1/schemas/${id}`, { as: workspace.operator, body: { ttl: null } })
    expect([removed.body.ttl, removed.body.indexes]).toEqual([null, []])
  })
})

test('in PostgreSQL also not in aggregates, by expand, by rules that look it up, and for users', async () => {
  const { collection: teams } = await declared({
    access: { user: { read: true, create: true, aggregate: true } },
    schema: { properties: { user: { type: 'string' }, team: { type: 'string' }, expires_at: TIME } },
  })
  const { collection: tasks } = await declared({
    ttl: null,
    schema: { properties: { team: { type: 'string' }, of_id: { type: 'string', format: 'uuid' } } },
    references: [{ field: 'of_id', collection: teams, inverse: 'tasks' }],
    access: {
      lookups: { mine: { collection: teams, field: 'team', filter: { user: '$user.id' } } },
      user: { read: { team: { in: '$lookups.mine' } } },
    },
  })
  const ann = await userToken(workspace, 'ann')
  const user = (await call('POST', at(teams), { as: ann, body: {} })).body._owner
  const member = await call('POST', at(teams), { body: { user, team: 'red', expires_at: FUTURE } })
  await call('POST', at(tasks), { body: { team: 'red', of_id: member.body.id } })
  const seen = async () => [
    (await call('GET', at(tasks), { as: ann })).body.data.length,
    (await call('GET', at(teams), { as: ann })).body.data.length,
    (await call('GET', `/v1/collections/${teams}/aggregate?select=n:count()`, { as: ann })).body.n,
    (await call('GET', `${at(tasks)}?expand=of(team)`)).body.data[0]._expand.of?.team,
  ]
  expect(await seen()).toEqual([1, 2, 2, 'red'])
  await call('PUT', at(teams, member.body.id), { body: { expires_at: PAST } })
  expect(await seen()).toEqual([0, 1, 1, undefined])
})

test('deletion: with the reason in its event, and the quota is given back', async () => {
  const { id, collection } = await declared({})
  const { operator: as, workspaceId: workspace_id } = workspace
  const set = await call('PUT', '/v1/quotas', {
    as,
    body: { workspace_id, limits: { documents: 1_000 } },
  })
  expect([set.status, set.body]).toMatchObject([200, {}])
  const used = async () =>
    (await call('GET', `/v1/quotas?workspace_id=${workspace_id}`, { as })).body.quotas.documents.used
  const before = await used()
  const received = await subscribeToEvents(workspace.service, `topic=collections.${collection}.deleted`)
  const ids: string[] = []
  for (const expires_at of [PAST, PAST, FUTURE])
    ids.push((await call('POST', at(collection), { body: { expires_at } })).body.id)
  await dueAt(id, 'now')
  await deleted(id, id, ids.slice(0, 2))
  const events = await receivedAtLeast(received, 2)
  expect(new Set(events.map(({ data }) => data.data.id))).toEqual(new Set(ids.slice(0, 2)))
  for (const { data } of events) expect(data.data).toMatchObject({ version: 1, reason: 'expired' })
  expect(await used()).toBe(before + 1)
  const [row] = await asSuperuser<{ ahead: number }>(
    'select extract(epoch from expiry_due_at - now())::integer as ahead from tenon.schemas where id = $1',
    [id],
  )
  expect(row?.ahead).toBeGreaterThan(0)
})

test('expired document that others refer to: not found, but kept and counted, until they are gone', async () => {
  const { id, collection } = await declared({})
  const { collection: referring } = await declared({
    ttl: null,
    schema: { properties: { of_id: { type: 'string', format: 'uuid' } } },
    references: [{ field: 'of_id', collection }],
  })
  const kept = (await call('POST', at(collection), { body: { expires_at: FUTURE } })).body.id
  const other = (await call('POST', at(referring), { body: { of_id: kept } })).body.id
  const free = (await call('POST', at(collection), { body: { expires_at: PAST } })).body.id
  await call('PUT', at(collection, kept), { body: { expires_at: PAST } })
  const shown = async () =>
    (await call('GET', `/v1/schemas/${id}`, { as: workspace.operator })).body.expired_kept
  await dueAt(id, 'now')
  await deleted(id, id, [free])
  await eventually(async () => ((await shown()) === 1 ? true : undefined))
  expect((await call('GET', at(collection, kept))).status).toBe(404)
  await call('DELETE', at(referring, other))
  await dueAt(id, 'now')
  await deleted(id, id, [kept])
  await eventually(async () => ((await shown()) === 0 ? true : undefined))
})

test.runIf(missing === undefined)('in MongoDB: deleted by the worker, and others stay', async () => {
  const send = callOf('document in MongoDB')
  const { collection } = await declared({ store: 'document' }, send)
  for (const expires_at of [PAST, PAST, FUTURE]) await send('POST', at(collection), { body: { expires_at } })
  const ref = { tenantId: workspace.tenantId as TenantId, workspaceId: workspace.workspaceId as WorkspaceId }
  if (node === undefined) throw new TypeError('there is no node')
  await expiredDocuments().run(await createTaskContexts(node.platform.access)(ref), collection)
  const body = { ttl: null }
  const schemas = await send('GET', `/v1/schemas?workspace_id=${workspace.workspaceId}&page[size]=100`, {
    as: workspace.operator,
  })
  const own = schemas.body.data.find((one: { collection: string }) => one.collection === collection)
  expect((await send('PUT', `/v1/schemas/${own.id}`, { as: workspace.operator, body })).status).toBe(200)
  const list = await send('GET', at(collection))
  expect(list.body.data.map((one: { expires_at: string }) => one.expires_at)).toEqual([FUTURE])
})

test.each([
  ['a field that is not declared', { ttl: { field: 'ends' } }],
  ['a field of another format', { ttl: { field: 'n' } }],
  ['a time of no length', { ttl: { field: 'expires_at', after: '0s' } }],
  ['a time of more than a hundred years', { ttl: { field: 'expires_at', after: '36501d' } }],
  ['a time beyond what dates hold', { ttl: { field: 'expires_at', after: '999999999w' } }],
  ['creation without a time', { ttl: { field: '_created_at' } }],
  ['another field of the platform', { ttl: { field: '_updated_at', after: '1d' } }],
  ['mode warn', { mode: 'warn', ttl: { field: 'expires_at' } }],
])('refused: %s', async (_, body) => {
  const schema = { properties: { n: { type: 'integer' }, expires_at: TIME } }
  const refused = await call('POST', '/v1/schemas', {
    as: workspace.operator,
    body: {
      workspace_id: workspace.workspaceId,
      collection: unique('c'),
      store: 'relational',
      schema,
      ...body,
    },
  })
  expect([refused.status, refused.body.code, refused.body.errors[0].name]).toEqual([
    400,
    'validation_failed',
    'ttl',
  ])
})
