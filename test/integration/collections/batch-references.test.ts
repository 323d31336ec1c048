/** Batches whose operations refer to one another, take ids of the caller's choice, and say what each refusal is about. */

import { beforeAll, describe, expect, test } from 'vitest'
import { createIn, declaredWithRules } from '../../support/fixtures/access-rules.ts'
import {
  type Caller,
  call,
  createTestWorkspace,
  type TestWorkspace,
  unique,
  userToken,
} from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
let customers: string
let orders: string
beforeAll(async () => {
  workspace = await createTestWorkspace()
  customers = await declare({
    schema: { type: 'object', properties: { email: { type: 'string' }, orders: { type: 'integer' } } },
    unique: [['email']],
  })
  const customerId = { type: 'string', format: 'uuid' }
  orders = await declare({
    schema: { type: 'object', properties: { customer_id: customerId, plan: { type: 'string' } } },
    references: [{ field: 'customer_id', collection: customers, as: 'customer', on_delete: 'restrict' }],
    unique: [['customer_id', 'plan']],
  })
})

async function declare(declaration: object): Promise<string> {
  const collection = unique('c')
  const body = { workspace_id: workspace.workspaceId, collection, store: 'relational', ...declaration }
  const reply = await call('POST', '/v1/schemas', { as: workspace.operator, body })
  expect(reply.status, JSON.stringify(reply.body)).toBe(201)
  return collection
}

const run = (ops: object[], more: object = {}, as: Caller = workspace.service) =>
  call('POST', '/v1/batch', { as, body: { ops, ...more } })
const get = async (collection: string, id: string) =>
  (await call('GET', `/v1/collections/${collection}/documents/${id}`, { as: workspace.service })).body
const count = async (collection: string): Promise<number> =>
  (await call('GET', `/v1/collections/${collection}/aggregate?select=n:count()`, { as: workspace.service }))
    .body.n

describe.each([true, false])('batch, atomic: %s', (atomic) => {
  test('references: in data, ids and operators: the documents of earlier operations', async () => {
    const email = `${unique('ada')}@example.com`
    const { status, body } = await run(
      [
        { collection: customers, op: 'create', data: { email, orders: 0 } },
        {
          collection: orders,
          op: 'create',
          data: { customer_id: { $ref: 0 }, lines: [{ of: { $ref: 0 } }] },
        },
        {
          collection: customers,
          op: 'update',
          id: { $ref: 0 },
          inc: { orders: 1 },
          push: { made: { each: [{ $ref: 1 }] } },
        },
        { collection: orders, op: 'patch', id: { $ref: 1 }, data: { customer: { id: { $ref: 0 } } } },
      ],
      { atomic },
    )
    expect([status, body.committed], JSON.stringify(body)).toEqual([200, true])
    const [customer, order] = body.results.map(({ id }: { id: string }) => id)
    expect(await get(customers, customer)).toMatchObject({ orders: 1, made: [order], _version: 2 })
    expect(await get(orders, order)).toMatchObject({
      ...{ customer_id: customer, lines: [{ of: customer }], customer: { id: customer }, _version: 2 },
    })
  })

  test('references to an upsert: the document that it has found or made, also in the key of another upsert', async () => {
    const email = `${unique('bob')}@example.com`
    const ops = [
      { collection: customers, op: 'upsert', on: ['email'], data: { email } },
      {
        collection: orders,
        op: 'upsert',
        on: ['customer_id', 'plan'],
        data: { customer_id: { $ref: 0 }, plan: 'pro' },
      },
      { collection: customers, op: 'update', id: { $ref: 0 }, set: { order: { $ref: 1 } }, inc: { seen: 1 } },
    ]
    const first = (await run(ops, { atomic })).body
    const again = (await run(ops, { atomic })).body
    expect(first.results.map(({ status }: { status: number }) => status)).toEqual([201, 201, 200])
    expect(again.results.map(({ status }: { status: number }) => status)).toEqual([200, 200, 200])
    const ids = (reply: { results: { id: string }[] }) => reply.results.map(({ id }) => id)
    expect(ids(again)).toEqual(ids(first))
    const [customer = '', order] = ids(first)
    expect(await get(customers, customer)).toMatchObject({ order, seen: 2 })
  })

  test('references that lead nowhere: 400 with the place of each, before anything is done', async () => {
    const before = await count(customers)
    const create = { collection: customers, op: 'create' }
    const { status, body } = await run(
      [
        { ...create, data: { self: { $ref: 0 } } },
        { ...create, data: { list: [{ later: { $ref: 2 } }] } },
        { ...create, data: {} },
        { collection: orders, op: 'update', id: { $ref: 2 }, set: { a: { $ref: -1 }, b: { $ref: 0.5 } } },
      ],
      { atomic },
    )
    expect([status, body.code]).toEqual([400, 'validation_failed'])
    expect(body.errors.map(({ pointer }: { pointer: string }) => pointer)).toEqual([
      '/ops/0/data/self',
      '/ops/1/data/list/0/later',
      '/ops/3/id',
      '/ops/3/set/a',
      '/ops/3/set/b',
    ])
    expect(await count(customers)).toBe(before)
  })

  test('values that only look like references: stored', async () => {
    const schema = { $ref: '#/definitions/a', other: { $ref: 1, more: 2 } }
    const { body } = await run([{ collection: 'schemas', op: 'create', data: { schema } }], { atomic })
    expect((await get('schemas', body.results[0].id)).schema).toEqual(schema)
  })

  test('chosen ids: created under them; one that exists: 412', async () => {
    const id = crypto.randomUUID()
    const create = { collection: customers, op: 'create', id: id.toUpperCase(), data: {} }
    const made = (
      await run([create, { collection: 'profiles', op: 'create', id: { $ref: 0 }, data: { of: 1 } }], {
        atomic,
      })
    ).body
    expect(made.results).toMatchObject([
      { status: 201, id },
      { status: 201, id },
    ])
    expect((await get('profiles', id)).of).toBe(1)
    const before = await count(customers)
    const again = await run([{ collection: customers, op: 'create', data: {} }, create], { atomic })
    const refused = atomic ? again.body : again.body.results[1].error
    expect([refused.code, refused.detail]).toEqual(['precondition_failed', 'There is a document of this id.'])
    if (atomic) expect(again.body.op_index).toBe(1)
    expect(await count(customers)).toBe(before + (atomic ? 0 : 1))
    const twice = { collection: customers, op: 'create', id: crypto.randomUUID(), data: {} }
    const both = await run([twice, twice], { atomic })
    expect(atomic ? both.status : both.body.results[1].status).toBe(412)
    const wrong = await run([{ ...create, id: 'mine' }], { atomic })
    expect(wrong.body.errors).toMatchObject([{ pointer: '/ops/0/id', detail: 'is not a UUID' }])
  })
})

