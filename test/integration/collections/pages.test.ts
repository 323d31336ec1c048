/** Checks order, selection, pages, counts and cursors with ties, nulls, missing fields and deletions. */

import { beforeAll, describe, expect, test } from 'vitest'
import { expectProblem, expectStatus, get, list, type Reply, str } from '../../support/clients/rest-client.ts'
import {
  declareKind,
  documents,
  fill,
  KINDS,
  nullable,
  type Row,
  readAllPages,
  tags,
} from '../../support/fixtures/declared-collections.ts'
import { createTenantPair, expectIsolated, type World } from '../../support/fixtures/tenant-pair.ts'

let world: World

const ROWS: readonly Row[] = [
  { tag: 'a', n: 2, s: 'x', o: { deep: { v: 1, w: 2 }, flat: 'f' } },
  { tag: 'b', n: 1, s: 'y' },
  { tag: 'c', n: 2, s: 'y' },
  { tag: 'd', n: null, s: 'x' },
  { tag: 'e', s: 'x' },
  { tag: 'f', n: -5, s: 'Z' },
  { tag: 'g', n: 10, s: 'é' },
  { tag: 'h', n: 2 },
  { tag: 'i', n: null, s: null },
  { tag: 'j', n: 1.5, s: 'x' },
]
const PROPERTIES = {
  tag: { type: 'string' },
  n: nullable('number'),
  s: nullable('string'),
  o: { type: 'object' },
}

/** Each order with the expected tags; ties are broken by id in the direction of the last key. */
const ORDERS: readonly (readonly [string, string])[] = [
  ['', 'abcdefghij'],
  ['n', 'fbjachgdei'],
  ['n.asc', 'fbjachgdei'],
  ['n.desc', 'iedghcajbf'],
  ['n.asc.nullsfirst', 'deifbjachg'],
  ['n.nullsfirst', 'deifbjachg'],
  ['n.desc.nullslast', 'ghcajbfied'],
  ['s', 'fadejbcghi'],
  ['s.desc', 'ihgcbjedaf'],
  ['s.asc,n.desc', 'fedajcbgih'],
  ['s.desc.nullslast,n.asc', 'gbcjadefhi'],
  ['n.desc.nullslast,tag.asc', 'gachjbfdei'],
  ['id.desc', 'jihgfedcba'],
  ['_created_at.desc,tag.desc', 'jihgfedcba'],
]

beforeAll(async () => {
  world = await createTenantPair()
  for (const kind of KINDS) {
    await declareKind(world.a, kind, kind, PROPERTIES)
    await fill(world.a, kind, ROWS)
  }
  await fill(world.b, 'undeclared', ROWS.slice(0, 3))
})

const afterCursor = (cursor: string) => (cursor === '' ? '' : `&page[after]=${encodeURIComponent(cursor)}`)

