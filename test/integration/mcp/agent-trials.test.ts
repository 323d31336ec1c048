/**
 * Tasks that an agent does with nothing but what the server shows: it finds a tool by the words of its texts, and an
 * argument by its name. Words that fit several tools or none, a fact without an argument, a required argument that nothing
 * says, and arguments that the listed schema refuses would be guesses, and fail.
 */

import { Ajv2020 } from 'ajv/dist/2020.js'
import { beforeAll, expect, inject, test } from 'vitest'
import { parse } from 'yaml'
import { inWorkspace } from '../../support/clients/browser.ts'
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
  type TestWorkspace,
  tokenOf,
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

const REPORT = `document: { dsl: '1.0.3', namespace: shop, name: late-orders, version: '1.0.0', summary: Reports late orders. }
schedule: { cron: 0 2 * * *, timezone: UTC }
do:
  - late: { call: collection.query, with: { name: orders, filter: { status: late }, limit: 1000 } }
  - total: { set: { orders: '\${ .data | length }', cents: '\${ [.data[].cents] | add // 0 }' } }
  - keep: { call: collection.create, with: { name: reports, document: '\${ . }' }, output: { as: '\${ $input }' } }
`

interface Tool {
  readonly name: string
  readonly title?: string | undefined
  readonly description?: string | undefined
  readonly inputSchema: { readonly properties?: Record<string, unknown>; readonly required?: string[] }
}

let workspace: TestWorkspace
let server: PublishedMcpServer
let as: Caller

beforeAll(async () => {
  workspace = await createTestWorkspace()
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
})

type Facts = Readonly<Record<string, unknown>>

/** Calls the one tool that these words fit, with the facts as arguments. */
type Use = (words: string, facts?: Facts) => Promise<Reply['body']>
type ReadResource = (uri: string) => Promise<string>

/** The words of a text in lower case: without those that say nothing, singular. */
const wordsOf = (text: string): string[] =>
  (text.toLowerCase().match(/[a-z]+/g) ?? [])
    .filter((word) => !['a', 'an', 'the', 'of', 'by', 'as', 'in', 'and'].includes(word))
    .map((word) => (word.endsWith('s') ? word.slice(0, -1) : word))

const takes = ({ inputSchema: { properties = {}, required = [] } }: Tool, facts: Facts): boolean =>
  Object.keys(facts).every((fact) => Object.hasOwn(properties, fact)) &&
  required.every((argument) => Object.hasOwn(facts, argument))

/** The tool whose texts have all the words, and which takes the facts; those with the words in their title come first. */
function toolFor(tools: readonly Tool[], words: string, facts: Facts): Tool {
  const fitting = (textOf: (tool: Tool) => string) =>
    tools.filter((tool) => {
      const known = new Set(wordsOf(textOf(tool)))
      return wordsOf(words).every((word) => known.has(word)) && takes(tool, facts)
    })
  const titled = fitting(({ title = '' }) => title)
  const found = titled.length > 0 ? titled : fitting(({ title, description }) => `${title} ${description}`)
  const [tool] = found
  const names = found.map(({ name }) => name).join(', ')
  if (tool === undefined || found.length > 1)
    throw new Error(`“${words}” with ${Object.keys(facts)} fits [${names}]`)
  return tool
}

const ajv = new Ajv2020({ strict: false, allErrors: true, logger: false })

/** @throws if the schema refuses the arguments, or does not name one of their members at any depth */
function checkArguments({ name, inputSchema }: Tool, facts: Facts): void {
  const isValid = ajv.compile(inputSchema)
  if (!isValid(facts)) throw new Error(`${name}: ${ajv.errorsText(isValid.errors)}`)
  const unnamed = unnamedIn(inputSchema, facts)
  if (unnamed.length > 0) throw new Error(`nothing says that ${name} takes ${unnamed.join(', ')}`)
}