test('atomic: false: what refers to an operation that failed: 424, and all others are made', async () => {
  const id = crypto.randomUUID()
  const { body } = await run(
    [
      { collection: customers, op: 'create', data: { orders: 'many' }, ref: 'bad' },
      { collection: orders, op: 'create', data: { customer_id: { $ref: 0 } }, ref: 'of bad' },
      { collection: orders, op: 'update', id: { $ref: 1 }, set: { n: 1 } },
      { collection: customers, op: 'create', id, data: {} },
      { collection: orders, op: 'create', data: { customer_id: { $ref: 3 } } },
    ],
    { atomic: false },
  )
  expect(body.committed).toBe(false)
  expect(body.results).toMatchObject([
    { status: 422, ref: 'bad', error: { code: 'schema_violation' } },
    {
      ...{ status: 424, ref: 'of bad' },
      error: {
        code: 'referenced_operation_failed',
        detail: 'Operation 0, to whose document this operation refers, has failed.',
      },
    },
    { status: 424, error: { code: 'referenced_operation_failed' } },
    { status: 201, id },
    { status: 201 },
  ])
})

test('atomic: false: refusals have their hint, and the documents that refer', async () => {
  const made = await run([
    { collection: customers, op: 'create', data: {} },
    { collection: orders, op: 'create', data: { customer_id: { $ref: 0 } } },
  ])
  const [customer, order] = made.body.results.map(({ id }: { id: string }) => id)
  const { body } = await run([{ collection: customers, op: 'delete', id: customer }], { atomic: false })
  expect(body.results).toEqual([
    {
      ...{ status: 409, id: customer },
      error: {
        ...{ code: 'reference_in_use', detail: `Documents of ${orders} refer to this one.` },
        hint: 'See `referring` for some of them. Change or delete these first.',
        referring: [{ collection: orders, id: order }],
      },
    },
  ])
})

test('right that is closed for a collection: the refusal names the operation', async () => {
  const { collection, at } = await declaredWithRules(workspace, { user: { read: true, create: true } })
  const mia = await userToken(workspace, 'mia')
  const { id } = (await createIn(at, mia, { title: 'a' })).body
  const create = { collection, op: 'create', data: { title: 'b' } }
  const closed = { collection, op: 'update', id, inc: { level: 1 } }
  const refused = await run([create, closed], {}, mia)
  expect([refused.status, refused.body.code, refused.body.op_index]).toEqual([403, 'forbidden', 1])
  expect((await run([closed], {}, mia)).body.op_index).toBe(0)
  const other = await run([create, { ...create, collection: 'undeclared' }], {}, mia)
  expect([other.status, other.body.op_index]).toEqual([403, 1])
  expect(await count(collection)).toBe(1)
})

test('rules of users: a reference reaches no further than their own documents', async () => {
  const mine = { _owner: '$user.id' }
  const { collection } = await declaredWithRules(workspace, {
    user: { read: mine, create: true, update: mine },
  })
  const mia = await userToken(workspace, 'mia')
  const ops = [
    { collection, op: 'create', data: { title: 'a' } },
    { collection, op: 'update', id: { $ref: 0 }, set: { title: 'b' } },
  ]
  const { body } = await run(ops, {}, mia)
  expect(body.results).toMatchObject([{ status: 201 }, { status: 200, version: 2 }])
  expect(await get(collection, body.results[0].id)).toMatchObject({ title: 'b', _owner: 'mia' })
})

test('batch with references and an Idempotency-Key: made once, also each by itself', async () => {
  for (const atomic of [true, false]) {
    const headers = { 'idempotency-key': unique('key') }
    const ops = [
      { collection: 'notes', op: 'create', data: { n: 0 } },
      { collection: 'notes', op: 'update', id: { $ref: 0 }, inc: { n: 1 } },
    ]
    const send = () => call('POST', '/v1/batch', { as: workspace.service, body: { ops, atomic }, headers })
    const [first, again] = [await send(), await send()]
    expect(again.body).toEqual(first.body)
    expect(await get('notes', first.body.results[0].id)).toMatchObject({ n: 1, _version: 2 })
  }
})
