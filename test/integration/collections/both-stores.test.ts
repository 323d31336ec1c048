/** Compares the stores of declared collections: same documents, same queries, same results. */

import fc from 'fast-check'
import { beforeAll, describe, expect, test } from 'vitest'
import {
  call,
  createTestWorkspace,
  type Reply,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'

const STORES = ['document', 'relational'] as const

const SCHEMA = {
  type: 'object',
  properties: {
    n: { type: 'integer' },
    name: { type: ['string', 'null'] },
    score: { type: 'number' },
    active: { type: 'boolean' },
    due: { type: 'string', format: 'date-time' },
    ref: { type: 'string', format: 'uuid' },
    address: { type: 'object', properties: { city: { type: 'string' } } },
    'select"; drop table x': { type: 'string' },
  },
}

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
})

const at = (collection: string, id = '') => `/v1/collections/${collection}/documents${id && `/${id}`}`

async function declareCollection(store: string, mode = 'enforce'): Promise<string> {
  const body = { workspace_id: workspace.workspaceId, collection: unique('s'), store, schema: SCHEMA, mode }
  const reply = await call('POST', '/v1/schemas', { as: workspace.operator, body })
  expect(reply.status).toBe(201)
  return reply.body.collection
}

const create = (collection: string, body: unknown) =>
  call('POST', at(collection), { as: workspace.service, body })
const query = (collection: string, body: unknown): Promise<Reply> =>
  call('POST', `/v1/collections/${collection}/query`, { as: workspace.service, body })
const list = (collection: string, text: string): Promise<Reply> =>
  call('GET', `${at(collection)}?${text.replaceAll(' ', '%20')}`, { as: workspace.service })

const PEOPLE = [
  { n: 1, name: 'ada', score: 1.5, active: true, due: '2026-01-01T00:00:00Z', address: { city: 'London' } },
  { n: 2, name: 'bob', score: -0.25, active: false, due: '2026-01-01T02:00:00.123456+02:00', more: [1, 'x'] },
  { n: 3, name: null, score: 1e-300, ref: '0190ABCD-0000-7000-8000-000000000000', more: 'x' },
  { n: 4, score: 0.1, 'select"; drop table x': `'; delete from "x"`, more: { deep: [1, { a: null }] } },
  { n: 9_007_199_254_740_991, name: 'Äda 😀', active: true, other: null },
  { n: -5, name: '', score: 3, nested: { n: 1 } },
]