/** Pointers to members of objects that list their members, but not these, and that are not open. */
function unnamedIn(schema: unknown, value: unknown, at = ''): string[] {
  const { properties, items, additionalProperties } = Object(schema) as Record<string, Facts | boolean>
  if (Array.isArray(value)) return value.flatMap((one, n) => unnamedIn(items, one, `${at}/${n}`))
  if (Object(value) !== value || properties === undefined) return []
  return Object.entries(value as Facts).flatMap(([member, one]) => {
    if (Object.hasOwn(Object(properties), member))
      return unnamedIn(Object(properties)[member], one, `${at}/${member}`)
    return additionalProperties ? [] : [`${at}/${member}`]
  })
}

/** The platform server answers with text: JSON, in a fence if it is data. */
const jsonIn = (text: string): Reply['body'] =>
  JSON.parse(text.startsWith('{') ? text : text.split('\n').slice(2, -1).join('\n'))

const textOf = ([first]: readonly object[]): string => (first as { text: string }).text

/** @param url of the server; by default the hosted one */
async function withAgent(
  task: (use: Use, read: ReadResource) => Promise<void>,
  url = server.url,
  caller = as,
): Promise<void> {
  await withModernClient(url, caller, async (client) => {
    const tools = (await client.listTools()).tools as Tool[]
    const use: Use = async (words, facts = {}) => {
      const tool = toolFor(tools, words, facts)
      checkArguments(tool, facts)
      const result = await client.callTool({ name: tool.name, arguments: facts })
      const { content, structuredContent } = result
      expect(result.isError ?? false, JSON.stringify(content)).toBe(false)
      return structuredContent ?? jsonIn(textOf(content))
    }
    await task(use, async (uri) => {
      const { contents } = await client.readResource({ uri })
      return textOf(contents)
    })
  })
}

