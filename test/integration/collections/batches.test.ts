/** Checks batches: several changes in one call, in one or several collections, atomic or each by itself. */

import { beforeAll, describe, expect, test } from 'vitest'
import { expectProblem, expectStatus, get, list, type Reply } from '../../support/clients/rest-client.ts'
import { createTenantPair, expectIsolated, type World, word } from '../../support/fixtures/tenant-pair.ts'
import { declare, documents, fill, type Row, tags } from '../../support/fixtures/declared-collections.ts'

let world: World

const STORES = ['relational', 'document'] as const
const PROPERTIES = {
  tag: { type: 'string' },
  sku: { type: 'string' },
  n: { type: 'number' },
  s: { type: 'string' },
  mark: { type: 'string' },
}

beforeAll(async () => {
  world = await createTenantPair()
  for (const store of STORES) {
    const schema = { type: 'object', properties: PROPERTIES, required: ['tag'] }
    await declare(world.a, store, { store, schema, unique: [['sku']] })
  }
})

describe.each(STORES)('batch, %s collection', (store) => {
  const batch = (ops: unknown[], more: Row = {}, headers = {}): Promise<Reply> =>
    world.a.service.post(`/v1/collections/${store}/batch`, { ops, ...more }, headers)
  const read = (id: unknown) => world.a.service.get(`${documents(store)}/${id}`)
  const tagged = async (tag: string) => list(await world.a.service.get(`${documents(store)}?tag=eq.${tag}`))

  test('batch: ops of every kind: results in order', async () => {
    const [one, two] = await fill(world.a, store, [
      { tag: 'one', n: 1, s: 'kept' },
      { tag: 'two', n: 1 },
    ])
    const sku = word()
    const reply = await batch([
      { op: 'create', ref: 'mine', data: { tag: 'made', n: 5 } },
      { op: 'update', id: one, data: { n: 2 }, if_version: 1 },
      { op: 'upsert', on: ['sku'], data: { sku, tag: 'up', n: 1 } },
      { op: 'upsert', on: ['sku'], data: { sku, tag: 'up', n: 2 } },
      { op: 'increment', id: one, field: 'n', by: 3 },
      { op: 'delete', id: two },
    ])
    expectStatus(reply, 200)
    expect(get(reply, 'committed')).toBe(true)
    const results = list(reply, 'results')
    expect(results.map((result) => get(result, 'status'))).toEqual([201, 200, 201, 200, 200, 200])
    expect(get(results[0], 'ref')).toBe('mine')
    expect(get(results[1], 'version')).toBe(2)
    expect(get(results[3], 'id')).toBe(get(results[2], 'id'))
    expect((await read(get(results[0], 'id'))).body).toMatchObject({ tag: 'made', n: 5, _version: 1 })
    expect((await read(one)).body).toMatchObject({ n: 5, s: 'kept', _version: 3 })
    expect((await read(get(results[2], 'id'))).body).toMatchObject({ sku, n: 2 })
    expectProblem(await read(two), 404)
  })

  test.each([
    ['an outdated version', { op: 'update', data: { n: 9 }, if_version: 7 }, 412],
    ['a missing document', { op: 'delete', id: '01890a5d-ac96-774b-bcce-b302099a8057' }, 404],
    ['a document that violates the schema', { op: 'create', data: { tag: 5 } }, 422],
    ['a missing required field', { op: 'create', data: { n: 5 } }, 422],
    ['a field that is not a number', { op: 'increment', field: 'tag' }, 409],
  ])('atomic batch: contains %s: refused as a whole', async (_, op, status) => {
    const tag = word()
    const [id] = await fill(world.a, store, [{ tag, n: 1 }])
    const change = op.op === 'create' || 'id' in op ? op : { ...op, id }
    const reply = await batch([
      { op: 'create', data: { tag } },
      { op: 'increment', id, field: 'n' },
      change,
      { op: 'create', data: { tag } },
    ])
    expectStatus(reply, status, status === 409 ? 422 : status)
    expectProblem(reply, reply.status)
    expect(get(reply, 'op_index')).toBe(2)
    const left = await tagged(tag)
    expect(left).toHaveLength(1)
    expect(left[0]).toMatchObject({ n: 1, _version: 1 })
  })

  test('batch: unique value taken, in the batch or before: 409 that names the op', async () => {
    const [sku, tag] = [word(), word()]
    const twice = await batch([
      { op: 'create', data: { tag, sku } },
      { op: 'create', data: { tag, sku } },
    ])
    expectProblem(twice, 409, 'unique_violation')
    expect(get(twice, 'op_index')).toBe(1)
    expect(await tagged(tag)).toEqual([])
  })

  test('batch: atomic: false: possible ops are applied, the others reported', async () => {
    const tag = word()
    const [id] = await fill(world.a, store, [{ tag: 'count', n: 1 }])
    const reply = await batch(
      [
        { op: 'create', data: { tag } },
        { op: 'create', data: { tag: 5 } },
        { op: 'increment', id, field: 'n', by: -4 },
        { op: 'delete', id: 'nope' },
      ],
      { atomic: false },
    )
    expectStatus(reply, 200)
    expect(get(reply, 'committed')).toBe(false)
    const results = list(reply, 'results')
    expect(results.map((result) => get(result, 'status'))).toEqual([201, 422, 200, 404])
    expect(get(results[1], 'error/code')).toBe('schema_violation')
    expect(await tagged(tag)).toHaveLength(1)
    expect((await read(id)).body).toMatchObject({ n: -3 })
  })

  test('batch: concurrent increments: all are counted', async () => {
    const [id] = await fill(world.a, store, [{ tag: 'sum' }])
    const add = () => batch([{ op: 'increment', id, field: 'n' }])
    const replies = await Promise.all(Array.from({ length: 10 }, add))
    for (const reply of replies) expectStatus(reply, 200)
    expect((await read(id)).body).toMatchObject({ n: 10, _version: 11 })
  })

  test('batch: concurrent upserts: one document', async () => {
    const sku = word()
    const put = (n: number) => batch([{ op: 'upsert', on: ['sku'], data: { sku, tag: 'race', n } }])
    const replies = await Promise.all([1, 2, 3, 4, 5, 6].map(put))
    for (const reply of replies) expectStatus(reply, 200)
    const statuses = replies.map((reply) => get(reply, 'results/0/status'))
    expect(statuses.filter((status) => status === 201)).toHaveLength(1)
    expect(list(await world.a.service.get(`${documents(store)}?sku=eq.${sku}`))).toHaveLength(1)
  })

  test('batch: 500 creates of one shape: accepted in order; 501: refused', async () => {
    const tag = word()
    const creates = (count: number) =>
      Array.from({ length: count }, (_, n) => ({ op: 'create', data: { tag, n, mark: world.a.mark } }))
    expectProblem(await batch(creates(501)), 400)
    const made = await batch(creates(500))
    expectStatus(made, 200)
    const ids = list(made, 'results').map((result) => get(result, 'id'))
    expect(new Set(ids).size).toBe(500)
    const rows = list(await world.a.service.get(`${documents(store)}?tag=eq.${tag}&page[size]=200`))
    expect(rows.map((row) => get(row, 'id'))).toEqual(ids.slice(0, 200))
    expect(rows.map((row) => get(row, 'n'))).toEqual(Array.from({ length: 200 }, (_, n) => n))
  })

  test('batch: repeated with an Idempotency-Key: applied once', async () => {
    const tag = word()
    const send = () => batch([{ op: 'create', data: { tag } }], {}, { 'idempotency-key': tag })
    const first = await send()
    const again = await send()
    expect(again.body).toEqual(first.body)
    expect(again.headers.get('idempotent-replayed')).toBe('true')
    expect(await tagged(tag)).toHaveLength(1)
  })

  test.each([
    [[]],
    [[{ op: 'fly' }]],
    [[{ op: 'create' }]],
    [[{ op: 'create', data: [] }]],
    [[{ op: 'create', data: { tag: 'x', _version: 3 } }]],
    [[{ op: 'create', data: { tag: 'x', id: 'y' } }]],
    [[{ op: 'update', data: {} }]],
    [[{ op: 'increment', id: 'x' }]],
    [[{ op: 'increment', id: 'x', field: '_version' }]],
    [[{ op: 'upsert', on: ['n'], data: { tag: 'x', n: 1 } }]],
    [[{ op: 'upsert', on: [], data: { tag: 'x' } }]],
    [[{ op: 'delete', id: 'x', colour: 1 }]],
    'ops',
  ])('batch: ops %j: 400', async (ops) => {
    const path = `/v1/collections/${store}/batch`
    expectProblem(await world.a.service.post(path, { ops }), 400)
  })
})

