/** References between declared collections: foreign keys that name fields and documents, and reveal nothing that rules hide. */

import { beforeAll, describe, expect, test } from 'vitest'
import {
  call,
  createTestWorkspace,
  type TestWorkspace,
  unique,
  userToken,
} from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
})

const uuid = { type: ['string', 'null'], format: 'uuid' }
const ABSENT = '01890a5d-ac96-774b-bcce-b302099a8057'

const declare = (collection: string, body: object, of = workspace) =>
  call('POST', '/v1/schemas', {
    as: of.operator,
    body: { workspace_id: of.workspaceId, collection, store: 'relational', ...body },
  })
async function declared(collection: string, body: object): Promise<{ id: string; collection: string }> {
  const reply = await declare(collection, body)
  expect([reply.status, reply.body]).toMatchObject([201, {}])
  return reply.body
}
const change = (id: string, body: object) =>
  call('PUT', `/v1/schemas/${id}`, { as: workspace.operator, body, headers: { prefer: 'wait=20' } })
const at = (collection: string, id = '') => `/v1/collections/${collection}/documents${id && `/${id}`}`
const create = (collection: string, body: object, as = workspace.service) =>
  call('POST', at(collection), { as, body })
const idOf = async (collection: string, body: object): Promise<string> => {
  const made = await create(collection, body)
  expect([made.status, made.body]).toMatchObject([201, {}])
  return made.body.id
}

const ACCESS = {
  access: { user: { read: { _owner: '$user.id' }, create: true, update: true, delete: true } },
}

/** Customers, and orders that refer to them. */
async function declareShop(body: object = {}) {
  const [customers, orders] = [unique('customers'), unique('orders')]
  const properties = { name: { type: 'string' }, customer_id: uuid }
  await declared(customers, { schema: { properties: { name: { type: 'string' } } }, ...body })
  const references = [{ field: 'customer_id', collection: customers, inverse: 'orders' }]
  const { id } = await declared(orders, { schema: { properties }, references, ...body })
  return { customers, orders, schemaId: id, references }
}

test('reference to a document that is there: written, in any spelling, read as it was written', async () => {
  const { customers, orders } = await declareShop()
  const id = await idOf(customers, { name: 'Ann' })
  const made = await create(orders, { customer_id: id.toUpperCase() })
  expect(made.body).toMatchObject({ customer_id: id.toUpperCase() })
  await idOf(orders, { customer_id: null })
  await idOf(orders, {})
  const { body } = await call('GET', `${at(orders)}?customer_id=eq.${id}`, { as: workspace.service })
  expect(body.data).toMatchObject([{ id: made.body.id }])
  const sorted = await call('GET', `${at(orders)}?order=customer_id&page[size]=1`, { as: workspace.service })
  const next = await call(
    'GET',
    `${at(orders)}?order=customer_id&page[size]=5&page[after]=${sorted.body.page.next}`,
    {
      as: workspace.service,
    },
  )
  expect(
    [...sorted.body.data, ...next.body.data].map((one: { customer_id?: string }) => one.customer_id),
  ).toEqual([id.toUpperCase(), null, undefined])
})

test('reference to a document that is not there: 409, by every way to write', async () => {
  const { customers, orders } = await declareShop()
  const id = await idOf(orders, { customer_id: await idOf(customers, {}) })
  const body = { customer_id: ABSENT }
  const as = workspace.service
  const replies = [
    await create(orders, body),
    await call('PATCH', at(orders, id), { as, body }),
    await call('PUT', at(orders, id), { as, body }),
    await call('PUT', `${at(orders, id)}?replace=true`, { as, body }),
  ]
  for (const reply of replies) {
    expect(reply.status).toBe(409)
    expect(reply.body).toMatchObject({
      code: 'reference_not_found',
      errors: [{ in: 'body', name: 'customer_id', pointer: '/customer_id' }],
    })
  }
  const batch = await call('POST', `/v1/collections/${orders}/batch`, {
    as,
    body: {
      ops: [
        { op: 'create', data: {} },
        { op: 'create', data: body },
        { op: 'create', data: {} },
      ],
    },
  })
  expect(batch.body).toMatchObject({ code: 'reference_not_found', op_index: 1 })
  const imported = await call('POST', `/v1/collections/${orders}/import?on_error=continue`, {
    as,
    body: `{"name":"a"}\n${JSON.stringify(body)}\n{"name":"b"}\n`,
    headers: { 'content-type': 'application/x-ndjson' },
  })
  expect(imported.body).toMatchObject({
    created: 2,
    failed: 1,
    errors: [{ line: 2, code: 'reference_not_found' }],
  })
})