describe.each(KINDS)('pages, %s collection', (kind) => {
  const ask = (query: string): Promise<Reply> => world.a.service.get(`${documents(kind)}?${query}`)
  const query = (body: Row): Promise<Reply> => world.a.service.post(`/v1/collections/${kind}/query`, body)

  test.each(ORDERS)('order: %s, whole and in pages: as expected', async (order, expected) => {
    expect(tags(await ask(`order=${order}`.replace(/^order=$/, ''))).join('')).toBe(expected)
    for (const size of [1, 3]) {
      const by = order === '' ? '' : `order=${order}&`
      const seen = await readAllPages((cursor) => ask(`${by}page[size]=${size}${afterCursor(cursor)}`), size)
      expect(seen.join('')).toBe(expected)
    }
  })

  test('order: nested path: missing values last', async () => {
    expect(tags(await ask('order=o.deep.v,tag.desc')).join('')).toBe('ajihgfedcb')
  })

  test.each([
    'order=n.descc',
    'order=n.asc.desc',
    'order=n.ascending',
    'order=n.desc.nulllast',
    'order=n,,s',
    'order=a,b,c,d,e,f,g,h,i',
  ])('order: %s: 400', async (order) => {
    expectProblem(await ask(order), 400)
  })

  test('pages: documents deleted in between: nothing lost, nothing repeated', async () => {
    const name = `del_${kind}`
    await declareKind(world.a, kind, name, PROPERTIES)
    const ids = await fill(world.a, name, ROWS)
    const page = (cursor: string) =>
      world.a.service.get(`${documents(name)}?order=n.desc&page[size]=4${afterCursor(cursor)}`)
    const first = await page('')
    expect(tags(first).join('')).toBe('iedg')
    // The last one of the page read, the next one, and the last of all.
    for (const tag of ['g', 'h', 'f']) {
      const id = ids[ROWS.findIndex((row) => row['tag'] === tag)]
      expectStatus(await world.a.service.delete(`${documents(name)}/${id}`), 200)
    }
    const second = await page(str(first, 'page/next'))
    expect(tags(second).join('')).toBe('cajb')
    expect(get(second, 'page')).toEqual({ size: 4, next: null, has_more: false })
  })

  test('pages: last page is full: has_more is false', async () => {
    const reply = await ask('page[size]=10')
    expect(get(reply, 'page')).toEqual({ size: 10, next: null, has_more: false })
  })

  test('select: named and nested fields: their shape is kept, always with the id', async () => {
    const one = async (select: string) => list(await ask(`tag=eq.a&select=${select}`))[0]
    const id = expect.any(String)
    expect(await one('tag')).toEqual({ id, tag: 'a' })
    expect(await one('id')).toEqual({ id })
    expect(await one('o.deep.v')).toEqual({ id, o: { deep: { v: 1 } } })
    expect(await one('o.deep.v,o.flat,n')).toEqual({ id, n: 2, o: { deep: { v: 1 }, flat: 'f' } })
    expect(await one('_version,tag')).toEqual({ id, tag: 'a', _version: 1 })
    expect(await one('*')).toMatchObject({ id, tag: 'a', n: 2, s: 'x', _version: 1 })
  })

  test('count: on request only, by parameter, Prefer header or JSON: total of the filter', async () => {
    expect(get(await ask(''), 'page')).not.toHaveProperty('total')
    const counted = await ask('s=eq.x&page[size]=2&count=exact')
    expect(get(counted, 'page')).toMatchObject({ size: 2, has_more: true, total: 4 })
    expect(get(await ask('count=estimated'), 'page/total')).toEqual(expect.any(Number))
    const preferred = await world.a.service.get(documents(kind), { prefer: 'count=exact' })
    expect(get(preferred, 'page/total')).toBe(10)
    expect(get(await query({ filter: { s: 'x' }, count: 'exact' }), 'page/total')).toBe(4)
  })

  test('structured query: sort, select, pages: applied', async () => {
    const body = { filter: { s: 'x' }, sort: { n: -1 }, select: ['tag'], limit: 3 }
    const first = await query(body)
    expect(list(first)).toEqual(['e', 'd', 'a'].map((tag) => ({ id: expect.any(String), tag })))
    const second = await query({ ...body, after: str(first, 'page/next') })
    expect(tags(second)).toEqual(['j'])
    expect(get(second, 'page')).toMatchObject({ next: null, has_more: false })
    expect(tags(await query({ sort: { s: 1, n: -1 } })).join('')).toBe('fedajcbgih')
  })

  test.each([
    { limit: 0 },
    { limit: 1001 },
    { limit: 1.5 },
    { limit: '5' },
    { sort: { n: 2 } },
    { sort: 'n' },
    { colour: 1 },
    { after: 'x' },
  ])('structured query: %j: 400', async (body) => {
    expectProblem(await query(body), 400)
  })

  test.each(['0', '-1', 'abc', '1e9', '1.5', '201', ''])('page[size]: %s: 400', async (size) => {
    expectProblem(await ask(`page[size]=${size}`), 400)
  })

  test('cursor: used with another filter or order: refused', async () => {
    const made = await ask('s=eq.x&order=n.desc&page[size]=1')
    const next = afterCursor(str(made, 'page/next'))
    expect(tags(await ask(`s=eq.x&order=n.desc&page[size]=1${next}`))).toEqual(['d'])
    for (const other of [
      's=eq.y&order=n.desc',
      'order=n.desc',
      's=eq.x&order=n.asc',
      's=eq.x',
      's=eq.x&order=n.desc.nullslast',
      's=eq.x&n=gt.0&order=n.desc',
    ]) {
      expectProblem(await ask(`${other}&page[size]=1${next}`), 400, 'cursor_mismatch')
    }
  })

  test('cursor: of another collection or tenant: 400 cursor_mismatch', async () => {
    const next = afterCursor(str(await ask('page[size]=1'), 'page/next'))
    for (const other of KINDS.filter((name) => name !== kind)) {
      const reply = await world.a.service.get(`${documents(other)}?page[size]=1${next}`)
      expectProblem(reply, 400, 'cursor_mismatch')
    }
    const foreign = await world.b.service.get(`${documents(kind)}?page[size]=1${next}`)
    expectProblem(foreign, 400)
    expect(['cursor_mismatch', 'cursor_invalid']).toContain(get(foreign, 'code'))
  })

  test('cursor: changed at any position: 400 cursor_invalid; content: not readable', async () => {
    const cursor = str(await ask('order=s.desc&page[size]=4'), 'page/next')
    for (const at of [3, Math.floor(cursor.length / 2), cursor.length - 2]) {
      const letter = cursor[at] === 'A' ? 'B' : 'A'
      const forged = cursor.slice(0, at) + letter + cursor.slice(at + 1)
      expectProblem(await ask(`order=s.desc&page[size]=4${afterCursor(forged)}`), 400, 'cursor_invalid')
    }
    for (const forged of [cursor.slice(0, -4), `${cursor}AAAA`, 'c1_', 'null', '{}', 'é']) {
      expectProblem(await ask(`order=s.desc&page[size]=4${afterCursor(forged)}`), 400, 'cursor_invalid')
    }
    const parts = cursor.split(/[._]/).map((part) => Buffer.from(part, 'base64url').toString('latin1'))
    expect(parts.join()).not.toMatch(/tenant|ten_|undeclared|relational|document|"v"|1\.5/)
  })
})

