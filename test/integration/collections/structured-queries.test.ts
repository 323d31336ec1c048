/** Checks structured queries: everything the URL can express and more, typed by JSON, in both stores. */

import { beforeAll, describe, expect, test } from 'vitest'
import { expectProblem, expectStatus, get, list, type Reply, str } from '../../support/clients/rest-client.ts'
import {
  declareKind,
  documents,
  fill,
  KINDS,
  nullable,
  tags,
} from '../../support/fixtures/declared-collections.ts'
import {
  createTenantPair,
  expectIsolated,
  expectUnaffected,
  type World,
} from '../../support/fixtures/tenant-pair.ts'

let world: World

const ROWS = [
  { tag: 'ada', s: 'Ada', i: 1, b: true, o: { city: 'Berlin', geo: { lat: 52 } }, a: ['x', 'y'] },
  { tag: 'low', s: 'ada', i: 2, b: false, o: { city: 'Bonn' }, a: ['y', 'z'] },
  { tag: 'ten', s: 'Zoe', i: 10, b: true, o: { items: [{ sku: 'p' }, { sku: 'q' }] }, a: [] },
  { tag: 'null', s: null, i: null, b: null, o: null, a: null },
  { tag: 'none' },
  { tag: 'digits', s: '42', i: 42 },
]
const PROPERTIES = {
  tag: { type: 'string' },
  s: nullable('string'),
  i: nullable('integer'),
  b: nullable('boolean'),
  o: nullable('object'),
  a: nullable('array'),
}

beforeAll(async () => {
  world = await createTenantPair({ anonReads: true })
  for (const kind of KINDS) {
    await declareKind(world.a, kind, kind, PROPERTIES)
    await fill(world.a, kind, ROWS)
  }
})

