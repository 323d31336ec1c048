/**
 * Tasks that an agent does with nothing but what `tools/list` shows: it finds a tool by its title, and an argument by its
 * name. A tool that cannot be told from others, a fact without an argument, a value that the schema does not have, or a
 * required argument that nothing says would be a guess, and fails.
 */

import { beforeAll, expect, test } from 'vitest'
import {
  ok,
  type PublishedMcpServer,
  publishMcpServer,
  scopesOf,
  tokenFor,
  withModernClient,
} from '../../support/clients/mcp.ts'
import {
  type Caller,
  call,
  createTestWorkspace,
  eventually,
  type Reply,
} from '../../support/fixtures/tenants.ts'

const ORDERS = {
  description: 'Orders of customers.',
  properties: {
    number: { type: 'string', description: 'Number of the order.' },
    customer: { type: 'string', description: 'Name of the customer.' },
    status: { type: 'string', enum: ['open', 'late', 'paid', 'refunded'] },
    cents: { type: 'integer', minimum: 0 },
    due_at: { type: 'string', format: 'date-time' },
  },
  required: ['number', 'customer', 'status'],
  additionalProperties: false,
}
const QUOTE = `export const tool = { description: 'Quotes the price of an order.', readOnly: true }
export const input = { type: 'object', properties: { cents: { type: 'integer' }, express: { type: 'boolean' } }, required: ['cents'], additionalProperties: false }
export const output = { type: 'object', properties: { price: { type: 'integer' } }, required: ['price'] }
export default ({ cents, express }) => ({ price: cents + (express ? 500 : 0) })`
const REFUND = `document: { dsl: '1.0.3', namespace: shop, name: refund, version: '1.0.0', title: Refund an order, summary: Refunds a paid or late order. }
input:
  schema:
    document:
      type: object
      properties: { id: { type: string, description: Id of the order. }, reason: { type: string } }
      required: [id]
      additionalProperties: false
do:
  - change: { call: collection.update, with: { name: orders, id: '\${ .id }', document: { status: refunded } } }
  - done: { set: { status: '\${ .status }' } }
`
const DELIVER = `document: { dsl: '1.0.3', namespace: shop, name: deliver, version: '1.0.0', title: Deliver an order, summary: Delivers an order and waits until it has arrived. }
do:
  - drive: { wait: { seconds: 300 } }
`

interface Tool {
  readonly name: string
  readonly title?: string | undefined
  readonly inputSchema: { readonly properties?: Record<string, unknown>; readonly required?: string[] }
}

let server: PublishedMcpServer
let as: Caller

beforeAll(async () => {
  const workspace = await createTestWorkspace()
  const { operator, workspaceId: workspace_id } = workspace
  const admin = (path: string, body: object) => ok(call('POST', path, { as: operator, body }))
  await admin('/v1/schemas', {
    workspace_id,
    collection: 'orders',
    store: 'relational',
    schema: ORDERS,
    mode: 'enforce',
  })
  await admin('/v1/functions', { workspace_id, name: 'quote', source: QUOTE })
  await admin('/v1/services/configure', { workspace_id, experimental: ['mcp.flow_tools'] })
  for (const source of [REFUND, DELIVER]) {
    const { id } = await admin(`${workspace.flows}/definitions`, { source })
    await admin(`${workspace.flows}/definitions/${id}/versions`, {})
  }
  const all = ['list', 'query', 'get', 'create', 'update', 'delete'].map(
    (verb) => `collections:orders:${verb}`,
  )
  const limits = { wait_seconds: 2 }
  server = await publishMcpServer(workspace, 'shop', {
    ...Object.fromEntries(all.map((candidate) => [candidate, { enabled: true }])),
    'functions:quote:invoke': { enabled: true, title: 'Quote a price' },
    'flows:refund:run': { enabled: true },
    'flows:deliver:run': { enabled: true, limits },
    'events:stream:publish': { enabled: true },
  })
  const { data } = await ok(call('GET', `${server.base}/versions`, { as: operator }))
  as = await tokenFor(server, scopesOf(server, ...data[0].tools.map(({ name }: { name: string }) => name)))
  const orders = [
    { number: 'A1', customer: 'Ann', status: 'late', cents: 900, due_at: '2026-11-01T00:00:00Z' },
    { number: 'A2', customer: 'Ann', status: 'open', cents: 50, due_at: '2026-12-24T00:00:00Z' },
    { number: 'B1', customer: 'Bob', status: 'late', cents: 100, due_at: '2026-11-02T00:00:00Z' },
    { number: 'B2', customer: 'Bob', status: 'paid', cents: 7_000 },
  ]
  for (const body of orders)
    await ok(call('POST', '/v1/collections/orders/documents', { as: workspace.service, body }))
}, 60_000)

/** Calls the tool with this title, with the facts as arguments. */
type Use = (title: string, facts?: Readonly<Record<string, unknown>>) => Promise<Reply['body']>

