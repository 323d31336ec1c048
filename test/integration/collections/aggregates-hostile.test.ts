/** Aggregates with hostile input: long selections, zones that are code, names that are markup, many groups, busy workspaces. */

import { beforeAll, expect, test } from 'vitest'
import {
  asSuperuser,
  call,
  createTestWorkspace,
  type Reply,
  type TestWorkspace,
  unique,
} from '../../support/fixtures/tenants.ts'

let workspace: TestWorkspace
let things: string
beforeAll(async () => {
  workspace = await createTestWorkspace()
  things = unique('things')
  await asSuperuser(
    `insert into tenon.documents (tenant_id, workspace_id, collection, id, data)
     select $1, $2, $3, gen_random_uuid(), jsonb_build_object('n', n, 'parity', n % 2) from generate_series(1, 11000) n`,
    [workspace.tenantId, workspace.workspaceId, things],
  )
})

const aggregate = (query: Record<string, string>): Promise<Reply> =>
  call('GET', `/v1/collections/${things}/aggregate?${new URLSearchParams(query)}`, { as: workspace.service })
const aggregateBody = (body: object): Promise<Reply> =>
  call('POST', `/v1/collections/${things}/aggregate`, { as: workspace.service, body })

test('11,000 groups: pages of at most 10,000, and every group once', async () => {
  const query = { select: 'n,parity,count()', 'page[size]': '10000' }
  const first = await aggregate(query)
  expect(first.body.page).toMatchObject({ size: 10_000, has_more: true })
  const second = await aggregate({ ...query, 'page[after]': first.body.page.next })
  expect(second.body.page).toMatchObject({ has_more: false, next: null })
  const all = [...first.body.data, ...second.body.data].map(({ n }) => n)
  expect(all).toEqual(Array.from({ length: 11_000 }, (_, at) => at + 1))
  expect((await aggregate({ select: 'n,count()' })).body.data).toHaveLength(1_000)
  expect((await aggregateBody({ group: ['n'], limit: 10_001 })).status).toBe(400)
})

test('a selection of 1 MB, of thousands of columns, or deep: refused, and the answer is small', async () => {
  const many = Array.from({ length: 500 }, (_, at) => `m${at}:n.sum()`)
  const inUrl = await aggregate({ select: many.join(',').slice(0, 3_000) })
  expect(inUrl.body).toMatchObject({ status: 400, code: 'select_invalid' })
  const measures = Object.fromEntries(many.map((_, at) => [`m${at}`, { sum: 'n' }]))
  expect((await aggregateBody({ measures })).body.code).toBe('validation_failed')
  const long = 'x'.repeat(1_000_000)
  for (const body of [
    { group: [long] },
    { group: { [long]: 'n' } },
    { measures: { n: { [long]: 'n' } } },
    { measures: { n: { sum: long } } },
    { group: { day: { bucket: 'at', by: long } } },
    { group: { day: { bucket: 'at', by: 'day', tz: long } } },
    { group: ['n'], having: { [long]: 1 } },
    { group: ['n'], sort: [long] },
  ]) {
    const reply = await aggregateBody(body)
    expect(reply.status).toBe(400)
    expect(JSON.stringify(reply.body).length).toBeLessThan(4_000)
  }
  expect((await aggregate({ select: '('.repeat(2_000) })).status).toBe(400)
  expect((await aggregate({ select: ':'.repeat(2_000) })).status).toBe(400)
  expect((await aggregate({ select: 'n', having: '('.repeat(2_000) })).status).toBe(400)
})

test.each([
  "UTC'; drop table documents; --",
  "Europe/Berlin' at time zone 'UTC",
  'Europe/Berlin\\u0000',
  'FOO+3',
  '<+07>-7',
  '../../etc/passwd',
  'Etc/../Europe/Berlin',
  'posixrules',
  '$1',
  '<script>alert(1)</script>',
  '',
])('time zone %j: refused before any statement', async (tz) => {
  const reply = await aggregateBody({
    group: { day: { bucket: '_created_at', by: 'day', tz } },
    measures: {},
  })
  expect(reply.body).toMatchObject({ status: 400, code: 'select_invalid' })
  expect(reply.body.detail).toContain('is not a time zone')
})

