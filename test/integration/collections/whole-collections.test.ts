/** Dropping, truncating and renaming whole collections: nothing of a dropped name stays, and what is acknowledged afterwards is there. */

import { afterEach, beforeAll, describe, expect, test } from 'vitest'
import { openLive } from '../../support/clients/live-copy.ts'
import { closeSubscriptions, endOf, messages, subscribeToEvents } from '../../support/clients/sse.ts'
import {
  addTestWorkspace,
  asSuperuser,
  type Caller,
  call,
  createTestWorkspace,
  eventually,
  type TestWorkspace,
  unique,
  userToken,
} from '../../support/fixtures/tenants.ts'
import {
  confirming,
  declareWith,
  dropCollection,
  renameCollection,
  truncateCollection,
} from '../../support/fixtures/whole-collections.ts'

let ws: TestWorkspace
beforeAll(async () => {
  ws = await createTestWorkspace()
})
afterEach(closeSubscriptions)

const at = (collection: string, rest = '') => `/v1/collections/${collection}/documents${rest}`
const create = (collection: string, body: object, as: Caller = ws.service) =>
  call('POST', at(collection), { as, body })
const list = async (collection: string) =>
  (await call('GET', at(collection, '?page[size]=200'), { as: ws.service })).body.data
const names = async () =>
  (await call('GET', '/v1/collections?page[size]=200', { as: ws.service })).body.data.map(
    ({ name }: { name: string }) => name,
  )
const declare = (collection: string, more: object = {}, of = ws) => declareWith(of, collection, more)
const query = (collection: string, of = ws) => confirming(of, collection)
const drop = (collection: string, as?: Caller) => dropCollection(ws, collection, as)
const truncate = (collection: string, as?: Caller) => truncateCollection(ws, collection, as)
const rename = (collection: string, to: string, as?: Caller) => renameCollection(ws, [collection, to], as)

const CUSTOMER = { properties: { customer_id: { type: 'string', format: 'uuid' } } }
const referringTo = (collection: string) => ({
  schema: CUSTOMER,
  references: [{ field: 'customer_id', collection, inverse: 'orders' }],
})

/** The documents and declarations that the database has of a name. */
const left = (collection: string) =>
  asSuperuser(
    `select 'schema' from tenon.schemas where workspace_id = $1 and collection = $2
     union all select 'document' from tenon.documents where workspace_id = $1 and collection = $2`,
    [ws.workspaceId, collection],
  )
const tablesOf = (id: string) => asSuperuser(`select relname from pg_class where relname like $1`, [`${id}%`])

describe.each([
  ['declared', true],
  ['undeclared', false],
] as const)('%s collection', (_what, isDeclared) => {
  const make = async (): Promise<[name: string, id: string]> => {
    const name = unique('c')
    const schema = { properties: { n: { type: 'integer' } } }
    const id = isDeclared ? await declare(name, { schema, indexes: [{ fields: ['n'] }] }) : 'none'
    for (let n = 0; n < 3; n++) expect((await create(name, { n })).status).toBe(201)
    return [name, id]
  }

  test('drop: documents, declaration, table and indexes are gone, and the name is free', async () => {
    const [name, id] = await make()
    const events = await subscribeToEvents(ws.service, 'topic=platform.collection.*')
    const dropped = await drop(name)
    expect([dropped.status, dropped.body]).toEqual([200, { name, dropped: true }])
    expect([await left(name), await tablesOf(id)]).toEqual([[], []])
    expect(await names()).not.toContain(name)
    expect(await list(name)).toEqual([])
    const again = await drop(name)
    expect([again.status, again.body.code]).toEqual([404, 'not_found'])
    expect((await create(name, { n: 9 })).status).toBe(201)
    expect(await list(name)).toMatchObject([{ n: 9, _version: 1 }])
    const told = await eventually(async () =>
      messages(events).find(({ data }) => data.data.collection.name === name),
    )
    expect(told.data).toMatchObject({
      type: 'platform.collection.dropped',
      data: { collection: { name } },
    })
  })

  test('truncate: all documents are gone, the declaration stays, and the collection takes others', async () => {
    const [name, id] = await make()
    const truncated = await truncate(name)
    expect([truncated.status, truncated.body]).toEqual([200, { name, truncated: true }])
    expect(await list(name)).toEqual([])
    if (isDeclared) {
      const { body } = await call('GET', `/v1/schemas/${id}`, { as: ws.operator })
      expect(body).toMatchObject({ collection: name, revision: 1, indexes: [{ state: 'ready' }] })
      expect((await create(name, { n: 'x' })).body.code).toBe('schema_violation')
    }
    expect((await create(name, { n: 4 })).status).toBe(201)
    expect((await call('GET', at(name, '?n=gte.4'), { as: ws.service })).body.data).toHaveLength(1)
  })

  test('rename: documents keep ids and versions under the new name, and the former name is free', async () => {
    const [name] = await make()
    const [before, to] = [await list(name), unique('c')]
    const renamed = await rename(name, to)
    expect([renamed.status, renamed.body]).toEqual([200, { name: to, renamed_from: name }])
    expect(await list(to)).toEqual(before)
    expect(await left(name)).toEqual([])
    expect((await create(name, { n: 'any' })).status).toBe(201)
    expect((await create(to, { n: 'any' })).status).toBe(isDeclared ? 422 : 201)
    const taken = await rename(to, name)
    expect([taken.status, taken.body.code]).toEqual([409, 'conflict'])
  })

  test.each([
    ['drop', drop],
    ['truncate', truncate],
    ['rename', (name: string) => rename(name, unique('c'))],
  ] as const)('%s: a live query is told to read again, and ends', async (_verb, change) => {
    const [name] = await make()
    const live = await openLive(ws.service, `/v1/collections/${name}`, 'n=gte.0')
    expect((await change(name)).status).toBe(200)
    expect(await endOf(live.received)).toBe('collection_reset')
    const gap = live.received.find(({ event }) => event === 'gap')
    expect(gap?.id).toMatch(/^\d+-\d+$/)
  })

  test('quotas: documents and bytes are given back', async () => {
    const of = await addTestWorkspace(ws)
    const name = unique('c')
    if (isDeclared) await declare(name, {}, of)
    const limits = { documents: 100, document_bytes: 100_000 }
    const body = { workspace_id: of.workspaceId, limits }
    expect((await call('PUT', '/v1/quotas', { as: of.operator, body })).status).toBe(200)
    const used = () =>
      asSuperuser(
        `select name, used::integer from tenon.quotas where workspace_id = $1 and name like 'document%' order by name`,
        [of.workspaceId],
      )
    const empty = await used()
    for (const verb of ['truncate', 'drop']) {
      for (let n = 0; n < 3; n++) expect((await create(name, { n }, of.service)).status).toBe(201)
      expect(await used()).not.toEqual(empty)
      const path = `/v1/collections/${name}${verb === 'truncate' ? '/truncate' : ''}?${query(name, of)}`
      const method = verb === 'truncate' ? 'POST' : 'DELETE'
      expect((await call(method, path, { as: of.operator })).status).toBe(200)
      expect(await used()).toEqual(empty)
    }
  })
})

