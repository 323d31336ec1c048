/** Fields that are renamed with their declaration, and values for documents that lack a field: no document is lost, and none gets a new version. */

import { beforeAll, describe, expect, test } from 'vitest'
import { call, createTestWorkspace, type TestWorkspace, unique } from '../../support/fixtures/tenants.ts'

let ws: TestWorkspace
beforeAll(async () => {
  ws = await createTestWorkspace()
})

type Fields = Readonly<Record<string, unknown>>

const at = (collection: string, rest = '') => `/v1/collections/${collection}/documents${rest}`
const create = (collection: string, body: Fields) => call('POST', at(collection), { as: ws.service, body })
const list = async (collection: string, query = ''): Promise<Fields[]> =>
  (await call('GET', at(collection, `?page[size]=200${query}`), { as: ws.service })).body.data
async function declare(collection: string, body: object): Promise<string> {
  const made = await call('POST', '/v1/schemas', {
    as: ws.operator,
    body: { workspace_id: ws.workspaceId, collection, store: 'relational', ...body },
  })
  expect(made.status, JSON.stringify(made.body)).toBe(201)
  return made.body.id
}
const change = (id: string, body: object) =>
  call('PUT', `/v1/schemas/${id}`, { as: ws.operator, body, headers: { prefer: 'wait=30' } })

const text = { type: 'string' }
const TIME = { type: 'string', format: 'date-time' }

describe.each(['relational', 'document'])('store %s', (store) => {
  test('rename: documents have the new names in the same versions, indexes stay, and a second change does nothing', async () => {
    const name = unique('c')
    const before = { title: text, at: { ...TIME, type: ['string', 'null'] }, n: { type: 'integer' } }
    const id = await declare(name, {
      ...{ store, schema: { properties: before, required: ['title'], additionalProperties: false } },
      ...{ indexes: [{ fields: ['at', 'n'] }], unique: [['title']] },
    })
    await create(name, { title: 'a', at: '2026-01-01T01:00:00+01:00', n: 1 })
    await create(name, { title: 'b', at: null })
    await create(name, { title: 'c' })
    const stored = await list(name)
    const { title, ...others } = before
    const schema = {
      properties: { label: title, when: others.at, n: others.n },
      ...{ required: ['label'], additionalProperties: false },
    }
    const request = { schema, renamed_from: { label: 'title', when: 'at' } }
    const changed = await change(id, request)
    expect([changed.status, changed.body]).toMatchObject([
      200,
      {
        ...{ revision: 1, schema },
        indexes: [
          { fields: ['when', 'n'], state: 'ready' },
          { fields: ['label'], unique: true, state: 'ready' },
        ],
      },
    ])
    const renamed = stored.map(({ title: label, at: when, ...rest }) => ({
      ...{ ...rest, label },
      ...(when !== undefined && { when }),
    }))
    expect(await list(name)).toEqual(renamed)
    expect(await list(name, '&when=eq.2026-01-01T00:00:00Z')).toEqual([renamed[0]])
    expect(await list(name, '&label=eq.c')).toEqual([renamed[2]])
    expect((await create(name, { label: 'a' })).body.code).toBe('unique_violation')
    expect((await create(name, { title: 'd' })).body.code).toBe('schema_violation')
    const again = await change(id, request)
    expect([again.status, again.body.revision]).toEqual([200, 1])
  })

  test('backfill: a field becomes required, documents without it get the value, and others keep theirs', async () => {
    const name = unique('c')
    const id = await declare(name, { store, schema: { properties: { title: text, seen: text } } })
    await create(name, { title: 'a' })
    await create(name, { title: 'b', status: 'late', seen: 'x' })
    const [, other] = await list(name)
    const schema = {
      properties: { title: text, seen: text, status: text, tags: { type: 'array' } },
      required: ['status', 'seen'],
    }
    const refused = await change(id, { schema, backfill: { status: 'open' } })
    expect([refused.status, refused.body]).toMatchObject([
      409,
      { code: 'schema_incompatible', offending: [{ pointer: '/seen', detail: 'is required' }] },
    ])
    const request = { schema, backfill: { status: 'open', seen: '', tags: [] } }
    expect((await change(id, request)).status).toBe(200)
    expect(await list(name)).toMatchObject([
      { title: 'a', status: 'open', seen: '', tags: [], _version: 1 },
      { ...other, tags: [] },
    ])
    expect(await list(name, '&status=eq.open')).toHaveLength(1)
    expect((await create(name, { title: 'c' })).body.code).toBe('schema_violation')
  })
})

test('backfill of required fields: a second change does nothing', async () => {
  const name = unique('c')
  const id = await declare(name, { schema: {} })
  await create(name, {})
  const request = { schema: { properties: { n: { type: 'integer' } }, required: ['n'] }, backfill: { n: 0 } }
  for (const _ of [1, 2])
    expect(await change(id, request)).toMatchObject({ status: 200, body: { revision: 1 } })
  expect(await list(name)).toMatchObject([{ n: 0, _version: 1 }])
})