describe('batch over several collections', () => {
  const batch = (ops: unknown[], caller = world.a.service, more = {}) =>
    caller.post('/v1/batch', { ops, ...more })

  test('batch: both stores and an undeclared collection: atomic', async () => {
    const tag = word()
    const names = [...STORES, 'loose']
    const creates = names.map((collection) => ({ op: 'create', collection, data: { tag } }))
    const refused = await batch([...creates, { op: 'create', collection: 'relational', data: { tag: 5 } }])
    expectProblem(refused, 422)
    expect(get(refused, 'op_index')).toBe(3)
    const rows = () =>
      Promise.all(names.map((name) => world.a.service.get(`${documents(name)}?tag=eq.${tag}`)))
    for (const reply of await rows()) expect(tags(reply)).toEqual([])
    expectStatus(await batch(creates), 200)
    for (const reply of await rows()) expect(tags(reply)).toEqual([tag])
  })

  test('batch: op without a collection: refused', async () => {
    expectProblem(await batch([{ op: 'create', data: { tag: 'x' } }]), 400)
  })

  test('batch: document of another tenant: 404, nothing is applied', async () => {
    const [foreignId] = await fill(world.b, 'keep', [{ tag: 'theirs', n: 1 }])
    for (const op of ['update', 'delete', 'increment']) {
      const more = op === 'update' ? { data: { n: 9 } } : op === 'increment' ? { field: 'n' } : {}
      const reply = await batch([
        { op: 'create', collection: 'keep', data: { tag: 'made' } },
        { op, collection: 'keep', id: foreignId, ...more },
      ])
      expectProblem(reply, 404)
    }
    expect(tags(await world.a.service.get(documents('keep')))).toEqual([])
    expect((await world.b.service.get(`${documents('keep')}/${foreignId}`)).body).toMatchObject({
      n: 1,
      _version: 1,
    })
  })

  test('batch: anon key: same rights as for single requests', async () => {
    const reply = await batch([{ op: 'create', collection: 'loose', data: { tag: 'anon' } }], world.a.anon)
    expectProblem(reply, 403)
    const each = await batch([{ op: 'create', collection: 'loose', data: { tag: 'anon' } }], world.a.anon, {
      atomic: false,
    })
    if (each.status === 200) expect(get(each, 'results/0/status')).toBe(403)
    else expectProblem(each, 403)
    expect(tags(await world.a.service.get(`${documents('loose')}?tag=eq.anon`))).toEqual([])
  })
})

test('tenant isolation: after all tests: B received nothing of A and is unchanged', () =>
  expectIsolated(world))
