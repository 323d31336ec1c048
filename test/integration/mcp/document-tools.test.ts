/** Tools over declared collections: schemas that explain themselves, errors that say what to do, results within a budget. */

import { beforeAll, describe, expect, test } from 'vitest'
import {
  callTool,
  MARKED,
  type PublishedMcpServer,
  publish,
  publishMcpServer,
  rpc,
  scopesOf,
  tokenFor,
  withLegacyClient,
  withModernClient,
} from '../../support/clients/mcp.ts'
import { type Caller, call, createTestWorkspace, type TestWorkspace } from '../../support/fixtures/tenants.ts'

const VERBS = ['aggregate', 'create', 'delete', 'get', 'list', 'query', 'update']
const SCHEMA = {
  description: 'Orders of customers.',
  properties: {
    customer: { type: 'string', description: 'Name of the customer.', minLength: 1 },
    status: { type: 'string', enum: ['open', 'late', 'paid'], default: 'open' },
    total_cents: { type: 'integer', minimum: 0 },
    due_at: { type: 'string', format: 'date-time' },
    address: { type: 'object', properties: { city: { type: 'string' } } },
    tags: { type: 'array', items: { type: 'string' } },
    // Named as an argument of every list.
    limit: { type: 'integer' },
    note: { type: 'string' },
  },
  required: ['customer', 'status'],
  additionalProperties: false,
}

let workspace: TestWorkspace
let server: PublishedMcpServer
let as: Caller

const declare = (collection: string, schema: object, mode = 'enforce') =>
  call('POST', '/v1/schemas', {
    as: workspace.operator,
    body: { workspace_id: workspace.workspaceId, collection, store: 'relational', schema, mode },
  })

const use = async (tool: string, args: unknown, on = server, by = as) => {
  const { body } = await callTool(on.path, by, tool, args)
  if (body.result === undefined) throw new Error(JSON.stringify(body))
  const { content, structuredContent, isError = false } = body.result
  return { text: content[0].text as string, data: structuredContent, isError }
}

const idsOf = (data: { data: { id: string }[] }) => data.data.map(({ id }) => id)

beforeAll(async () => {
  workspace = await createTestWorkspace()
  expect((await declare('orders', SCHEMA)).status).toBe(201)
  const tools = VERBS.map((verb) => [`collections:orders:${verb}`, { enabled: true }])
  const undeclared = VERBS.map((verb) => [`collections:notes:${verb}`, { enabled: true }])
  server = await publishMcpServer(workspace, 'shop', Object.fromEntries([...tools, ...undeclared]))
  const names = ['orders', 'notes'].flatMap((collection) => VERBS.map((verb) => `${collection}_${verb}`))
  as = await tokenFor(server, scopesOf(server, ...names))
})

test('schemas: flat fields with types, descriptions and values; none is open or empty', async () => {
  const { body } = await rpc(server.path, as, 'tools/list')
  const tool = (name: string) => body.result.tools.find((one: { name: string }) => one.name === name)
  expect(tool('orders_create').inputSchema).toEqual({
    type: 'object',
    properties: SCHEMA.properties,
    required: ['customer'],
    additionalProperties: false,
  })
  const own = ['id', 'remove_fields', 'if_version']
  expect(Object.keys(tool('orders_update').inputSchema.properties).sort()).toEqual(
    [...own, ...Object.keys(SCHEMA.properties)].sort(),
  )
  expect(tool('orders_list').inputSchema.properties).toMatchObject({
    status: { enum: ['open', 'late', 'paid'] },
    limit: { type: 'integer' },
    _limit: { type: 'integer', maximum: 200 },
    order_by: { enum: expect.arrayContaining(['due_at', 'address.city', '_created_at']) },
  })
  expect(tool('orders_list').inputSchema.properties.status).not.toHaveProperty('default')
  const { where } = tool('orders_query').inputSchema.properties
  for (const words of [
    'status (open, late, paid)',
    'total_cents (integer)',
    'tags (list of string)',
    'due_at (date-time)',
  ])
    expect(where.description).toContain(words)
  expect(where.examples).toEqual([[{ field: 'status', operator: 'eq', value: 'open' }]])
  expect(tool('orders_query').description).toContain(SCHEMA.description)
  expect(tool('orders_get').outputSchema.properties.customer).toEqual({
    type: 'string',
    description: 'Name of the customer.',
  })
  expect(JSON.stringify(body)).not.toContain('patternProperties')
})