test('rename to a name that documents have beside the schema: refused with their ids', async () => {
  const name = unique('c')
  const id = await declare(name, { schema: { properties: { title: text } } })
  await create(name, { title: 'a' })
  await create(name, { title: 'b', label: 1 })
  const stored = await list(name)
  const refused = await change(id, {
    schema: { properties: { label: text } },
    renamed_from: { label: 'title' },
  })
  expect([refused.status, refused.body]).toMatchObject([
    409,
    { code: 'schema_incompatible', offending: [{ id: stored[1]?.['id'], pointer: '/label' }] },
  ])
  expect(await list(name)).toEqual(stored)
})

test('rename of a field that is not declared: it moves into its column', async () => {
  const name = unique('c')
  const id = await declare(name, { schema: { properties: { n: { type: 'integer' } } } })
  await create(name, { title: 'a' })
  const schema = { properties: { n: { type: 'integer' }, label: true } }
  expect((await change(id, { schema, renamed_from: { label: 'title' } })).status).toBe(200)
  expect(await list(name, '&label=eq.a')).toMatchObject([{ label: 'a', _version: 1 }])
})

test('rename of a reference: it still leads to its document', async () => {
  const [customers, orders] = [unique('customers'), unique('orders')]
  const uuid = { type: 'string', format: 'uuid' }
  await declare(customers, { schema: {} })
  const id = await declare(orders, {
    schema: { properties: { customer_id: uuid } },
    references: [{ field: 'customer_id', collection: customers }],
  })
  const { body } = await create(customers, { name: 'Ann' })
  await create(orders, { customer_id: body.id })
  const request = { schema: { properties: { buyer: uuid } }, renamed_from: { buyer: 'customer_id' } }
  expect((await change(id, request)).status).toBe(200)
  expect(await list(orders, '&expand=customer(name)')).toMatchObject([
    { buyer: body.id, _expand: { customer: { name: 'Ann' } } },
  ])
  const none = await create(orders, { buyer: '00000000-0000-4000-8000-000000000000' })
  expect(none.body.code).toBe('reference_not_found')
  const removed = await call('DELETE', at(customers, `/${body.id}`), { as: ws.service })
  expect(removed.body.code).toBe('reference_in_use')
})

test.each<[string, object, number, string]>([
  ['new name is not declared', { renamed_from: { other: 'title' } }, 400, 'validation_failed'],
  [
    'former name stays declared',
    { schema: { properties: { title: text, label: text } }, renamed_from: { label: 'title' } },
    ...([400, 'validation_failed'] as const),
  ],
  [
    'two new names of one field',
    { schema: { properties: { a: text, b: text } }, renamed_from: { a: 'title', b: 'title' } },
    ...([400, 'validation_failed'] as const),
  ],
  [
    'with another change that documents may not fit',
    { schema: { properties: { label: { ...text, maxLength: 1 } } }, renamed_from: { label: 'title' } },
    ...([409, 'state_conflict'] as const),
  ],
  ['value of a field that is not declared', { backfill: { other: 1 } }, 400, 'validation_failed'],
  ['value of another type', { backfill: { title: 1 } }, 400, 'validation_failed'],
  ['value of a unique field', { backfill: { title: 'x' }, unique: [['title']] }, 400, 'validation_failed'],
  ['value with a NUL', { backfill: { title: '\u0000' } }, 400, 'string_nul'],
])('%s: refused, and nothing is changed', async (_what, request, status, code) => {
  const name = unique('c')
  const id = await declare(name, { schema: { properties: { title: text } } })
  await create(name, { title: 'abc' })
  const stored = await list(name)
  const refused = await change(id, request)
  expect([refused.status, refused.body.code]).toEqual([status, code])
  expect(await list(name)).toEqual(stored)
})

test('byte quota: counts renamed and given fields as stored', async () => {
  const of = await createTestWorkspace()
  const limits = { documents: 100, document_bytes: 100_000 }
  const quotas = () =>
    call('PUT', '/v1/quotas', { as: of.operator, body: { workspace_id: of.workspaceId, limits } })
  expect((await quotas()).status).toBe(200)
  const body = { workspace_id: of.workspaceId, collection: 'c', store: 'document' }
  const schema = { properties: { t: text } }
  const made = await call('POST', '/v1/schemas', { as: of.operator, body: { ...body, schema } })
  for (let n = 0; n < 3; n++) await call('POST', at('c'), { as: of.service, body: { t: 'x'.repeat(100) } })
  const request = {
    schema: { properties: { a_longer_name: text, more: text } },
    renamed_from: { a_longer_name: 't' },
  }
  expect(
    (await change(made.body.id, { ...request, schema: { properties: { a_longer_name: text } } })).status,
  ).toBe(200)
  expect(
    (await change(made.body.id, { schema: request.schema, backfill: { more: 'y'.repeat(50) } })).status,
  ).toBe(200)
  const used = async () =>
    (await call('GET', `/v1/quotas?workspace_id=${of.workspaceId}`, { as: of.operator })).body
  const counted = await used()
  // Setting the quota counts anew.
  expect((await quotas()).status).toBe(200)
  expect(await used()).toEqual(counted)
})
