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
})