test('confirm: missing or another name is 400, and changes nothing', async () => {
  const name = unique('c')
  await create(name, { n: 1 })
  const workspace = `workspace_id=${ws.workspaceId}`
  for (const confirm of [
    '',
    '&confirm=',
    '&confirm=other',
    `&confirm=${name.toUpperCase()}`,
    `&confirm=${name}%20`,
  ]) {
    for (const [method, rest] of [
      ['DELETE', ''],
      ['POST', '/truncate'],
    ] as const) {
      const path = `/v1/collections/${name}${rest}?${workspace}${confirm}`
      const { status, body } = await call(method, path, { as: ws.operator })
      expect([status, body.code], path).toEqual([400, 'validation_failed'])
    }
  }
  expect(await list(name)).toHaveLength(1)
})

test('callers without the right: refused, and nothing is changed', async () => {
  const name = unique('c')
  await create(name, { n: 1 })
  const other = await createTestWorkspace()
  const foreign = `/v1/collections/${name}?confirm=${name}&workspace_id=${other.workspaceId}`
  expect((await call('DELETE', foreign, { as: ws.operator })).status).toBe(404)
  for (const as of [ws.service, ws.anon, other.service, await userToken(ws, 'mia')])
    for (const change of [drop(name, as), truncate(name, as), rename(name, unique('c'), as)])
      expect((await change).body.code).toBe('privilege_domain_mismatch')
  expect((await drop(name, {})).status).toBe(401)
  expect(await list(name)).toHaveLength(1)
})

test('collection that others refer to: neither dropped nor truncated, and a rename is followed', async () => {
  const [customers, orders, to] = [unique('customers'), unique('orders'), unique('people')]
  await declare(customers)
  await declare(orders, referringTo(customers))
  const { body: customer } = await create(customers, { name: 'Ann' })
  await create(orders, { customer_id: customer.id })
  for (const { status, body } of [await drop(customers), await truncate(customers)])
    expect([status, body]).toMatchObject([
      409,
      { code: 'state_conflict', used_by: [{ kind: 'reference', name: orders }] },
    ])
  expect((await rename(customers, to)).status).toBe(200)
  const expanded = await call('GET', at(orders, '?expand=customer(name)'), { as: ws.service })
  expect(expanded.body.data).toMatchObject([{ _expand: { customer: { name: 'Ann' } } }])
  const inverse = await call('GET', at(to, '?expand=orders(count)'), { as: ws.service })
  expect(inverse.body.data).toMatchObject([{ _expand: { orders: { count: 1 } } }])
  const none = await create(orders, { customer_id: '00000000-0000-4000-8000-000000000000' })
  expect(none.body.code).toBe('reference_not_found')
  expect((await drop(orders)).status).toBe(200)
  expect((await drop(to)).status).toBe(200)
})
