/** The query grammar through the API: results, order, pages, refusals. */

import { beforeAll, describe, expect, test } from 'vitest'
import { FOUND, FOUND_BY_JSON, ORDERED, PEOPLE } from '../../support/fixtures/odd-documents.ts'
import { call, createTestWorkspace, type Reply, type TestWorkspace } from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
  for (const fields of PEOPLE) await call('POST', at('people'), { as: workspace.service, body: fields })
})

const at = (collection: string) => `/v1/collections/${collection}/documents`

/** A query as it appears in the URL; escapes only what has to be. */
const list = (query: string, collection = 'people'): Promise<Reply> =>
  call('GET', `${at(collection)}?${query.replaceAll(' ', '%20')}`, { as: workspace.service })

const query = (body: unknown, collection = 'people'): Promise<Reply> =>
  call('POST', `/v1/collections/${collection}/query`, { as: workspace.service, body })

const names = ({ status, body }: Reply): string =>
  status === 200 ? body.data.map(({ n }: { n: string }) => n).join(' ') : body.code

describe('filter operators', () => {
  test.each(FOUND)('filter: %s: finds %s', async (text, found) => {
    expect(names(await list(text))).toBe(found)
  })
})

describe('filter operators in JSON', () => {
  test.each(FOUND_BY_JSON)('JSON filter: %j: finds %s', async (body, found) => {
    expect(names(await query(body))).toBe(found)
  })
})

describe('order', () => {
  test.each(ORDERED)('order: %s: gives %s', async (text, found) => {
    expect(names(await list(text))).toBe(found)
  })
})

describe('select', () => {
  test.each([
    ['select=n', { n: 'ada' }],
    ['select=n,address.city', { n: 'ada', address: { city: 'London' } }],
    ['select=address.city,address', { address: { city: 'London', zip: '01234' } }],
    ['select=_version,missing,n.x,tags.0', { _version: 1 }],
    ['select=id', {}],
    ['select="n"', { n: 'ada' }],
  ])('select: %s: returns the named fields', async (text, fields) => {
    const { body } = await list(`n=eq.ada&${text}`)
    const [{ id, ...rest }] = body.data
    expect(id).toMatch(/^[0-9a-f-]{36}$/)
    expect(rest).toEqual(fields)
  })

  test('select: star, or a list in JSON: returns all fields', async () => {
    const all = await list('n=eq.ada')
    expect((await list('n=eq.ada&select=*')).body).toEqual(all.body)
    expect(all.body.data[0]).toHaveProperty('_created_at')
    const { body } = await query({ filter: { n: 'ada' }, select: ['n', 'age'] })
    expect(Object.keys(body.data[0])).toEqual(['id', 'n', 'age'])
  })
})

