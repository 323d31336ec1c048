/** Checks collections: documents, the ten operators, selection, order, pages with ties, structured queries. */

import { afterEach, beforeAll, describe, expect, test } from 'vitest'
import { anonymous, expectProblem, expectStatus, get, list, type Reply, str } from '../../support/clients/rest-client.ts'
import { createTenantPair, expectIsolated, expectUnaffected, type World } from '../../support/fixtures/tenant-pair.ts'

let world: World

const PEOPLE = '/v1/collections/people/documents'
const SCRATCH = '/v1/collections/scratch/documents'
const ROWS = [
  { name: 'Ada', age: 36, status: 'active', profile: { city: 'London' }, tags: ['math'] },
  { name: 'Ben', age: 20, status: 'active', profile: { city: 'Berlin' }, tags: [] },
  { name: 'Cem', age: 41, status: 'paused', profile: { city: 'Bonn' }, tags: ['art'] },
  { name: 'Dora', age: 20, status: 'active', profile: { city: 'Berlin' }, tags: ['art', 'math'] },
  { name: 'adele', age: 65, status: 'gone', profile: { city: 'Aachen' }, tags: ['music'] },
]

beforeAll(async () => {
  world = await createTenantPair({ anonReads: true })
  for (const row of ROWS) {
    expectStatus(await world.a.service.post(PEOPLE, { ...row, mark: world.a.mark }), 201)
  }
  expectStatus(await world.b.service.post(PEOPLE, { ...ROWS[0], name: 'Bea', mark: world.b.mark }), 201)
})

const ask = (query: string): Promise<Reply> => world.a.service.get(`${PEOPLE}?${query}`)

function names(reply: Reply): unknown[] {
  expectStatus(reply, 200)
  return list(reply).map((row) => get(row, 'name'))
}

describe('documents', () => {
  test('document: created: 201 with fields, id, times, version, Location and ETag', async () => {
    const reply = await world.a.service.post(SCRATCH, { name: 'Eve', mark: world.a.mark })
    expectStatus(reply, 201)
    expect(reply.body).toMatchObject({
      id: expect.stringMatching(/^[0-9a-f]{8}-[0-9a-f]{4}-7/),
      name: 'Eve',
      _created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      _updated_at: expect.any(String),
      _version: 1,
    })
    expect(reply.headers.get('location')).toContain(`${SCRATCH}/${str(reply, 'id')}`)
    expect(reply.headers.get('etag')).toMatch(/\S/)
    expectStatus(await world.a.service.delete(`${SCRATCH}/${str(reply, 'id')}`), 200)
  })

  test('document: PUT: sets the named fields, keeps the others', async () => {
    const id = str(await world.a.service.post(SCRATCH, { name: 'Fay', age: 1, mark: world.a.mark }), 'id')
    const put = await world.a.service.put(`${SCRATCH}/${id}`, { age: 2 })
    expectStatus(put, 200)
    expect(put.body).toMatchObject({ id, name: 'Fay', age: 2, _version: 2 })
    expect((await world.a.service.get(`${SCRATCH}/${id}`)).body).toMatchObject({ name: 'Fay', age: 2 })
    expectStatus(await world.a.service.delete(`${SCRATCH}/${id}`), 200)
  })

  test('document: DELETE: returns the deleted id; again: 404', async () => {
    const id = str(await world.a.service.post(SCRATCH, { name: 'Gus', mark: world.a.mark }), 'id')
    const deleted = await world.a.service.delete(`${SCRATCH}/${id}`)
    expectStatus(deleted, 200)
    expect(deleted.body).toMatchObject({ id, deleted: true })
    expectProblem(await world.a.service.delete(`${SCRATCH}/${id}`), 404)
  })

  test.each(['GET', 'PUT', 'DELETE'])(
    '%s: document of another tenant: 404 identical to that of a missing one',
    async (method) => {
      const foreignId = str(list(await ask('name=eq.Ada'))[0], 'id')
      const missingId = `${foreignId.slice(0, -6)}ffffff`
      const sent = method === 'PUT' ? { json: { name: 'stolen' } } : {}
      const seen = await world.b.service.send(method, `${PEOPLE}/${foreignId}`, sent)
      const missing = await world.b.service.send(method, `${PEOPLE}/${missingId}`, sent)
      expectProblem(seen, 404)
      expect(anonymous(seen, foreignId)).toBe(anonymous(missing, missingId))
      expect(names(await ask('name=eq.Ada'))).toEqual(['Ada'])
    },
  )

  test('anon key: document written by a service key: readable', async () => {
    expect(names(await world.a.anon.get(`${PEOPLE}?name=eq.Ada`))).toEqual(['Ada'])
  })
})