const TASKS: readonly (readonly [task: string, steps: (use: Use) => Promise<void>])[] = [
  [
    'find the late orders of Ann and refund one',
    async (use) => {
      const { data } = await use('list orders', { customer: 'Ann', status: 'late' })
      expect(data.map(({ number }: { number: string }) => number)).toEqual(['A1'])
      const { status, output } = await use('refund an order', { id: data[0].id, reason: 'late' })
      expect([status, output]).toEqual(['completed', { status: 'refunded' }])
      expect(await use('read orders', { id: data[0].id })).toMatchObject({ status: 'refunded' })
    },
  ],
  [
    'find orders above 1,000 cents, the dearest first',
    async (use) => {
      const where = [{ field: 'cents', operator: 'gt', value: 1_000 }]
      const { data } = await use('search orders', { where, order_by: 'cents', descending: true })
      expect(data.map(({ number }: { number: string }) => number)).toEqual(['B2'])
    },
  ],
  [
    'find what is due before December',
    async (use) => {
      const where = [{ field: 'due_at', operator: 'lt', value: '2026-12-01T00:00:00Z' }]
      const { data } = await use('search orders', { where, order_by: 'due_at' })
      expect(data.map(({ number }: { number: string }) => number)).toEqual(['A1', 'B1'])
    },
  ],
  [
    'create an order and read it back',
    async (use) => {
      const made = await use('create orders', { number: 'C1', customer: 'Cid', status: 'open' })
      expect(await use('read orders', { id: made.id })).toMatchObject({ number: 'C1' })
    },
  ],
  [
    'postpone an order, unless somebody has changed it meanwhile',
    async (use) => {
      const { data } = await use('list orders', { number: 'A2' })
      const facts = { id: data[0].id, due_at: '2027-01-01T00:00:00Z', if_version: data[0]._version }
      expect(await use('change orders', facts)).toMatchObject({
        _version: data[0]._version + 1,
      })
    },
  ],
  [
    'remove the due date of an order',
    async (use) => {
      const { data } = await use('list orders', { number: 'B1' })
      const changed = await use('change orders', { id: data[0].id, remove_fields: ['due_at'] })
      expect(changed).not.toHaveProperty('due_at')
    },
  ],
  [
    'go through all orders page by page',
    async (use) => {
      const seen: string[] = []
      for (let cursor: string | null | undefined; cursor !== null; ) {
        const { data, page } = await use('list orders', { limit: 2, ...(cursor && { cursor }) })
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
      expect(await use('quote the price', { cents: 900, express: true })).toMatchObject({ price: 1_400 }),
  ],
  [
    'start a delivery, look after it, and cancel it',
    async (use) => {
      const { execution, status } = await use('deliver an order')
      expect(status).toBe('waiting')
      expect(await use('state of an execution', { execution })).toMatchObject({ step: 'drive' })
      await use('cancel an execution', { execution })
      await eventually(async () =>
        (await use('state of an execution', { execution })).status === 'cancelled' ? true : undefined,
      )
    },
  ],
  [
    'tell others that an order has arrived',
    async (use) => {
      const facts = { topic: 'orders.arrived', data: { number: 'B2' } }
      expect(await use('publish an event', facts)).toMatchObject({ topic: 'orders.arrived' })
    },
  ],
]

test.each(TASKS)('%s: no step is a guess', async (_task, steps) => {
  await withAgent(steps)
})

test('write and publish a nightly report flow, at the platform server: no step is a guess', async () => {
  const url = `${inject('tenon').url}/v1/mcp/platform/mcp`
  // An admin alone reads documents as an anon key does, and the workspace is closed to these.
  const roles = ['workspace_admin', 'service']
  const admin = await tokenOf({ sub: 'ada', roles, ...inWorkspace(workspace) })
  await withAgent(
    async (use, read) => {
      const { workspace_id } = await use('own identity')
      const { data: declared } = await use('list declared collections', { workspace_id })
      const [orders] = declared.filter(({ collection }: { collection: string }) => collection === 'orders')
      expect(orders.schema.properties.status.enum).toContain('late')
      const source = REPORT
      const isFlow = new Ajv2020({ strict: false, logger: false }).compile(
        JSON.parse(await read('tenon://docs/flow-schema')),
      )
      expect(isFlow(parse(source)), JSON.stringify(isFlow.errors)).toBe(true)
      expect(await use('check a flow', { workspace_id, source })).toMatchObject({
        valid: true,
        diagnostics: [],
      })
      const data = [
        { number: 'A1', cents: 900 },
        { number: 'B1', cents: 100 },
      ]
      const mocks = { late: { output: { data } }, keep: { output: { id: 'doc_1' } } }
      const simulated = await use('simulate a flow', { workspace_id, source, mocks })
      expect(simulated).toMatchObject({ status: 'completed', output: { orders: 2, cents: 1_000 } })
      const { name: flow } = await use('create a flow', { workspace_id, source })
      expect(await use('publish the draft of a flow', { workspace_id, flow })).toMatchObject({ version: 1 })
      const { data: schedules } = await use('list the schedules', { workspace_id, flow })
      expect(schedules).toHaveLength(1)
      const { next } = await use('read a schedule', { workspace_id, id: schedules[0].id })
      expect(next[0]).toMatch(/T02:00:00/)
      const started = await use('start an execution', { workspace_id, flow, wait: 30 })
      const { status, output } = await use('read an execution', { workspace_id, id: started.id })
      expect([status, output.orders]).toEqual(['completed', expect.any(Number)])
      const reports = await use('list documents', { name: 'reports' })
      expect(reports.data).toMatchObject([{ orders: output.orders, cents: output.cents }])
    },
    url,
    admin,
  )
})

test('a guess fails: words that fit two tools, a member that the schema lacks, a value that it refuses', async () => {
  await withAgent(async (use) => {
    await expect(use('orders', { id: 'x' })).rejects.toThrow(/fits \[orders_delete, orders_get/)
    await expect(use('search orders', { filter: {} })).rejects.toThrow('fits []')
    const where = { field: 'cents', operator: 'gt', value: 1 }
    for (const wrong of [
      { ...where, operator: '>' },
      { ...where, unit: 'EUR' },
      { ...where, field: 'price' },
    ])
      await expect(use('search orders', { where: [wrong] })).rejects.toThrow(/orders_query: .*where\/0/)
  })
})
