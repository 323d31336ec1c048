/** Operators on single documents and in batches: what each does, what they refuse, and that none is lost. */

import { beforeAll, describe, expect, test } from 'vitest'
import { createIn, declaredWithRules } from '../../support/fixtures/access-rules.ts'
import {
  call,
  createTestWorkspace,
  type Reply,
  type TestWorkspace,
  unique,
  userToken,
} from '../../support/fixtures/tenants.ts'

const TYPE = { 'content-type': 'application/vnd.tenon.ops+json' }

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
})

const documents = (collection: string, id = '') => `/v1/collections/${collection}/documents${id && `/${id}`}`
const create = async (collection: string, body: object) =>
  (await call('POST', documents(collection), { as: workspace.service, body })).body.id as string
const get = async (collection: string, id: string) =>
  (await call('GET', documents(collection, id), { as: workspace.service })).body
const apply = (collection: string, id: string, body: unknown, headers = {}): Promise<Reply> =>
  call('PATCH', documents(collection, id), { as: workspace.service, body, headers: { ...TYPE, ...headers } })
const batch = (collection: string, ops: object[], more: object = {}) =>
  call('POST', `/v1/collections/${collection}/batch`, { as: workspace.service, body: { ops, ...more } })

async function declare(declaration: object): Promise<string> {
  const collection = unique('ops')
  const body = { workspace_id: workspace.workspaceId, collection, store: 'relational', ...declaration }
  const reply = await call('POST', '/v1/schemas', { as: workspace.operator, body })
  expect(reply.status, JSON.stringify(reply.body)).toBe(201)
  return collection
}

test('PATCH with operators: each by its path, in one version', async () => {
  const id = await create('things', {
    seen: 1,
    tags: ['a', 'b', 'a'],
    best: 3,
    first: 'm',
    shop: { aisle: 4 },
  })
  const { status, body, headers } = await apply('things', id, {
    set: { 'shop.city': 'Rome', 'new.deep.member': [1], '"a.b"': null },
    unset: ['shop.aisle', 'absent.too'],
    inc: { seen: 2, 'counts.today': 1 },
    push: { log: { each: [1, { n: 2 }] } },
    pull: { tags: 'a', nothing: 1 },
    max: { best: 9 },
    min: { first: 'c' },
    now: ['seen_at', 'times.last'],
  })
  expect([status, headers.get('etag'), body._version]).toEqual([200, '"v2"', 2])
  expect(body).toMatchObject({
    ...{ seen: 3, tags: ['b'], best: 9, first: 'c', shop: { city: 'Rome' }, counts: { today: 1 } },
    ...{ log: [1, { n: 2 }], 'a.b': null, new: { deep: { member: [1] } } },
  })
  expect(body).not.toHaveProperty('absent')
  expect(body.seen_at).toBe(body.times.last)
  expect(new Date(body.seen_at).toISOString()).toBe(body.seen_at)
  expect(await get('things', id)).toEqual(body)
})

test('PATCH with operators that change nothing: no version; at another version: 412', async () => {
  const id = await create('things', { n: 1, tags: ['a'], best: 5 })
  const same = { set: { n: 1 }, unset: ['absent'], inc: { best: 0 }, pull: { tags: 'z' } }
  expect((await apply('things', id, same)).body._version).toBe(1)
  expect((await apply('things', id, { max: { best: 4 }, push: { tags: { each: [] } } })).body._version).toBe(
    1,
  )
  expect((await apply('things', id, { inc: { n: 1 } }, { 'if-match': '"v7"' })).status).toBe(412)
  expect((await apply('things', id, { inc: { n: 1 } }, { 'if-match': '"v1"' })).body.n).toBe(2)
})

test('elements that are equal: members of objects in any order, of other types not', async () => {
  const id = await create('things', { list: [{ a: 1, b: [2] }, '1', 1, null, [1]] })
  const { body } = await apply('things', id, { pull: { list: { each: [{ b: [2], a: 1 }, 1, null] } } })
  expect(body.list).toEqual(['1', [1]])
})