describe('filters', () => {
  test.each([
    ['eq', 'name=eq.Ada', ['Ada']],
    ['neq', 'status=neq.active', ['Cem', 'adele']],
    ['gt', 'age=gt.36', ['Cem', 'adele']],
    ['gte', 'age=gte.36', ['Ada', 'Cem', 'adele']],
    ['lt', 'age=lt.36', ['Ben', 'Dora']],
    ['lte', 'age=lte.36', ['Ada', 'Ben', 'Dora']],
    ['in', 'name=in.(Ben,Dora,Nobody)', ['Ben', 'Dora']],
    ['like', 'name=like.A%25', ['Ada']],
    ['like with a bare %', 'name=like.A%', ['Ada']],
    ['ilike', 'name=ilike.a%25', ['Ada', 'adele']],
    ['json_path_eq', 'profile=json_path_eq.($.city,Berlin)', ['Ben', 'Dora']],
    ['json_path_eq over a list', 'tags=json_path_eq.([*],art)', ['Cem', 'Dora']],
  ])('filter: %s: finds the matching documents', async (_, query, expected) => {
    expect(names(await ask(query))).toEqual(expected)
  })

  test('filter: same field twice: both conditions apply', async () => {
    expect(names(await ask('age=gte.20&age=lt.40'))).toEqual(['Ada', 'Ben', 'Dora'])
  })

  test('filter: eq with a number as text: finds the number', async () => {
    expect(names(await ask('age=eq.41'))).toEqual(['Cem'])
  })

  test('filter: in.(): finds nothing', async () => {
    expect(names(await ask('name=in.()'))).toEqual([])
  })

  test('filter: no operator: 400 filter_operator_missing', async () => {
    expectProblem(await ask('status=active'), 400, 'filter_operator_missing')
  })

  test('filter: eq.null: 400 filter_null_operator', async () => {
    expectProblem(await ask('status=eq.null'), 400, 'filter_null_operator')
  })

  test('filter: unknown operator: 400 that lists the valid ones', async () => {
    const reply = await ask('status=equals.active')
    expectProblem(reply, 400)
    expect(reply.text).toContain('ilike')
  })

  test('filter: SQL in a value: treated as text', async () => {
    expect(names(await ask(`name=eq.${encodeURIComponent("x' or '1'='1")}`))).toEqual([])
    expect(names(await ask(`${encodeURIComponent("name' or '1'='1")}=eq.x`))).toEqual([])
  })
})

describe('selection, order, pages', () => {
  test('select: named fields: those and the id', async () => {
    const [row] = list(await ask('select=name,age&name=eq.Ada'))
    expect(row).toEqual({ id: expect.any(String), name: 'Ada', age: 36 })
  })

  test('order: <field>.desc: descending', async () => {
    expect(names(await ask('order=age.desc&select=name')).slice(0, 3)).toEqual(['adele', 'Cem', 'Ada'])
  })

  test('order: two fields: sorted by both', async () => {
    expect(names(await ask('order=status.asc,age.desc'))).toEqual(['Ada', 'Dora', 'Ben', 'adele', 'Cem'])
  })

  test('order: none given: by creation', async () => {
    expect(names(await ask(''))).toEqual(ROWS.map(({ name }) => name))
  })

  test.each([
    ['brackets', 'page[size]', 'page[after]'],
    ['escaped brackets', 'page%5Bsize%5D', 'page%5Bafter%5D'],
  ])('pages: with ties, %s: each document once', async (_, size, after) => {
    const seen: unknown[] = []
    let next: string | undefined = ''
    for (let pages = 0; next !== undefined && pages < 9; pages++) {
      const from = next === '' ? '' : `&${after}=${encodeURIComponent(next)}`
      const reply = await ask(`order=status.desc&${size}=2${from}`)
      seen.push(...names(reply))
      expect(list(reply).length).toBeLessThanOrEqual(2)
      expect(get(reply, 'page/size')).toBe(2)
      const more = get(reply, 'page/has_more')
      expect(more).toBe(get(reply, 'page/next') !== null)
      next = more === true ? str(reply, 'page/next') : undefined
    }
    expect(seen).toHaveLength(ROWS.length)
    expect(new Set(seen)).toEqual(new Set(ROWS.map(({ name }) => name)))
  })

  test('page size: not given: 50', async () => {
    expect(get(await ask(''), 'page/size')).toBe(50)
  })

  test.each(['0', '-1', '201', 'many'])('page[size]: %s: 400, never clamped', async (size) => {
    expectProblem(await ask(`page[size]=${size}`), 400)
  })

  test('cursor: used with another order: 400 cursor_mismatch', async () => {
    const cursor = str(await ask('order=age.desc&page[size]=1'), 'page/next')
    const reply = await ask(`order=name.asc&page[size]=1&page[after]=${encodeURIComponent(cursor)}`)
    expectProblem(reply, 400, 'cursor_mismatch')
  })

  test('cursor: forged: 400 cursor_invalid', async () => {
    expectProblem(await ask('page[after]=c1_Zm9yZ2Vk'), 400, 'cursor_invalid')
  })

  test('cursor: of another tenant: 400', async () => {
    const cursor = str(await ask('page[size]=1'), 'page/next')
    const query = `page[size]=1&page[after]=${encodeURIComponent(cursor)}`
    expectProblem(await world.b.service.get(`${PEOPLE}?${query}`), 400)
  })
})