test('document that others refer to: not deleted, and the problem names them; deleted once nothing refers to it', async () => {
  const { customers, orders } = await declareShop()
  const customer = await idOf(customers, {})
  const order = await idOf(orders, { customer_id: customer })
  const as = workspace.service
  const refused = await call('DELETE', at(customers, customer), { as })
  expect([refused.status, refused.body]).toMatchObject([
    409,
    { code: 'reference_in_use', referring: [{ collection: orders, id: order }] },
  ])
  const ops = [
    { op: 'delete', id: order },
    { op: 'delete', id: customer },
  ]
  const both = await call('POST', '/v1/batch', {
    as,
    body: { ops: ops.map((op, n) => ({ ...op, collection: n === 0 ? orders : customers })) },
  })
  expect([both.status, both.body]).toMatchObject([200, {}])
})

test('documents of one collection that refer to each other', async () => {
  const nodes = unique('nodes')
  await declared(nodes, {
    schema: { properties: { parent_id: uuid } },
    references: [{ field: 'parent_id', collection: nodes, as: 'parent', inverse: 'children' }],
  })
  const root = await idOf(nodes, {})
  const child = await idOf(nodes, { parent_id: root })
  const as = workspace.service
  expect((await create(nodes, { parent_id: ABSENT })).body.code).toBe('reference_not_found')
  expect((await call('DELETE', at(nodes, root), { as })).body).toMatchObject({
    code: 'reference_in_use',
    referring: [{ collection: nodes, id: child }],
  })
  expect((await call('DELETE', at(nodes, child), { as })).status).toBe(200)
})

test('other workspaces: their ids are as absent as any, and theirs cannot be referred to', async () => {
  const { orders, customers } = await declareShop()
  const other = await createTestWorkspace()
  const name = unique('customers')
  expect((await declare(name, { schema: {} }, other)).status).toBe(201)
  const theirs = await call('POST', at(name), { as: other.service, body: {} })
  expect((await create(orders, { customer_id: theirs.body.id })).body.code).toBe('reference_not_found')
  const references = [{ field: 'a_id', collection: name }]
  const schema = { properties: { a_id: uuid } }
  expect((await declare(unique('c'), { schema, references })).body).toMatchObject({
    code: 'validation_failed',
    errors: [{ pointer: '/references/0/collection' }],
  })
  expect(customers).not.toBe(name)
})

describe('users under rules', () => {
  test('documents that they may not read: neither found, nor named, and no different from absent ones', async () => {
    const { customers, orders } = await declareShop(ACCESS)
    const [ann, bob] = [await userToken(workspace, 'ann'), await userToken(workspace, 'bob')]
    const own = (await create(customers, {}, ann)).body.id
    expect((await create(orders, { customer_id: own }, ann)).status).toBe(201)
    const [hidden, absent] = [
      await create(orders, { customer_id: own }, bob),
      await create(orders, { customer_id: ABSENT }, bob),
    ]
    const shown = ({ status, body: { request_id: _, ...body } }: typeof hidden) => [status, body]
    expect(shown(hidden)).toEqual(shown(absent))
    expect(hidden.body.code).toBe('reference_not_found')
    const lines = `${JSON.stringify({ customer_id: own })}\n{}\n`
    const imported = await call('POST', `/v1/collections/${orders}/import?on_error=continue`, {
      as: bob,
      body: lines,
      headers: { 'content-type': 'application/x-ndjson' },
    })
    expect(imported.body).toMatchObject({ created: 1, errors: [{ line: 1, code: 'reference_not_found' }] })
    // Bob refers to his own; Ann does not learn of documents of others that refer to hers.
    const ofService = await idOf(orders, { customer_id: own })
    const refused = await call('DELETE', at(customers, own), { as: ann })
    expect(refused.body.code).toBe('reference_in_use')
    expect(JSON.stringify(refused.body)).not.toContain(ofService)
  })
})

test('document of a user that refers to one hidden from them: changed otherwise, and not to another hidden one', async () => {
  const { customers, orders } = await declareShop(ACCESS)
  const bob = await userToken(workspace, 'bob')
  const [hidden, other] = [await idOf(customers, {}), await idOf(customers, {})]
  const order = (await create(orders, {}, bob)).body.id
  const path = at(orders, order)
  const byService = await call('PATCH', path, { as: workspace.service, body: { customer_id: hidden } })
  expect(byService.status).toBe(200)
  expect((await call('PATCH', path, { as: bob, body: { name: 'x' } })).status).toBe(200)
  expect((await call('PATCH', path, { as: bob, body: { customer_id: other } })).body.code).toBe(
    'reference_not_found',
  )
})