describe.each(STORES)('store %s', (store) => {
  test('document: written, then read: the values are identical', async () => {
    const collection = await declareCollection(store)
    for (const person of PEOPLE) {
      const made = await create(collection, person)
      expect(made.status).toBe(201)
      const { id, _created_at, _updated_at, _version, ...fields } = made.body
      expect(fields).toEqual(person)
      expect([_version, _created_at]).toEqual([1, _updated_at])
      expect((await call('GET', at(collection, id), { as: workspace.service })).body).toEqual(made.body)
    }
  })

  test('update: null and named fields: sets the fields, increments the version', async () => {
    const collection = await declareCollection(store)
    const { body } = await create(collection, { n: 1, name: 'a', active: true, more: 1 })
    const put = (fields: unknown, headers = {}) =>
      call('PUT', at(collection, body.id), { as: workspace.service, body: fields, headers })
    expect((await put({ name: null, more: { x: 1 }, score: 2 })).body).toMatchObject({
      ...{ n: 1, name: null, active: true, more: { x: 1 }, score: 2, _version: 2 },
    })
    expect((await put({ name: 'b' })).body).toMatchObject({ n: 1, name: 'b', score: 2, _version: 3 })
    const same = await put({})
    expect(same.body._version).toBe(3)
    expect((await put({ n: 2 }, { 'if-match': '"v2"' })).headers.get('etag')).toBe('"v3"')
    expect((await put({ n: 2 }, { 'if-match': '"v3"' })).body).toMatchObject({ n: 2, _version: 4 })
    expect((await put({ n: 'x' })).body.code).toBe('schema_violation')
    expect((await put({ more: 'x'.repeat(250_000) })).status).toBe(200)
    expect((await put({ again: 'x'.repeat(20_000) })).body.code).toBe('body_too_large')
    expect((await call('DELETE', at(collection, body.id), { as: workspace.service })).body.deleted).toBe(true)
    expect((await put({ n: 3 })).status).toBe(404)
    expect((await call('GET', at(collection, body.id), { as: workspace.service })).status).toBe(404)
  })

  test('update: eight concurrent writers: no write is lost', async () => {
    const collection = await declareCollection(store)
    const { body } = await create(collection, { n: 0 })
    const writes = await Promise.all(
      Array.from({ length: 8 }, (_, n) =>
        call('PUT', at(collection, body.id), { as: workspace.service, body: { [`f${n}`]: n, n } }),
      ),
    )
    expect(writes.map(({ status }) => status)).toEqual(Array(8).fill(200))
    const { body: end } = await call('GET', at(collection, body.id), { as: workspace.service })
    expect(end._version).toBe(9)
    expect(Object.keys(end).filter((name) => /^f\d$/.test(name))).toHaveLength(8)
  })

  test('document: more properties than columns, texts that no store can keep: stored, or refused with 4xx', async () => {
    const properties = Object.fromEntries(
      Array.from({ length: 250 }, (_, n) => [`p${n}`, { type: 'string' }]),
    )
    const body = {
      workspace_id: workspace.workspaceId,
      collection: unique('wide'),
      store,
      schema: { properties },
    }
    expect((await call('POST', '/v1/schemas', { as: workspace.operator, body })).status).toBe(201)
    const fields = Object.fromEntries(Object.keys(properties).map((name) => [name, name]))
    const made = await create(body.collection, fields)
    expect(made.body).toMatchObject(fields)
    const path = at(body.collection, made.body.id)
    const changed = { p0: 'x', p249: 'y' }
    const put = await call('PUT', path, { as: workspace.service, body: changed })
    expect(put.body).toMatchObject({ ...fields, ...changed })
    expect((await list(body.collection, 'p249=eq.y&p0=eq.x&order=p120,p230')).body.data).toHaveLength(1)
    for (const text of ['"a\\u0000"', '"\\ud800"', '1e400', '12345678901234567890']) {
      const reply = await call('POST', at(body.collection), { as: workspace.service, body: `{"p1":${text}}` })
      expect([text, reply.status < 500, reply.status >= 400]).toEqual([text, true, true])
    }
    expect((await call('GET', path, { as: workspace.service })).body).toEqual(put.body)
  })

  test.each([
    ['n=eq.abc', 'n', 'integer'],
    ['n=eq.1.5', 'n', 'integer'],
    ['n=in.(1,x)', 'n', 'integer'],
    ['n=like.1*', 'n', 'integer'],
    ['score=gt.true', 'score', 'number'],
    ['active=eq.1', 'active', 'boolean'],
    ['active=gt.true', 'active', 'boolean'],
    ['name=json_path_eq.($.a,1)', 'name', 'string'],
  ])('filter %s: the field %s is declared as %s: 400 filter_type_mismatch', async (text, field, type) => {
    const { status, body } = await list(await declareCollection(store), text)
    expect([status, body.code]).toEqual([400, 'filter_type_mismatch'])
    expect(body.detail).toContain(`The field ${field} is declared as ${type}`)
    expect(body.errors[0]).toMatchObject({ in: 'query', name: field })
  })
})

const QUERIES = [
  'n=eq.2',
  'n=neq.2',
  'n=gt.1&n=lt.5',
  'n=in.(1,3,9007199254740991)',
  'n=not.in.(1,3)',
  'name=eq.ada',
  'name=eq.1',
  'name=neq.ada',
  'name=is.null',
  'name=is.not_null',
  'name=gt.a',
  'name=like.*d*',
  'name=ilike.ä*',
  'name=not.like.*d*',
  'score=gte.0.1',
  'score=lt.0',
  'score=in.(3,0.1)',
  'active=eq.true',
  'active=neq.true',
  'active=is.null',
  'due=lt.2026-01-01T01:00:00Z',
  'ref=is.not_null',
  'address.city=eq.London',
  'more=eq.x',
  'more=json_path_eq.([0],1)',
  'other=is.null',
  'nested.n=eq.1',
  'n.x=is.null',
  '"select\\"; drop table x"=like.*delete*',
  'name=like.a*',
  'name=not.like.a*',
  'name=ilike.A*',
  'or=(n.eq.1,name.like.b*)',
  'not.or=(n.gt.2,name.is.null)',
  'not.and=(active.is.true,n.eq.1)',
  'and=(or(n.lt.0,score.gt.1),not.or(active.is.false,name.eq.""))',
  'name=exists.true',
  'name=exists.false',
  'n=exists.true',
  'other=exists.true',
  'more.deep.1.a=exists.true',
  '_version=exists.true',
  'name=isdistinct.ada',
  'n=not.isdistinct.2',
  'active=is.true',
  'active=not.is.true',
  'active=is.false',
  'n=is.unknown',
  'more=cs.{x}',
  'more=cs.[1,"x"]',
  'more=not.cs.{x}',
  'more=cd.{1,x,z}',
  'more=ov.{y,x}',
  'more=cs.{"deep":[{"a":null}]}',
  'address=cs.{"city":"London"}',
  'address=cd.{"city":"London","zip":1}',
  'name=like(any).{a*,B*,"*d*"}',
  'n=gt(all).{1,2}',
  'n=not.gt(any).{1,2}',
  'score=eq(any).{3,0.1}',
  'name=not.in.()',
  'address->>city=eq.London',
  'more->deep->>0=eq.1',
  'order=name.desc',
  'order=name.asc.nullsfirst,n.desc',
  'order=score.desc,n',
  'order=active,name.desc',
  'order=more,n',
  'order=_version,n.desc&select=n',
]