describe('structured queries', () => {
  const query = (body: unknown) => world.a.service.post('/v1/collections/people/query', body)

  test('structured query: filter, sort and limit: applied', async () => {
    const reply = await query({ filter: { status: 'active' }, sort: { name: -1 }, limit: 2 })
    expect(names(reply)).toEqual(['Dora', 'Ben'])
    expect(reply.body).toHaveProperty('page')
  })

  test('structured query: sort 1: ascending', async () => {
    expect(names(await query({ filter: { status: 'active' }, sort: { name: 1 } }))).toEqual([
      'Ada',
      'Ben',
      'Dora',
    ])
  })

  test('structured query: operators as objects: applied', async () => {
    expect(names(await query({ filter: { age: { gte: 20, lt: 40 } } }))).toEqual(['Ada', 'Ben', 'Dora'])
  })

  test('structured query: text compared with a number: JSON types are exact, no match', async () => {
    expect(names(await query({ filter: { age: '41' } }))).toEqual([])
    expect(names(await query({ filter: { age: 41 } }))).toEqual(['Cem'])
  })

  test('structured query: unknown operator: 400', async () => {
    expectProblem(await query({ filter: { age: { $where: 'sleep(1)' } } }), 400)
  })

  test('structured query: in tenant B: finds only its own documents', async () => {
    const reply = await world.b.service.post('/v1/collections/people/query', { filter: { age: 36 } })
    expect(names(reply)).toEqual(['Bea'])
  })
})

describe('hostile documents', () => {
  const HOSTILE = '/v1/collections/rough/documents'

  beforeAll(async () => {
    expectStatus(await world.a.service.post(HOSTILE, { mark: world.a.mark }), 201)
  })

  afterEach(async () => {
    const rows = list(await world.a.service.get(HOSTILE)).filter((row) => get(row, 'mark') === undefined)
    for (const row of rows) await world.a.service.delete(`${HOSTILE}/${str(row, 'id')}`)
  })

  test('cursor: forged: problem, the platform keeps working', async () => {
    for (const cursor of ['x', 'null', '{}', 'c1_', 'A'.repeat(3000), "' or 1=1 --"]) {
      expectProblem(await ask(`page[after]=${encodeURIComponent(cursor)}`), 400)
    }
    await expectUnaffected(world)
  })

  test('document: 2 MB: 413, not stored', async () => {
    const reply = await world.a.service.post(HOSTILE, { big: 'x'.repeat(2 * 1024 * 1024) })
    expectProblem(reply, 413)
    expect(list(await world.a.service.get(HOSTILE))).toHaveLength(1)
    await expectUnaffected(world)
  })

  test.each([
    ['malformed JSON', '{"a":'],
    ['list', '[1]'],
    ['text', '"x"'],
    ['NUL', String.raw`{"a":"\u0000"}`],
    ['unsafe number', '{"a":9007199254740993}'],
    ['reserved name', '{"_version":9}'],
    ['name with a dollar', '{"$where":1}'],
    ['deep nesting', `${'{"a":'.repeat(5000)}1${'}'.repeat(5000)}`],
  ])('document: %s: problem, not stored', async (_, raw) => {
    const headers = { 'content-type': 'application/json' }
    const reply = await world.a.service.send('POST', HOSTILE, { raw, headers })
    expectProblem(reply, reply.status === 422 ? 422 : 400)
    expect(list(await world.a.service.get(HOSTILE))).toHaveLength(1)
    await expectUnaffected(world)
  })

  test('document: another media type: 415', async () => {
    const headers = { 'content-type': 'text/plain' }
    expectProblem(await world.a.service.send('POST', HOSTILE, { raw: 'a', headers }), 415)
  })
})

test('tenant isolation: after all tests: B received nothing of A and is unchanged', () =>
  expectIsolated(world))