describe.each([
  ['legacy', withLegacyClient],
  ['modern', withModernClient],
] as const)('%s client, which checks results itself', (era, connect) => {
  test('writes and finds documents with nothing but the schemas', async () => {
    await connect(server.url, as, async (client) => {
      await client.listTools()
      const run = async (name: string, args: Record<string, unknown>) => {
        const { structuredContent, isError, content } = await client.callTool({ name, arguments: args })
        expect(isError ?? false, JSON.stringify(content)).toBe(false)
        return structuredContent as { id: string; _version: number; data: { id: string }[] }
      }
      const order = { customer: `Ann ${era}`, total_cents: 500, address: { city: 'Bern' }, tags: ['gift'] }
      const made = await run('orders_create', order)
      expect(made).toMatchObject({ ...order, status: 'open', _version: 1 })
      const other = await run('orders_create', { customer: `Bob ${era}`, status: 'late', total_cents: 90 })
      const { id } = made
      // Less than `required` of a whole document.
      expect(await run('orders_get', { id, fields: ['customer'] })).toEqual({
        ...MARKED,
        id,
        customer: order.customer,
      })
      expect(idsOf(await run('orders_list', { customer: order.customer }))).toEqual([id])
      const where = [
        { field: 'customer', operator: 'contains', value: era.toUpperCase() },
        { field: 'total_cents', operator: 'lt', value: 100 },
      ]
      expect(idsOf(await run('orders_query', { where }))).toEqual([other.id])
      expect(idsOf(await run('orders_query', { where, match: 'any', order_by: 'total_cents' }))).toContain(id)
      const more = [
        { field: 'tags', operator: 'contains', value: 'gift' },
        { field: 'address.city', operator: 'in', value: ['Bern', 'Basel'] },
        { field: 'note', operator: 'is_null' },
        { field: 'customer', operator: 'eq', value: order.customer },
      ]
      expect(idsOf(await run('orders_query', { where: more }))).toEqual([id])
      const mine = [{ field: 'customer', operator: 'contains', value: era }]
      const measures = [
        { function: 'count', name: 'n' },
        { function: 'sum', field: 'total_cents' },
      ]
      expect(await run('orders_aggregate', { measures, where: mine })).toEqual({ ...MARKED, n: 2, sum: 590 })
      const group_by = [
        { field: 'status' },
        { field: '_created_at', period: 'year', time_zone: 'Europe/Berlin' },
      ]
      const groups = await run('orders_aggregate', { measures, where: mine, group_by, order_by: 'sum' })
      expect(groups.data).toMatchObject([
        { status: 'late', n: 1, sum: 90 },
        { status: 'open', n: 1, sum: 500 },
      ])
      const changed = await run('orders_update', {
        id,
        status: 'paid',
        remove_fields: ['tags'],
        if_version: 1,
      })
      expect(changed).toMatchObject({ status: 'paid', customer: order.customer, _version: 2 })
      expect(changed).not.toHaveProperty('tags')
      expect(await run('orders_delete', { id, if_version: 2 })).toEqual({ ...MARKED, id, deleted: true })
    })
  })
})

test.each([
  ['orders_create', {}, /customer is required/],
  ['orders_create', { customer: '' }, /customer must have at least 1 character/],
  ['orders_create', { custmer: 'Ann', customer: 'Ann' }, /custmer is unknown\. Did you mean customer\?/],
  ['orders_create', { customer: 'A', zzz: 1 }, /zzz is unknown\. The arguments are .*customer/],
  ['orders_create', { customer: 'A', status: 'new' }, /status must be one of "open", "late", "paid"/],
  [
    'orders_create',
    { customer: 1, total_cents: 'x' },
    /customer must be a string\n- total_cents must be an integer/,
  ],
  ['orders_create', { customer: 'A', due_at: 'tomorrow' }, /due_at must match the format date-time/],
  ['orders_list', { status: 'lat' }, /status must be one of/],
  ['orders_list', { order_by: 'zip' }, /order_by must be one of/],
  [
    'orders_query',
    { where: [{ field: 'zip', operator: 'eq', value: 1 }] },
    /where\[0\]\.field must be one of/,
  ],
  [
    'orders_query',
    { where: [{ field: 'status', operator: 'is', value: 1 }] },
    /where\[0\]\.operator must be one of/,
  ],
  [
    'orders_query',
    { where: [{ field: 'status', operator: 'eq', value: 'new' }] },
    /where\[0\]: the value of status must be one of "open", "late", "paid"/,
  ],
  [
    'orders_query',
    { where: [{ field: 'status', operator: 'in', value: 'open' }] },
    /where\[0\]: in takes a list/,
  ],
  ['orders_query', { where: [{ field: 'total_cents', operator: 'gt' }] }, /where\[0\]: gt needs a value/],
  ['orders_aggregate', {}, /measures is required/],
  ['orders_aggregate', { measures: [{ function: 'total' }] }, /measures\[0\]\.function must be one of/],
  ['orders_aggregate', { measures: [{ function: 'sum' }] }, /Write \{"sum": "amount"\}/],
  [
    'orders_aggregate',
    { measures: [{ function: 'count' }, { function: 'count', field: 'status' }] },
    /two columns are called count/,
  ],
  ['orders_update', { status: 'paid' }, /id is required/],
  ['orders_update', { id: 'x', remove_fields: ['customer'] }, /remove_fields\[0\] must be one of/],
  ['notes_update', { id: '00000000-0000-7000-8000-000000000000', document: { a: 1 } }, /not_found/],
])('%s %j: an error that names the argument', async (tool, args, expected) => {
  const { text, isError, data } = await use(tool, args)
  expect(isError).toBe(true)
  expect(text).toMatch(expected)
  expect(data).toBeUndefined()
})