describe('refused queries', () => {
  test.each([
    ['status=active', 'filter_operator_missing', 'status=eq.active'],
    ['age=1.5', 'filter_operator_missing', 'age=eq.1.5'],
    ['age=gtee.5', 'filter_operator_unknown', 'age=gte.…'],
    ['age=EQ.5', 'filter_operator_missing', ''],
    ['age=eq.null', 'filter_null_operator', 'is.null'],
    ['age=neq.null', 'filter_null_operator', 'is.null'],
    ['age=is.yes', 'filter_invalid', 'age=eq.'],
    ['age=in.5', 'filter_invalid', 'in.(a,b)'],
    ['age=in.(a,"b)', 'filter_invalid', ''],
    ['age=in.(a,"b"c)', 'filter_invalid', ''],
    ['age=in.(a)b)', 'filter_invalid', 'errors'],
    ['a..b=eq.1', 'filter_invalid', ''],
    ['.=eq.1', 'filter_invalid', ''],
    ['=eq.1', 'filter_invalid', ''],
    ['"a=eq.1', 'filter_invalid', ''],
    ['_secret=eq.1', 'filter_invalid', ''],
    ['a.b.c.d.e.f.g.h.i.j.k=eq.1', 'filter_invalid', ''],
    [`${'x'.repeat(201)}=eq.1`, 'filter_invalid', ''],
    ['a=eq.%00', 'filter_invalid', ''],
    ['%00=eq.1', 'filter_invalid', ''],
    ['limit=1', 'unknown_parameter', ''],
    ['limit=10', 'unknown_parameter', 'page[size]=20'],
    ['offset=10', 'unknown_parameter', 'page[after]='],
    ['page[before]=x', 'unknown_parameter', ''],
    ['page[size]=0', 'validation_failed', ''],
    ['page[size]=201', 'validation_failed', ''],
    ['page[size]=1.5', 'validation_failed', ''],
    ['page[size]=1e2', 'validation_failed', ''],
    ['page[size]=5&page[size]=6', 'validation_failed', ''],
    ['id=eq.7', 'filter_type_mismatch', ''],
    ['id=like.a*', 'filter_type_mismatch', ''],
    ['_version=eq.x', 'filter_type_mismatch', ''],
    ['_created_at=gt.yesterday', 'filter_type_mismatch', ''],
    ['x=json_path_eq.($..a,1)', 'filter_invalid', 'json_path_eq.'],
    ['x=json_path_eq.($[?(@.a)],1)', 'filter_invalid', ''],
    ['x=json_path_eq.(strict $.a,1)', 'filter_invalid', ''],
    ['x=json_path_eq.a', 'filter_invalid', ''],
    [`x=like.${'a*'.repeat(11)}`, 'filter_too_large', ''],
    ['select=a..b', 'select_invalid', ''],
    ['select=_private', 'select_invalid', ''],
  ])('query: %s: 400 %s', async (text, code, hint) => {
    const { status, body } = await list(text)
    expect([status, body.code]).toEqual([400, code])
    if (hint !== 'errors') expect(`${body.hint}`).toContain(hint)
    expect(JSON.stringify(body)).not.toMatch(/select .* from|jsonb_|syntax/)
  })

  test('filter: 50 conditions or 500 elements: accepted; one more: refused', async () => {
    const filters = (count: number) => Array.from({ length: count }, (_, n) => `f${n}=is.null`).join('&')
    const values = (count: number) => `n=in.(${Array.from({ length: count }, (_, n) => `v${n}`).join()})`
    expect((await list(filters(50))).body.data).toHaveLength(PEOPLE.length)
    expect(names(await list(filters(51)))).toBe('filter_too_large')
    expect((await list(values(500))).status).toBe(200)
    expect(names(await list(values(501)))).toBe('filter_too_large')
    const nested = Array.from({ length: 51 }, (_, n) => ({ n }))
    expect(names(await query({ filter: { $or: nested } }))).toBe('filter_too_large')
    const deep = (depth: number): unknown => (depth === 0 ? { n: 1 } : { $or: [deep(depth - 1)] })
    expect(names(await query({ filter: deep(20) }))).toBe('filter_invalid')
  })
})

describe('injection', () => {
  test.each([
    `n=eq.' or 1=1 --`,
    `"n' or '1'='1"=eq.1`,
    `"a'); drop table documents; --"=is.not_null`,
    'n=like..*',
    'n=like.(a+)+$',
    `n=in.("a','b","$1")`,
    'n=json_path_eq.(["\']; x,1)',
    `n=lt.'zzz`,
    'n=eq.1e400',
    'n=eq.99999999999999999999999999999999999999999999',
    'n=gt.1e308',
    'n=eq.-0',
    'items.99999999999=eq.1',
    'items.999999999=eq.1',
  ])('injection: %s: finds nothing, breaks nothing', async (text) => {
    const { status, body } = await list(text)
    expect([200, 400]).toContain(status)
    if (status === 200) expect(body.data).toEqual([])
  })
})

