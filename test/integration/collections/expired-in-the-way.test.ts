/** Documents that have expired and are not deleted yet: what others do with their ids, values and owners meanwhile. */

import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { createTaskContexts } from '../../../src/activities/flow/background-work.ts'
import type { TenantId, WorkspaceId } from '../../../src/core/tenant.ts'
import { expiredDocuments } from '../../../src/features/collections/expiry/expired-documents.ts'
import { COLLECTION_LIMITS } from '../../../src/features/collections/limits.ts'
import { withCollection } from '../../../src/features/collections/resolve-store.ts'
import { write, writeAll } from '../../../src/features/collections/write.ts'
import { renameSomeOwners } from '../../../src/features/people/anonymous-data.ts'
import { deleteSomeDocuments } from '../../../src/features/people/personal-data.ts'
import {
  asSuperuser,
  call as callAt,
  createTestWorkspace,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'
import { type MongoServer, mongoUnavailableReason, startMongo } from '../../support/stack/ferretdb.ts'
import { type Node, startInProcessNode } from '../../support/stack/in-process-node.ts'

const missing = await mongoUnavailableReason()
if (missing !== undefined) console.warn(`Documents that expire in MongoDB are not tested: ${missing}.`)

const PAST = '2026-01-01T00:00:00+02:00'
const FUTURE = '2999-12-31T23:59:59Z'
const TIME = { type: ['string', 'null'], format: 'date-time' }
const ID = { type: ['string', 'null'], format: 'uuid' }

let workspace: TestWorkspace
let mongo: MongoServer | undefined
let node: Node
beforeAll(async () => {
  workspace = await createTestWorkspace()
  mongo = missing === undefined ? await startMongo() : undefined
  node = await startInProcessNode(mongo === undefined ? {} : { MONGODB_URL: mongo.url })
})
afterAll(async () => {
  await node?.close()
  await mongo?.stop()
})

const call: typeof callAt = (method, path, options) =>
  callAt(method, path, { as: workspace.service, at: inject('tenon'), ...options })
const inNode: typeof callAt = (method, path, options) => call(method, path, { at: node.at, ...options })
const at = (collection: string, id = '') => `/v1/collections/${collection}/documents${id && `/${id}`}`

/** Declares a collection whose expired documents no round deletes, unless a test asks for one. */
async function declared(body: object, send = call): Promise<{ id: string; collection: string }> {
  const named = { workspace_id: workspace.workspaceId, collection: unique('c'), store: 'relational' }
  const schema = { properties: { code: { type: 'string' }, of_id: ID, expires_at: TIME } }
  const reply = await send('POST', '/v1/schemas', {
    as: workspace.operator,
    body: { ...named, schema, ttl: { field: 'expires_at' }, ...body },
  })
  expect([reply.status, reply.body]).toMatchObject([201, {}])
  await asSuperuser(`update tenon.schemas set expiry_due_at = 'infinity' where id = $1`, [reply.body.id])
  return reply.body
}
async function idOf(collection: string, body: object): Promise<string> {
  const made = await call('POST', at(collection), { body })
  expect([made.status, made.body]).toMatchObject([201, {}])
  return made.body.id
}
const expire = (collection: string, id: string) =>
  call('PATCH', at(collection, id), { body: { expires_at: PAST } })
const imported = (collection: string, lines: readonly object[], send = call) =>
  send('POST', `/v1/collections/${collection}/import?on_error=continue`, {
    body: lines.map((line) => JSON.stringify(line)).join('\n'),
    headers: { 'content-type': 'application/x-ndjson' },
  })
const contextOf = () =>
  createTaskContexts(node.platform.access)({
    tenantId: workspace.tenantId as TenantId,
    workspaceId: workspace.workspaceId as WorkspaceId,
  })
const runRound = async (collection: string) => expiredDocuments().run(await contextOf(), collection)
/** All documents, also those that had expired. */
async function shown({ id, collection }: { id: string; collection: string }, send = call) {
  const body = { ttl: null }
  expect((await send('PUT', `/v1/schemas/${id}`, { as: workspace.operator, body })).status).toBe(200)
  return (await send('GET', `${at(collection)}?order=_created_at`)).body.data
}

test('reference to an expired document: refused for a service key as for users; one that was there stays', async () => {
  const { collection } = await declared({})
  const { collection: referring } = await declared({
    ttl: null,
    references: [{ field: 'of_id', collection }],
  })
  const parent = await idOf(collection, { expires_at: FUTURE })
  const child = await idOf(referring, { of_id: parent })
  const free = await idOf(referring, {})
  await expire(collection, parent)
  const refused = [
    await call('POST', at(referring), { body: { of_id: parent } }),
    await call('PATCH', at(referring, free), { body: { of_id: parent } }),
    await call('PUT', `${at(referring, free)}?replace=true`, { body: { of_id: parent } }),
  ]
  expect(refused.map(({ body }) => body.code)).toEqual(Array(3).fill('reference_not_found'))
  const lines = await imported(referring, [{ of_id: parent }, {}])
  expect(lines.body).toMatchObject({
    created: 1,
    failed: 1,
    errors: [{ line: 1, code: 'reference_not_found' }],
  })
  const kept = [
    await call('PATCH', at(referring, child), { body: { of_id: parent, code: 'a' } }),
    await call('PUT', `${at(referring, child)}?replace=true`, { body: { of_id: parent, code: 'b' } }),
  ]
  expect(kept.map(({ status }) => status)).toEqual([200, 200])
})

test('reference to an expired document in an import that keeps versions and times: refused, too', async () => {
  const { collection } = await declared({})
  const { collection: referring } = await declared({
    ttl: null,
    references: [{ field: 'of_id', collection }],
  })
  const of_id = await idOf(collection, { expires_at: PAST })
  const at = '2026-01-01T00:00:00.000Z'
  const line = { id: randomUUID(), of_id, _version: 3, _created_at: at, _updated_at: at }
  const query = '?quiet=true&keep=system'
  const { body } = await call('POST', `/v1/collections/${referring}/import${query}`, {
    body: JSON.stringify(line),
    headers: { 'content-type': 'application/x-ndjson' },
  })
  expect(body).toMatchObject({ created: 0, failed: 1, errors: [{ line: 1, code: 'reference_not_found' }] })
})

test('create that is repeated after its target has expired: the same answer; a new one is refused', async () => {
  const { collection } = await declared({})
  const { collection: referring } = await declared({
    ttl: null,
    references: [{ field: 'of_id', collection }],
  })
  const of_id = await idOf(collection, { expires_at: FUTURE })
  const { service } = await contextOf()
  const createOf = (id: string) => ({ op: 'create', collection: referring, id, data: { of_id } }) as const
  const change = createOf(randomUUID())
  const first = await write(service, change)
  await expire(collection, of_id)
  expect(await write(service, change)).toMatchObject({ id: first.id, version: 1 })
  const refused = { code: 'reference_not_found' }
  await expect(write(service, createOf(randomUUID()))).rejects.toMatchObject(refused)
  await expect(writeAll(service, [change, createOf(randomUUID())])).rejects.toMatchObject(refused)
})

test('import of the same lines after their targets have expired: their documents are there; new ones are refused', async () => {
  const name = unique('c')
  const { collection } = await declared({
    collection: name,
    references: [{ field: 'of_id', collection: name }],
  })
  const { collection: referring } = await declared({
    ttl: null,
    references: [{ field: 'of_id', collection }],
  })
  for (const into of [collection, referring]) {
    const of_id = await idOf(collection, { expires_at: FUTURE })
    const line = { id: randomUUID(), of_id }
    expect((await imported(into, [line])).body).toMatchObject({ created: 1 })
    await expire(collection, of_id)
    expect((await imported(into, [line, { of_id }])).body, into).toMatchObject({
      ...{ created: 0, existing: 1, failed: 1 },
      errors: [{ line: 2, code: 'reference_not_found' }],
    })
    const upserted = await call('POST', `/v1/collections/${into}/import?mode=upsert`, {
      body: JSON.stringify({ ...line, code: 'a' }),
      headers: { 'content-type': 'application/x-ndjson' },
    })
    expect(upserted.body, into).toMatchObject({ updated: 1, failed: 0 })
  }
})

test('upsert with the key of an expired document: 409 as for a create, and made once that is deleted', async () => {
  const { collection } = await declared({ unique: [['code']] })
  await idOf(collection, { code: 'a', expires_at: PAST })
  const upsert = () =>
    call('POST', `/v1/collections/${collection}/batch`, {
      body: { ops: [{ op: 'upsert', on: ['code'], data: { code: 'a' } }] },
    })
  const refused = await upsert()
  expect([refused.status, refused.body.code]).toEqual([409, 'unique_violation'])
  await runRound(collection)
  expect((await upsert()).body.results).toMatchObject([{ status: 201 }])
})

test('owner whose data is deleted: so are the expired documents; one that others refer to is in the way', async () => {
  const { id, collection } = await declared({})
  const { collection: referring } = await declared({
    ttl: null,
    references: [{ field: 'of_id', collection }],
  })
  const [userId, kept] = [`usr-${randomUUID()}`, randomUUID()]
  await imported(collection, [
    { id: kept, _owner: userId, expires_at: FUTURE },
    { _owner: userId, expires_at: PAST },
  ])
  const other = await idOf(referring, { of_id: kept })
  await expire(collection, kept)
  const { service } = await contextOf()
  const removed = async () => {
    while (await deleteSomeDocuments({ userId, service, prefixes: [] }));
    return asSuperuser(`select from tenon_data."${id}"`)
  }
  await expect(removed()).rejects.toMatchObject({ code: 'state_conflict' })
  await call('DELETE', at(referring, other))
  expect(await removed()).toEqual([])
})

const STORES = {
  'in PostgreSQL': { store: 'relational', send: call },
  ...(missing === undefined && { 'in MongoDB': { store: 'document', send: inNode } }),
}
describe.each(Object.entries(STORES))('%s', (_, { store, send }) => {
  test('import with the id of an expired document: the line fails, and does not count as existing', async () => {
    const { collection } = await declared({ store }, send)
    const [gone, there] = [randomUUID(), randomUUID()]
    const lines = [
      { id: gone, expires_at: PAST },
      { id: there, expires_at: FUTURE },
    ]
    expect((await imported(collection, lines, send)).body).toMatchObject({ created: 2, existing: 0 })
    expect((await imported(collection, lines, send)).body).toMatchObject({
      ...{ created: 0, existing: 1, failed: 1 },
      errors: [{ line: 1, code: 'state_conflict', detail: expect.stringContaining('expired') }],
    })
  })

  test('create that is repeated after its document has expired: the same answer, and no second document', async () => {
    const { collection } = await declared({ store }, send)
    const { service } = await contextOf()
    const change = { op: 'create', collection, id: randomUUID(), data: { expires_at: PAST } } as const
    const first = await write(service, change)
    expect(await write(service, change)).toMatchObject({ id: first.id, version: 1 })
  })

  test('owner who is removed: the expired documents get the pseudonym, too', async () => {
    const schema = await declared({ store }, send)
    const [userId, pseudonym] = [`usr-${randomUUID()}`, `usr-${randomUUID()}`]
    await imported(schema.collection, [{ _owner: userId, expires_at: PAST }, { _owner: userId }], send)
    const { service } = await contextOf()
    while (await renameSomeOwners({ userId, pseudonym, service, prefixes: [], email: '' }));
    const owners = (await shown(schema, send)).map(({ _owner }: { _owner: string }) => _owner)
    expect(owners).toEqual([pseudonym, pseudonym])
  })
})

test.runIf(missing === undefined)(
  'in MongoDB: documents of more bytes than one answer may have: deleted',
  async () => {
    const schema = await declared({ store: 'document' }, inNode)
    const code = 'x'.repeat(250_000)
    const made = await imported(schema.collection, Array(140).fill({ code, expires_at: PAST }), inNode)
    expect(made.body).toMatchObject({ created: 140 })
    await runRound(schema.collection)
    expect(await shown(schema, inNode)).toEqual([])
  },
)

test('expired documents of a collection that refer to one another, or to themselves: deleted; not what others still refer to', async () => {
  const name = unique('c')
  const references = [{ field: 'of_id', collection: name }]
  const { id, collection } = await declared({ collection: name, references })
  const { collection: referring } = await declared({
    ttl: null,
    references: [{ field: 'of_id', collection }],
  })
  const create = (of_id?: string) => idOf(collection, { expires_at: FUTURE, ...(of_id && { of_id }) })
  const link = (from: string, of_id: string) => call('PATCH', at(collection, from), { body: { of_id } })
  const [target, itself] = [await create(), await create()]
  const first = await create()
  const second = await create(first)
  await link(first, second)
  await link(itself, itself)
  // A circle of two that a document of another collection holds, and what one of them refers to through a third.
  const held = await create()
  const between = await create(target)
  const back = await create(held)
  await link(held, back)
  await idOf(referring, { of_id: back })
  const live = await create()
  await link(live, between)
  for (const one of [target, itself, first, second, held, between, back]) await expire(collection, one)
  await runRound(collection)
  const left = await asSuperuser<{ id: string }>(`select id from tenon_data."${id}"`)
  expect(left.map((row) => row.id).sort()).toEqual([target, held, between, back, live].sort())
  const schema = await call('GET', `/v1/schemas/${id}`, { as: workspace.operator })
  expect(schema.body.expired_kept).toBe(4)
})

test.runIf(missing === undefined)(
  'in MongoDB: a round reads a part of the documents, and the next one goes on there',
  async () => {
    const { collection } = await declared({ store: 'document' }, inNode)
    const limit = 2
    const read = limit * COLLECTION_LIMITS.expiry.readPerDeletion
    const live = Array(read).fill({ expires_at: FUTURE })
    await imported(collection, [...live, ...Array(3).fill({ expires_at: PAST })], inNode)
    const { service } = await contextOf()
    const removed: number[] = []
    for (let round = 0; round < 4; round++) {
      const done = await withCollection(service, collection, ['delete'], (found, inside) =>
        found.store.removeExpired(inside, found, limit),
      )
      removed.push(done.removed)
    }
    expect(removed).toEqual([0, 2, 1, 0])
  },
)
