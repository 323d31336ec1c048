/** References of documents in MongoDB, to one another and to those in PostgreSQL: links without integrity, read within bounds. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { importInto, lines } from '../../support/clients/ndjson.ts'
import { Collections, ID_OR_NULL, pathOf } from '../../support/fixtures/references.ts'
import { type Caller, createTestWorkspace, unique, userToken } from '../../support/fixtures/tenants.ts'
import { mongoUnavailableReason } from '../../support/stack/ferretdb.ts'
import { startMongoApi } from '../../support/stack/mongo-api.ts'

const missing = await mongoUnavailableReason()
if (missing !== undefined) console.warn(`References in MongoDB are not tested: ${missing}.`)

const text = { type: 'string' }
const NOWHERE = '019abcde-0000-7000-8000-000000000000'

describe.skipIf(missing !== undefined)('MongoDB', () => {
  let mongo: Awaited<ReturnType<typeof startMongoApi>>
  let here: Collections
  let user: Caller
  beforeAll(async () => {
    mongo = await startMongoApi()
    const workspace = await createTestWorkspace(mongo.running)
    here = new Collections(workspace, mongo.running)
    user = await userToken(workspace, 'uma', {}, mongo.running)
  })
  afterAll(() => mongo?.stop())

  const get = async (path: string, as?: Caller) => {
    const { status, body } = await here.call('GET', path, { ...(as && { as }) })
    expect([status, body]).toMatchObject([200, {}])
    return body
  }
  const list = async (name: string, query: Record<string, string>, as?: Caller) =>
    (await get(`${pathOf(name)}?${new URLSearchParams(query)}`, as)).data
  const namesOf = (documents: readonly { name: string }[]) => documents.map(({ name }) => name)

  type Store = 'document' | 'relational'

  /** Customers and orders that refer to them. */
  async function declared(customers: Store, orders: Store) {
    const access = { user: { read: { hidden: false }, create: true, aggregate: true } }
    const hidden = { type: 'boolean' }
    const one = await here.declare({
      ...{ store: customers, access, collection: unique('customers') },
      schema: { properties: { name: text, plan: text, hidden } },
    })
    const properties = { name: text, customer_id: ID_OR_NULL, n: { type: 'integer' }, hidden }
    const reference = { field: 'customer_id', collection: one.name, inverse: 'orders', on_delete: 'none' }
    const many = await here.declare({
      ...{ store: orders, access, collection: unique('orders') },
      ...{ schema: { properties }, references: [reference] },
    })
    return { customers: one.name, orders: many.name }
  }

  async function filled(customers: Store, orders: Store) {
    const names = await declared(customers, orders)
    const ann = await here.create(names.customers, { name: 'ann', plan: 'pro', hidden: false })
    const bob = await here.create(names.customers, { name: 'bob', plan: 'free', hidden: false })
    const eve = await here.create(names.customers, { name: 'eve', plan: 'pro', hidden: true })
    for (const [at, [name, customer_id, hidden]] of (
      [
        ['o1', ann.toUpperCase(), false],
        ['o2', ann, false],
        ['o3', bob, false],
        ['o4', ann, true],
        ['o5', eve, false],
        ['o6', null, false],
      ] as const
    ).entries())
      await here.create(names.orders, { name, customer_id, hidden, n: at })
    return { ...names, ann, bob, eve }
  }

  describe('declaration', () => {
    const properties = { parent_id: ID_OR_NULL }
    const reference = (collection: string, more: object = {}) => ({
      ...{ field: 'parent_id', collection, as: 'parent', ...more },
    })

    test('without on_delete: links, which nothing holds', async () => {
      const to = await here.declare({ store: 'document', schema: {} })
      const references = [reference(to.name)]
      const { body } = await here.request({ store: 'document', schema: { properties }, references })
      expect(body.references).toEqual([reference(to.name, { on_delete: 'none' })])
    })

    test.each([
      ['document', 'document'],
      ['relational', 'document'],
      ['document', 'relational'],
    ] as const)('%s to %s: a foreign key is refused, with the way there', async (to, from) => {
      const target = await here.declare({ store: to, schema: {} })
      for (const on_delete of ['restrict', 'cascade', 'set_null']) {
        const references = [reference(target.name, { on_delete })]
        const { status, body } = await here.request({ store: from, schema: { properties }, references })
        expect([status, body.code]).toEqual([400, 'not_supported'])
        expect(body.hint).toContain('"on_delete": "none"')
      }
    })
  })

  describe.each([
    ['document', 'document'],
    ['relational', 'document'],
    ['document', 'relational'],
  ] as const)('customers %s, orders %s', (customers, orders) => {
    test('write: names a document that is not there, or hidden from the user: 409', async () => {
      const names = await filled(customers, orders)
      const asked = (customer_id: string, as?: Caller) =>
        here.call('POST', pathOf(names.orders), { body: { customer_id }, ...(as && { as }) })
      for (const reply of [await asked(NOWHERE), await asked(NOWHERE, user), await asked(names.eve, user)])
        expect([reply.status, reply.body.code]).toEqual([409, 'reference_not_found'])
      for (const reply of [await asked(names.eve), await asked(names.ann, user)])
        expect(reply.status).toBe(201)
      const [{ id }] = await list(names.orders, { name: 'eq.o1' })
      const moved = await here.call('PUT', pathOf(names.orders, id), { body: { customer_id: NOWHERE } })
      expect(moved.body.code).toBe('reference_not_found')
    })

    test('expand: the other document, those that refer in their order, and their number, as the caller may read them', async () => {
      const names = await filled(customers, orders)
      const one = await list(names.orders, { expand: 'customer(name)' })
      expect(one.map((order: { _expand: { customer: unknown } }) => order._expand.customer)).toEqual([
        ...[names.ann, names.ann, names.bob, names.ann, names.eve].map((id) => ({
          ...{ id, name: id === names.ann ? 'ann' : id === names.bob ? 'bob' : 'eve' },
        })),
        null,
      ])
      expect(await list(names.orders, { select: 'name,customer.name', name: 'eq.o3' })).toMatchObject([
        { name: 'o3', _expand: { customer: { name: 'bob' } } },
      ])
      const many = async (expand: string, as?: Caller) =>
        (await list(names.customers, { expand }, as)).map((one: { _expand: { orders: unknown } }) => {
          const found = one._expand.orders
          return Array.isArray(found) ? namesOf(found) : found
        })
      expect(await many('orders(name)')).toEqual([['o1', 'o2', 'o4'], ['o3'], ['o5']])
      expect(await many('orders(name;order=n.desc;size=2)')).toEqual([['o4', 'o2'], ['o3'], ['o5']])
      expect(await many('orders(name;n=gt.0)')).toEqual([['o2', 'o4'], ['o3'], ['o5']])
      expect(await many('orders(count)')).toEqual([{ count: 3 }, { count: 1 }, { count: 1 }])
      expect(await many('orders(name)', user)).toEqual([['o1', 'o2'], ['o3']])
      expect(await many('orders(count)', user)).toEqual([{ count: 2 }, { count: 1 }])
      const nested = await list(names.customers, { expand: 'orders(name,customer(name))', name: 'eq.bob' })
      expect(nested[0]._expand.orders[0]._expand.customer).toEqual({ id: names.bob, name: 'bob' })
    })

    test('filters: on the other document, and on those that refer, as the caller may read them', async () => {
      const names = await filled(customers, orders)
      const from = async (query: Record<string, string>, as?: Caller) =>
        namesOf(await list(names.orders, query, as))
      const to = async (query: Record<string, string>, as?: Caller) =>
        namesOf(await list(names.customers, query, as))
      expect(await from({ 'customer.plan': 'eq.pro' })).toEqual(['o1', 'o2', 'o4', 'o5'])
      expect(await from({ 'customer.plan': 'eq.pro' }, user)).toEqual(['o1', 'o2'])
      expect(await from({ customer: 'none.(plan.eq.pro)' })).toEqual(['o3', 'o6'])
      expect(await from({ or: '(customer.plan.eq.free,n.eq.5)' })).toEqual(['o3', 'o6'])
      expect(await to({ orders: 'some.(n.gt.2)' })).toEqual(['ann', 'eve'])
      expect(await to({ orders: 'some.(n.gt.2)' }, user)).toEqual([])
      expect(await to({ orders: 'none.(n.gt.2)' })).toEqual(['bob'])
      expect(await to({ orders: 'none.()' })).toEqual([])
      expect(await to({ orders: 'some.(customer.plan.eq.free)' })).toEqual(['bob'])
      const page = await get(
        `${pathOf(names.orders)}?${new URLSearchParams({ 'customer.plan': 'eq.pro', 'page[size]': '3' })}`,
      )
      expect(namesOf(page.data)).toEqual(['o1', 'o2', 'o4'])
      const rest = { 'customer.plan': 'eq.pro', 'page[size]': '3', 'page[after]': page.page.next }
      expect(await from(rest)).toEqual(['o5'])
    })

    test('document that others refer to: deleted; they keep its id, and expand is null', async () => {
      const names = await filled(customers, orders)
      expect((await here.delete(names.customers, names.ann)).status).toBe(200)
      const [order] = await list(names.orders, { name: 'eq.o2', expand: 'customer' })
      expect(order).toMatchObject({ customer_id: names.ann, _version: 1, _expand: { customer: null } })
      expect(await list(names.orders, { 'customer.plan': 'eq.pro', name: 'eq.o2' })).toEqual([])
      // The reference that stays is no new one.
      const changed = await here.call('PUT', pathOf(names.orders, order.id), { body: { n: 9 } })
      expect(changed.body).toMatchObject({ n: 9, customer_id: names.ann })
    })

    test('bulk change by a filter on the other document: of those that match', async () => {
      const names = await filled(customers, orders)
      const body = { filter: { 'customer.plan': 'pro' }, dry_run: true }
      const reply = await here.call('POST', `/v1/collections/${names.orders}/delete-many`, { body })
      expect([reply.status, reply.body.matched]).toEqual([200, 4])
    })
  })

  test('document of another workspace: is not referred to, expanded or found', async () => {
    const names = await filled('document', 'document')
    const elsewhere = new Collections(await createTestWorkspace(mongo.running), mongo.running)
    const theirs = await elsewhere.create(names.customers, { name: 'ann', plan: 'gold' })
    const refused = await here.call('POST', pathOf(names.orders), { body: { customer_id: theirs } })
    expect([refused.status, refused.body.code]).toEqual([409, 'reference_not_found'])
    await elsewhere.create(names.orders, { name: 'o9', customer_id: names.ann, n: 9 })
    const counts = await list(names.customers, { expand: 'orders(count)', name: 'eq.ann' })
    expect(counts[0]._expand.orders).toEqual({ count: 3 })
    expect(await list(names.orders, { 'customer.plan': 'eq.gold' })).toEqual([])
    expect(await list(names.customers, { orders: 'some.(n.eq.9)' })).toEqual([])
    const path = `/v1/collections/${names.orders}/aggregate?select=n:count(),max:n.max()`
    expect(await get(path)).toEqual({ n: 6, max: 5 })
  })

  test('import: lines may refer to later ones', async () => {
    const name = unique('tree')
    await here.declare({
      ...{ collection: name, store: 'document' },
      schema: { properties: { name: text, parent_id: ID_OR_NULL } },
      references: [{ field: 'parent_id', collection: name, inverse: 'children' }],
    })
    const [one, two] = [NOWHERE.replace(/0$/, '1'), NOWHERE.replace(/0$/, '2')]
    const file = lines(
      { id: one, name: 'leaf', parent_id: two },
      { id: two, name: 'root' },
      { parent_id: NOWHERE },
    )
    const options = { as: here.workspace.service, at: mongo.running }
    const { body } = await importInto(name, file, options)
    expect(body).toMatchObject({ created: 2, failed: 1, errors: [{ code: 'reference_not_found' }] })
    expect(await list(name, { expand: 'children(name)', name: 'eq.root' })).toMatchObject([
      { _expand: { children: [{ name: 'leaf' }] } },
    ])
  })
})