test.each<[unknown, number, string, string]>([
  [{}, 400, 'validation_failed', ''],
  [{ ad: { n: 1 } }, 400, 'validation_failed', '/ad'],
  [{ set: { n: 1 }, inc: { n: 1 } }, 400, 'validation_failed', '/inc/n'],
  [{ set: { 'o.x': 1 }, unset: ['o'] }, 400, 'validation_failed', '/set/o.x'],
  [{ set: { 'o->x': 1, 'o.x': 2 } }, 400, 'validation_failed', '/set/o.x'],
  [{ set: { id: 'a' } }, 400, 'validation_failed', '/set/id'],
  [{ unset: ['_version'] }, 400, 'validation_failed', '/unset/0'],
  [{ set: { _mine: 1 } }, 400, 'validation_failed', '/set/_mine'],
  [{ inc: { $where: 1 } }, 400, 'validation_failed', '/inc/$where'],
  [{ set: { 'a..b': 1 } }, 400, 'validation_failed', '/set/a..b'],
  [{ set: { 'a.__proto__.b': 1 } }, 400, 'validation_failed', '/set/a.__proto__.b'],
  [{ set: { 'constructor.prototype.b': 1 } }, 400, 'validation_failed', '/set/constructor.prototype.b'],
  [{ push: { l: { each: 1 } } }, 400, 'validation_failed', '/push/l'],
  [{ inc: { n: 'many' } }, 400, 'validation_failed', '/inc/n'],
  [{ max: { n: true } }, 400, 'validation_failed', '/max/n'],
  [
    { set: Object.fromEntries(Array.from({ length: 101 }, (_, n) => [`f${n}`, n])) },
    400,
    'validation_failed',
    '',
  ],
  [`{"set": {"deep": ${'['.repeat(200)}${']'.repeat(200)}}}`, 400, 'validation_failed', '/set/deep'],
  [`{"set": {"n": 12345678901234567890}}`, 400, 'number_unsafe', '/set/n'],
  [{ set: { t: 'a\u0000' } }, 400, 'string_nul', '/t'],
  [{ set: { t: 'x'.repeat(262_144) } }, 413, 'body_too_large', ''],
  [{ inc: { t: 1 } }, 409, 'state_conflict', ''],
  [{ inc: { none: 1 } }, 409, 'state_conflict', ''],
  [{ push: { t: 1 } }, 409, 'state_conflict', ''],
  [{ pull: { n: 1 } }, 409, 'state_conflict', ''],
  [{ max: { t: 1 } }, 409, 'state_conflict', ''],
  [{ set: { 'l.0': 1 } }, 409, 'state_conflict', ''],
  [{ set: { 'n.x': 1 } }, 409, 'state_conflict', ''],
])('PATCH with operators %j: %i %s', async (body, status, code, pointer) => {
  const id = await create('refused', { n: 1, t: 'x', none: null, l: [1], o: { x: 1 } })
  const reply = await apply('refused', id, body)
  expect([reply.status, reply.body.code], JSON.stringify(reply.body).slice(0, 500)).toEqual([status, code])
  if (pointer !== '') expect(reply.body.errors[0].pointer).toBe(pointer)
  expect((await get('refused', id))._version).toBe(1)
})

test('two operators on one field: the refusal names both', async () => {
  const id = await create('refused', { o: {} })
  const { body } = await apply('refused', id, { inc: { 'o.n': 1 }, set: { o: {} } })
  expect(body.detail).toContain('o.n is changed twice: set names o')
  const both = await batch('refused', [{ op: 'update', id, data: { o: 1 }, push: { 'o.l': 1 } }])
  expect(both.body.errors).toMatchObject([
    { pointer: '/ops/0/push/o.l', detail: expect.stringContaining('data names o') },
  ])
})

test('PATCH: operators and patches: each by its media type', async () => {
  const id = await create('things', { n: 1 })
  const path = documents('things', id)
  const patched = await call('PATCH', path, { as: workspace.service, body: { inc: { n: 1 } } })
  expect(patched.body).toMatchObject({ n: 1, inc: { n: 1 } })
  const other = { 'content-type': 'application/vnd.other+json' }
  const refused = await call('PATCH', path, { as: workspace.service, body: '{}', headers: other })
  expect([refused.status, refused.body.code]).toEqual([415, 'media_type_unsupported'])
  const put = await call('PUT', path, { as: workspace.service, body: '{}', headers: TYPE })
  expect([put.status, put.body.code]).toEqual([415, 'media_type_unsupported'])
  const empty = await call('PATCH', path, { as: workspace.service })
  expect([empty.status, empty.body.code]).toEqual([400, 'validation_failed'])
})

describe('formats of declared fields', () => {
  const PROPERTIES = {
    price: { type: 'string', format: 'decimal' },
    total: { type: 'string', format: 'int64' },
    due: { type: 'string', format: 'date-time' },
    n: { type: 'integer', maximum: 5 },
  }
  let sales: string
  beforeAll(async () => {
    sales = await declare({ schema: { type: 'object', properties: PROPERTIES, additionalProperties: false } })
  })

  test('decimal and int64: added exactly, as texts, by numbers and by texts', async () => {
    const id = await create(sales, { price: '0.10', total: '9007199254740993' })
    const add = async (inc: object) => (await apply(sales, id, { inc })).body
    expect(await add({ price: '0.20', total: 2 })).toMatchObject({ price: '0.30', total: '9007199254740995' })
    expect(await add({ price: 1, total: '-9007199254740996' })).toMatchObject({ price: '1.30', total: '-1' })
    expect(await add({ price: -2.25 })).toMatchObject({ price: '-0.95' })
    expect(await add({ price: '0.95' })).toMatchObject({ price: '0.00' })
    const missing = await create(sales, {})
    const made = (await apply(sales, missing, { inc: { price: 3, total: 4 } })).body
    expect([made.price, made.total]).toEqual(['3', '4'])
    const [result] = (await batch(sales, [{ op: 'increment', id, field: 'price', by: '0.05' }])).body.results
    expect([result.status, (await get(sales, id)).price]).toEqual([200, '0.05'])
  })

  test('sums that do not fit: 400 number_unsafe; results that the schema refuses: 422', async () => {
    const id = await create(sales, { total: '9223372036854775807', price: '9'.repeat(100), n: 5 })
    for (const inc of [{ total: 1 }, { total: '0.5' }, { price: 1 }, { price: 1e21 }])
      expect((await apply(sales, id, { inc })).body.code, JSON.stringify(inc)).toBe('number_unsafe')
    const over = await apply(sales, id, { inc: { n: 1 } })
    expect([over.status, over.body.code, over.body.errors[0].pointer]).toEqual([
      422,
      'schema_violation',
      '/n',
    ])
    expect((await apply(sales, id, { set: { other: 1 } })).status).toBe(422)
    expect((await get(sales, id))._version).toBe(1)
  })

  test('min and max: by what texts mean in their format', async () => {
    const id = await create(sales, { price: '9.5', due: '2026-01-01T00:30:00+01:00' })
    const changed = async (body: object) => (await apply(sales, id, body)).body
    expect((await changed({ max: { price: '10' } })).price).toBe('10')
    expect((await changed({ max: { price: '9.75' } })).price).toBe('10')
    expect((await changed({ min: { due: '2026-01-01T00:00:00Z' } })).due).toBe('2026-01-01T00:30:00+01:00')
    expect((await changed({ max: { due: '2026-01-01T00:00:00Z' } })).due).toBe('2026-01-01T00:00:00Z')
    expect((await apply(sales, id, { min: { due: 'soon' } })).body.code).toBe('state_conflict')
    expect((await changed({ now: ['due'] })).due > '2026').toBe(true)
  })
})