describe('declarations', () => {
  test.each<[string, object, string, string]>([
    [
      'field that is not declared',
      { field: 'x_id' },
      'field',
      'not declared as a string with the format uuid',
    ],
    ['field of another type', { field: 'n_id' }, 'field', 'not declared as a string with the format uuid'],
    [
      'collection that is not declared',
      { collection: 'nowhere' },
      'collection',
      'not declared in this workspace',
    ],
    ['field without _id, and no name', { field: 'owner' }, 'as', 'needs a name'],
    ['name of a field', { as: 'title' }, 'as', 'is a field'],
  ])('%s: 400 that names the member', async (_, one, member, detail) => {
    const { customers } = await declareShop()
    const properties = { a_id: uuid, owner: uuid, n_id: { type: 'string' }, title: {} }
    const references = [{ field: 'a_id', collection: customers, ...one }]
    const { status, body } = await declare(unique('c'), { schema: { properties }, references })
    expect([status, body.code]).toEqual([400, 'validation_failed'])
    expect(body.errors).toMatchObject([{ pointer: `/references/0/${member}` }])
    expect(body.errors[0].detail).toContain(detail)
  })

  test('two of one name, two of one field, mode warn: 400', async () => {
    const { customers } = await declareShop()
    const schema = { properties: { a_id: uuid, b_id: uuid } }
    const refused = async (references: object[], body: object = {}) =>
      (await declare(unique('c'), { schema, references, ...body })).body.errors?.[0]?.pointer
    const to = { collection: customers }
    expect(await refused([{ field: 'a_id', ...to, inverse: 'orders' }])).toBe('/references/0/inverse')
    expect(
      await refused([
        { field: 'a_id', ...to },
        { field: 'b_id', as: 'a', ...to },
      ]),
    ).toBe('/references/1/as')
    expect(
      await refused([
        { field: 'a_id', ...to },
        { field: 'a_id', as: 'b', ...to },
      ]),
    ).toBe('/references/1/field')
    expect(await refused([{ field: 'a_id', ...to }], { mode: 'warn' })).toBe('/references')
  })

  test('read, and sent back as it was read: nothing changes', async () => {
    const { schemaId, references } = await declareShop()
    const { body } = await call('GET', `/v1/schemas/${schemaId}`, { as: workspace.operator })
    expect(body.references).toEqual([{ ...references[0], as: 'customer', on_delete: 'restrict' }])
    const sent = await change(schemaId, { references: body.references })
    expect([sent.status, sent.body.revision]).toEqual([200, body.revision])
    const other = await change(schemaId, { mode: 'enforce', indexes: [] })
    expect(other.body.references).toEqual(body.references)
  })

  test('added to documents: refused while one refers to none, then holds; removed: holds no more', async () => {
    const { customers } = await declareShop()
    const notes = unique('notes')
    const schema = { properties: { about_id: uuid } }
    const { id } = await declared(notes, { schema })
    const [good, bad] = [await idOf(customers, {}), await idOf(notes, { about_id: ABSENT })]
    await idOf(notes, { about_id: good })
    const references = [{ field: 'about_id', collection: customers }]
    const refused = await change(id, { references })
    expect([refused.status, refused.body]).toMatchObject([
      409,
      { code: 'schema_incompatible', offending: [{ id: bad, pointer: '/about_id' }] },
    ])
    const as = workspace.service
    await call('DELETE', at(notes, bad), { as })
    const added = await change(id, { references })
    expect([added.status, added.body]).toMatchObject([200, {}])
    expect((await create(notes, { about_id: ABSENT })).body.code).toBe('reference_not_found')
    expect((await call('DELETE', at(customers, good), { as })).body.code).toBe('reference_in_use')
    expect((await change(id, { references: [] })).status).toBe(200)
    expect((await create(notes, { about_id: ABSENT })).status).toBe(201)
    expect((await call('DELETE', at(customers, good), { as })).status).toBe(200)
  })

  test('led to another collection: refused while a document refers to none of it', async () => {
    const { customers, orders, schemaId, references } = await declareShop()
    const { customers: others } = await declareShop()
    const order = await idOf(orders, { customer_id: await idOf(customers, {}) })
    const to = [{ ...references[0], collection: others, inverse: 'moved' }]
    const refused = await change(schemaId, { references: to })
    expect([refused.status, refused.body.offending]).toMatchObject([409, [{ id: order }]])
    await call('DELETE', at(orders, order), { as: workspace.service })
    const taken = await change(schemaId, { references: [{ ...to[0], inverse: 'orders' }] })
    expect([taken.status, taken.body.errors[0].pointer]).toEqual([400, '/references/0/inverse'])
    expect((await change(schemaId, { references: to })).status).toBe(200)
    expect((await create(orders, { customer_id: await idOf(customers, {}) })).body.code).toBe(
      'reference_not_found',
    )
  })

  test('removed: its index goes, and one that was declared beside it stays', async () => {
    const { schemaId } = await declareShop()
    const indexes = [{ fields: ['name'] }]
    const fieldsOf = ({ body }: Awaited<ReturnType<typeof change>>) =>
      body.indexes.map(({ fields }: { fields: string[] }) => fields)
    expect(fieldsOf(await change(schemaId, { indexes }))).toEqual([['customer_id'], ['name']])
    expect(fieldsOf(await change(schemaId, { references: [] }))).toEqual([['name']])
  })

  test('other change of either side: the reference holds', async () => {
    const { customers, orders, schemaId } = await declareShop()
    const list = await call('GET', `/v1/schemas?workspace_id=${workspace.workspaceId}&page[size]=200`, {
      as: workspace.operator,
    })
    const target = list.body.data.find((one: { collection: string }) => one.collection === customers)
    for (const id of [target.id, schemaId])
      expect((await change(id, { access: { anon: { read: true } } })).status).toBe(200)
    expect((await create(orders, { customer_id: ABSENT })).body.code).toBe('reference_not_found')
    const customer = await idOf(customers, {})
    await idOf(orders, { customer_id: customer })
    expect((await call('DELETE', at(customers, customer), { as: workspace.service })).body.code).toBe(
      'reference_in_use',
    )
  })

  test('declaration that others refer to: not deleted, and the problem names them', async () => {
    const { customers, orders, schemaId } = await declareShop()
    const list = await call('GET', `/v1/schemas?workspace_id=${workspace.workspaceId}&page[size]=200`, {
      as: workspace.operator,
    })
    const target = list.body.data.find((one: { collection: string }) => one.collection === customers)
    const remove = (id: string) => call('DELETE', `/v1/schemas/${id}`, { as: workspace.operator })
    const refused = await remove(target.id)
    expect([refused.status, refused.body.code]).toEqual([409, 'state_conflict'])
    expect(refused.body.detail).toContain(orders)
    expect((await remove(schemaId)).status).toBe(200)
    expect((await remove(target.id)).status).toBe(200)
  })

  test('documents that refer to each other, created and deleted at once: none is left that refers to none', async () => {
    const { customers, orders } = await declareShop()
    const as = workspace.service
    for (let round = 0; round < 10; round++) {
      const customer = await idOf(customers, {})
      const [made, deleted] = await Promise.all([
        create(orders, { customer_id: customer }),
        call('DELETE', at(customers, customer), { as }),
      ])
      const isKept = made.status === 201
      expect([made.body.code, deleted.body.code]).toEqual(
        isKept ? [undefined, 'reference_in_use'] : ['reference_not_found', undefined],
      )
    }
  })
})

test('reference that nothing holds: needs its document when it is written; held later, if all have theirs', async () => {
  const { customers, orders, schemaId, references } = await declareShop()
  const linked = references.map((one) => ({ ...one, on_delete: 'none' }))
  expect((await change(schemaId, { references: linked })).status).toBe(200)
  const refused = await create(orders, { customer_id: ABSENT })
  expect([refused.status, refused.body.code]).toEqual([409, 'reference_not_found'])
  const id = await idOf(customers, { name: 'Ann' })
  const order = await idOf(orders, { customer_id: id })
  const gone = await call('DELETE', at(customers, id), { as: workspace.service })
  expect(gone.status).toBe(200)
  const read = await call('GET', `${at(orders, order)}?expand=customer`, { as: workspace.service })
  expect(read.body).toMatchObject({ customer_id: id, _version: 1, _expand: { customer: null } })
  const held = await change(schemaId, { references })
  expect([held.status, held.body.code, held.body.offending]).toMatchObject([
    ...[409, 'schema_incompatible', [{ id: order, pointer: '/customer_id' }]],
  ])
  await call('DELETE', at(orders, order), { as: workspace.service })
  expect((await change(schemaId, { references })).status).toBe(200)
})