describe('shape of a page', () => {
  const DOCUMENTS = documents('undeclared')

  test('page: envelope: data and page suffice to continue', async () => {
    const reply = await world.a.service.get(`${DOCUMENTS}?page[size]=3`)
    expect(reply.body).toMatchObject({
      data: expect.any(Array),
      page: { size: 3, next: expect.any(String), has_more: true },
    })
    expect(reply.headers.get('cache-control')).toContain('no-store')
    expect(reply.headers.get('x-request-id')).toMatch(/\S/)
  })

  test('page: size not given: 50; brackets escaped in the URL: as written', async () => {
    expect(get(await world.a.service.get(DOCUMENTS), 'page/size')).toBe(50)
    const ask = (cursor: string) =>
      world.a.service.get(
        `${DOCUMENTS}?order=n.desc&page%5Bsize%5D=2${cursor && `&page%5Bafter%5D=${encodeURIComponent(cursor)}`}`,
      )
    expect((await readAllPages(ask, 2)).join('')).toBe('iedghcajbf')
  })

  test('page: next page exists: Link header too', async () => {
    const reply = await world.a.service.get(`${DOCUMENTS}?order=n.desc&page[size]=4`)
    const [, next = ''] = /^<([^>]+)>; rel="next"$/.exec(reply.headers.get('link') ?? '') ?? []
    expect(tags(reply).join('')).toBe('iedg')
    const second = await world.a.service.get(next)
    expect(tags(second).join('')).toBe('hcaj')
    expect(get(second, 'page/size')).toBe(4)
  })

  test('order: mixed types: stable, each document once for any page size', async () => {
    const values = [3, 'b', true, null, [1], { a: 1 }, 1, 'a', false, undefined, 2, 'c']
    await fill(
      world.a,
      'mixed',
      values.map((v, n) => ({ tag: `m${n}`, v })),
    )
    for (const order of ['v.asc', 'v.desc']) {
      const ask = (query: string) => world.a.service.get(`${documents('mixed')}?order=${order}&${query}`)
      const whole = tags(await ask(''))
      expect(new Set(whole).size).toBe(values.length)
      expect(await readAllPages((cursor) => ask(`page[size]=1${afterCursor(cursor)}`), 1)).toEqual(whole)
      const numbers = whole.filter((tag) => ['m0', 'm6', 'm10'].includes(String(tag)))
      const texts = whole.filter((tag) => ['m1', 'm7', 'm11'].includes(String(tag)))
      const turned = (all: string[]) => (order === 'v.asc' ? all : all.toReversed())
      expect([numbers, texts]).toEqual([turned(['m6', 'm10', 'm0']), turned(['m7', 'm1', 'm11'])])
    }
  })

  test('collection route: unsupported method: 405 with Allow', async () => {
    const reply = await world.a.service.delete(DOCUMENTS)
    expectProblem(reply, 405)
    for (const method of ['GET', 'POST']) expect(reply.headers.get('allow')).toContain(method)
  })

  test('select: unknown name: absent', async () => {
    const reply = await world.a.service.get(`${DOCUMENTS}?tag=eq.a&select=tag,nothing`)
    expect(list(reply)).toEqual([{ id: expect.any(String), tag: 'a' }])
  })

  test('X-Request-Id: valid: returned', async () => {
    const reply = await world.a.service.get(DOCUMENTS, { 'x-request-id': 'test-0123456789' })
    expect(reply.headers.get('x-request-id')).toBe('test-0123456789')
  })

  test('HEAD: compared with GET: same headers, no body', async () => {
    const reply = await world.a.service.send('HEAD', DOCUMENTS)
    expectStatus(reply, 200)
    expect(reply.text).toBe('')
  })
})

test('tenant isolation: after all tests: B received nothing of A and is unchanged', () =>
  expectIsolated(world))