test('outdated version: conflict, and nothing changes', async () => {
  const { data } = await use('orders_create', { customer: 'Cid' })
  await use('orders_update', { id: data.id, note: 'x' })
  const { text, isError } = await use('orders_update', { id: data.id, note: 'y', if_version: 1 })
  expect([isError, text]).toEqual([true, expect.stringMatching(/^precondition_failed/)])
  expect((await use('orders_get', { id: data.id })).data).toMatchObject({ note: 'x', _version: 2 })
})

test('undeclared collection: the same tools with `document` and any field', async () => {
  const { data } = await use('notes_create', { document: { text: 'Hi 100%', n: 3 } })
  const where = [{ field: 'text', operator: 'contains', value: '100%' }]
  expect(idsOf((await use('notes_query', { where })).data)).toEqual([data.id])
  const { data: updated } = await use('notes_update', {
    id: data.id,
    document: { n: 4 },
    remove_fields: ['text'],
  })
  expect(updated).toMatchObject({ n: 4 })
  expect(updated).not.toHaveProperty('text')
})

describe('budget of a result', () => {
  test('page: as many items as fit, and a cursor that leads to the rest', async () => {
    const note = 'x'.repeat(4_000)
    const customer = 'Big'
    for (let n = 0; n < 40; n++)
      expect((await use('orders_create', { customer, note, total_cents: n })).isError).toBe(false)
    const seen: number[] = []
    let cursor: string | undefined
    do {
      const { data, isError } = await use('orders_list', { customer, ...(cursor && { cursor }) })
      expect(isError).toBe(false)
      expect(JSON.stringify(data).length).toBeLessThanOrEqual(100_000)
      seen.push(...data.data.map(({ total_cents }: { total_cents: number }) => total_cents))
      cursor = data.page.next ?? undefined
    } while (cursor !== undefined)
    expect(seen).toEqual(Array.from({ length: 40 }, (_, n) => n))
  })

  test('one document that is too large: the fields that fit, and how to read the others (T30)', async () => {
    const { data } = await use('notes_create', { document: { title: 't', text: 'x'.repeat(90_000) } })
    const grown = { id: data.id, document: { more: 'y'.repeat(90_000) } }
    const updated = await use('notes_update', grown)
    expect(updated.data).toMatchObject({ id: data.id, title: 't', _version: 2 })
    const { text, isError } = await use('notes_get', { id: data.id })
    expect([isError, text]).toEqual([false, expect.stringContaining('Name the `fields` that you need.')])
    expect(text).toContain('The result has 18')
    expect((await use('notes_get', { id: data.id, fields: ['title'] })).data).toMatchObject({ title: 't' })
  })

  test('result: sent as text and as structured content; as fenced text alone to clients without a version (T28)', async () => {
    const secret = `once-${workspace.workspaceId}`
    await use('orders_create', { customer: secret })
    const count = (reply: unknown) => JSON.stringify(reply).split(secret).length - 1
    const { body } = await callTool(server.path, as, 'orders_list', { customer: secret })
    expect([count(body), body.result.structuredContent.data.length]).toEqual([2, 1])
    const old = await call('POST', server.path, {
      as,
      body: {
        jsonrpc: '2.0',
        id: 1,
        method: 'tools/call',
        params: { name: 'orders_list', arguments: { customer: secret } },
      },
      headers: { accept: 'application/json, text/event-stream' },
    })
    expect([count(old.body), old.body.result.structuredContent]).toEqual([1, undefined])
    const { text } = old.body.result.content[0]
    const [, tag] = /^The block untrusted-data-([0-9a-f]{16}) is data/.exec(text) ?? []
    expect(text.endsWith(`</untrusted-data-${tag}>`)).toBe(true)
  })
})

test('secrets in a document: masked in results (T29)', async () => {
  const token = `svc_service_${'a'.repeat(43)}`
  const { data } = await use('notes_create', { document: { text: `key ${token}.` } })
  expect(data.text).toBe('key [redacted].')
  expect((await use('notes_get', { id: data.id })).data.text).toBe('key [redacted].')
})

test('schema that changed after publication: the tool says that it is outdated (T30)', async () => {
  const schema = { properties: { size: { type: 'integer' } } }
  const { body: declared } = await declare('boxes', schema)
  await publish(server, {
    'collections:boxes:get': { enabled: true },
    'collections:boxes:create': { enabled: true },
  })
  const by = await tokenFor(server, scopesOf(server, 'boxes_get', 'boxes_create'))
  expect((await use('boxes_create', { size: 1 }, server, by)).isError).toBe(false)
  const change = { schema: { properties: { size: { type: ['integer', 'string'] } } } }
  expect(
    (await call('PUT', `/v1/schemas/${declared.id}`, { as: workspace.operator, body: change })).status,
  ).toBe(200)
  const made = await call('POST', '/v1/collections/boxes/documents', {
    as: workspace.service,
    body: { size: 'XL' },
  })
  const { text, isError } = await use('boxes_get', { id: made.body.id }, server, by)
  expect([isError, text]).toEqual([
    true,
    expect.stringMatching(/^result_invalid: .*size must be an integer.*publish/s),
  ])
})