test('rules: the result of operators is what the update rule admits, with $old', async () => {
  const { collection, at } = await declaredWithRules(workspace, {
    user: { read: true, create: true, update: { level: { gte: '$old.level' } } },
  })
  const mia = await userToken(workspace, 'mia')
  const { id } = (await createIn(at, mia, { title: 'a', level: 3 })).body
  const change = async (body: object) =>
    (await call('PATCH', documents(collection, id), { as: mia, body, headers: TYPE })).status
  expect(await change({ inc: { level: 1 } })).toBe(200)
  expect(await change({ inc: { level: -1 } })).toBe(403)
  expect(await change({ set: { level: 1 } })).toBe(403)
  expect(await change({ unset: ['level'] })).toBe(403)
  expect(await change({ push: { tags: 'x' } })).toBe(200)
  expect(await get(collection, id)).toMatchObject({ level: 4, tags: ['x'] })
})

test.each(['undeclared', 'relational'])(
  'fifty clients increment one number of one document, %s: each answer is counted or refused',
  async (kind) => {
    const collection =
      kind === 'undeclared'
        ? unique('counters')
        : await declare({ schema: { type: 'object', properties: { n: { type: 'integer' } } } })
    const id = await create(collection, { n: 0, by: {} })
    const ledger: number[] = []
    const client = async (_: unknown, nth: number) => {
      for (let at = 0; at < 3; at++) {
        const by = 1 + ((nth + at) % 3)
        const reply = await apply(collection, id, { inc: { n: by, [`by.c${nth}`]: 1 }, push: { log: by } })
        expect([200, 409, 503], JSON.stringify(reply.body)).toContain(reply.status)
        if (reply.status === 200) ledger.push(by)
      }
    }
    await Promise.all(Array.from({ length: 50 }, client))
    const { n, by, log, _version } = await get(collection, id)
    expect(n).toBe(ledger.reduce((sum, one) => sum + one, 0))
    expect(log.toSorted()).toEqual(ledger.toSorted())
    expect(Object.values(by as Record<string, number>).reduce((sum, one) => sum + one, 0)).toBe(ledger.length)
    expect(_version).toBe(1 + ledger.length)
    expect(ledger.length).toBeGreaterThan(0)
  },
)

test('batch of 500 operations with 100 paths each: all are made', async () => {
  const collection = unique('wide')
  const id = await create(collection, {})
  const inc = Object.fromEntries(Array.from({ length: 100 }, (_, n) => [`counts.of${n}`, 1]))
  const ops = Array.from({ length: 500 }, () => ({ op: 'update', id, inc }))
  const { status, body } = await batch(collection, ops)
  expect([status, body.results?.length], JSON.stringify(body).slice(0, 500)).toEqual([200, 500])
  const { counts, _version } = await get(collection, id)
  expect([new Set(Object.values(counts)), _version]).toEqual([new Set([500]), 501])
})

test('PATCH with operators and an Idempotency-Key: made once, the reply is kept', async () => {
  const id = await create('things', { n: 1 })
  const headers = { 'idempotency-key': unique('key') }
  const first = await apply('things', id, { inc: { n: 1 } }, headers)
  const again = await apply('things', id, { inc: { n: 1 } }, headers)
  expect(again.body).toEqual(first.body)
  expect(again.headers.get('idempotent-replayed')).toBe('true')
  const asPatch = { ...headers, 'content-type': 'application/json' }
  const other = await apply('things', id, { inc: { n: 1 } }, asPatch)
  expect(other.body.code).toBe('idempotency_key_reused')
  expect((await get('things', id)).n).toBe(2)
})