test('names of zones in any case, and with signs: are zones', async () => {
  const day = (tz: string) =>
    aggregateBody({ group: { day: { bucket: '_created_at', by: 'day', tz } }, measures: {} })
  expect((await day('europe/berlin')).status).toBe(200)
  expect((await day('Etc/GMT+5')).status).toBe(200)
})

test('names that are markup, SQL or members of objects: returned as they are', async () => {
  for (const name of ['<b>n</b>', "n'; drop table documents; --", 'constructor', '$1', 'größe', 'a"b']) {
    const reply = await aggregateBody({ measures: { [JSON.stringify(name)]: { count: true } } })
    expect(reply.status, JSON.stringify(reply.body)).toBe(200)
    expect(Object.entries(reply.body)).toEqual([[name, 11_000]])
  }
  expect((await aggregateBody({ measures: { '"__proto__"': { count: true } } })).status).toBe(400)
  const field = await aggregateBody({
    group: { v: `"n'; drop table documents; --"` },
    measures: { n: { count: true } },
  })
  expect(field.body.data).toEqual([{ v: null, n: 11_000 }])
})

test.each(['NaN', 'Infinity', '1e999', '-0', 'null', '', '9007199254740993'])(
  'having=n.gt.%s: an answer or 400, never a fault of the server',
  async (value) => {
    const reply = await aggregate({ select: 'parity,n:n.sum()', having: `n.gt.${value}` })
    expect([200, 400]).toContain(reply.status)
  },
)

test('values of other types: sums leave them out, and groups keep them apart', async () => {
  const odd = unique('odd')
  const values = [1, '1', true, null, [1], { a: 1 }, 1.5, 'NaN', -1e308, 1e308, 1e308, 1e308, 5e-324]
  const ops = values.map((v) => ({ op: 'create', data: { v } }))
  await call('POST', `/v1/collections/${odd}/batch`, { as: workspace.service, body: { ops } })
  const ask = (select: string, more = '') =>
    call('GET', `/v1/collections/${odd}/aggregate?select=${select}${more}`, { as: workspace.service })
  expect((await ask('v,n:count()')).body.data).toHaveLength(11)
  expect((await ask('n:v.count(),d:v.count_distinct(),least:v.min(),most:v.max()')).body).toEqual({
    ...{ n: 12, d: 10, least: '1', most: 1e308 },
  })
  // Two times 1e308 is beyond all doubles.
  expect((await ask('total:v.sum()')).body.code).toBe('number_unsafe')
  expect((await ask('v,total:v.sum()', '&order=total.desc')).body.code).toBe('number_unsafe')
  expect((await ask('v,total:v.sum()', '&order=total.desc&v=lt.1e308')).status).toBe(200)
  expect((await ask('k:v.a,total:v.sum()', '&having=total.gt.1&order=total')).body.code).toBe('number_unsafe')
  expect((await ask('mean:v.avg()', '&v=lt.1e-300')).status).toBe(200)
})

test('years 0 and 9999, and offsets of the past: buckets without a fault', async () => {
  const old = unique('old')
  const times = [
    '0000-01-01T00:00:00+14:00',
    '0001-06-01T00:00:00Z',
    '1880-06-01T00:30:00Z',
    '9999-12-31T23:59:59-12:00',
    'never',
  ]
  const ops = times.map((at) => ({ op: 'create', data: { at } }))
  await call('POST', `/v1/collections/${old}/batch`, { as: workspace.service, body: { ops } })
  const ask = (unit: string, tz: string) =>
    call('GET', `/v1/collections/${old}/aggregate?select=p:at.bucket(${unit},${tz}),n:count()`, {
      as: workspace.service,
    })
  for (const unit of ['minute', 'hour', 'day', 'week', 'month', 'quarter', 'year'])
    for (const tz of ['UTC', 'Europe/Berlin', 'Pacific/Kiritimati'])
      expect((await ask(unit, tz)).status).toBe(200)
  const { body } = await ask('day', 'Europe/Berlin')
  expect(body.data.map(({ p }: { p: unknown }) => p)).toContain('1880-05-31T23:06:32Z')
  expect(body.data.at(-1)).toEqual({ p: null, n: 1 })
})