test.each(['enforce', 'warn', 'off'])('queries: mode %s: both stores give the same results', async (mode) => {
  const collections = await Promise.all(STORES.map((store) => declareCollection(store, mode)))
  const misfits = mode === 'enforce' ? [] : [{ n: 'two', name: 5, active: 'yes', score: {} }, { n: 1.5 }]
  const replies = []
  for (const collection of collections) {
    for (const person of [...PEOPLE, ...misfits]) expect((await create(collection, person)).status).toBe(201)
    const answers = []
    for (const text of QUERIES) {
      const { status, body } = await list(collection, text)
      expect([text, status]).toEqual([text, 200])
      answers.push([text, body.data.map(({ n }: { n: unknown }) => n)])
    }
    replies.push(answers)
  }
  expect(replies[1]).toEqual(replies[0])
  expect(replies[0]).toContainEqual(['name=eq.ada', [1]])
})

test('queries: random documents, filters, orders and pages: both stores give the same results', async () => {
  const value = {
    n: fc.option(fc.integer({ min: -3, max: 3 }), { nil: undefined }),
    name: fc.option(fc.constantFrom('a', 'b', 'B', 'ä', '', null), { nil: undefined }),
    score: fc.option(fc.constantFrom(-1, 0, 0.5, 2), { nil: undefined }),
    active: fc.option(fc.boolean(), { nil: undefined }),
  }
  const documents = fc.sample(fc.record(value), { numRuns: 40, seed: 7 })
  const collections = await Promise.all(STORES.map((store) => declareCollection(store)))
  for (const collection of collections) {
    for (const [k, document] of documents.entries()) await create(collection, { ...document, k })
  }
  const test = fc.oneof(
    fc.record({
      n: fc.constantFrom(
        ...[{ gt: 0 }, { lte: 1 }, 2, null, { neq: 1 }, { in: [0, 1] }, { isdistinct: 1 }],
        ...[{ exists: true }, { 'gt(any)': [0, 2] }, { not: { 'lt(all)': [0, 2] } }],
      ),
    }),
    fc.record({
      name: fc.constantFrom(
        ...[{ gte: 'B' }, 'a', null, { like: '%a' }, { neq: 'b' }, { like: 'a%' }, { not: { like: 'b_%' } }],
        ...[{ exists: false }, { isdistinct: 'a' }, { 'like(any)': ['a%', 'B%'] }, { is: 'not_null' }],
      ),
    }),
    fc.record({ score: fc.constantFrom({ lt: 1 }, 0.5, { neq: 2 }) }),
    fc.record({
      active: fc.constantFrom(true, false, null, { is: true }, { not: { is: false } }, { exists: false }),
    }),
  )
  const some = fc.array(test, { minLength: 1, maxLength: 3 })
  const group = fc.oneof(fc.record({ $or: some }), fc.record({ $and: some }))
  const filter = fc.oneof(test, group, fc.record({ $not: fc.oneof(test, group) }))
  const direction = fc.constantFrom(1, -1)
  const sort = fc.dictionary(fc.constantFrom('n', 'name', 'score', 'active', 'k'), direction, { maxKeys: 3 })
  const queries = fc.record({ filter, sort, limit: fc.constantFrom(3, 7, 100) })
  for (const body of fc.sample(queries, { numRuns: 60, seed: 11 })) {
    const [one, other] = await Promise.all(collections.map((collection) => readAllKeys(collection, body)))
    expect([body, other]).toEqual([body, one])
  }
})

/** Returns the `k` of every document found, page after page. */
async function readAllKeys(collection: string, body: object): Promise<number[]> {
  const found: number[] = []
  let after: string | undefined
  do {
    const reply = await query(collection, { ...body, ...(after && { after }) })
    expect([body, reply.status]).toEqual([body, 200])
    found.push(...reply.body.data.map(({ k }: { k: number }) => k))
    after = reply.body.page.next ?? undefined
  } while (after !== undefined)
  return found
}