describe.each(KINDS)('structured queries, %s collection', (kind) => {
  const query = (body: unknown): Promise<Reply> => world.a.service.post(`/v1/collections/${kind}/query`, body)

  test.each([
    [{ s: 'Ada' }, ['ada']],
    [{ i: 42 }, ['digits']],
    [{ s: '42' }, ['digits']],
    [{ b: true }, ['ada', 'ten']],
    [{ i: null }, ['null', 'none']],
    [{ s: { eq: null } }, ['null', 'none']],
    [{ a: ['x', 'y'] }, ['ada']],
    [{ a: ['y', 'x'] }, []],
    [{ a: [] }, ['ten']],
    [{ s: { eq: 'Ada' } }, ['ada']],
    [{ s: { neq: 'Ada' } }, ['low', 'ten', 'digits']],
    [{ i: { gt: 1, lte: 10 } }, ['low', 'ten']],
    [{ i: { $gte: 2, $lt: 42 } }, ['low', 'ten']],
    [{ i: { in: [1, 10, 99] } }, ['ada', 'ten']],
    [{ s: { $in: ['Ada', '42'] } }, ['ada', 'digits']],
    [{ s: { in: [] } }, []],
    [{ s: { like: 'A%' } }, ['ada']],
    [{ s: { ilike: 'a%' } }, ['ada', 'low']],
    [{ i: { isdistinct: 10 }, tag: { in: ['ada', 'ten', 'none'] } }, ['ada', 'none']],
    [{ s: { exists: true } }, ['ada', 'low', 'ten', 'null', 'digits']],
    [{ s: { exists: false } }, ['none']],
    [{ a: { cs: ['y'] } }, ['ada', 'low']],
    [{ a: { cd: ['x', 'y', 'w'] } }, ['ada', 'ten']],
    [{ a: { ov: ['x', 'z'] } }, ['ada', 'low']],
    [{ 'o.city': 'Bonn' }, ['low']],
    [{ 'o.geo.lat': { gt: 51 } }, ['ada']],
    [{ 'o.items.0.sku': 'p' }, ['ten']],
    [{ $or: [{ s: 'Ada' }, { i: 10 }] }, ['ada', 'ten']],
    [{ $or: [{ i: { gt: 1, lt: 10 } }, { $and: [{ b: true }, { s: 'Zoe' }] }] }, ['low', 'ten']],
    [{ b: true, $or: [{ i: 1 }, { i: 2 }] }, ['ada']],
    [{ $not: { i: { gte: 2 } }, i: { isdistinct: null } }, ['ada']],
    [{ _version: 1, tag: 'ada' }, ['ada']],
    [{ _created_at: { gt: '2020-01-01T00:00:00Z' }, tag: 'ada' }, ['ada']],
  ])('structured query: %j: finds the matching documents', async (filter, expected) => {
    const reply = await query({ filter })
    expect(tags(reply), reply.text.slice(0, 400)).toEqual(expected)
  })

  test.each([
    [{ i: 1, s: 'Zoe' }],
    [{ i: 5 }],
    [{ $or: [] }],
    [{ s: "' or '1'='1" }],
    [{ 's" or 1=1 --': 'x' }],
    [{ s: { like: '(a+)+$' } }],
  ])('structured query: %j: finds nothing', async (filter) => {
    if (kind === 'relational' || kind === 'document') {
      // A declared collection may report that it has no such field.
      const reply = await query({ filter })
      if (reply.status === 400) return expectProblem(reply, 400)
    }
    expect(tags(await query({ filter }))).toEqual([])
  })

  test.each([
    [{ filter: { s: { $where: 'sleep(1)' } } }],
    [{ filter: { $where: 'sleep(1)' } }],
    [{ filter: { $expr: { $gt: ['$i', 1] } } }],
    [{ filter: { s: { $regex: '(a+)+$' } } }],
    [{ filter: { s: { in: 'Ada' } } }],
    [{ filter: { s: { like: 5 } } }],
    [{ filter: { s: { exists: 'yes' } } }],
    [{ filter: { $or: { s: 'x' } } }],
    [JSON.parse('{"filter":{"__proto__":1}}')],
    [{ filter: { _secret: 1 } }],
    [{ filter: { s: 'a\u0000' } }],
    [{ filter: 'x' }],
    [{ select: [5] }],
    [{ select: '' }],
    [{ sort: { i: 'desc' } }],
    [{ sort: ['i.descc'] }],
    [{ limit: 0 }],
    [{ where: {} }],
    [{ filter: Object.fromEntries(Array.from({ length: 51 }, (_, n) => [`f${n}`, 1])) }],
    ['x'],
    [5],
    [[]],
  ])('structured query: %j: 400', async (body) => {
    expectProblem(await query(body), 400)
  })

  test('structured query: extreme nesting: 400', async () => {
    let filter: unknown = { i: 1 }
    for (let depth = 0; depth < 2000; depth++) filter = { $and: [filter] }
    expectProblem(await query({ filter }), 400)
    await expectUnaffected(world)
  })

  test('sort: object in key order, or words as in the URL: applied', async () => {
    expect(tags(await query({ sort: { i: -1 } }))).toEqual(['none', 'null', 'digits', 'ten', 'low', 'ada'])
    expect(tags(await query({ sort: ['i.desc.nullslast', 'tag'] }))).toEqual([
      'digits',
      'ten',
      'low',
      'ada',
      'none',
      'null',
    ])
    expect(tags(await query({ sort: { b: 1, i: -1 } })).slice(0, 3)).toEqual(['low', 'ten', 'ada'])
  })

  test('limit: absent: 50, in the envelope of a list', async () => {
    const reply = await query({})
    expect(get(reply, 'page')).toEqual({ size: 50, next: null, has_more: false })
    expect(list(reply)).toEqual(list(await world.a.service.get(documents(kind))))
  })

  test('pages: followed with after: complete; cursor with another filter or sort: refused', async () => {
    const body = { filter: { i: { gte: 1 } }, sort: { i: -1 }, limit: 3, select: 'tag' }
    const first = await query(body)
    expect(tags(first)).toEqual(['digits', 'ten', 'low'])
    const after = str(first, 'page/next')
    expect(list(await query({ ...body, after }))).toEqual([{ id: expect.any(String), tag: 'ada' }])
    for (const other of [{ filter: { i: { gte: 2 } } }, { sort: { i: 1 } }, { sort: {} }, { filter: {} }]) {
      expectProblem(await query({ ...body, ...other, after }), 400, 'cursor_mismatch')
    }
    expectProblem(await query({ ...body, after: `${after}x` }), 400, 'cursor_invalid')
  })

  test('anon key: may read: may query', async () => {
    const reply = await world.a.anon.post(`/v1/collections/${kind}/query`, { filter: { s: 'Ada' } })
    expect(tags(reply)).toEqual(['ada'])
  })
})

describe('sizes', () => {
  test('limit: 1000: returns 1,000; 1001: 400', async () => {
    const ops = (from: number) =>
      Array.from({ length: 500 }, (_, n) => ({ op: 'create', data: { n: from + n, mark: world.a.mark } }))
    for (const from of [0, 500, 1000]) {
      expectStatus(await world.a.service.post('/v1/collections/large/batch', { ops: ops(from) }), 200)
    }
    const reply = await world.a.service.post('/v1/collections/large/query', { sort: { n: 1 }, limit: 1000 })
    expect(list(reply)).toHaveLength(1000)
    expect(get(reply, 'page')).toMatchObject({ size: 1000, has_more: true })
    const rest = { sort: { n: 1 }, limit: 1000, after: str(reply, 'page/next') }
    const last = list(await world.a.service.post('/v1/collections/large/query', rest))
    expect(last.map((row) => get(row, 'n'))).toEqual(Array.from({ length: 500 }, (_, n) => 1000 + n))
    expectProblem(await world.a.service.post('/v1/collections/large/query', { limit: 1001 }), 400)
  })

  test('query: 2 MB: 413', async () => {
    const filter = { s: 'x'.repeat(2_000_000) }
    expectProblem(await world.a.service.post('/v1/collections/large/query', { filter }), 413)
  })
})

test('tenant isolation: after all tests: B received nothing of A and is unchanged', () =>
  expectIsolated(world))