describe('pages', () => {
  const kinds = [1, 2, 2, 'a', 'b', 'b', true, false, null, undefined, [1], [], { x: 1 }, -1.5, '']

  /** Reads all pages of a query by following the cursor. */
  async function pages(
    text: string,
    size: number,
    between: (page: number) => Promise<unknown> = async () => {},
  ) {
    const seen: string[] = []
    let after = ''
    for (let page = 1; ; page++) {
      const reply = await list(`${text}&page[size]=${size}${after && `&page[after]=${after}`}`, 'paged')
      expect(reply.status).toBe(200)
      seen.push(...reply.body.data.map(({ id }: { id: string }) => id))
      after = reply.body.page.next ?? ''
      expect(reply.body.page.has_more).toBe(after !== '')
      if (after === '') return seen
      await between(page)
    }
  }

  beforeAll(async () => {
    for (const a of kinds) {
      for (const b of [1, 2, null]) await call('POST', at('paged'), { as: workspace.service, body: { a, b } })
    }
  })

  test.each([
    'order=id',
    'order=id.desc',
    'order=a',
    'order=a.desc',
    'order=a.nullsfirst',
    'order=a.desc.nullslast',
    'order=b,a.desc',
    'order=b.desc.nullslast,a.nullsfirst',
    'order=missing,b.desc',
    'order=_updated_at.desc,b',
    'order=_version,b,_created_at.desc',
    'b=is.null&order=a.desc',
  ])('pages: %s, one document each: the whole list', async (text) => {
    const whole = (await list(`${text}&page[size]=200`, 'paged')).body.data.map(
      ({ id }: { id: string }) => id,
    )
    expect(new Set(whole).size).toBe(text.startsWith('b=') ? kinds.length : kinds.length * 3)
    for (const size of [1, 4, 7]) expect(await pages(text, size)).toEqual(whole)
  })

  test('pages: documents are deleted in between, the last seen too: nothing else is lost', async () => {
    const whole = await pages('order=b,a', 200)
    const deleted: string[] = []
    const seen = await pages('order=b,a', 5, async (page) => {
      const id = whole[page * 5 - 1] ?? ''
      deleted.push(id)
      await call('DELETE', `${at('paged')}/${id}`, { as: workspace.service })
    })
    expect(seen).toEqual(whole)
    expect(await pages('order=b,a', 200)).toEqual(whole.filter((id) => !deleted.includes(id)))
  })

  test('pages: JSON query: same as in the URL', async () => {
    const body = { filter: { b: { neq: null } }, sort: { a: -1 }, limit: 8, select: 'b' }
    const first = await query(body, 'paged')
    expect(first.body.page).toMatchObject({ size: 8, has_more: true })
    const second = await query({ ...body, after: first.body.page.next }, 'paged')
    const [{ id }] = second.body.data
    expect(first.body.data.map((one: { id: string }) => one.id)).not.toContain(id)
  })

  test('cursor: used with another query, collection or workspace: refused', async () => {
    const { body } = await list('order=a&page[size]=2&b=eq.1', 'paged')
    const { next } = body.page
    const code = async (text: string, collection = 'paged', as = workspace.service) =>
      (await call('GET', `${at(collection)}?${text}&page[after]=${next}`, { as })).body.code
    expect(await code('order=a&b=eq.1')).toBeUndefined()
    expect(await code('order=a&b=eq.1&page[size]=9&select=a')).toBeUndefined()
    expect(await code('order=a.desc&b=eq.1')).toBe('cursor_mismatch')
    expect(await code('order=a&b=eq.2')).toBe('cursor_mismatch')
    expect(await code('order=a')).toBe('cursor_mismatch')
    expect(await code('order=a&b=eq.1', 'people')).toBe('cursor_mismatch')
    const otherTenant = await createTestWorkspace()
    expect(await code('order=a&b=eq.1', 'paged', otherTenant.service)).toBe('cursor_invalid')
  })

  test('cursor: forged: refused', async () => {
    const { body } = await list('order=a&page[size]=2', 'paged')
    const next: string = body.page.next
    expect(next).not.toContain(Buffer.from(body.data[1].id).toString('base64url').slice(0, 20))
    const middle = next.length >> 1
    const changed = next.slice(0, middle) + (next[middle] === 'A' ? 'B' : 'A') + next.slice(middle + 1)
    const plain = `c1_${Buffer.from(JSON.stringify(['x', [1, 'a']])).toString('base64url')}`
    for (const forged of [
      changed,
      plain,
      next.slice(3),
      `${next}=`,
      `${next.slice(0, -4)}`,
      'c1_',
      'c1_%00',
      '%EF%BF%BD',
    ]) {
      expect(names(await list(`order=a&page[after]=${forged}`, 'paged'))).toBe('cursor_invalid')
    }
    expect(names(await list(`page[after]=c1_${'A'.repeat(5_000)}`, 'paged'))).toBe('validation_failed')
  })

  test('cursor: field too large for a cursor: cursor_too_large', async () => {
    for (const n of [1, 2]) {
      await call('POST', at('long'), {
        as: workspace.service,
        body: { n: `${n}`, text: 'x'.repeat(200_000) },
      })
    }
    expect(names(await list('order=text&page[size]=1', 'long'))).toBe('cursor_too_large')
    expect(names(await list('order=text&page[size]=2', 'long'))).toBe('1 2')
  })
})