function argumentsFor({ name, inputSchema }: Tool, facts: Readonly<Record<string, unknown>>) {
  const { properties = {}, required = [] } = inputSchema
  for (const [fact, value] of Object.entries(facts)) {
    const { enum: values } = Object(properties[fact]) as { enum?: unknown[] }
    if (!Object.hasOwn(properties, fact)) throw new Error(`${name} has no argument for ${fact}`)
    if (values?.includes(value) === false)
      throw new Error(`${name} does not say that ${fact} may be ${value}`)
  }
  const unknown = required.filter((argument) => !Object.hasOwn(facts, argument))
  if (unknown.length > 0) throw new Error(`nothing says what ${unknown.join(', ')} of ${name} is`)
  return { ...facts }
}

async function withAgent(task: (use: Use) => Promise<void>): Promise<void> {
  await withModernClient(server.url, as, async (client) => {
    const tools = (await client.listTools()).tools as Tool[]
    await task(async (title, facts = {}) => {
      const [tool, ...others] = tools.filter((one) => one.title === title)
      if (tool === undefined || others.length > 0) throw new Error(`${others.length + 1} tools for ${title}`)
      const result = await client.callTool({ name: tool.name, arguments: argumentsFor(tool, facts) })
      expect(result.isError ?? false, JSON.stringify(result.content)).toBe(false)
      return result.structuredContent
    })
  })
}

const TASKS: readonly (readonly [task: string, steps: (use: Use) => Promise<void>])[] = [
  [
    'find the late orders of Ann and refund one',
    async (use) => {
      const { data } = await use('List orders', { customer: 'Ann', status: 'late' })
      expect(data.map(({ number }: { number: string }) => number)).toEqual(['A1'])
      const { status, output } = await use('Refund an order', { id: data[0].id, reason: 'late' })
      expect([status, output]).toEqual(['completed', { status: 'refunded' }])
      expect(await use('Read a document of orders', { id: data[0].id })).toMatchObject({ status: 'refunded' })
    },
  ],
  [
    'find orders above 1,000 cents, the dearest first',
    async (use) => {
      const where = [{ field: 'cents', operator: 'gt', value: 1_000 }]
      const { data } = await use('Search orders', { where, order_by: 'cents', descending: true })
      expect(data.map(({ number }: { number: string }) => number)).toEqual(['B2'])
    },
  ],
  [
    'find what is due before December',
    async (use) => {
      const where = [{ field: 'due_at', operator: 'lt', value: '2026-12-01T00:00:00Z' }]
      const { data } = await use('Search orders', { where, order_by: 'due_at' })
      expect(data.map(({ number }: { number: string }) => number)).toEqual(['A1', 'B1'])
    },
  ],
  [
    'create an order and read it back',
    async (use) => {
      const made = await use('Create a document in orders', { number: 'C1', customer: 'Cid', status: 'open' })
      expect(await use('Read a document of orders', { id: made.id })).toMatchObject({ number: 'C1' })
    },
  ],
  [
    'postpone an order, unless somebody has changed it meanwhile',
    async (use) => {
      const { data } = await use('List orders', { number: 'A2' })
      const facts = { id: data[0].id, due_at: '2027-01-01T00:00:00Z', if_version: data[0]._version }
      expect(await use('Change a document of orders', facts)).toMatchObject({
        _version: data[0]._version + 1,
      })
    },
  ],
  [
    'remove the due date of an order',
    async (use) => {
      const { data } = await use('List orders', { number: 'B1' })
      const changed = await use('Change a document of orders', { id: data[0].id, remove_fields: ['due_at'] })
      expect(changed).not.toHaveProperty('due_at')
    },
  ],
  [
    'go through all orders page by page',
    async (use) => {
      const seen: string[] = []
      for (let cursor: string | null | undefined; cursor !== null; ) {
        const { data, page } = await use('List orders', { limit: 2, ...(cursor && { cursor }) })
        seen.push(...data.map(({ id }: { id: string }) => id))
        cursor = page.next
      }
      expect(new Set(seen).size).toBe(seen.length)
      expect(seen.length).toBeGreaterThanOrEqual(4)
    },
  ],
  [
    'quote an express order',
    async (use) =>
      expect(await use('Quote a price', { cents: 900, express: true })).toEqual({ price: 1_400 }),
  ],
  [
    'start a delivery, look after it, and cancel it',
    async (use) => {
      const { run, status } = await use('Deliver an order')
      expect(status).toBe('waiting')
      expect(await use('State of a run', { run })).toMatchObject({ step: 'drive' })
      await use('Cancel a run', { run })
      await eventually(async () =>
        (await use('State of a run', { run })).status === 'cancelled' ? true : undefined,
      )
    },
  ],
  [
    'tell others that an order has arrived',
    async (use) => {
      const facts = { topic: 'orders.arrived', data: { number: 'B2' } }
      expect(await use('Publish an event', facts)).toMatchObject({ topic: 'orders.arrived' })
    },
  ],
]

test.each(TASKS)('%s: no step is a guess', async (_task, steps) => {
  await withAgent(steps)
})
