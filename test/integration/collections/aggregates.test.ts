/** Aggregates through the API: groups, measures, buckets, conditions on groups, order, pages, and spellings that there are not. */

import { beforeAll, describe, expect, test } from 'vitest'
import {
  call,
  createTestWorkspace,
  type Reply,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
beforeAll(async () => {
  workspace = await createTestWorkspace()
})

const PROPERTIES = {
  status: { type: 'string' },
  amount: { type: 'integer' },
  price: { type: 'number' },
  paid: { type: 'boolean' },
  at: { type: 'string', format: 'date-time' },
  due: { type: 'string', format: 'date' },
  address: { type: 'object' },
}
const ORDERS = [
  {
    status: 'open',
    amount: 10,
    price: 0.1,
    paid: true,
    at: '2026-03-28T23:30:00Z',
    due: '2026-02-28',
    address: { city: 'Rome' },
  },
  {
    status: 'open',
    amount: 20,
    price: 0.2,
    paid: false,
    at: '2026-03-29T00:30:00+01:00',
    due: '2026-03-01',
    address: { city: 'Bonn' },
  },
  {
    status: 'paid',
    amount: 5,
    price: 1.5,
    paid: true,
    at: '2026-03-29T21:59:59Z',
    due: '2026-03-31',
    address: { city: 'Rome' },
  },
  { status: 'paid', at: '2026-03-29T22:00:00Z', due: '2026-04-01' },
  { amount: 7 },
]

const STORES = ['declared', 'undeclared'] as const

async function filled(kind: (typeof STORES)[number], documents: readonly object[]): Promise<string> {
  const collection = unique('orders')
  if (kind === 'declared') await declare(collection)
  const ops = documents.map((data) => ({ op: 'create', data }))
  const made = await call('POST', `/v1/collections/${collection}/batch`, {
    as: workspace.service,
    body: { ops },
  })
  expect(made.status, JSON.stringify(made.body)).toBe(200)
  return collection
}

async function declare(collection: string): Promise<void> {
  const body = {
    ...{ workspace_id: workspace.workspaceId, collection, store: 'relational' },
    schema: { type: 'object', properties: PROPERTIES, additionalProperties: false },
    indexes: [{ fields: ['status'] }],
  }
  const reply = await call('POST', '/v1/schemas', { as: workspace.operator, body })
  expect(reply.status, JSON.stringify(reply.body)).toBe(201)
}

const aggregate = (collection: string, query: Record<string, string>): Promise<Reply> =>
  call('GET', `/v1/collections/${collection}/aggregate?${new URLSearchParams(query)}`, {
    as: workspace.service,
  })

const aggregateBody = (collection: string, body: object): Promise<Reply> =>
  call('POST', `/v1/collections/${collection}/aggregate`, { as: workspace.service, body })

describe.each(STORES)('%s collection', (kind) => {
  let orders: string
  beforeAll(async () => {
    orders = await filled(kind, ORDERS)
  })

  test('groups by a field: one row for each value, null and missing together', async () => {
    const reply = await aggregate(orders, { select: 'status,n:count()' })
    expect(reply.body).toEqual({
      data: [
        { status: 'open', n: 2 },
        { status: 'paid', n: 2 },
        { status: null, n: 1 },
      ],
      page: { size: 1000, next: null, has_more: false },
    })
  })

  test('no groups: one object; of no documents, counts are 0 and other measures null', async () => {
    const select =
      'n:count(),amounts:amount.count(),kinds:status.count_distinct(),total:amount.sum(),mean:amount.avg(),least:amount.min(),most:amount.max(),prices:price.sum()'
    expect((await aggregate(orders, { select })).body).toEqual({
      ...{ n: 5, amounts: 4, kinds: 2, total: 42, mean: 10.5, least: 5, most: 20 },
      prices: 1.8,
    })
    expect((await aggregate(orders, { select, status: 'eq.lost' })).body).toEqual({
      ...{ n: 0, amounts: 0, kinds: 0, total: null, mean: null, least: null, most: null, prices: null },
    })
  })

  test('JSON form: the same tree as the URL', async () => {
    const url = await aggregate(orders, {
      select: 'city:address.city,day:at.bucket(day,Europe/Berlin),n:count(),total:amount.sum()',
      ...{ status: 'in.(open,paid)', having: 'total.gt.1,n.gte.1', order: 'total.desc,city' },
    })
    const json = await aggregateBody(orders, {
      group: { city: 'address.city', day: { bucket: 'at', by: 'day', tz: 'Europe/Berlin' } },
      measures: { n: { count: true }, total: { sum: 'amount' } },
      filter: { status: { in: ['open', 'paid'] } },
      having: { total: { gt: 1 }, n: { gte: 1 } },
      sort: ['total.desc', 'city'],
    })
    expect(url.status, JSON.stringify(url.body)).toBe(200)
    expect(url.body.data).toEqual([
      { city: 'Bonn', day: '2026-03-29T00:00:00+01:00', n: 1, total: 20 },
      { city: 'Rome', day: '2026-03-29T00:00:00+01:00', n: 2, total: 15 },
    ])
    expect(json.body).toEqual(url.body)
    const list = await aggregateBody(orders, { group: ['status'], measures: { n: { count: 'amount' } } })
    expect(list.body.data).toEqual([
      { status: 'open', n: 2 },
      { status: 'paid', n: 1 },
      { status: null, n: 1 },
    ])
  })

  test('buckets: a day of a zone is 23 hours long when clocks go forward', async () => {
    const select = 'day:at.bucket(day,Europe/Berlin),n:count()'
    expect((await aggregate(orders, { select })).body.data).toEqual([
      { day: '2026-03-29T00:00:00+01:00', n: 3 },
      { day: '2026-03-30T00:00:00+02:00', n: 1 },
      { day: null, n: 1 },
    ])
    const inUtc = await aggregate(orders, { select: 'at.bucket(month),n:count()' })
    expect(inUtc.body.data[0]).toEqual({ bucket: '2026-03-01T00:00:00Z', n: 4 })
    const made = await aggregate(orders, { select: 'year:_created_at.bucket(year),n:count()' })
    expect(made.body.data).toEqual([{ year: expect.stringMatching(/^\d{4}-01-01T00:00:00Z$/), n: 5 }])
  })

  test('a field given twice, and all spellings of an extreme: first and last in order', async () => {
    const select =
      'first:status.min(),last:status.max(),begin:at.min(),end:at.max(),v:_version.max(),who:_owner.min()'
    expect((await aggregate(orders, { select })).body).toEqual({
      ...{ first: 'open', last: 'paid', begin: '2026-03-28T23:30:00Z', end: '2026-03-29T22:00:00Z' },
      ...{ v: 1, who: null },
    })
  })

  test('order and pages: every group once, in every order', async () => {
    for (const order of ['total.desc', 'total', 'n.desc,total.desc.nullslast', 'status.desc', '']) {
      const query = {
        select: 'status,city:address.city,n:count(),total:amount.sum()',
        ...(order && { order }),
      }
      const whole = await aggregate(orders, query)
      const seen: unknown[] = []
      for (let after = ''; ; ) {
        const page = await aggregate(orders, {
          ...query,
          'page[size]': '1',
          ...(after && { 'page[after]': after }),
        })
        expect(page.status, JSON.stringify(page.body)).toBe(200)
        seen.push(...page.body.data)
        if (!page.body.page.has_more) break
        after = page.body.page.next
      }
      expect(seen).toEqual(whole.body.data)
      expect(seen).toHaveLength(5)
    }
  })

  test('cursor: of another aggregate or of a list: refused', async () => {
    const query = { select: 'status,n:count()', 'page[size]': '1' }
    const { next } = (await aggregate(orders, query)).body.page
    const other = await aggregate(orders, { ...query, select: 'status,m:count()', 'page[after]': next })
    expect(other.body.code).toBe('cursor_mismatch')
    const forged = await aggregate(orders, { ...query, 'page[after]': `${next.slice(0, -2)}xx` })
    expect(forged.body.code).toBe('cursor_invalid')
    const path = `/v1/collections/${orders}/documents?page[after]=${encodeURIComponent(next)}`
    expect((await call('GET', path, { as: workspace.service })).body.code).toBe('cursor_mismatch')
  })

  test('sums: exact; one that a JSON number would round is refused', async () => {
    const [large, one] = [9_007_199_254_740_991, 1]
    const exact = await filled(kind, [
      { amount: large, price: 0.1 },
      { amount: one, price: 0.2 },
    ])
    const sum = (query: object = {}) =>
      aggregate(exact, { select: 'total:amount.sum(),price:price.sum()', ...query })
    expect((await sum()).body).toEqual({ total: 9_007_199_254_740_992, price: 0.3 })
    await call('POST', `/v1/collections/${exact}/documents`, { as: workspace.service, body: { amount: 1 } })
    const refused = await sum()
    expect([refused.status, refused.body.code]).toEqual([400, 'number_unsafe'])
    expect(refused.body.detail).toContain('9007199254740993')
    expect((await aggregate(exact, { select: 'mean:amount.avg()' })).body).toEqual({
      mean: 3_002_399_751_580_331,
    })
  })
})

describe('declared fields', () => {
  let orders: string
  beforeAll(async () => {
    orders = await filled('declared', [
      ...ORDERS,
      { status: 'open', at: '2026-03-29T00:30:00.000+01:00', paid: true, due: '2026-03-01' },
    ])
  })

  test('texts that mean the same point in time are one group, and one value', async () => {
    const reply = await aggregate(orders, { select: 'at,n:count()', status: 'eq.open', order: 'n.desc' })
    expect(reply.body.data[0].n).toBe(3)
    const { body } = await aggregate(orders, { select: 'n:at.count_distinct()', status: 'eq.open' })
    expect(body).toEqual({ n: 1 })
  })

  test('dates have periods, but neither hours nor a zone', async () => {
    const reply = await aggregate(orders, { select: 'month:due.bucket(month),n:count()' })
    expect(reply.body.data).toEqual([
      { month: '2026-02-01', n: 1 },
      { month: '2026-03-01', n: 3 },
      { month: '2026-04-01', n: 1 },
      { month: null, n: 1 },
    ])
    for (const select of ['due.bucket(hour)', 'due.bucket(day,Europe/Berlin)'])
      expect((await aggregate(orders, { select })).body).toMatchObject({
        status: 400,
        code: 'select_invalid',
      })
  })

  test('texts of the formats decimal and int64: summed as numbers, and answered as texts', async () => {
    const collection = unique('exact')
    const properties = {
      shop: { type: 'string' },
      price: { type: 'string', format: 'decimal' },
      views: { type: 'string', format: 'int64' },
    }
    const body = {
      workspace_id: workspace.workspaceId,
      collection,
      store: 'relational',
      schema: { type: 'object', properties },
    }
    expect((await call('POST', '/v1/schemas', { as: workspace.operator, body })).status).toBe(201)
    for (const [shop, price, views] of [
      ['a', '0.10', '9223372036854775807'],
      ['a', '1234567890123456789.20', '9223372036854775807'],
      ['b', '-3', '1'],
      ['c', '10.5', '-2'],
    ])
      await call('POST', `/v1/collections/${collection}/documents`, {
        as: workspace.service,
        body: { shop, price, views },
      })
    const select = 'shop,total:price.sum(),views:views.sum(),least:price.min(),most:price.max()'
    const row = (shop: string, total: string, views: string, least = total, most = total) => ({
      shop,
      total,
      views,
      least,
      most,
    })
    const rows = [
      row('a', '1234567890123456789.30', '18446744073709551614', '0.10', '1234567890123456789.20'),
      row('c', '10.5', '-2'),
      row('b', '-3', '1'),
    ]
    expect((await aggregate(collection, { select, order: 'total.desc' })).body.data).toEqual(rows)
    const having = (text: string) => aggregate(collection, { select, order: 'total.desc', having: text })
    expect((await having('total.gt.9.99')).body.data).toEqual(rows.slice(0, 2))
    expect((await having('views.gte.18446744073709551614')).body.code).toBe('number_unsafe')
    expect((await having('views.gte."18446744073709551614"')).body.data).toEqual(rows.slice(0, 1))
    const page = await aggregate(collection, { select, order: 'total.desc', 'page[size]': '2' })
    const next = { select, order: 'total.desc', 'page[size]': '2', 'page[after]': page.body.page.next }
    expect((await aggregate(collection, next)).body.data).toEqual(rows.slice(2))
    expect((await aggregate(collection, { select: 'price.avg()', shop: 'in.(b,c)' })).body).toEqual({
      avg: 3.75,
    })
  })

  test.each([
    ['status.sum()', 'status is declared as string; sum needs numbers.'],
    ['at.avg()', 'at is declared as date-time; avg needs numbers.'],
    ['paid.max()', 'paid is declared as boolean, which has no order.'],
    ['_created_at.sum()', '_created_at is declared as timestamp; sum needs numbers.'],
    ['amount.bucket(day)', 'amount is declared as integer, which is no time.'],
    ['nowhere', 'nowhere is not a field of this collection'],
    ['amoun.sum()', 'amoun is not a field of this collection'],
  ])('%s: refused with the reason', async (select, reason) => {
    const reply = await aggregate(orders, { select })
    expect(reply.body).toMatchObject({ status: 400, code: 'select_invalid' })
    expect(reply.body.detail).toContain(reason)
  })

  test('having: its values have the types of the measures', async () => {
    const ask = (having: string) =>
      aggregate(orders, { select: 'status,n:count(),end:at.max(),least:status.min()', having })
    expect((await ask('end.gte.2026-03-29T23:00:00+01:00')).body.data).toMatchObject([{ status: 'paid' }])
    expect((await ask('or(n.gt.2,least.eq.paid)')).body.data).toHaveLength(2)
    expect((await ask('(end.is.null)')).body.data).toEqual([{ status: null, n: 1, end: null, least: null }])
    expect((await ask('n.gt.many')).body.code).toBe('filter_type_mismatch')
    expect((await ask('n.like.1*')).body.code).toBe('filter_type_mismatch')
  })
})

describe('spellings that there are not', () => {
  test.each([
    ['*', 'Write count() for the number of documents, or name the fields to group by.'],
    ['count', 'Write count(). A field of that name is written in quotes: "count".'],
    ['status,n:count', 'Write count(). A field of that name is written in quotes: "count".'],
    ['amount.sum', 'Write amount.sum(). A field of that name is written in quotes: amount."sum".'],
    ['sum(amount)', 'Write amount.sum().'],
    ['count(*)', 'Write count().'],
    ['count(distinct status)', 'Write status.count_distinct().'],
    ['amount.total()', 'Write amount.sum().'],
    ['amount.average()', 'Write amount.avg().'],
    ['amount.smu()', 'Write amount.sum().'],
    ['_created_at.day()', 'Write _created_at.bucket(day,Europe/Berlin).'],
    ["date_trunc('day',_created_at)", 'Write _created_at.bucket(day,Europe/Berlin).'],
    ['amount.sum() as total', 'A name stands before: total:amount.sum()'],
    ['status as s', 'A name stands before: s:status. A field of that name is written in quotes.'],
    ['amount::text', 'Leave the type out. Numbers are summed exactly.'],
    ['address.city,n:count()', 'Write city:address.city.'],
    [
      'customer(name)',
      'There are count(), amount.count_distinct(), .sum(), .avg(), .min(), .max() and .bucket(day). Related documents are not aggregated.',
    ],
    ['_created_at.bucket(days)', 'Did you mean day?'],
    ['_created_at.bucket(day,Europe/Berln)', 'Did you mean Europe/Berlin?'],
    [
      '_created_at.bucket(day,CET)',
      'Write the IANA name of an area and a place, such as Europe/Berlin, or UTC.',
    ],
    ['sum()', 'Write amount.sum().'],
    ['n:count(),n:amount.sum()', 'Give each one its own name, such as paid:amount.sum().'],
  ])('select=%s: 400 with the spelling that there is', async (select, hint) => {
    const reply = await aggregate('orders', { select })
    expect(reply.body).toMatchObject({ status: 400, code: 'select_invalid', hint })
  })

  test.each([
    [{ having: 'total.gt.1' }, 'filter_invalid', 'There are n.'],
    [{ having: 'status.eq.open' }, 'filter_invalid', 'Filter the documents instead: status=eq.…'],
    [{ having: 'm.gt.1' }, 'filter_invalid', 'Did you mean n?'],
    [{ order: 'amount.desc' }, 'order_invalid', 'There are status, n.'],
    [{ order: '-n' }, 'order_invalid', expect.stringContaining('Write n.desc')],
    [{ 'page[size]': '10001' }, 'validation_failed', undefined],
    [{ limit: '5' }, 'unknown_parameter', expect.stringContaining('page[size]=20')],
  ])('%j: refused', async (query, code, hint) => {
    const reply = await aggregate('orders', {
      select: 'status,n:count()',
      ...(query as Record<string, string>),
    })
    expect(reply.body).toMatchObject({ status: 400, code, ...(hint !== undefined && { hint }) })
  })

  test('lists: an aggregate, or having, names the route', async () => {
    const list = (query: string) =>
      call('GET', `/v1/collections/orders/documents?${query}`, { as: workspace.service })
    for (const part of ['total.sum()', 'n:count()', 'count()'])
      expect((await list(`select=${part}`)).body).toMatchObject({
        ...{ status: 400, code: 'select_invalid', hint: `Write GET …/aggregate?select=${part}.` },
      })
    const { body } = await list('having=n.gt.1')
    expect(body).toMatchObject({ status: 400, code: 'unknown_parameter' })
    expect(body.hint).toContain('GET …/aggregate')
  })

  test.each([
    [{ measures: { n: 'count' } }, 'validation_failed'],
    [{ measures: { n: { total: 'amount' } } }, 'select_invalid'],
    [{ measures: { n: { sum: true } } }, 'select_invalid'],
    [{ measures: { n: { sum: 'a', count: true } } }, 'select_invalid'],
    [{ measures: { n: { bucket: '_created_at' } } }, 'select_invalid'],
    [{ measures: { _n: { count: true } } }, 'select_invalid'],
    [{ measures: {} }, 'select_invalid'],
    [{ group: ['address.city'] }, 'select_invalid'],
    [{ group: { day: { bucket: '_created_at', by: 'day', zone: 'UTC' } } }, 'validation_failed'],
    [{ group: { day: { bucket: '_created_at', by: 'day', tz: 'Mars/Base' } } }, 'select_invalid'],
    [{ measures: { n: { count: true } }, having: { n: { gt: 1 } } }, 'filter_invalid'],
    [{ measures: { n: { count: true } }, sort: { n: -1 } }, 'order_invalid'],
  ])('JSON %j: refused', async (body, code) => {
    expect((await aggregateBody('orders', body)).body).toMatchObject({ status: 400, code })
  })
})
